// Convolutions by Winograd's method: which ones qualify, and how tensors of any layout and mode become its arguments.
#include <cstdlib>

#include "cpu/movement/copy.h"
#include "cpu/nn/convolution.h"
#include "cpu/nn/winograd.h"
#include "cpu/packed.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

// An input gradient is the convolution of the output's gradient with the flipped weights and their channels swapped.
Winograd plan(const ConvShape& s, bool forward) {
  Winograd w{.n = s.n, .c = forward ? s.c : s.o, .o = forward ? s.o : s.c, .in = {}, .out = {}, .padding = {}};
  for (int d = 0; d < 2; ++d) {
    w.in[d] = forward ? s.in[d] : s.out[d];
    w.out[d] = forward ? s.out[d] : s.in[d];
    w.padding[d] = forward ? s.padding[d] : 2 - s.padding[d];
  }
  return w;
}
FormKey key_of(const TensorImpl& weight, bool forward) {
  return {static_cast<int64_t>(forward ? Form::Winograd : Form::WinogradFlipped),
          weight.shape[0],
          weight.shape[1],
          weight.strides[0],
          weight.strides[1],
          weight.strides[2],
          weight.strides[3],
          0};
}
bool switched_off() {
  static const bool off = [] {
    const char* text = std::getenv("STRATA_NO_WINOGRAD");
    return text && *text == '1';
  }();
  return off;
}
}  // namespace

const char* conv_winograd_ready(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight) {
  if (switched_off()) return "switched off by STRATA_NO_WINOGRAD";
  if (big.dtype != DType::F32) return "Winograd's method is used for float32";
  if (s.dims != 2 || s.groups != 1 || s.kernel[0] != 3 || s.kernel[1] != 3) return "not a plain 3x3 convolution";
  for (int d = 0; d < 2; ++d) {
    if (s.stride[d] != 1 || s.dilation[d] != 1) return "a stride or a dilation";
    if (s.padding[d] > 2 || s.in[d] + 2 * s.padding[d] - 2 != s.out[d]) return "an unusual padding";
  }
  if (mode == ConvMode::Weight)
    return s.n > 0 && winograd_weight_pays(plan(s, true)) ? nullptr
                                                          : "too few pixels, or many channels: the plain sum is faster";
  if (s.n == 0 || !weight.is_dense() || weight.strides[0] >= int64_t{1} << 26 || weight.strides[1] >= int64_t{1} << 26)
    return "an empty batch, or weights that are not dense";
  const bool forward = mode == ConvMode::Forward;
  return winograd_pays(plan(s, forward), has_form(weight, key_of(weight, forward)))
           ? nullptr
           : "too few channels or pixels: the plain sum is faster";
}

static Tensor as_channels_last(const TensorImpl& t) {
  return channels_last(t) ? borrow(t) : staged_like(t, *channels_last_form(t), DType::F32);
}

void conv_winograd(const ConvShape& s, ConvMode mode, const TensorImpl& big, const TensorImpl& weight,
                   const TensorImpl& small, const TensorImpl* bias, const ConvTail& tail) {
  if (mode == ConvMode::Weight) {
    const Tensor x = as_channels_last(big), g = as_channels_last(small);
    const Tensor grad = channels_last(weight) ? borrow(weight) : channels_last_form(weight);
    if (!grad->data) grad->allocate();
    winograd_weight(plan(s, true), x.data<float>(), g.data<float>(), grad.data<float>());
    if (grad->data != weight.data) copy(weight, *grad);
    return;
  }
  const bool forward = mode == ConvMode::Forward;
  Winograd w = plan(s, forward);
  const WinogradWeights from{w.o,
                             w.c,
                             weight.strides[forward ? 0 : 1],
                             weight.strides[forward ? 1 : 0],
                             weight.strides[2],
                             weight.strides[3],
                             !forward};
  const auto* plain = reinterpret_cast<const float*>(weight.data);
  const bool few = winograd_is_few(w);
  const auto u = (few ? form_if_kept : form_of)(
    weight, key_of(weight, forward), static_cast<size_t>(winograd_weight_count(w.c, w.o)) * sizeof(float),
    [&](std::byte* to) { winograd_weights(from, plain, reinterpret_cast<float*>(to)); });
  const TensorImpl &in = forward ? big : small, &out = forward ? small : big;
  const Tensor x = as_channels_last(in);
  Tensor y = channels_last(out) ? borrow(out) : channels_last_form(out);
  if (!y->data) y->allocate();
  const Tensor other = tail.other ? as_channels_last(*tail.other) : Tensor();
  w.other = other ? other.data<float>() : nullptr;
  w.relu = tail.epilogue.activation == Activation::Relu;
  w.add_last = tail.epilogue.add_last;
  const Tensor row = bias ? staged(*bias, DType::F32) : Tensor();
  const float *kept = u ? reinterpret_cast<const float*>(u->data) : nullptr, *add = row ? row.data<float>() : nullptr;
  if (few) winograd_few(w, x.data<float>(), from, plain, kept, add, y.data<float>());
  else winograd(w, x.data<float>(), kept, add, y.data<float>());
  if (y.get() != &out) copy(out, *y);
}

}  // namespace strata::cpu
