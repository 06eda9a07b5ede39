#include "tensor/dtype.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>

namespace strata {
namespace {
std::atomic<DType> default_type{DType::F32};

constexpr struct {
  std::string_view name;
  DType type;
} kOtherNames[] = {{"float", DType::F32},          {"double", DType::F64}, {"half", DType::F16},
                   {"long", DType::I64},           {"int", DType::I32},    {"short", DType::I16},
                   {"float8_e4m3", DType::F8E4M3}, {"cfloat", DType::C64}, {"cdouble", DType::C128}};
}  // namespace

const char* name_of(DType t) { return info_of(t).name; }

DType dtype_from_name(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name.starts_with("strata.")) name.remove_prefix(7);
  for (int i = 0; i < kDTypeCount; ++i)
    if (name == kDTypes[i].name) return static_cast<DType>(i);
  for (const auto& other : kOtherNames)
    if (name == other.name) return other.type;
  std::string known;
  for (int i = kDTypeCount; i-- > 0;) known += fmt::format(" {}", kDTypes[i].name);
  fail(ErrorKind::Type, fmt::format("unknown dtype '{}'; expected one of{}", name, known));
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (is_complex(a) || is_complex(b)) {  // the parts are promoted; integers count as the narrowest
    const DType wide = std::max(a, b), other = std::min(a, b);
    return wide == DType::C128 || other == DType::F64 ? DType::C128 : DType::C64;
  }
  if (is_floating(a) || is_floating(b)) {
    if (!is_floating(a)) return b;
    if (!is_floating(b)) return a;
    // The enum has the wider one later; two different narrow floats do not hold each other.
    const DType low = std::min(a, b), high = std::max(a, b);
    if (high >= DType::F32) return high;
    STRATA_CHECK(!kFloat8Types.has(low), Runtime, "{} and {} have no common type; convert one of them with .to()",
                 name_of(a), name_of(b));
    return DType::F32;
  }
  if (is_signed(a) == is_signed(b)) return size_of(a) > size_of(b) ? a : b;
  const DType with_sign = is_signed(a) ? a : b, without = is_signed(a) ? b : a;
  if (size_of(with_sign) > size_of(without)) return with_sign;
  switch (size_of(without)) {  // the next wider signed type holds both
    case 1: return DType::I16;
    case 2: return DType::I32;
    case 4: return DType::I64;
    default:
      fail(ErrorKind::Runtime,
           fmt::format("{} and {} have no common type; convert one of them with .to()", name_of(a), name_of(b)));
  }
}

DType default_dtype() { return default_type.load(std::memory_order_relaxed); }
void set_default_dtype(DType t) {
  STRATA_CHECK(kFloatingTypes.has(t), Type, "set_default_dtype: expected a floating-point dtype, got {}", name_of(t));
  default_type.store(t, std::memory_order_relaxed);
}

}  // namespace strata
