// Two normal numbers from two uniform ones (Box-Muller), the same bits on the host and on devices.
//
// The library functions of host and device round differently, so both are built from plain operations here, in double:
// their remaining error vanishes when the result is rounded to float. Uniform numbers are multiples of 2^-24, which
// makes the arguments exact.
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

// -log(y) for 0 < y <= 1: y = m 2^e with m around 1, and log m = 2 artanh((m - 1) / (m + 1)).
STRATA_PHILOX_FN double minus_log(double y) {
  uint64_t bits;
  memcpy(&bits, &y, sizeof bits);
  const uint64_t shifted = bits - 0x3fe6a09e00000000u;  // so that m is between the square roots of 1/2 and 2
  const double e = static_cast<double>(static_cast<int64_t>(shifted) >> 52);
  bits = (shifted & 0x000fffffffffffffu) + 0x3fe6a09e00000000u;
  double m;
  memcpy(&m, &bits, sizeof m);
  const double f = (m - 1) / (m + 1), s = f * f;
  double series = 1.0 / 17;
  series = plus_product(1.0 / 15, s, series);
  series = plus_product(1.0 / 13, s, series);
  series = plus_product(1.0 / 11, s, series);
  series = plus_product(1.0 / 9, s, series);
  series = plus_product(1.0 / 7, s, series);
  series = plus_product(1.0 / 5, s, series);
  series = plus_product(1.0 / 3, s, series);
  series = plus_product(1.0, s, series);
  return plus_product(0.0, -0.69314718055994530942, e) - 2 * f * series;
}

// even and odd become radius * cos(2 pi v) and radius * sin(2 pi v), with the radius given by u.
STRATA_PHILOX_FN void normal_pair(float u, float v, float& even, float& odd) {
  const double radius = sqrt(2 * minus_log(1 - static_cast<double>(u)));
  const double turn = 4 * static_cast<double>(v), quarter = floor(turn + 0.5);
  const int quadrant = static_cast<int>(quarter) & 3;
  const double x = (turn - quarter) * 1.57079632679489661923, s = x * x;
  double sine = -1.0 / 1307674368000;  // Taylor's series: |x| is at most pi / 4
  sine = plus_product(1.0 / 6227020800, s, sine);
  sine = plus_product(-1.0 / 39916800, s, sine);
  sine = plus_product(1.0 / 362880, s, sine);
  sine = plus_product(-1.0 / 5040, s, sine);
  sine = plus_product(1.0 / 120, s, sine);
  sine = plus_product(-1.0 / 6, s, sine);
  sine = plus_product(1.0, s, sine) * x;
  double cosine = 1.0 / 20922789888000;
  cosine = plus_product(-1.0 / 87178291200, s, cosine);
  cosine = plus_product(1.0 / 479001600, s, cosine);
  cosine = plus_product(-1.0 / 3628800, s, cosine);
  cosine = plus_product(1.0 / 40320, s, cosine);
  cosine = plus_product(-1.0 / 720, s, cosine);
  cosine = plus_product(1.0 / 24, s, cosine);
  cosine = plus_product(-1.0 / 2, s, cosine);
  cosine = plus_product(1.0, s, cosine);
  const double c = quadrant & 1 ? sine : cosine, d = quadrant & 1 ? cosine : sine;
  even = static_cast<float>(radius * (quadrant == 1 || quadrant == 2 ? -c : c));
  odd = static_cast<float>(radius * (quadrant >= 2 ? -d : d));
}

}  // namespace strata
