// The total norm of many tensors, and gradients clipped by it.
#include <cmath>

#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata {
namespace {

// One reading pass per tensor; the few results are combined in double precision.
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

// The same without waiting for a device: the norms of the tensors are combined there.
Tensor total_norm_on_device(TensorList tensors, double norm_type) {
  std::vector<Tensor> norms;
  DType type = DType::F32;
  for (const Tensor& t : tensors) {
    if (!t || t.numel() == 0) continue;
    norms.push_back(
      linalg::vector_norm(t, norm_type, std::nullopt, false, t.dtype() == DType::F64 ? DType::F64 : DType::F32));
    type = promote(type, t.dtype());
  }
  if (norms.empty()) return zeros({}, type);
  for (Tensor& n : norms) n = to(n, type);
  return norm_type == 0 ? sum(stack(norms)) : linalg::vector_norm(stack(norms), norm_type);
}

Tensor as_scalar(double v, TensorList like) {
  const DType dtype = like.empty() || !like[0] ? default_dtype() : like[0].dtype();
  return full({}, v, dtype);
}

void check_list(TensorList tensors, const char* op) {
  for (const Tensor& t : tensors)
    STRATA_CHECK(t && is_floating(t.dtype()), Runtime, "{}: expected tensors of floating-point dtype", op);
}

}  // namespace

STRATA_OP(total_norm, "_total_norm(Tensor[] tensors, float norm_type, bool error_if_nonfinite) -> Tensor")
  .doc("The norm of all elements of all tensors, as if they were one vector.")
  .helper()
  .no_out()
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](TensorList tensors, double norm_type, bool error_if_nonfinite) {
    check_list(tensors, "get_total_norm");
    const autograd::NoGrad off;
    const bool device = !tensors.empty() && tensors[0].device().type != DeviceType::Cpu;
    const Tensor there = device ? to(total_norm_on_device(tensors, norm_type), tensors[0].dtype()) : Tensor();
    if (device && !error_if_nonfinite) return there;
    const double total = device ? there.item<double>() : total_norm_of(tensors, norm_type);
    STRATA_CHECK(
      !error_if_nonfinite || std::isfinite(total), Runtime,
      "The total norm of order {} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
      "disable this error and scale the gradients by the non-finite norm anyway, set "
      "`error_if_nonfinite=False`",
      norm_type);
    return device ? there : as_scalar(total, tensors);
  })
  .samples({"[f(2,3), f(4)], 2.0, False", "[f(2,3), f(4)], inf, False", "[f(3), f(0)], 1.0, True"});

STRATA_OP(clip_grads_with_norm, "_clip_grads_with_norm_(Tensor[] grads, float max_norm, Tensor total_norm) -> Tensor")
  .doc("Scales tensors in place so that a total norm above max_norm becomes max_norm; the norm is returned.")
  .helper()
  .no_out()
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](TensorList grads, double max_norm, const Tensor& total_norm) {
    check_list(grads, "clip_grad_norm_");
    const autograd::NoGrad off;
    if (total_norm.device().type != DeviceType::Cpu) {  // whether anything is to be clipped stays there
      const Tensor factor = clamp_max(mul(reciprocal(add(total_norm, 1e-6)), max_norm), 1.0);
      for (const Tensor& g : grads) mul_(autograd::detach(g), factor);
      return total_norm;
    }
    const double norm = total_norm.item<double>(), factor = max_norm / (norm + 1e-6);
    if (!(factor >= 1))  // also when it is no number
      for (const Tensor& g : grads) mul_(autograd::detach(g), factor);
    return total_norm;
  })
  .samples({"[f(2,3), f(4)], 1.0, p()"});

}  // namespace strata
