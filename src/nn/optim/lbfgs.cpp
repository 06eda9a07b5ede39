#include "nn/optim/lbfgs.h"

#include <fmt/core.h>

#include <cmath>

#include "autograd/autograd.h"
#include "nn/optim/line_search.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/linalg/products.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/joins.h"
#include "strata/ops/movement/splits.h"
#include "strata/ops/movement/views.h"
#include "strata/ops/pointwise/arithmetic.h"
#include "strata/ops/pointwise/complex.h"
#include "strata/ops/reduce/minmax.h"
#include "strata/ops/reduce/sums.h"

namespace strata::optim {
namespace {

double number(const Tensor& t) { return t.item<double>(); }
double product(const Tensor& a, const Tensor& b) { return number(dot(a, b)); }
double largest(const Tensor& t) { return number(max(abs(t))); }

// Without history; complex numbers as pairs of real ones.
Tensor real_numbers(const Tensor& t) {
  return is_complex(t.dtype()) ? view_as_real(autograd::detach(t)) : autograd::detach(t);
}

// The parameters as one vector. 16-bit parameters are computed in float: products of their sums would overflow.
class Flat {
 public:
  explicit Flat(std::span<const Tensor> params) : params_(params) {
    for (const Tensor& p : params) {
      count_ += numbers_of(p);
      if (p.dtype() == DType::F64 || p.dtype() == DType::C128) dtype_ = DType::F64;
    }
  }
  int64_t count() const { return count_; }

  Tensor gradient(bool negate) const {
    std::vector<Tensor> parts;
    parts.reserve(params_.size());
    for (const Tensor& p : params_) {
      const Tensor g = p.grad();
      parts.push_back(g ? reshape(to(real_numbers(g), dtype_), {-1}) : zeros({numbers_of(p)}, dtype_));
    }
    const Tensor flat = cat(parts);
    return negate ? neg(flat) : flat;
  }
  void move(const Tensor& direction, double t) const {
    int64_t offset = 0;
    for (const Tensor& p : params_) {
      const Tensor own = real_numbers(p);
      add_(own, view_as(narrow(direction, 0, offset, own.numel()), own), t);
      offset += own.numel();
    }
  }
  std::vector<Tensor> values() const {
    std::vector<Tensor> copies;
    copies.reserve(params_.size());
    for (const Tensor& p : params_) copies.push_back(clone(p));
    return copies;
  }
  void restore(const std::vector<Tensor>& values) const {
    for (size_t i = 0; i < values.size(); ++i) copy_(params_[i], values[i]);
  }

 private:
  static int64_t numbers_of(const Tensor& p) { return is_complex(p.dtype()) ? 2 * p.numel() : p.numel(); }

