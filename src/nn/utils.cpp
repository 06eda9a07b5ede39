// Network utilities.
#include "nn/utils.h"

#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata::nn::utils {
namespace {
std::vector<Tensor> grads_of(std::span<const Tensor> parameters) {
  std::vector<Tensor> grads;
  for (const Tensor& p : parameters)
    if (const Tensor g = p.grad()) grads.push_back(g);
  return grads;
}
}  // namespace

Tensor get_total_norm(std::span<const Tensor> tensors, double norm_type, bool error_if_nonfinite) {
  if (tensors.empty()) return zeros({});
  return _total_norm(tensors, norm_type, error_if_nonfinite);
}

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
  const std::vector<Tensor> grads = grads_of(parameters);
  const Tensor total = get_total_norm(grads, norm_type, error_if_nonfinite);
  if (!grads.empty()) _clip_grads_with_norm_(grads, max_norm, total);
  return total;
}

void clip_grads_with_norm_(std::span<const Tensor> parameters, double max_norm, const Tensor& total_norm) {
  if (const std::vector<Tensor> grads = grads_of(parameters); !grads.empty())
    _clip_grads_with_norm_(grads, max_norm, total_norm);
}

void clip_grad_value_(std::span<const Tensor> parameters, double clip_value) {
  const autograd::NoGrad off;
  for (const Tensor& g : grads_of(parameters)) clamp_(g, -clip_value, clip_value);
}

Tensor parameters_to_vector(std::span<const Tensor> parameters) {
  std::vector<Tensor> flat;
  for (const Tensor& p : parameters) flat.push_back(reshape(p, {-1}));
  return cat(flat);
}

void vector_to_parameters(const Tensor& vector, std::span<const Tensor> parameters) {
  int64_t total = 0;
  for (const Tensor& p : parameters) total += p.numel();
  STRATA_CHECK(vector.dim() == 1 && vector.numel() == total, Value,
               "vector_to_parameters: expected a vector of {} elements, got shape {}", total,
               to_string(vector.shape()));
  const autograd::NoGrad off;
  int64_t at = 0;
  for (const Tensor& p : parameters) {
    copy_(p, reshape(narrow(vector, 0, at, p.numel()), p.shape()));
    at += p.numel();
  }
}

}  // namespace strata::nn::utils
