// The part after the sums of a product or a convolution, by ops.
#pragma once
#include <span>
#include <string_view>

#include "record/epilogue.h"
#include "tensor/tensor.h"

namespace strata {

// The activation of this name with these numbers; throws Value for others.
Epilogue epilogue_of(const char* op, std::string_view activation, std::span<const double> numbers, bool add_last);
// activation(sum + other), or activation(sum) + other; other may be undefined.
Tensor after_sum(const Tensor& sum, const Tensor& other, const Epilogue& e);
// The same in the memory of `sum`.
void after_sum_(Tensor& sum, const Tensor& other, const Epilogue& e);

// Scales of bytes from [input scale, input zero, other's, the result's].
ByteScales byte_scales_of(const char* op, std::span<const double> numbers);
// The checks of the tensors that follow the sums: `other` is of the result's shape, and for bytes, scales and bias of its channels.
void check_other(const char* op, const TensorImpl* other, const TensorImpl& out, bool bytes);
void check_byte_tensors(const char* op, const TensorImpl& input, const TensorImpl& weight, const TensorImpl& scales,
                        const TensorImpl* bias, DType result);
// From the sums of bytes in int32 to the result: times the scales, plus the bias, what follows, and the conversion to `out`. The
// channels are dimension `channel` of the sums.
void finish_bytes(const Tensor& sums, const Tensor& weight_scales, const Tensor& bias, const Tensor& other, int channel,
                  const Epilogue& e, const ByteScales& s, const Tensor& out);

}  // namespace strata