  std::span<const Tensor> params_;
  int64_t count_ = 0;
  DType dtype_ = DType::F32;
};

struct Settings {
  double lr, tolerance_grad, tolerance_change;
  int64_t max_iter, max_eval, history_size;
  bool strong_wolfe, maximize;
  explicit Settings(const Options& options) {
    const auto get = [&](std::string_view name) {
      for (const NamedOption& o : options)
        if (o.name == name) return o.option.value;
      fail(ErrorKind::Internal, fmt::format("LBFGS: the option {} is missing", name));
    };
    lr = get("lr");
    tolerance_grad = get("tolerance_grad");
    tolerance_change = get("tolerance_change");
    max_iter = static_cast<int64_t>(get("max_iter"));
    max_eval = static_cast<int64_t>(get("max_eval"));
    if (max_eval < 0) max_eval = max_iter * 5 / 4;
    history_size = static_cast<int64_t>(get("history_size"));
    strong_wolfe = get("strong_wolfe") != 0;
    maximize = get("maximize") != 0;
  }
};

// Stores how the gradient changed in the last step.
void remember(LBFGSState& s, const Tensor& gradient, int64_t history_size) {
  const Tensor change = sub(gradient, s.prev_flat_grad), step = mul(s.d, s.t);
  const double curvature = product(change, step);
  if (!(curvature > 1e-10) || history_size == 0) return;
  if (static_cast<int64_t>(s.old_dirs.size()) >= history_size) {
    s.old_dirs.erase(s.old_dirs.begin());
    s.old_stps.erase(s.old_stps.begin());
    s.ro.erase(s.ro.begin());
  }
  s.old_dirs.push_back(change);
  s.old_stps.push_back(step);
  s.ro.push_back(1 / curvature);
  s.H_diag = curvature / product(change, change);
}

// Minus the gradient times the inverse Hessian approximated by the history: the two-loop recursion.
Tensor direction(const LBFGSState& s, const Tensor& gradient) {
  std::vector<double> weights(s.ro.size());
  Tensor d = neg(gradient);
  for (size_t i = s.ro.size(); i-- > 0;) {
    weights[i] = product(s.old_stps[i], d) * s.ro[i];
    add_(d, s.old_dirs[i], -weights[i]);
  }
  mul_(d, s.H_diag);
  for (size_t i = 0; i < s.ro.size(); ++i) add_(d, s.old_stps[i], weights[i] - product(s.old_dirs[i], d) * s.ro[i]);
  return d;
}

}  // namespace

Tensor lbfgs_step(std::span<const Tensor> params, const Options& options, LBFGSState& state, const Closure& closure) {
  STRATA_CHECK(closure, Value, "LBFGS: step() needs a closure that computes the loss and its gradients");
  const Settings settings(options);
  const autograd::NoGrad no_grad;
  const Flat flat(params);
  int64_t evaluations = 0;
  const auto call_closure = [&] {
    const autograd::EnableGrad enable;
    Tensor loss = closure();
    STRATA_CHECK(loss && loss.numel() == 1, Value, "LBFGS: the closure must return the loss, one number; found {}",
                 loss ? "shape " + to_string(loss.shape()) : "nothing");
    return loss;
  };
  const auto value = [&](const Tensor& loss) { return settings.maximize ? -number(loss) : number(loss); };

  const Tensor before = call_closure();
  evaluations = 1;
  double loss = value(before);
  Tensor gradient = flat.gradient(settings.maximize);
  LBFGSState s = state;
  const auto finish = [&] {
    s.func_evals = state.func_evals + evaluations;
    state = std::move(s);
    return before;
  };
  if (flat.count() == 0 || largest(gradient) <= settings.tolerance_grad) return finish();

  for (int64_t iteration = 1; iteration <= settings.max_iter; ++iteration) {
    if (s.n_iter++ == 0) {
      s.d = neg(gradient);
      s.t = std::min(1.0, 1 / number(sum(abs(gradient)))) * settings.lr;
    } else {
      remember(s, gradient, settings.history_size);
      s.d = direction(s, gradient);
      s.t = settings.lr;
    }
    s.prev_flat_grad = gradient;
    s.prev_loss = loss;
    const double slope = product(gradient, s.d);
    if (slope > -settings.tolerance_change) break;

    if (settings.strong_wolfe) {
      const std::vector<Tensor> x = flat.values();
      const auto at = [&](double t) {
        Trial trial{.t = t};
        try {
          flat.move(s.d, t);
          trial.loss = value(call_closure());
        } catch (...) {
          flat.restore(x);
          throw;
        }
        trial.grad = flat.gradient(settings.maximize);
        trial.slope = product(trial.grad, s.d);
        flat.restore(x);
        return trial;
      };
      const Trial found = strong_wolfe(at, {.t = 0, .loss = loss, .slope = slope, .grad = gradient}, s.t, largest(s.d),
                                       settings.max_eval - evaluations, evaluations);
      s.t = found.t;
      loss = found.loss;
      gradient = found.grad;
      flat.move(s.d, s.t);
    } else {
      flat.move(s.d, s.t);
      if (iteration == settings.max_iter) break;  // with batches, the loss here would say nothing about the next one
      loss = value(call_closure());
      gradient = flat.gradient(settings.maximize);
      ++evaluations;
    }
    if (evaluations >= settings.max_eval || largest(gradient) <= settings.tolerance_grad ||
        largest(s.d) * std::abs(s.t) <= settings.tolerance_change ||
        std::abs(loss - s.prev_loss) < settings.tolerance_change)
      break;
  }
  return finish();
}

LBFGS::LBFGS(std::vector<Tensor> params, const LBFGSOptions& o) : Optimizer("LBFGS") {
  add_options(std::move(params), {{"lr", o.lr},
                                  {"max_iter", o.max_iter},
                                  {"max_eval", o.max_eval},
                                  {"tolerance_grad", o.tolerance_grad},
                                  {"tolerance_change", o.tolerance_change},
                                  {"history_size", o.history_size},
                                  {"strong_wolfe", o.strong_wolfe},
                                  {"maximize", o.maximize}});
}

Tensor LBFGS::take_step(const Closure& closure) {
  const Group& group = at(0);
  return lbfgs_step(group.params, group.options, state_, closure);
}

// --- saving ----------------------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kPrefix = "state.0.";

// Calls f for every entry of the state with its name: tensors, numbers, and lists as one tensor with a row per entry.
template <class S, class F> void each_entry(S& s, F f) {
  f("func_evals", s.func_evals);
  f("n_iter", s.n_iter);
  f("d", s.d);
  f("t", s.t);
  f("old_dirs", s.old_dirs);
  f("old_stps", s.old_stps);
  f("ro", s.ro);
  f("H_diag", s.H_diag);
  f("prev_flat_grad", s.prev_flat_grad);
  f("prev_loss", s.prev_loss);
}

Tensor packed(const Tensor& t) { return t; }
Tensor packed(double value) { return full({}, value, DType::F64); }
Tensor packed(int64_t value) { return full({}, value, DType::I64); }
Tensor packed(const std::vector<Tensor>& rows) { return rows.empty() ? Tensor() : stack(rows); }
Tensor packed(const std::vector<double>& values) {
  Tensor t = make_tensor(std::vector<int64_t>{static_cast<int64_t>(values.size())}, DType::F64);
  std::copy(values.begin(), values.end(), t.data<double>());
  return t;
}

void unpack(const Tensor& from, Tensor& to) { to = clone(from); }
void unpack(const Tensor& from, double& to) { to = from.item<double>(); }
void unpack(const Tensor& from, int64_t& to) { to = from.item<int64_t>(); }
void unpack(const Tensor& from, std::vector<Tensor>& to) {
  STRATA_CHECK(from.dim() == 2, Value, "load_state_dict: the history must be a matrix, found shape {}",
               to_string(from.shape()));
  to = unbind(clone(from));
}
void unpack(const Tensor& from, std::vector<double>& to) {
  const Tensor t = contiguous(strata::to(from, DType::F64));
  to.assign(t.data<double>(), t.data<double>() + t.numel());
}

}  // namespace

