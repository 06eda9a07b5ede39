// Element types, their names, categories and promotion.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/api.h"
#include "base/error.h"
#include "tensor/float_types.h"

namespace strata {

// Order matters: within a category later types are wider, and promotion takes the later one (f16 with bf16 gives f32).
enum class DType : uint8_t { Bool, U8, I8, I16, I32, I64, F8E4M3, F8E5M2, F16, BF16, F32, F64 };
constexpr int kDTypeCount = 12;

constexpr DType kBool = DType::Bool, kUInt8 = DType::U8, kInt8 = DType::I8, kInt16 = DType::I16, kInt32 = DType::I32,
                kInt64 = DType::I64, kFloat8E4M3 = DType::F8E4M3, kFloat8E5M2 = DType::F8E5M2, kFloat16 = DType::F16,
                kBFloat16 = DType::BF16, kFloat32 = DType::F32, kFloat64 = DType::F64;

constexpr size_t size_of(DType t) {
  constexpr uint8_t sizes[] = {1, 1, 1, 2, 4, 8, 1, 1, 2, 2, 4, 8};
  return sizes[static_cast<int>(t)];
}
constexpr bool is_floating(DType t) { return t >= DType::F8E4M3; }
constexpr bool is_integral(DType t, bool with_bool = true) {
  return t <= DType::I64 && (with_bool || t != DType::Bool);
}
constexpr bool is_signed(DType t) { return t >= DType::I8; }

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
  constexpr bool has(DType t) const { return bits_ & bit(t); }
  constexpr DTypeSet operator|(DTypeSet o) const { return DTypeSet(bits_ | o.bits_); }
  constexpr DTypeSet operator-(DTypeSet o) const { return DTypeSet(bits_ & ~o.bits_); }

 private:
  constexpr explicit DTypeSet(unsigned bits) : bits_(bits) {}
  static constexpr unsigned bit(DType t) { return 1u << static_cast<int>(t); }
  unsigned bits_ = 0;
};
constexpr DTypeSet kFloat8Types{DType::F8E4M3, DType::F8E5M2};
constexpr DTypeSet kFloatingTypes{DType::F16, DType::BF16, DType::F32, DType::F64};
constexpr DTypeSet kIntegerTypes{DType::U8, DType::I8, DType::I16, DType::I32, DType::I64};
constexpr DTypeSet kBoolType{DType::Bool};
constexpr DTypeSet kNumericTypes = kFloatingTypes | kIntegerTypes;
constexpr DTypeSet kAllTypes = kNumericTypes | kBoolType;     // for computation
constexpr DTypeSet kStorageTypes = kAllTypes | kFloat8Types;  // for copies and conversions

// An element of a bool tensor. Bytes viewed as bool, and foreign memory, may hold other values than 0 and 1, which a
// C++ bool must not: every byte except 0 is true.
struct BoolByte {
  uint8_t byte;
  BoolByte() = default;
  BoolByte(bool v) : byte(v) {}
  operator bool() const { return byte != 0; }
};

template <class T> struct DTypeOf;
template <> struct DTypeOf<BoolByte> { static constexpr DType value = DType::Bool; };
template <> struct DTypeOf<bool> { static constexpr DType value = DType::Bool; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::U8; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::I8; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = DType::I16; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::I32; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::I64; };
template <> struct DTypeOf<Float8E4M3> { static constexpr DType value = DType::F8E4M3; };
template <> struct DTypeOf<Float8E5M2> { static constexpr DType value = DType::F8E5M2; };
template <> struct DTypeOf<Half> { static constexpr DType value = DType::F16; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = DType::BF16; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::F32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::F64; };
template <class T> constexpr DType dtype_of = DTypeOf<T>::value;

// Calls f.template operator()<T>() with the element type of t: dispatch_dtype(t, []<class T> { … }). Each use compiles
// the body twelve times; for large bodies, convert at the boundaries and compute in compute_type(t) instead.
template <class F> decltype(auto) dispatch_dtype(DType t, F&& f) {
  switch (t) {
    case DType::Bool: return f.template operator()<BoolByte>();
    case DType::U8: return f.template operator()<uint8_t>();
    case DType::I8: return f.template operator()<int8_t>();
    case DType::I16: return f.template operator()<int16_t>();
    case DType::I32: return f.template operator()<int32_t>();
    case DType::I64: return f.template operator()<int64_t>();
    case DType::F8E4M3: return f.template operator()<Float8E4M3>();
    case DType::F8E5M2: return f.template operator()<Float8E5M2>();
    case DType::F16: return f.template operator()<Half>();
    case DType::BF16: return f.template operator()<BFloat16>();
    case DType::F32: return f.template operator()<float>();
    case DType::F64: break;
  }
  return f.template operator()<double>();
}

// Calls f with an unsigned integer of the element's size: for ops that only move elements (4 instantiations).
template <class F> decltype(auto) dispatch_size(DType t, F&& f) {
  switch (size_of(t)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    default: return f.template operator()<uint64_t>();
  }
}

// The type used for arithmetic: double for f64, float for the other floats, int64 for integers and bool.
constexpr DType compute_type(DType t) {
  return t == DType::F64 ? DType::F64 : is_floating(t) ? DType::F32 : DType::I64;
}
template <class F> decltype(auto) dispatch_compute(DType t, F&& f) {
  if (t == DType::F64) return f.template operator()<double>();
  if (is_floating(t)) return f.template operator()<float>();
  return f.template operator()<int64_t>();
}

// Converts between any two element types (float to integer truncates; anything to bool is != 0).
template <class To, class From> inline To convert(From v) {
  constexpr bool kNarrowFrom = !std::is_arithmetic_v<From>, kNarrowTo = !std::is_arithmetic_v<To>;
  if constexpr (std::is_same_v<To, From>) return v;
  else if constexpr (std::is_same_v<From, BoolByte>) return convert<To>(static_cast<bool>(v));
  else if constexpr (std::is_same_v<To, BoolByte>) return convert<bool>(v);
  else if constexpr (kNarrowFrom) return convert<To>(static_cast<float>(v));
  else if constexpr (kNarrowTo) return To(static_cast<float>(v));
  else if constexpr (std::is_same_v<To, bool>) return v != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 8)
    return static_cast<To>(static_cast<int64_t>(v));  // wraps, and is defined for |v| < 2^63
  else return static_cast<To>(v);
}

}  // namespace strata
