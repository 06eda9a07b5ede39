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

// y = m 2^e of a positive normal number, with m between the square roots of 1/2 and 2.
struct Fraction {
  float m;
  int32_t e;
};
STRATA_PHILOX_FN Fraction fraction_of(float y) {
  constexpr uint32_t kRoot = 0x3f3504f3;  // the square root of 1/2
  uint32_t bits;
  memcpy(&bits, &y, sizeof bits);
  const uint32_t shifted = bits - kRoot;
  bits = (shifted & 0x007fffffu) + kRoot;
  Fraction found{0, static_cast<int32_t>(shifted) >> 23};
  memcpy(&found.m, &bits, sizeof found.m);
  return found;
}
// -2 log(m 2^e) for f = (m - 1) / (m + 1): log m = 2 artanh(f).
STRATA_PHILOX_FN double minus_two_logs(double f, double e) {
  const double s = f * f;
  double series = 1.0 / 11;
  series = fma(series, s, 1.0 / 9);
  series = fma(series, s, 1.0 / 7);
  series = fma(series, s, 1.0 / 5);
  series = fma(series, s, 1.0 / 3);
  series = fma(series, s, 1.0);
  return fma(-4 * f, series, e * -1.38629436111989061884);
}
// -2 log(y) for 0 < y <= 1.
STRATA_PHILOX_FN double minus_two_logs(float y) {
  const Fraction x = fraction_of(y);
  const double below = static_cast<double>(x.m) + 1, guess = static_cast<double>(1 / (x.m + 1));
  const double inverse = fma(guess, fma(-below, guess, 1.0), guess);
  return minus_two_logs(static_cast<double>(x.m - 1) * inverse, static_cast<double>(x.e));
}

// even and odd become radius * cos(t) and radius * sin(t) for the angle t = x + quarter * pi / 2, with |x| at most pi / 4.
STRATA_PHILOX_FN void point_on_circle(double radius, double x, uint32_t quarter, float& even, float& odd) {
  const double s = x * x;
  double sine = -1.0 / 39916800;  // Taylor's series
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
  const float c = quarter & 1 ? across : along, d = quarter & 1 ? along : across;
  even = (quarter + 1) & 2 ? -c : c;
  odd = quarter & 2 ? -d : d;
}

// even and odd become radius * cos(2 pi v) and radius * sin(2 pi v), with the radius given by u.
STRATA_PHILOX_FN void normal_pair(float u, float v, float& even, float& odd) {
  const double square = minus_two_logs(1 - u);
  const float near = sqrtf(fmaxf(static_cast<float>(square), 1e-30F)), half = 0.5F / near;  // never divides by 0
  const double root = near, radius = fma(fma(-root, root, square), static_cast<double>(half), root);
  const float turn = 4 * v, quarter = floorf(turn + 0.5F);  // a sum above 4 may be rounded, but not below 4
  point_on_circle(radius, static_cast<double>(turn - quarter) * 1.57079632679489661923, static_cast<uint32_t>(quarter),
                  even, odd);
}

// The functions below give the bits of normal_pair in fewer instructions of a GPU: from the words themselves, without the
// branches for arguments that do not occur, and with few conversions, which are slow there.

// 1 / x and the square root, correctly rounded, for x from 1e-30 to 2^24: the sequences to which rcp.rn and sqrt.rn are
// compiled for such x.
STRATA_PHILOX_FN float plain_inverse(float x) {
#ifdef __CUDA_ARCH__
  float near;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(x));
  return fmaf(near, fmaf(-x, near, 1.0F), near);
#else
  return 1 / x;
#endif
}
STRATA_PHILOX_FN float plain_root(float x) {
#ifdef __CUDA_ARCH__
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  const float near = __fmul_rn(x, inverse);
  return fmaf(fmaf(-near, near, x), __fmul_rn(inverse, 0.5F), near);
#else
  return sqrtf(x);
#endif
}
// An integer, and a positive normal float, as a double.
STRATA_PHILOX_FN double plain_double(int32_t n) {
#ifdef __CUDA_ARCH__
  return __hiloint2double(0x43300000, n ^ int32_t(0x80000000u)) - 0x1.000008p52;  // n + 2^52 + 2^31
#else
  return n;
#endif
}
STRATA_PHILOX_FN double plain_double(float x) {
#ifdef __CUDA_ARCH__
  const uint32_t bits = __float_as_uint(x);
  return __hiloint2double(int(bits >> 3) + 0x38000000, int(bits << 29));
#else
  return x;
#endif
}

// -2 log(n / 2^24) for 0 < n <= 2^24.
STRATA_PHILOX_FN double minus_two_logs_of(uint32_t n) {
  const Fraction x = fraction_of(static_cast<float>(n));
  const double wide = plain_double(x.m), guess = plain_double(plain_inverse(x.m + 1));
  const double inverse = fma(guess, fma(-(wide + 1), guess, 1.0), guess);
  return minus_two_logs((wide - 1) * inverse, plain_double(x.e - 24));
}

// normal_pair(u / 2^24, v / 2^24, even, odd), for u and v below 2^24.
STRATA_PHILOX_FN void normal_pair_of(uint32_t u, uint32_t v, float& even, float& odd) {
  const double square = minus_two_logs_of((1u << 24) - u);
  const float near = plain_root(fmaxf(static_cast<float>(square), 1e-30F)), half = 0.5F * plain_inverse(near);
  const double root = plain_double(near), radius = fma(fma(-root, root, square), plain_double(half), root);
  const uint32_t quarter = (v + (1u << 21)) >> 22;
  const double x = plain_double(static_cast<int32_t>(v - (quarter << 22))) * (1.57079632679489661923 / (1 << 22));
  point_on_circle(radius, x, quarter, even, odd);
}

}  // namespace strata
