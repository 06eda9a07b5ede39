// Plans of discrete Fourier transforms of one length: the factors of the length, and the roots of unity that the passes need.
//
// A length whose prime factors are small is transformed by Stockham passes, one per factor. Other lengths use Bluestein's
// method: the transform as a convolution with a chirp, by transforms of a power of two. Plans are cached and never change.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "device/complex.h"

namespace strata::cpu::fft {

constexpr int kMaxRadix = 31;          // larger prime factors use Bluestein's method
constexpr int64_t kTwiddleBlock = 32;  // see LongPlan

template <class T> struct Stage {
  int radix;
  int64_t groups, stride;            // butterflies with different twiddle factors; elements between their neighbours
  std::vector<Complex<T>> twiddles;  // [group][1 .. radix - 1]
  std::vector<Complex<T>> roots;     // exp(-2 pi i k / radix), for radices without formulas of their own
};

template <class T> struct LongPlan;
template <class T> struct Bluestein;

template <class T> struct Plan {
  int64_t n;
  std::vector<Stage<T>> stages;                   // empty: by Bluestein's method
  std::shared_ptr<const Bluestein<T>> bluestein;  // null: by stages
  std::shared_ptr<const LongPlan<T>> long_plan;  // for one long line; null if the length is short or has no two factors
  std::vector<Complex<T>> half_turns;            // exp(-2 pi i k / 2n) for k <= n / 2: for real lines of length 2n
};

// n = rows * columns: transforms of the columns, twiddle factors, transforms of the rows (the four-step method). The factor
// of column j and row k is exp(-2 pi i j k / n) = coarse[j][k / 32] * fine[j][k % 32].
template <class T> struct LongPlan {
  std::shared_ptr<const Plan<T>> rows, columns;
  std::vector<Complex<T>> coarse, fine;
};

template <class T> struct Bluestein {
  std::shared_ptr<const Plan<T>> padded;  // of a power of two that is at least 2n - 1
  std::vector<Complex<T>> chirp;          // exp(-pi i k^2 / n)
  std::vector<Complex<T>> spectrum;       // of the conjugate chirp, divided by the padded length
};

template <class T> std::shared_ptr<const Plan<T>> plan_of(int64_t n);

}  // namespace strata::cpu::fft
