// One step of Muon: momentum, orthogonalized before it is applied. A record like those of optimizers.cpp, but composed
// of other ops: nearly all of its time is spent in matrix products.
#include <fmt/core.h>

#include <cmath>

#include "autograd/autograd.h"
#include "record/op.h"
#include "strata/args/optim/muon.h"
#include "strata/ops/linalg/norms.h"
#include "strata/ops/linalg/products.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/views.h"
#include "strata/ops/pointwise/arithmetic.h"
#include "strata/ops/pointwise/compare.h"

namespace strata {
namespace {

struct Polynomial {  // of the Newton-Schulz iteration: a X + b (X Xt) X + c (X Xt)^2 X
  double a, b, c;
};

// Singular values of the result are near 1. In bfloat16: the iteration tolerates its rounding.
Tensor orthogonal(const Tensor& matrix, const Polynomial& p, int64_t steps, double eps) {
  const bool tall = matrix.size(0) > matrix.size(1);
  Tensor x = to(matrix, DType::BF16, false, true);
  if (tall) x = t(x);  // use the Gram matrix of the short side
  div_(x, clamp_min(norm(x), eps));
  for (int64_t i = 0; i < steps; ++i) {
    const Tensor gram = matmul(x, t(x));
    x = addmm(x, addmm(gram, gram, gram, p.b, p.c), x, p.a);
  }
  return tall ? t(x) : x;
}

// The learning rate as a function of the shape, in the order of optim::AdjustLrFn.
double adjusted(double lr, int64_t how, const Tensor& p) {
  const auto rows = static_cast<double>(p.size(0)), columns = static_cast<double>(p.size(1));
  switch (how) {
    case 0: return lr * std::sqrt(std::max(1.0, rows / columns));
    case 1: return lr * 0.2 * std::sqrt(std::max(rows, columns));
    case 2: return lr * std::sqrt(rows / columns);
    default: fail(ErrorKind::Value, fmt::format("Muon: adjust_lr_fn is 0, 1 or 2, found {}", how));
  }
}

void muon(const Call& c) {
  const args::_fused_muon arg(c);
  const autograd::NoGrad no_grad;
  const TensorList params = arg.params(), grads = arg.grads(), buffers = arg.momentum_buffers();
  STRATA_CHECK(params.size() == grads.size() && params.size() == buffers.size(), Value,
               "{}: {} parameters but {} gradients and {} momentum_buffers", c.op.name, params.size(), grads.size(),
               buffers.size());
  for (size_t i = 0; i < params.size(); ++i) {
    STRATA_CHECK(is_floating(params[i].dtype()), Type, "{}: parameter {} must be of a floating dtype, found {}",
                 c.op.name, i, name_of(params[i].dtype()));
    STRATA_CHECK(
      params[i].dim() == 2, Value,
      "Muon: only 2-D parameters can be made orthogonal, parameter {} has shape {}; give the others to another "
      "optimizer, such as AdamW",
      i, to_string(params[i].shape()));
    STRATA_CHECK(params[i]->same_shape(*grads[i]) && params[i]->same_shape(*buffers[i]), Runtime,
                 "{}: parameter {} has shape {} but its gradient {} and its momentum_buffer {}", c.op.name, i,
                 to_string(params[i].shape()), to_string(grads[i].shape()), to_string(buffers[i].shape()));
  }
  const double lr = arg.lr(), weight_decay = arg.weight_decay(), momentum = arg.momentum();
  const bool nesterov = arg.nesterov();
  const Polynomial polynomial{arg.ns_a(), arg.ns_b(), arg.ns_c()};
  const double eps = arg.eps();
  const int64_t steps = arg.ns_steps(), how = arg.adjust_lr_fn();
  STRATA_CHECK(steps >= 0 && steps < 100, Value, "muon: ns_steps must be from 0 to 99, got {}", steps);
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor &p = params[i], &g = grads[i], &buffer = buffers[i];
    if (p.numel() == 0) continue;
    const double rate = adjusted(lr, how, p);
    lerp_(buffer, g, 1 - momentum);
    const Tensor update = orthogonal(nesterov ? lerp(g, buffer, momentum) : buffer, polynomial, steps, eps);
    if (weight_decay != 0) mul_(p, 1 - lr * weight_decay);
    add_(p, update, -rate);
  }
}

}  // namespace

STRATA_OP(_fused_muon,
          "_fused_muon(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, float lr, float "
          "weight_decay=0.1, float momentum=0.95, bool nesterov=True, float ns_a=3.4445, float ns_b=-4.775, float "
          "ns_c=2.0315, float eps=1e-7, int ns_steps=5, int adjust_lr_fn=0) -> ()")
  .doc("One step of Muon over 2-D parameters.")
  .infer([](const Call&) {})
  .kernel("reference", muon)
  .cuda("ops", muon)
  .no_out()
  .dtypes(kFloatingTypes)
  .helper()
  .samples({"[f(3,4),f(5,2)], [f(3,4),f(5,2)], [f(3,4),f(5,2)], 0.1",
            "[f(4,3)], [f(4,3)], [f(4,3)], 0.1, 0, 0.5, False, 3, -3, 1, 1e-7, 2, 1",
            "[f(0,3)], [f(0,3)], [f(0,3)], 0.1"})
  .error("[f(3)], [f(3)], [f(3)], 0.1", ErrorKind::Value, "only 2-D parameters")
  .error("[f(3,4)], [f(3,4)], [], 0.1", ErrorKind::Value, "0 momentum_buffers")
  .error("[f(3,4)], [f(4,3)], [f(3,4)], 0.1", ErrorKind::Runtime, "but its gradient");

}  // namespace strata
