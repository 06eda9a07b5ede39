#include "tensor/dtype.h"

#include <algorithm>
#include <atomic>

namespace strata {
namespace {
std::atomic<DType> default_type{DType::F32};

constexpr const char* kNames[kDTypeCount] = {"bool",    "uint8",    "int8",          "int16",
                                             "int32",   "int64",    "float8_e4m3fn", "float8_e5m2",
                                             "float16", "bfloat16", "float32",       "float64"};
constexpr struct {
  std::string_view name;
  DType type;
} kOtherNames[] = {{"float", DType::F32}, {"double", DType::F64}, {"half", DType::F16},          {"long", DType::I64},
                   {"int", DType::I32},   {"short", DType::I16},  {"float8_e4m3", DType::F8E4M3}};
}  // namespace

const char* name_of(DType t) { return kNames[static_cast<int>(t)]; }

DType dtype_from_name(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name.starts_with("strata.")) name.remove_prefix(7);
  for (int i = 0; i < kDTypeCount; ++i)
    if (name == kNames[i]) return static_cast<DType>(i);
  for (const auto& other : kOtherNames)
    if (name == other.name) return other.type;
  fail(ErrorKind::Type,
       fmt::format("unknown dtype '{}'; expected one of float64 float32 float16 bfloat16 float8_e4m3fn "
                   "float8_e5m2 int64 int32 int16 int8 uint8 bool",
                   name));
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const DType low = std::min(a, b), high = std::max(a, b);
  if (low == DType::Bool) return high;
  if (is_floating(high)) {
    if (!is_floating(low) || high >= DType::F32) return high;
    // Two different float8 types: neither can represent the other.
    STRATA_CHECK(!kFloat8Types.has(low), Runtime, "{} and {} have no common type; convert one of them with .to()",
                 name_of(a), name_of(b));
    return DType::F32;
  }
  return low == DType::U8 && high == DType::I8 ? DType::I16 : high;
}

DType default_dtype() { return default_type.load(std::memory_order_relaxed); }
void set_default_dtype(DType t) {
  STRATA_CHECK(kFloatingTypes.has(t), Type, "set_default_dtype: expected a floating-point dtype, got {}", name_of(t));
  default_type.store(t, std::memory_order_relaxed);
}

}  // namespace strata
