#include "nn/optim/sparse_steps.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "autograd/sparse_grad.h"
#include "nn/optim/sparse_adam.h"
#include "strata/ops.h"

namespace strata::optim {
namespace {

using autograd::SparseParts;

void check_sparse_gradient(const char* op, const Tensor& param, const Tensor& indices, const Tensor& values) {
  const int64_t n = indices.dim() == 2 ? indices.size(0) : 0;
  STRATA_CHECK(indices.dtype() == DType::I64 && n > 0 && n <= param.dim() && values.dim() == param.dim() - n + 1 &&
                 values.size(0) == indices.size(1) &&
                 std::ranges::equal(values.shape().subspan(1), param.shape().subspan(static_cast<size_t>(n))),
               Runtime, "{}: indices of shape {} and values of shape {} do not fit a tensor of shape {}", op,
               to_string(indices.shape()), to_string(values.shape()), to_string(param.shape()));
}

// The rows of a sparse gradient, each once, in the dtype to compute with.
class SparseRows {
 public:
  SparseRows(const char* op, const Tensor& param, const SparseGradient& grad) {
    check_sparse_gradient(op, param, grad.indices, grad.values);
    const auto [places, rows] = _sparse_coalesce(grad.indices, grad.values, param.shape());
    at_ = unbind(places);
    const Tensor wide = to(rows, compute_type(param.dtype()));
    grad_ = grad.maximize ? neg(wide) : wide;
  }
  const Tensor& grad() const { return grad_; }
  Tensor read(const Tensor& t) const { return to(index(t, TensorList(at_)), grad_.dtype()); }
  void write(const Tensor& t, const Tensor& rows) const { index_put_(t, TensorList(at_), to(rows, t.dtype())); }

