// Copies units of 1 to 16 bytes.
#pragma once
#include <stdint.h>

namespace strata::cuda {

union Unit {
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t u64;
  uint4 u128;
};
__device__ __forceinline__ Unit load_unit(uint64_t data, int64_t i, int log_unit) {
  Unit u;
  switch (log_unit) {
    case 0: u.u8 = reinterpret_cast<const uint8_t*>(data)[i]; break;
    case 1: u.u16 = reinterpret_cast<const uint16_t*>(data)[i]; break;
    case 2: u.u32 = reinterpret_cast<const uint32_t*>(data)[i]; break;
    case 3: u.u64 = reinterpret_cast<const uint64_t*>(data)[i]; break;
    default: u.u128 = reinterpret_cast<const uint4*>(data)[i]; break;
  }
  return u;
}
__device__ __forceinline__ void store_unit(uint64_t data, int64_t i, int log_unit, const Unit& u) {
  switch (log_unit) {
    case 0: reinterpret_cast<uint8_t*>(data)[i] = u.u8; break;
    case 1: reinterpret_cast<uint16_t*>(data)[i] = u.u16; break;
    case 2: reinterpret_cast<uint32_t*>(data)[i] = u.u32; break;
    case 3: reinterpret_cast<uint64_t*>(data)[i] = u.u64; break;
    default: reinterpret_cast<uint4*>(data)[i] = u.u128; break;
  }
}

}  // namespace strata::cuda
