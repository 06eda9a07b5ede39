#include "cuda/nn/convolution_product.h"

#include "cuda/nn/convolution_order.h"

namespace strata::cuda {

bool is_pointwise(const ConvShape& s) {
  if (s.groups != 1) return false;
  for (int d = 0; d < s.dims; ++d)
    if (s.kernel[d] != 1 || s.stride[d] != 1 || s.padding[d] != 0 || s.in[d] != s.out[d]) return false;
  return true;
}

namespace {

// Whether the spatial dimensions, with_images: and that of images, are equivalent to a single one with this step.
bool is_one_dimension(const TensorImpl& t, bool with_images, int64_t& step) {
  int64_t next = -1;  // the stride that the next dimension must have; -1: any
  step = 1;
  const auto joins = [&](int d) {
    if (t.shape[d] == 1) return true;
    if (next >= 0 && t.strides[d] != next) return false;
    if (next < 0) step = t.strides[d];
    next = t.strides[d] * t.shape[d];
    return true;
  };
  for (int d = t.ndim - 1; d >= 2; --d)
    if (!joins(d)) return false;
  return !with_images || joins(0);
}
}  // namespace

const char* as_product(const ConvCall& v, GemmCall& g) {
  const ConvShape& s = v.shape;
  if (!is_pointwise(s)) return "for kernels of one element, stride 1, no padding and one group";
  if (sums_nothing(v)) return "a tensor is empty";
  const TensorImpl &big = *v.big, &small = *v.small, &weight = *v.weight;
  int64_t big_step = 0, small_step = 0, positions = 1;
  for (int d = 0; d < s.dims; ++d) positions *= s.in[d];
  const bool joined = is_one_dimension(big, true, big_step) && is_one_dimension(small, true, small_step);
  GemmParams& p = g.params;
  p.alpha = 1;
  p.beta = 1;
  if (v.mode == ConvMode::Weight) {
    if (!joined) return "the sums run over images and positions, which are not one dimension";
    p.m = s.o;
    p.n = s.c;
    p.k = s.n * positions;
    p.a_m = small.strides[1];
    p.a_k = small_step;
    p.b_k = big_step;
    p.b_n = big.strides[1];
    p.c_m = weight.strides[0];
    p.c_n = weight.strides[1];
    g.a = v.small;
    g.b = v.big;
    g.c = v.weight;
    return nullptr;
  }
  if (!joined && (!is_one_dimension(big, false, big_step) || !is_one_dimension(small, false, small_step)))
    return "the positions are not one dimension";
  const bool forward = v.mode == ConvMode::Forward;
  const TensorImpl &from = forward ? big : small, &to = forward ? small : big;
  p.m = joined ? s.n * positions : positions;
  p.n = forward ? s.o : s.c;
  p.k = forward ? s.c : s.o;
  p.a_m = forward ? big_step : small_step;
  p.a_k = from.strides[1];
  p.b_k = weight.strides[forward ? 1 : 0];
  p.b_n = weight.strides[forward ? 0 : 1];
  p.c_m = forward ? small_step : big_step;
  p.c_n = to.strides[1];
  p.batch_dims = joined ? 0 : 1;
  p.batch[0] = s.n;
  p.a_b[0] = from.strides[0];
  p.b_b[0] = 0;
  p.c_b[0] = to.strides[0];
  p.in_n = v.bias ? v.bias->strides[0] : 0;
  g.a = forward ? v.big : v.small;
  g.b = v.weight;
  g.c = forward ? v.small : v.big;
  g.in = v.bias;
  return nullptr;
}

}  // namespace strata::cuda
