// Element types, their names, categories and promotion.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/api.h"
#include "base/error.h"
#include "device/complex.h"
#include "tensor/float_types.h"

namespace strata {

enum class DType : uint8_t {
#define STRATA_DTYPE(id, ...) id,
#include "tensor/dtypes.inc"
};
constexpr DType kBool = DType::Bool, kUInt8 = DType::U8, kInt8 = DType::I8, kInt16 = DType::I16, kInt32 = DType::I32,
                kInt64 = DType::I64, kUInt16 = DType::U16, kUInt32 = DType::U32, kUInt64 = DType::U64,
                kFloat8E4M3 = DType::F8E4M3, kFloat8E5M2 = DType::F8E5M2, kFloat16 = DType::F16,
                kBFloat16 = DType::BF16, kFloat32 = DType::F32, kFloat64 = DType::F64, kComplex64 = DType::C64,
                kComplex128 = DType::C128;

// An element of a bool tensor. Bytes viewed as bool and memory of others may hold more than 0 and 1, which no C++ bool may:
// every byte but 0 is true.
struct BoolByte {
  uint8_t byte;
  BoolByte() = default;
  BoolByte(bool v) : byte(v) {}
  operator bool() const { return byte != 0; }
};

enum class DTypeKind : uint8_t { Bool, Unsigned, Signed, Float8, Float, Complex };
// A row of tensor/dtypes.inc, where the columns are described.
struct DTypeInfo {
  uint8_t size;  // bytes of an element
  const char* name;
  const char* title;
  DTypeKind kind;
  int digits;
  double largest;
  const char* format;
  const char* file_name;
};
constexpr DTypeInfo kDTypes[] = {
#define STRATA_DTYPE(id, type, name, title, kind, digits, largest, format, file_name) \
  {sizeof(type), name, title, DTypeKind::kind, digits, largest, format, file_name},
#include "tensor/dtypes.inc"
};
constexpr int kDTypeCount = static_cast<int>(std::size(kDTypes));
constexpr const DTypeInfo& info_of(DType t) { return kDTypes[static_cast<int>(t)]; }

constexpr size_t size_of(DType t) { return info_of(t).size; }
// One comparison each: small ops ask them.
constexpr bool is_floating(DType t) {
  constexpr auto kFirst = static_cast<uint8_t>(DType::F8E4M3), kLast = static_cast<uint8_t>(DType::F64);
  return static_cast<uint8_t>(static_cast<uint8_t>(t) - kFirst) <= kLast - kFirst;
}
constexpr bool is_complex(DType t) { return t >= DType::C64; }
constexpr bool is_differentiable(DType t) { return t >= DType::F8E4M3; }  // floating or complex
static_assert([] {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeKind kind = kDTypes[i].kind;
    if (is_floating(static_cast<DType>(i)) != (kind == DTypeKind::Float8 || kind == DTypeKind::Float)) return false;
    if (is_complex(static_cast<DType>(i)) != (kind == DTypeKind::Complex)) return false;
  }
  return true;
}());
constexpr bool is_integral(DType t, bool with_bool = true) {
  return !is_differentiable(t) && (with_bool || t != DType::Bool);
}
// The dtype of the parts of a complex one; others stay. And the complex dtype whose parts hold a real one.
constexpr DType real_type(DType t) { return t == DType::C128 ? DType::F64 : t == DType::C64 ? DType::F32 : t; }
constexpr DType complex_type(DType t) { return t == DType::F64 || t == DType::C128 ? DType::C128 : DType::C64; }
constexpr bool is_signed(DType t) { return info_of(t).kind >= DTypeKind::Signed; }

STRATA_API const char* name_of(DType t);                  // "float32", as in PyTorch
STRATA_API DType dtype_from_name(std::string_view name);  // also "float", "double", "half", "long", "int"…; throws Type
STRATA_API DType promote(DType a, DType b);               // of two tensors with dimensions
STRATA_API DType default_dtype();                         // of new floating-point tensors
STRATA_API void set_default_dtype(DType t);

// Sets of dtypes, e.g. those that an op accepts.
class DTypeSet {
 public:
  constexpr DTypeSet(std::initializer_list<DType> types) {
    for (DType t : types) bits_ |= bit(t);
  }
  static constexpr DTypeSet of(DTypeKind kind) {
    DTypeSet all{};
    for (int i = 0; i < kDTypeCount; ++i)
      if (kDTypes[i].kind == kind) all.bits_ |= 1u << i;
    return all;
  }
  constexpr bool has(DType t) const { return bits_ & bit(t); }
  constexpr DTypeSet operator|(DTypeSet o) const { return DTypeSet(bits_ | o.bits_); }
  constexpr DTypeSet operator-(DTypeSet o) const { return DTypeSet(bits_ & ~o.bits_); }