 private:
  std::vector<Tensor> at_;
  Tensor grad_;
};

double value_in(const Group& group, std::string_view name) {
  const auto found = std::ranges::find(group.options, name, &NamedOption::name);
  return found == group.options.end() ? 0 : found->option.value;
}

// Counts a step and returns the count.
double next_step(Tensor& step, const Tensor& param) {
  if (!step) step = full({}, 0, param.dtype() == DType::F64 ? DType::F64 : DType::F32);
  const double count = step.item<double>() + 1;
  fill_(step, count);
  return count;
}

SparseParts scaled(const SparseParts& parts, double factor) {
  return {parts.indices, mul(parts.values, factor), parts.coalesced};
}
SparseParts sum_of(const Tensor& param, const SparseParts& a, const SparseParts& b) {
  const Tensor sum =
    autograd::add_sparse(autograd::make_sparse(a, param.shape()), autograd::make_sparse(b, param.shape()));
  const SparseParts& joined = *autograd::sparse_parts(*sum);
  auto [indices, values] = _sparse_coalesce(joined.indices, joined.values, param.shape());
  return {indices, values, true};
}

// The momentum of a parameter with sparse gradients is sparse too: it has the rows of all gradients so far.
void sgd_step(const Group& group, const Tensor& param, SparseParts grad, Tensor& momentum_buffer) {
  const double momentum = value_in(group, "momentum");
  if (value_in(group, "maximize") != 0) grad = scaled(grad, -1);
  if (momentum != 0) {
    SparseParts buffer = grad;
    if (momentum_buffer) {
      const SparseParts* before = autograd::sparse_parts(*momentum_buffer);
      STRATA_CHECK(
        before, Runtime,
        "SGD: a parameter whose gradients were dense has a sparse one, and its momentum is dense; use one kind "
        "of gradients, or no momentum");
      buffer = sum_of(param, scaled(*before, momentum), scaled(grad, 1 - value_in(group, "dampening")));
    }
    momentum_buffer = autograd::copy_sparse(autograd::make_sparse(buffer, param.shape()));
    grad = value_in(group, "nesterov") != 0 ? sum_of(param, grad, scaled(buffer, momentum)) : buffer;
  }
  add_sparse_rows(param, grad.indices, grad.values, -value_in(group, "lr"));
}

}  // namespace

void add_sparse_rows(const Tensor& param, const Tensor& indices, const Tensor& values, double alpha) {
  check_sparse_gradient("add_", param, indices, values);
  const std::vector<Tensor> at = unbind(indices);
  index_put_(param, TensorList(at), to(alpha == 1 ? values : mul(values, alpha), param.dtype()), true);
}
void sparse_adagrad(const Tensor& param, const SparseGradient& grad, const Tensor& sum, double step, double lr,
                    double lr_decay, double eps) {
  const SparseRows rows("Adagrad", param, grad);
  const Tensor total = add(rows.read(sum), square(rows.grad()));
  rows.write(sum, total);
  const double size = lr / (1 + (step - 1) * lr_decay);
  rows.write(param, sub(rows.read(param), mul(div(rows.grad(), add(sqrt(total), eps)), size)));
}
void sparse_adam(const Tensor& param, const SparseGradient& grad, const Tensor& exp_avg, const Tensor& exp_avg_sq,
                 double step, double lr, double beta1, double beta2, double eps) {
  const SparseRows rows("SparseAdam", param, grad);
  const Tensor mean = lerp(rows.read(exp_avg), rows.grad(), 1 - beta1);
  const Tensor square_mean = lerp(rows.read(exp_avg_sq), square(rows.grad()), 1 - beta2);
  rows.write(exp_avg, mean);
  rows.write(exp_avg_sq, square_mean);
  const double size = lr * std::sqrt(1 - std::pow(beta2, step)) / (1 - std::pow(beta1, step));
  rows.write(param, sub(rows.read(param), mul(div(mean, add(sqrt(square_mean), eps)), size)));
}

void sparse_step(const Rule& rule, Group& group, size_t param) {
  const std::string_view name = rule.name;
  STRATA_CHECK(name == "SGD" || name == "Adagrad", Runtime, "{} does not support sparse gradients{}", name,
               name.starts_with("Adam") && name != "Adamax" ? ", please consider SparseAdam instead" : "");
  STRATA_CHECK(value_in(group, "weight_decay") == 0, Runtime,
               "{}: weight_decay option is not compatible with sparse gradients", name);
  STRATA_CHECK(value_in(group, "master_weights") == 0, Runtime,
               "{}: master_weights option is not compatible with sparse gradients", name);
  const Tensor& p = group.params[param];
  const Tensor gradient = p.grad();
  const SparseParts& parts = *autograd::sparse_parts(*gradient);
  const auto state = [&](std::string_view kind) -> Tensor& {
    const auto at = std::ranges::find(rule.state, kind, &StateKind::name) - rule.state.begin();
    return group.state[static_cast<size_t>(at)][param];
  };
  if (name == "SGD") return sgd_step(group, p, parts, state("momentum_buffer"));
  Tensor& sum = state("sum");
  if (!sum) sum = full_like(p, value_in(group, "initial_accumulator_value"));
  const double step = next_step(state("step"), p);
  sparse_adagrad(p, {parts.indices, parts.values, value_in(group, "maximize") != 0}, sum, step, value_in(group, "lr"),
                 value_in(group, "lr_decay"), value_in(group, "eps"));
}

SparseAdam::SparseAdam(std::vector<Tensor> params, const SparseAdamOptions& options)
    : Optimizer("SparseAdam", {"step", "exp_avg", "exp_avg_sq"}) {
  add_group(std::move(params), options);
}
void SparseAdam::add_group(std::vector<Tensor> params, const SparseAdamOptions& o) {
  for (const Tensor& p : params)
    STRATA_CHECK(!p || is_floating(p.dtype()), Value, "SparseAdam: expected parameters of real numbers, got {}",
                 name_of(p.dtype()));
  STRATA_CHECK(o.lr.value > 0 && o.eps.value > 0, Value, "SparseAdam: lr and eps must be above 0, found {} and {}",
               o.lr.value, o.eps.value);
  add_options(
    std::move(params),
    {{"lr", o.lr}, {"beta1", o.betas.first}, {"beta2", o.betas.second}, {"eps", o.eps}, {"maximize", o.maximize}});
}
void SparseAdam::update(Group& group) {
  for (const Tensor& p : group.params)
    STRATA_CHECK(!p.grad() || autograd::sparse_parts(*p.grad()), Runtime,
                 "SparseAdam does not support dense gradients, please consider Adam instead");
  for (size_t i = 0; i < group.params.size(); ++i) {
    const Tensor &p = group.params[i], gradient = p.grad();
    if (!gradient) continue;
    for (Tensor* mean : {&group.state[1][i], &group.state[2][i]})
      if (!*mean) *mean = full_like(p, 0);
    const double step = next_step(group.state[0][i], p);
    const SparseParts& parts = *autograd::sparse_parts(*gradient);
    if (parts.values.numel() == 0) continue;
    sparse_adam(p, {parts.indices, parts.values, value_in(group, "maximize") != 0}, group.state[1][i],
                group.state[2][i], step, value_in(group, "lr"), value_in(group, "beta1"), value_in(group, "beta2"),
                value_in(group, "eps"));
  }
}

}  // namespace strata::optim
