// The types and state spaces of PTX.
#pragma once
#include <cstdint>
#include <string_view>

namespace strata::cuda::vgpu {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  BF16,
  F16x2,
  BF16x2,
  U16x2,
  S16x2,
  F32,
  F64,
  TF32,
  E4M3x2,
  E5M2x2,
  E4M3,
  E5M2,
};

enum class Space : uint8_t { Generic, Global, Shared, Local, Const, Param };

Type type_named(std::string_view name);  // "f32"; None if it is not a type
std::string_view name_of(Type type);
int size_of(Type type);  // in bytes; 0 for None and Pred
bool is_float(Type type);
bool is_signed(Type type);
bool is_integer(Type type);  // untyped bits count as unsigned

}  // namespace strata::cuda::vgpu
