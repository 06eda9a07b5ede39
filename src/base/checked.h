// Overflow-checked arithmetic for user-given integers (sizes, offsets, strides, paddings, repeats). Throws on overflow.
#pragma once
#include <cstdint>

#include "base/error.h"

namespace strata {

[[noreturn, gnu::cold]] STRATA_API void fail_overflow();

class Checked {
 public:
  constexpr Checked(int64_t value) : value_(value) {}
  constexpr int64_t get() const { return value_; }

  friend Checked operator+(Checked a, Checked b) {
    int64_t out;
    if (__builtin_add_overflow(a.value_, b.value_, &out)) fail_overflow();
    return out;
  }
  friend Checked operator-(Checked a, Checked b) {
    int64_t out;
    if (__builtin_sub_overflow(a.value_, b.value_, &out)) fail_overflow();
    return out;
  }
  friend Checked operator*(Checked a, Checked b) {
    int64_t out;
    if (__builtin_mul_overflow(a.value_, b.value_, &out)) fail_overflow();
    return out;
  }
  Checked& operator+=(Checked b) { return *this = *this + b; }
  Checked& operator*=(Checked b) { return *this = *this * b; }

 private:
  int64_t value_;
};

}  // namespace strata
