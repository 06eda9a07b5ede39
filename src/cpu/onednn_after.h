// Epilogues in the terms of the oneDNN module.
#pragma once
#include "cpu/onednn/api.h"
#include "record/epilogue.h"
#include "tensor/dtype.h"

namespace strata::cpu {

// Null: oneDNN computes it with the bits of our ops, up to rounding, and keeps NaN. Otherwise the reason.
inline const char* onednn_after_fits(const Epilogue& e) {
  if (e.activation == Activation::None || e.activation == Activation::Relu) return nullptr;
  if (e.activation == Activation::LeakyRelu && e.first != 0) return nullptr;
  return "the activation is computed by its own op";
}
// The same for results of bytes, where NaN does not matter.
inline const char* onednn_after_fits_bytes(const Epilogue& e, DType result) {
  if (e.activation == Activation::Clamp && result != DType::F32) return nullptr;
  return onednn_after_fits(e);
}

inline onednn::After onednn_after(const Epilogue& e, bool other) {
  onednn::After after;
  after.other = other ? (e.add_last ? 2 : 1) : 0;
  after.activation = e.activation == Activation::Relu        ? onednn::After::Relu
                     : e.activation == Activation::LeakyRelu ? onednn::After::LeakyRelu
                     : e.activation == Activation::Clamp     ? onednn::After::Clamp
                                                             : onednn::After::None;
  if (after.activation > onednn::After::Relu) {
    after.low = static_cast<float>(e.first);
    after.high = static_cast<float>(e.second);
  }
  return after;
}
inline onednn::Type onednn_byte_type(DType t) {
  return t == DType::F32 ? onednn::Type::F32 : t == DType::U8 ? onednn::Type::U8 : onednn::Type::S8;
}
inline onednn::After onednn_after_bytes(const Epilogue& e, const ByteScales& s, DType input, DType result,
                                        const DType* other) {
  onednn::After after = onednn_after(e, other != nullptr);
  after.bytes = 1;
  after.input_type = onednn_byte_type(input);
  after.result_type = onednn_byte_type(result);
  after.input_zero = s.input_zero != 0;
  after.result_zero = result != DType::F32 && s.result_zero != 0;
  if (other) {
    after.other_type = onednn_byte_type(*other);
    after.other_scale = static_cast<float>(s.other);
    after.other_zero = static_cast<float>(s.other_zero);
  }
  return after;
}

}  // namespace strata::cpu
