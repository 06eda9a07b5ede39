// L-BFGS: directions from recent gradients and steps instead of a matrix; optionally with a line search that satisfies
// the strong Wolfe conditions. Evaluates the closure several times per step.
//
//   optim::LBFGS opt(params, {.strong_wolfe = true});
//   opt.step([&] {
//     opt.zero_grad();
//     Tensor loss = ...;
//     loss.backward();
//     return loss;
//   });
#pragma once
#include <span>

#include "nn/optim/optimizer.h"

namespace strata::optim {

struct LBFGSOptions {
  Option lr = Option::preset(1), max_iter = Option::preset(20);
  Option max_eval = Option::preset(-1);  // of the closure, per step; negative: max_iter * 5 / 4
  Option tolerance_grad = Option::preset(1e-7), tolerance_change = Option::preset(1e-9),
         history_size = Option::preset(100), strong_wolfe = Option::preset(0), maximize = Option::preset(0);
};

// The state between steps; the names are those of PyTorch's state_dict.
struct LBFGSState {
  int64_t func_evals = 0, n_iter = 0;
  Tensor d, prev_flat_grad;  // undefined before the first iteration
  double t = 0, prev_loss = 0, H_diag = 1;
  std::vector<Tensor> old_dirs, old_stps;
  std::vector<double> ro;
};

// One step; returns the loss before it. If the closure throws, `state` is unchanged.
STRATA_API Tensor lbfgs_step(std::span<const Tensor> params, const Options& options, LBFGSState& state,
                             const Closure& closure);

class STRATA_API LBFGS : public Optimizer {
 public:
  explicit LBFGS(std::vector<Tensor> params, const LBFGSOptions& options = {});
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& saved) override;

 protected:
  Tensor take_step(const Closure& closure) override;
  void update(Group&) override {}

 private:
  LBFGSState state_;
};

}  // namespace strata::optim
