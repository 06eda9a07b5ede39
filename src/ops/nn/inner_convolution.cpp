#include "ops/nn/inner_convolution.h"

#include "base/checked.h"
#include "cpu/staging.h"
#include "ops/nn/convolution_call.h"
#include "ops/nn/spread.h"
#include "strata/ops.h"

namespace strata {
namespace {
constexpr int64_t kZero = 0;
const IntList kNone(kZero);

Tensor form_of(const TensorImpl& t) {
  Tensor form = shape_only(t);
  form->dtype = DType::F32;
  return form;
}
}  // namespace

InnerConvolution::InnerConvolution(const char* op, const TensorImpl& input, const TensorImpl& weight,
                                   const TensorImpl* bias, IntList stride, IntList padding, IntList dilation,
                                   int64_t groups)
    : dims_(weight.ndim - 2),
      stride_(stride),
      dilation_(dilation),
      groups_(groups),
      input_(form_of(input)),
      weight_(form_of(weight)),
      bias_(bias ? form_of(*bias) : Tensor()) {
  STRATA_CHECK(dims_ >= 1 && dims_ <= 3, Runtime, "{}: weight must have 3, 4 or 5 dimensions, got shape {}", op,
               to_string(weight.sizes()));
  STRATA_CHECK(input.ndim == weight.ndim, Runtime, "{}: expected {}D input of shape [N, C, ...], got shape {}", op,
               int{weight.ndim}, to_string(input.sizes()));
  const auto dims = static_cast<size_t>(dims_);
  if (padding.size == 2 * dims) {
    spread(op, "padding", IntList(Shape(padding.data, dims)), dims_, 0, before_);
    spread(op, "padding", IntList(Shape(padding.data + dims, dims)), dims_, 0, after_);
  } else {
    STRATA_CHECK(padding.size == 1 || padding.size == dims, Runtime,
                 "{}: padding must be one number, {} of them or {} (in front and behind), got {}", op, dims, 2 * dims,
                 to_string(padding));
    spread(op, "padding", padding, dims_, 0, before_);
    std::copy_n(before_, dims, after_);
  }
  int64_t size[5];
  std::copy_n(input.shape, input.ndim, size);
  for (size_t d = 0; d < dims; ++d) {
    both_[d] = std::min(before_[d], after_[d]);
    if (before_[d] == after_[d]) continue;
    even_ = false;
    size[d + 2] = (Checked(size[d + 2]) + std::max(before_[d], after_[d]) - both_[d]).get();
  }
  if (even_) return;
  const bool last = cpu::channels_last(input);
  input_->set_shape(Shape(size, dims + 2));
  if (last) input_ = cpu::channels_last_form(*input_);
}

Args InnerConvolution::args(const Tensor& input, const Tensor& weight, const Tensor& bias) const {
  return Args(input, weight, bias, stride_, IntList(Shape(both_, static_cast<size_t>(dims_))), dilation_, false, kNone,
              groups_);
}
void InnerConvolution::infer(Tensor* out) const {
  const Args a = args(input_, weight_, bias_);
  op_convolution.record.infer_fn(Call{op_convolution, a, out});
}
ConvShape InnerConvolution::shape() const {
  const Args a = args(input_, weight_, bias_);
  ConvShape s = convolution_shape(a);
  for (int d = 0; d < dims_; ++d) {
    s.in[d] -= std::max(before_[d], after_[d]) - both_[d];
    s.padding[d] = before_[d];
  }
  return s;
}
Tensor InnerConvolution::padded(const Tensor& input, bool always) const {
  if (even_ && !always) return input;
  std::vector<int64_t> amounts;
  for (int d = dims_; d-- > 0;) {
    amounts.push_back(before_[d] - (always ? 0 : both_[d]));
    amounts.push_back(after_[d] - (always ? 0 : both_[d]));
  }
  return constant_pad_nd(input, amounts, 0);
}
Tensor InnerConvolution::of(const Tensor& input, const Tensor& weight, const Tensor& bias) const {
  const Tensor x = padded(input, false);
  return call(op_convolution, args(x, weight, bias));
}
void InnerConvolution::into(const Tensor& input, const Tensor& weight, const Tensor& bias, Tensor& out) const {
  const Tensor x = padded(input, false);
  call_out(op_convolution, args(x, weight, bias), &out);
}

}  // namespace strata
