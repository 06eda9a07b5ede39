// The total norm of many tensors, and gradient clipping.
#include <cmath>

#include "autograd/autograd.h"
#include "cuda/optim/clip.h"
#include "ops/transfer.h"
#include "strata/args/optim/clip.h"
#include "strata/ops.h"

namespace strata {
namespace {

// Reads each tensor once; the few results are combined in double precision.
double total_norm_of(TensorList tensors, double norm_type) {
  double total = 0;
  bool first = true;
  for (const Tensor& t : tensors) {
    if (!t || t.numel() == 0) continue;
    const bool narrow = t.dtype() == DType::F16 || t.dtype() == DType::BF16;  // their norms overflow or round
    const double n =
      linalg::vector_norm(t, norm_type, std::nullopt, false, narrow ? std::optional(DType::F32) : std::nullopt)
        .item<double>();
    if (std::isinf(norm_type)) {
      const bool further = norm_type > 0 ? n > total : n < total;
      if (first || further || std::isnan(n)) total = std::isnan(total) ? total : n;
    } else if (norm_type == 0) total += n;
    else total += std::pow(n, norm_type);
    first = false;
  }
  return std::isinf(norm_type) || norm_type == 0 ? total : std::pow(total, 1 / norm_type);
}

void check_list(TensorList tensors, const char* op) {
  for (const Tensor& t : tensors)
    STRATA_CHECK(t && is_floating(t.dtype()), Runtime, "{}: expected tensors of floating-point dtype", op);
}

void check_finite(bool wanted, double total, double norm_type) {
  STRATA_CHECK(!wanted || std::isfinite(total), Runtime,
               "The total norm of order {} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
               "disable this error and scale the gradients by the non-finite norm anyway, set "
               "`error_if_nonfinite=False`",
               norm_type);
}

void norm_here(const Call& c) {
  const args::total_norm a(c);
  const autograd::NoGrad off;
  const double norm_type = a.norm_type(), total = total_norm_of(a.tensors(), norm_type);
  check_finite(a.error_if_nonfinite(), total, norm_type);
  fill_values(*c.out(), total);
}

void norm_on_device(const Call& c, Workspace& workspace) {
  const args::total_norm a(c);
  const double norm_type = a.norm_type();
  cuda::total_norm(a.tensors(), norm_type, *c.out(), workspace);
  if (a.error_if_nonfinite() && !workspace.planning()) check_finite(true, c.out().item<double>(), norm_type);
}

void scale_by_number(TensorList grads, double max_norm, double norm) {
  const autograd::NoGrad off;
  const double factor = max_norm / (norm + 1e-6);
  if (!(factor >= 1))  // also for NaN
    for (const Tensor& g : grads) mul_(autograd::detach(g), factor);
}

void scale_here(const Call& c) {
  const args::clip_grads_with_norm a(c);
  scale_by_number(a.grads(), a.max_norm(), a.share_total_norm().item<double>());
}

const char* needs_norm_on_host(const Call& c) {
  const args::clip_grads_with_norm a(c);
  return a.total_norm().device.type == DeviceType::Cpu ? nullptr : "the norm is on the device";
}
const char* needs_norm_on_device(const Call& c) { return needs_norm_on_host(c) ? nullptr : "the norm is on the host"; }
// The device decides whether anything is scaled.
void scale_on_device(const Call& c, Workspace& workspace) {
  const args::clip_grads_with_norm a(c);
  cuda::scale_to_norm(a.grads(), a.max_norm(), a.total_norm(), workspace);
}

}  // namespace

STRATA_OP(total_norm, "_total_norm(Tensor[] tensors, float norm_type, bool error_if_nonfinite) -> Tensor")
  .doc("The norm of all elements of all tensors, as if they were one vector.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::total_norm& c) {
    const TensorList tensors = c.tensors();
    check_list(tensors, "get_total_norm");
    c.out()->dtype = tensors.empty() ? default_dtype() : tensors[0].dtype();
    c.out()->set_shape({});
  })
  .kernel("reference", norm_here)
  .cuda("fused", norm_on_device)
  .samples({"[f(2,3), f(4)], 2.0, False", "[f(2,3), f(4)], inf, False", "[f(2,3), f(4)], -inf, False",
            "[f(3), f(0)], 1.0, True", "[f(3), f(7)], 3.0, False", "[f(3), f(7)], 0, False"});

STRATA_OP(clip_grads_with_norm, "_clip_grads_with_norm_(Tensor(a!)[] grads, float max_norm, Tensor total_norm) -> ()")
  .doc("Scales tensors in place so that a total norm above max_norm becomes max_norm.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::clip_grads_with_norm& c) {
    check_list(c.grads(), "clip_grad_norm_");
    STRATA_CHECK(c.total_norm().numel == 1, Runtime,
                 "clip_grads_with_norm_: the norm must be one number, found shape {}",
                 to_string(c.total_norm().sizes()));
  })
  .kernel("reference", scale_here)
  .cuda("by_number", scale_here, needs_norm_on_host)
  .cuda("fused", scale_on_device, needs_norm_on_device)
  .samples({"[f(2,3), f(4)], 1.0, p()"})
  .error("[f(2)], 1.0, p(3)", ErrorKind::Runtime, "must be one number");

}  // namespace strata
