// Linear layers by oneDNN with what follows the sums in one pass.
#pragma once
#include "record/epilogue.h"
#include "record/op.h"

namespace strata::cpu {

struct LinearTail {
  Epilogue epilogue = {};
  const TensorImpl* other = nullptr;  // of the result's shape
  // For an input of bytes, whose weights are int8: the scales and those of the weight's rows. The bias is float32.
  const ByteScales* bytes = nullptr;
  const TensorImpl* weight_scales = nullptr;
};

const char* linear_after_fits(const Epilogue& e);  // null: the kernel for floats can do it
// input [..., k], weight [n, k], bias [n] or null. Null: supported. Otherwise the reason.
const char* linear_onednn_ready(const TensorImpl& input, const TensorImpl& weight, const TensorImpl* bias,
                                const TensorImpl& out, const LinearTail& tail);
void linear_onednn(const TensorImpl& input, const TensorImpl& weight, const TensorImpl* bias, const TensorImpl& out,
                   const LinearTail& tail);

}  // namespace strata::cpu