 private:
  constexpr explicit DTypeSet(unsigned bits) : bits_(bits) {}
  static constexpr unsigned bit(DType t) { return 1u << static_cast<int>(t); }
  unsigned bits_ = 0;
};
constexpr DTypeSet kFloat8Types = DTypeSet::of(DTypeKind::Float8);
constexpr DTypeSet kFloatingTypes = DTypeSet::of(DTypeKind::Float);
constexpr DTypeSet kComplexTypes = DTypeSet::of(DTypeKind::Complex);
// Kernels compute integers in int64_t, which does not hold the upper half of uint64: ops declare that they compute it
// (OpRecord::computes_uint64).
constexpr DTypeSet kIntegerTypes =
  (DTypeSet::of(DTypeKind::Signed) | DTypeSet::of(DTypeKind::Unsigned)) - DTypeSet{DType::U64};
constexpr DTypeSet kBoolType{DType::Bool};
constexpr DTypeSet kNumericTypes = kFloatingTypes | kIntegerTypes;
constexpr DTypeSet kAllTypes = kNumericTypes | kBoolType;  // for computation
// For copies and conversions.
constexpr DTypeSet kStorageTypes = kAllTypes | kComplexTypes | kFloat8Types | DTypeSet{DType::U64};

template <class T> struct DTypeOf;
template <> struct DTypeOf<bool> { static constexpr DType value = DType::Bool; };
#define STRATA_DTYPE(id, type, ...) \
  template <> struct DTypeOf<type> { static constexpr DType value = DType::id; };
#include "tensor/dtypes.inc"
template <class T> constexpr DType dtype_of = DTypeOf<T>::value;

// Calls f.template operator()<T>() with the element type of t: dispatch_dtype(t, []<class T> { … }). Each use compiles the
// body once per type; where that is much code, convert at the edges and compute in compute_type(t) instead.
template <class F> decltype(auto) dispatch_dtype(DType t, F&& f) {
#define STRATA_DTYPE(id, type, ...) \
  if (t == DType::id) return f.template operator()<type>();
#include "tensor/dtypes.inc"
  __builtin_unreachable();
}

// The same without the complex types, for bodies that compare elements; t is not complex.
template <class F> decltype(auto) dispatch_real(DType t, F&& f) {
#define STRATA_DTYPE(id, type, ...)     \
  if constexpr (DType::id < DType::C64) \
    if (t == DType::id) return f.template operator()<type>();
#include "tensor/dtypes.inc"
  __builtin_unreachable();
}

// Stands for an element of 16 bytes.
struct Bytes16 {
  uint64_t low, high;
};

// Calls f with an unsigned integer of the element's size: for ops that only move elements (5 instantiations).
template <class F> decltype(auto) dispatch_size(DType t, F&& f) {
  switch (size_of(t)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<Bytes16>();
  }
}

// The type used for arithmetic: double for f64, float for the other floats, int64 for integers and bool; complex types
// themselves.
constexpr DType compute_type(DType t) { return t >= DType::F64 ? t : is_floating(t) ? DType::F32 : DType::I64; }
// For a real dtype.
template <class F> decltype(auto) dispatch_compute(DType t, F&& f) {
  if (t == DType::F64) return f.template operator()<double>();
  if (is_floating(t)) return f.template operator()<float>();
  return f.template operator()<int64_t>();
}

template <class T> constexpr bool kIsComplex = false;
template <class T> constexpr bool kIsComplex<Complex<T>> = true;

// Converts between any two element types (float to integer truncates; anything to bool is != 0; complex to real drops the
// imaginary part).
template <class To, class From> inline To convert(From v) {
  constexpr bool kNarrowFrom = !std::is_arithmetic_v<From>, kNarrowTo = !std::is_arithmetic_v<To>;
  if constexpr (std::is_same_v<To, From>) return v;
  else if constexpr (kIsComplex<From> && kIsComplex<To>)
    return {static_cast<decltype(To::re)>(v.re), static_cast<decltype(To::im)>(v.im)};
  else if constexpr (kIsComplex<From> && (std::is_same_v<To, bool> || std::is_same_v<To, BoolByte>))
    return v.re != 0 || v.im != 0;
  else if constexpr (kIsComplex<From>) return convert<To>(v.re);
  else if constexpr (kIsComplex<To>) return {convert<decltype(To::re)>(v), 0};
  else if constexpr (std::is_same_v<From, BoolByte>) return convert<To>(static_cast<bool>(v));
  else if constexpr (std::is_same_v<To, BoolByte>) return convert<bool>(v);
  else if constexpr (kNarrowFrom) return convert<To>(static_cast<float>(v));
  else if constexpr (kNarrowTo) return To(static_cast<float>(v));
  else if constexpr (std::is_same_v<To, bool>) return v != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint64_t>)
    return v >= From(0x1p63) ? static_cast<To>(v) : static_cast<To>(static_cast<int64_t>(v));
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 8)
    return static_cast<To>(static_cast<int64_t>(v));  // wraps, and is defined for |v| < 2^63
  else return static_cast<To>(v);
}

}  // namespace strata
