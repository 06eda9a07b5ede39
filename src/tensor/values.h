// Small value types that ops take besides tensors: numbers of any kind and views of integer lists.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/api.h"
#include "device/complex.h"

namespace strata {

using Shape = std::span<const int64_t>;
STRATA_API std::string to_string(Shape shape);  // "[2, 3]"

// A view of integers for the duration of one call expression; a single integer counts as a list of one.
struct IntList {
  const int64_t* data = nullptr;
  size_t size = 0;
  IntList() = default;
  IntList(Shape s) : data(s.data()), size(s.size()) {}
  IntList(std::initializer_list<int64_t> l) : data(std::data(l)), size(l.size()) {}
  IntList(const std::vector<int64_t>& v) : data(v.data()), size(v.size()) {}
  IntList(const int64_t& one) : data(&one), size(1) {}
  operator Shape() const { return {data, size}; }
  int64_t operator[](size_t i) const { return data[i]; }
  const int64_t* begin() const { return data; }
  const int64_t* end() const { return data + size; }
};

// The same, or none: sum(x), sum(x, 0), sum(x, {0, 1}).
struct OptIntList : IntList {
  bool given = false;
  OptIntList() = default;
  OptIntList(std::nullopt_t) {}
  OptIntList(Shape s) : IntList(s), given(true) {}
  OptIntList(IntList l) : IntList(l), given(true) {}
  OptIntList(std::initializer_list<int64_t> l) : IntList(l), given(true) {}
  OptIntList(const std::vector<int64_t>& v) : IntList(v), given(true) {}
  OptIntList(const int64_t& one) : IntList(one), given(true) {}
};

// Throws: a complex number was given where a real one is needed.
[[noreturn, gnu::cold]] STRATA_API void refuse_complex_number();

// A number that keeps its kind: bool, integer, float or complex.
struct Scalar {
  enum class Kind : uint8_t { Bool, Int, Float, Complex } kind;
  union {
    int64_t i;
    double f;
    Complex<double> z;
  };
  Scalar(Complex<double> v) : kind(Kind::Complex), z(v) {}
  template <class T>
  requires std::is_arithmetic_v<T> Scalar(T v) {
    if constexpr (std::is_same_v<T, bool>) {
      kind = Kind::Bool;
      i = v;
    } else if constexpr (std::is_integral_v<T>) {
      kind = Kind::Int;
      i = static_cast<int64_t>(v);
    } else {
      kind = Kind::Float;
      f = static_cast<double>(v);
    }
  }
  bool is_float() const { return kind == Kind::Float; }
  bool is_complex() const { return kind == Kind::Complex; }
  double to_double() const {
    if (is_complex()) [[unlikely]]
      refuse_complex_number();
    return is_float() ? f : static_cast<double>(i);
  }
  int64_t to_int() const {
    if (is_complex()) [[unlikely]]
      refuse_complex_number();
    return is_float() ? static_cast<int64_t>(f) : i;
  }
  Complex<double> to_complex() const { return is_complex() ? z : Complex<double>{to_double(), 0}; }
  template <class T> T to() const {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(to_double());
    else return static_cast<T>(to_int());
  }
};

}  // namespace strata
