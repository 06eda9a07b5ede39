// Floats to bytes and back, with one scale and zero: byte = clamp(round(x / scale) + zero), to the nearest even integer; NaN gives
// the zero. Bytes are int8, or uint8 if `is_unsigned`.
#pragma once
#include <cstdint>

namespace strata::cpu {

struct ByteFormat {
  float scale;
  int32_t zero;
  bool is_unsigned;
};
void quantize(const ByteFormat& f, const float* x, void* bytes, int64_t count);
void dequantize(const ByteFormat& f, const void* bytes, float* x, int64_t count);

}  // namespace strata::cpu