StateDict LBFGS::state_dict() const {
  const autograd::NoGrad no_grad;
  StateDict result;
  each_entry(state_, [&](const char* name, const auto& entry) {
    if (const Tensor t = packed(entry); t && state_.n_iter > 0) result.emplace_back(std::string(kPrefix) + name, t);
  });
  for (auto& entry : Optimizer::state_dict()) result.push_back(std::move(entry));
  return result;
}

void LBFGS::load_state_dict(const StateDict& saved) {
  const autograd::NoGrad no_grad;
  LBFGSState loaded;
  StateDict rest;
  for (const auto& entry : saved) {
    const std::string_view key = entry.first;
    bool known = false;
    if (key.starts_with(kPrefix))
      each_entry(loaded, [&](const char* name, auto& to) {
        if (key.substr(kPrefix.size()) == name) {
          unpack(entry.second, to);
          known = true;
        }
      });
    if (!known) rest.push_back(entry);
  }
  int64_t count = 0;
  for (const Tensor& p : params()) count += p.numel();
  const auto fits = [&](const Tensor& t) { return t && t.numel() == count; };
  bool fit = loaded.n_iter == 0 || (fits(loaded.d) && fits(loaded.prev_flat_grad));
  fit &= loaded.old_dirs.size() == loaded.ro.size() && loaded.old_stps.size() == loaded.ro.size();
  for (const auto* list : {&loaded.old_dirs, &loaded.old_stps})
    for (const Tensor& t : *list) fit &= fits(t);
  STRATA_CHECK(fit, Value, "load_state_dict: the saved history is not of the {} elements that this optimizer has",
               count);
  Optimizer::load_state_dict(rest);
  state_ = std::move(loaded);
}

}  // namespace strata::optim
