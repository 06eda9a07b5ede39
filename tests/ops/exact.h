// Integer-valued inputs, for which sums of products are exact: every kernel must give the same numbers, to the last bit.
#pragma once
#include <fmt/core.h>

#include <gtest/gtest.h>

#include <cstring>

#include "base/parallel.h"
#include "record/op.h"
#include "strata/ops.h"

namespace strata::testing {

inline Tensor small_integers(Shape shape, DType type, int64_t seed) {
  Tensor t = make_tensor(shape, type);
  dispatch_dtype(type, [&]<class T>() {
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<T>()[i] = convert<T>(static_cast<double>((i * 7919 + seed * 104729) % 5 - (is_signed(type) ? 2 : 0)));
  });
  return t;
}
inline Tensor fractions(Shape shape, int64_t seed) {
  Tensor t = make_tensor(shape, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>((i * 7919 + seed * 104729) % 1009) / 1009.f - 0.5f;
  return t;
}

inline std::string difference(const Tensor& a, const Tensor& b) {
  if (!a->same_shape(*b) || a.dtype() != b.dtype()) return "shape or dtype differ";
  const Tensor x = contiguous(a), y = contiguous(b);
  const size_t size = size_of(a.dtype());
  for (int64_t i = 0; i < a.numel(); ++i)
    if (std::memcmp(x.bytes() + static_cast<size_t>(i) * size, y.bytes() + static_cast<size_t>(i) * size, size) != 0)
      return fmt::format("element {} of {} differs", i, to_string(a.shape()));
  return {};
}

// f() with the first kernel that accepts, and with the references.
template <class F> std::string against_reference(F f) {
  const Tensor fast = f();
  const Scoped<bool> reference(thread_state.reference_only, true);
  return difference(fast, f());
}
// f() with one, two and three threads.
template <class F> std::string for_thread_counts(F f) {
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one = f();
  std::string text;
  for (int n : {2, 3}) {
    set_num_threads(n);
    const std::string d = difference(one, f());
    if (!d.empty()) text += fmt::format("{} threads: {}; ", n, d);
  }
  set_num_threads(before);
  return text;
}

}  // namespace strata::testing
