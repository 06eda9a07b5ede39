#include "autograd/gradcheck.h"

#include <fmt/core.h>

#include <cmath>

namespace strata::autograd {
namespace {

Tensor dense_copy(const Tensor& t) {
  static const OpRecord &clone = find_op("clone"), &contiguous = find_op("contiguous");
  NoGrad off;
  Args args = contiguous.defaults;
  args[0] = Value(t);
  return call(clone, Args(call(contiguous, args), Value()));
}

bool is_wide(const Tensor& t) { return t.dtype() == DType::F64 || t.dtype() == DType::C128; }
// The number of doubles: a complex element has two. The derivatives of both parts by both parts are compared: the seeds 1 and
// i give the gradients of the real and of the imaginary part of an output.
int64_t doubles(const Tensor& t) { return t.numel() * (is_complex(t.dtype()) ? 2 : 1); }

std::vector<Tensor> differentiable(const std::vector<Tensor>& outs) {
  std::vector<Tensor> some;
  for (const Tensor& t : outs)
    if (t && is_wide(t) && t.requires_grad()) some.push_back(t);
  return some;
}

// columns[output][i]: the derivative of that output by element i of the target.
using Columns = std::vector<std::vector<Tensor>>;
Columns numerical(const TensorFunction& fn, const std::vector<Tensor>& inputs, const Tensor& target, size_t outputs,
                  double eps) {
  Columns columns(outputs);
  auto* values = target.data<double>();
  for (int64_t i = 0; i < doubles(target); ++i) {
    const double keep = values[i];
    std::vector<Tensor> sides[2];
    for (int side : {0, 1}) {
      values[i] = keep + (side ? -eps : eps);
      try {
        for (const Tensor& t : differentiable(fn(inputs))) sides[side].push_back(dense_copy(t));
      } catch (...) {
        values[i] = keep;
        throw;
      }
    }
    values[i] = keep;
    STRATA_CHECK(sides[0].size() == outputs && sides[1].size() == outputs, Runtime,
                 "gradcheck: the function returns another number of tensors each time");
    for (size_t o = 0; o < outputs; ++o) {
      const auto *up = sides[0][o].data<double>(), *down = sides[1][o].data<double>();
      Tensor column = make_tensor(sides[0][o].shape(), sides[0][o].dtype());
      for (int64_t k = 0; k < doubles(column); ++k) column.data<double>()[k] = (up[k] - down[k]) / (2 * eps);
      columns[o].push_back(std::move(column));
    }
  }
  return columns;
}
}  // namespace

bool gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs, GradcheckOptions options) {
  EnableGrad on;
  std::vector<Tensor> targets;
  for (const Tensor& t : inputs)
    if (t && is_wide(t) && t.requires_grad()) targets.push_back(t);
  STRATA_CHECK(!targets.empty(), Value,
               "gradcheck: expected at least one float64 input (or complex128) that requires a gradient");
  for (const Tensor& t : targets)
    STRATA_CHECK(t.is_contiguous(), Value, "gradcheck: inputs must be contiguous; the strides are {}",
                 to_string(t.strides()));
  const std::vector<Tensor> outs = differentiable(fn(inputs));
  for (size_t which = 0; which < targets.size(); ++which) {
    const Tensor& target = targets[which];
    const Columns expected = numerical(fn, inputs, target, outs.size(), options.eps);
    for (size_t index = 0; index < outs.size(); ++index) {
      Tensor seed = zeros_for(*outs[index]);
      for (int64_t o = 0; o < doubles(seed); ++o) {
        Tensor one = dense_copy(seed);
        one.data<double>()[o] = 1;
        const Tensor got = grad({&outs[index], 1}, {&target, 1}, {&one, 1}, true, false, true)[0];
        const Tensor row = got ? dense_copy(got) : zeros_for(*target);
        for (int64_t i = 0; i < doubles(target); ++i) {
          const double a = row.data<double>()[i], n = expected[index][static_cast<size_t>(i)].data<double>()[o];
          if (std::abs(a - n) <= options.atol + options.rtol * std::abs(n)) continue;
          if (!options.raise_exception) return false;
          fail(ErrorKind::Runtime, fmt::format("gradcheck: Jacobian mismatch for output {} with respect to input {}: d "
                                               "out[{}] / d in[{}] is {} analytically, "
                                               "{} numerically",
                                               index, which, o, i, a, n));
        }
      }
    }
  }
  return true;
}

bool gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs, GradcheckOptions options) {
  EnableGrad on;
  const size_t count = inputs.size();
  const TensorFunction first = [&](const std::vector<Tensor>& all) {
    const std::vector<Tensor> values(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)),
      seeds(all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
    std::vector<Tensor> wanted, result;
    for (const Tensor& t : values)
      if (t && t.requires_grad()) wanted.push_back(t);
    for (Tensor& g : grad(differentiable(fn(values)), wanted, seeds, true, true, true))
      if (g && g.requires_grad()) result.push_back(std::move(g));
    return result;
  };
  std::vector<Tensor> all = inputs;
  for (const Tensor& out : differentiable(fn(inputs))) {  // incoming gradients: smooth values of the output's shape
    Tensor seed = dense_copy(out);
    for (int64_t i = 0; i < doubles(seed); ++i)
      seed.data<double>()[i] = 0.25 + 0.5 * seed.data<double>()[i] + std::cos(seed.data<double>()[i]);
    all.push_back(seed.set_requires_grad());
  }
  if (first(all).empty()) return true;  // depends on nothing: there is no second derivative
  return gradcheck(first, all, options);
}

}  // namespace strata::autograd
