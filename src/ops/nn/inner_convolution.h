// The forward convolution inside a fused op, whose padding may differ on both sides of a dimension.
#pragma once
#include <vector>

#include "record/convolution.h"
#include "record/op.h"

namespace strata {

class InnerConvolution {
 public:
  // padding: one number, one per dimension, or those in front of all dimensions followed by those behind. Throws if they do not
  // fit; the dtypes are those of the caller.
  InnerConvolution(const char* op, const TensorImpl& input, const TensorImpl& weight, const TensorImpl* bias,
                   IntList stride, IntList padding, IntList dilation, int64_t groups);
  InnerConvolution(const InnerConvolution&) = delete;
  InnerConvolution& operator=(const InnerConvolution&) = delete;

  void infer(Tensor* out) const;  // its shape and strides
  ConvShape shape() const;        // `padding` is that in front
  bool even() const { return even_; }
  // convolution() of tensors of this op's shapes, with the padding as it is.
  Tensor of(const Tensor& input, const Tensor& weight, const Tensor& bias) const;
  void into(const Tensor& input, const Tensor& weight, const Tensor& bias, Tensor& out) const;
  // The input with its padding, if that is uneven or `always`.
  Tensor padded(const Tensor& input, bool always) const;

 private:
  Args args(const Tensor& input, const Tensor& weight, const Tensor& bias) const;

  int64_t before_[3], after_[3], both_[3];  // both_: the smaller of the two
  bool even_ = true;
  int dims_;
  IntList stride_, dilation_;
  int64_t groups_;
  Tensor input_, weight_, bias_;  // shapes only; input_ is larger where the padding is uneven
};

}  // namespace strata
