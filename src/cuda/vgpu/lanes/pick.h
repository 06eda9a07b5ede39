// From a PTX type to a handler of the host's type.
#pragma once
#include "cuda/vgpu/builder.h"
#include "cuda/vgpu/lanes/lanes.h"

namespace strata::cuda::vgpu {

// pick.operator()<T>() for the 16, 32 and 64-bit integers; null for other types.
template <class Pick> Handler for_integer(Type type, const Pick& pick) {
  switch (type) {
    case Type::B16:
    case Type::U16: return pick.template operator()<uint16_t>();
    case Type::S16: return pick.template operator()<int16_t>();
    case Type::B32:
    case Type::U32: return pick.template operator()<uint32_t>();
    case Type::S32: return pick.template operator()<int32_t>();
    case Type::B64:
    case Type::U64: return pick.template operator()<uint64_t>();
    case Type::S64: return pick.template operator()<int64_t>();
    default: return nullptr;
  }
}
inline void places2(Builder& b, Type type) {
  b.operands(2, 2);
  b.out.a = b.src(1, type);
  b.out.d = b.dst(0, type);
}
inline void places3(Builder& b, Type type) {
  b.operands(3, 3);
  b.out.a = b.src(1, type);
  b.out.b = b.src(2, type);
  b.out.d = b.dst(0, type);
}
inline void places4(Builder& b, Type type) {
  b.operands(4, 4);
  b.out.a = b.src(1, type);
  b.out.b = b.src(2, type);
  b.out.c = b.src(3, type);
  b.out.d = b.dst(0, type);
}

}  // namespace strata::cuda::vgpu
