// Elements of the registers that hold pieces of a matrix.
#pragma once
#include "cuda/vgpu/lanes/lanes.h"

namespace strata::cuda::vgpu {

// Element e of a 32-bit register; f64 has registers of its own.
inline double element(Type t, uint32_t reg, int e) {
  switch (t) {
    case Type::F16: return half_to_float(static_cast<uint16_t>(reg >> 16 * e));
    case Type::BF16: return bf16_to_float(static_cast<uint16_t>(reg >> 16 * e));
    case Type::TF32: return std::bit_cast<float>(reg & 0xffffe000u);
    case Type::F32: return std::bit_cast<float>(reg);
    case Type::S32: return static_cast<int32_t>(reg);
    case Type::S8: return static_cast<int8_t>(reg >> 8 * e);
    default: return static_cast<uint8_t>(reg >> 8 * e);
  }
}

}  // namespace strata::cuda::vgpu
