// Building blocks of handlers: cells of registers, guards, lanes of a mask. Loops over all lanes are in loops.inl.
#pragma once
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cuda/vgpu/warp.h"

namespace strata::cuda::vgpu {

template <class T> using Cell = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T> inline T unpack(Cell<T> cell) {
  if constexpr (sizeof(T) == sizeof(Cell<T>)) return std::bit_cast<T>(cell);
  else if constexpr (sizeof(T) == 2) return std::bit_cast<T>(static_cast<uint16_t>(cell));
  else return std::bit_cast<T>(static_cast<uint8_t>(cell));
}
template <class T> inline Cell<T> pack(T value) {
  if constexpr (sizeof(T) == sizeof(Cell<T>)) return std::bit_cast<Cell<T>>(value);
  else if constexpr (sizeof(T) == 2) return std::bit_cast<uint16_t>(value);
  else return std::bit_cast<uint8_t>(value);
}

template <class C> inline C* cells(Warp& w, uint32_t place) { return reinterpret_cast<C*>(w.registers + place); }
inline uint32_t& mask_at(Warp& w, uint32_t place) { return *cells<uint32_t>(w, place); }
inline uint32_t active(const Inst& i, Warp& w) { return w.mask & (mask_at(w, i.guard) ^ i.guard_flip); }
inline void set_mask(Warp& w, uint32_t place, uint32_t active, uint32_t value) {
  uint32_t& m = mask_at(w, place);
  m = (m & ~active) | (value & active);
}
inline uint64_t wide(Warp& w, uint32_t place, uint8_t bytes, int lane) {
  return bytes == 8 ? cells<uint64_t>(w, place)[lane] : cells<uint32_t>(w, place)[lane];
}

template <class Body> inline void each_lane(uint32_t mask, const Body& body) {
  for (; mask; mask &= mask - 1) body(std::countr_zero(mask));
}

}  // namespace strata::cuda::vgpu
