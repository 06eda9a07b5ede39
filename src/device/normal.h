// Two normal numbers from two uniform ones (Box-Muller), the same bits on the host and on devices.
//
// The library functions of host and device round differently, so both are built here from operations that IEEE 754
// defines: in double, of which an error of 1e-10 is left, and in float where a step of Newton's method follows. Each sum
// of a product is written as fma, so that no compiler decides whether to fuse. Uniform numbers are multiples of 2^-24,
// which makes the arguments exact.
#pragma once
#include <math.h>    // NOLINT(modernize-deprecated-headers): the global names are the device's too
#include <string.h>  // NOLINT(modernize-deprecated-headers)

#include "device/philox.h"

namespace strata {

// a + b * c, rounded twice: a device compiler would fuse them.
#ifdef __CUDA_ARCH__
STRATA_PHILOX_FN float plus_product(float a, float b, float c) { return __fadd_rn(a, __fmul_rn(b, c)); }
STRATA_PHILOX_FN double plus_product(double a, double b, double c) { return __dadd_rn(a, __dmul_rn(b, c)); }
#else
STRATA_PHILOX_FN float plus_product(float a, float b, float c) { return a + b * c; }
STRATA_PHILOX_FN double plus_product(double a, double b, double c) { return a + b * c; }
#endif

// -2 log(y) for 0 < y <= 1: y = m 2^e with m around 1, and log m = 2 artanh((m - 1) / (m + 1)).
STRATA_PHILOX_FN double minus_two_logs(float y) {
  constexpr uint32_t kRoot = 0x3f3504f3;  // the square root of 1/2, so that m is between it and that of 2
  uint32_t bits;
  memcpy(&bits, &y, sizeof bits);
  const uint32_t shifted = bits - kRoot;
  const double e = static_cast<double>(static_cast<int32_t>(shifted) >> 23);
  bits = (shifted & 0x007fffffu) + kRoot;
  float m;
  memcpy(&m, &bits, sizeof m);
  const double below = static_cast<double>(m) + 1, guess = static_cast<double>(1 / (m + 1));
  const double inverse = fma(guess, fma(-below, guess, 1.0), guess);
  const double f = static_cast<double>(m - 1) * inverse, s = f * f;
  double series = 1.0 / 11;
  series = fma(series, s, 1.0 / 9);
  series = fma(series, s, 1.0 / 7);
  series = fma(series, s, 1.0 / 5);
  series = fma(series, s, 1.0 / 3);
  series = fma(series, s, 1.0);
  return fma(-4 * f, series, e * -1.38629436111989061884);
}

// even and odd become radius * cos(2 pi v) and radius * sin(2 pi v), with the radius given by u.
STRATA_PHILOX_FN void normal_pair(float u, float v, float& even, float& odd) {
  const double square = minus_two_logs(1 - u);
  const float near = sqrtf(fmaxf(static_cast<float>(square), 1e-30F)), half = 0.5F / near;  // never divides by 0
  const double root = near, radius = fma(fma(-root, root, square), static_cast<double>(half), root);
  const float turn = 4 * v, quarter = floorf(turn + 0.5F);  // a sum above 4 may be rounded, but not below 4
  const int quadrant = static_cast<int>(quarter) & 3;
  const double x = static_cast<double>(turn - quarter) * 1.57079632679489661923, s = x * x;
  double sine = -1.0 / 39916800;  // Taylor's series: |x| is at most pi / 4
  sine = fma(sine, s, 1.0 / 362880);
  sine = fma(sine, s, -1.0 / 5040);
  sine = fma(sine, s, 1.0 / 120);
  sine = fma(sine, s, -1.0 / 6);
  sine = fma(sine, s, 1.0) * x;
  double cosine = -1.0 / 3628800;
  cosine = fma(cosine, s, 1.0 / 40320);
  cosine = fma(cosine, s, -1.0 / 720);
  cosine = fma(cosine, s, 1.0 / 24);
  cosine = fma(cosine, s, -1.0 / 2);
  cosine = fma(cosine, s, 1.0);
  const float along = static_cast<float>(radius * cosine), across = static_cast<float>(radius * sine);
  const float c = quadrant & 1 ? across : along, d = quadrant & 1 ? along : across;
  even = quadrant == 1 || quadrant == 2 ? -c : c;
  odd = quadrant >= 2 ? -d : d;
}

}  // namespace strata
