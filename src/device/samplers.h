// Random numbers that need a varying number of draws: gamma, Poisson and binomial, with the same bits on every device.
//
// Element i owns block i of the draw and all its inner blocks (philox.h), so a rejected attempt of one element does not
// move the others. The library functions of host and device round differently and decide whether an attempt is
// accepted; log and exp are therefore built here from operations that IEEE 754 defines. Each sum of a product is written
// as fma, or with times(), so that no compiler decides whether to fuse. All arithmetic is in double, for every dtype.
#pragma once
#include <math.h>    // NOLINT(modernize-deprecated-headers): ::log, not the op strata::log, and the device's too
#include <string.h>  // NOLINT(modernize-deprecated-headers)

#include "device/philox.h"

// Inlined into code of each SIMD target, where fma is an instruction.
#ifdef __CUDACC__
#define STRATA_SAMPLER_FN __host__ __device__ __forceinline__
#else
#define STRATA_SAMPLER_FN [[gnu::always_inline]] inline
#endif

namespace strata {

enum class Sampler : int32_t { Gamma, LogGamma, Poisson, Binomial };

namespace samplers {

constexpr int kMostAttempts = 4096;  // a bound for loops that accept most attempts: nothing can run forever

struct Stream {
  uint64_t seed, counter;
  uint32_t inner = 0;
  STRATA_SAMPLER_FN void uniforms(double& u, double& v) {  // in (0, 1]
    const PhiloxBlock b = philox(seed, counter, inner++);
    u = 1 - uniform_f64(b.word[0], b.word[1]);
    v = 1 - uniform_f64(b.word[2], b.word[3]);
  }
};

// A product that is rounded before it is added to something.
STRATA_SAMPLER_FN double times(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

STRATA_SAMPLER_FN double from_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// c[0] + s * (c[1] + s * (...)), from the last coefficient on.
template <int n> STRATA_SAMPLER_FN double horner(double s, const double (&c)[n]) {
  double sum = c[n - 1];
  for (int k = n - 2; k >= 0; --k) sum = ::fma(sum, s, c[k]);
  return sum;
}

// log((1 + f) / (1 - f)) = 2 artanh(f) for |f| <= 0.1716.
STRATA_SAMPLER_FN double two_artanh(double f) {
  constexpr double c[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                          1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  const double s = f * f, twice = 2 * f;
  return ::fma(twice * s, horner(s, c), twice);
}
// log(x) for normal x > 0: x = m 2^e with m between the square roots of 1/2 and 2.
STRATA_SAMPLER_FN double log_of(double x) {
  constexpr uint64_t kRoot = 0x3fe6a09e667f3bcd;  // the square root of 1/2
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint64_t shifted = bits - kRoot;
  const double e = static_cast<double>(static_cast<int64_t>(shifted) >> 52);
  const double m = from_bits((shifted & 0x000fffffffffffff) + kRoot);
  return ::fma(e, 0.69314718055994530942, two_artanh((m - 1) / (m + 1)));
}
// log(1 - p) for 0 <= p <= 1/2, with full relative accuracy.
STRATA_SAMPLER_FN double log_of_rest(double p) { return p < 0.25 ? two_artanh(-p / (2 - p)) : log_of(1 - p); }

// exp(x) for x <= 700; 0 below -745.
STRATA_SAMPLER_FN double exp_of(double x) {
  constexpr double c[] = {
    1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
    1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
  if (!(x > -745)) return 0;
  const double k = rint(x * 1.44269504088896340736);
  const double r = ::fma(-k, 2.31904681384629956e-17, ::fma(-k, 0.69314718055994530942, x));
  const int32_t half = static_cast<int32_t>(k) / 2, rest = static_cast<int32_t>(k) - half;
  const double first = from_bits(static_cast<uint64_t>(half + 1023) << 52),
               second = from_bits(static_cast<uint64_t>(rest + 1023) << 52);
  return horner(r, c) * first * second;
}

// A standard normal number: Marsaglia's polar method, which needs no sine.
STRATA_SAMPLER_FN double normal(Stream& stream) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    double u, v;
    stream.uniforms(u, v);
    u = ::fma(2.0, u, -1.0);
    v = ::fma(2.0, v, -1.0);
    const double s = ::fma(u, u, v * v);
    if (s < 1 && s > 0) return u * ::sqrt(-2 * log_of(s) / s);
  }
  return 0;
}

// Marsaglia and Tsang's method (2000) for a shape of at least 1; below, a draw of shape + 1 times u^(1 / shape).
template <bool kLog> STRATA_SAMPLER_FN double gamma(double shape, Stream& stream) {
  if (!(shape >= 0)) return NAN;
  if (shape == 0) return kLog ? -INFINITY : 0;
  if (shape > 1e300) return kLog ? ::log(shape) : shape;
  const bool boost = shape < 1;
  const double d = (boost ? shape + 1 : shape) - 1.0 / 3, c = 1 / ::sqrt(9 * d);
  double v = 1, spare = 1;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const double x = normal(stream), t = ::fma(c, x, 1.0);
    double u;
    stream.uniforms(u, spare);
    if (!(t > 0)) continue;
    v = times(t * t, t);
    const double square = x * x;
    // For a large shape nearly every attempt is accepted, and the difference of logarithms has no digits left.
    if (d > 1e8 || u < ::fma(-0.0331 * square, square, 1.0)) break;
    if (log_of(u) < ::fma(0.5 * x, x, d * ((1 - v) + log_of(v)))) break;
  }
  const double power = boost ? log_of(spare) / shape : 0;
  if (kLog) return log_of(d * v) + power;
  return boost ? d * v * exp_of(power) : d * v;
}

// The error of Stirling's formula for k!.
STRATA_SAMPLER_FN double stirling_error(double k) {
  constexpr double exact[] = {0.0,
                              0.08106146679532725822,
                              0.041340695955409294094,
                              0.027677925684998339149,
                              0.020790672103765093112,
                              0.016644691189821192163,
                              0.013876128823070747999,
                              0.011896709945891770095,
                              0.010411265261972096497,
                              0.0092554621827127329177,
                              0.0083305634333628712565,
                              0.007573675487951840795,
                              0.0069428401072095298657,
                              0.0064089941880042070684,
                              0.0059513701127588477356,
                              0.005554733551962801371};
  constexpr double c[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
  if (k < 16) return exact[static_cast<int>(k)];
  return horner(1 / (k * k), c) / k;
}
// k log(k / mean) + mean - k for k > 0, without cancellation near the mean.
STRATA_SAMPLER_FN double deviance(double k, double mean) {
  const double difference = k - mean, v = difference / (k + mean);
  if (!(::fabs(v) < 0.1)) return ::fma(k, log_of(k / mean), -difference);
  constexpr double c[] = {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17};
  const double s = v * v;
  return ::fma(2 * k * v * s, horner(s, c), difference * v);
}
STRATA_SAMPLER_FN double half_log_two_pi(double k) { return 0.5 * log_of(6.28318530717958647693 * k); }

STRATA_SAMPLER_FN double log_poisson(double k, double rate) {
  if (k == 0) return -rate;
  return -stirling_error(k) - deviance(k, rate) - half_log_two_pi(k);
}
STRATA_SAMPLER_FN double log_binomial(double k, double n, double p, double q) {
  if (k == 0) return times(n, log_of_rest(p));
  if (k == n) return times(n, log_of(p));
  const double rest = n - k, errors = stirling_error(n) - stirling_error(k) - stirling_error(rest);
  return errors - deviance(k, times(n, p)) - deviance(rest, times(n, q)) - half_log_two_pi(k * (rest / n));
}

// Below a rate of 10 by inversion: the probabilities 0, 1, ... are subtracted from a uniform number. Above, by
// Hoermann's transformed rejection with squeeze, PTRS (1993).
STRATA_SAMPLER_FN double poisson(double rate, Stream& stream) {
  if (!(rate >= 0)) return NAN;
  if (rate > 1e300) return rate;
  double u, v;
  if (rate < 10) {
    stream.uniforms(u, v);
    double p = exp_of(-rate), k = 0;
    for (u -= p; u > 0 && k < 200; u -= p) {
      k += 1;
      p = p * rate / k;
    }
    return k;
  }
  const double b = ::fma(2.53, ::sqrt(rate), 0.931), a = ::fma(0.02483, b, -0.059);
  const double inverse = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    stream.uniforms(u, v);
    u -= 0.5;
    const double us = 0.5 - ::fabs(u), k = ::floor(::fma(2 * a / us + b, u, rate + 0.43));
    if (us >= 0.07 && v <= squeeze) return k;
    if (!(k >= 0) || (us < 0.013 && v > us)) continue;
    if (log_of(v * inverse / (a / (us * us) + b)) <= log_poisson(k, rate)) return k;
  }
  return ::floor(rate);
}

// With a mean below 10 by inversion, otherwise by Hoermann's BTRS (1993); p is at most 1/2 after reflection.
STRATA_SAMPLER_FN double binomial(double count, double chance, Stream& stream) {
  if (!(count >= 0) || !(chance >= 0 && chance <= 1)) return NAN;
  const double n = ::floor(count);
  if (n == 0 || chance == 0) return 0;
  if (chance == 1 || n > 1e300) return n * chance;
  const bool reflect = chance > 0.5;
  const double p = reflect ? 1 - chance : chance, q = 1 - p, mean = times(n, p);
  double u, v, result = ::floor(mean);
  if (mean < 10) {
    stream.uniforms(u, v);
    const double odds = p / q;
    double mass = exp_of(n * log_of_rest(p)), k = 0;
    for (u -= mass; u > 0 && k < n && k < 300; u -= mass) {
      mass = times(mass * odds, (n - k) / (k + 1));
      k += 1;
    }
    result = k;
  } else {
    const double spread = ::sqrt(mean * q), b = ::fma(2.53, spread, 1.15),
                 a = ::fma(0.0248, b, ::fma(0.01, p, -0.0873));
    const double squeeze = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * spread, center = mean + 0.5;
    double most = 0;  // the logarithm of the largest probability, computed when it is first needed
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      stream.uniforms(u, v);
      u -= 0.5;
      const double us = 0.5 - ::fabs(u), k = ::floor(::fma(2 * a / us + b, u, center));
      result = k;
      if (us >= 0.07 && v <= squeeze) break;
      if (!(k >= 0 && k <= n)) {
        result = ::floor(mean);
        continue;
      }
      if (most == 0) most = log_binomial(::floor(mean + p), n, p, q);
      if (log_of(v * alpha / (a / (us * us) + b)) <= log_binomial(k, n, p, q) - most) break;
    }
  }
  return reflect ? n - result : result;
}

// Softmax of n logarithms, added in order: get(i) reads one, put(i, x) writes a result. NaN makes the whole row NaN.
template <class Get, class Put> STRATA_SAMPLER_FN void normalize_logs(int64_t n, const Get& get, const Put& put) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = get(i);
    most = x > most ? x : most;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double x = get(i);
    sum = x == x ? sum + exp_of(x - most) : x;
  }
  for (int64_t i = 0; i < n; ++i) put(i, exp_of(get(i) - most) / sum);
}

}  // namespace samplers

// Element `position` of a draw that begins at block `first`. a and b: the shape; the rate; the count and the probability.
STRATA_SAMPLER_FN double draw_sample(Sampler sampler, double a, double b, uint64_t seed, uint64_t position) {
  samplers::Stream stream{seed, position};
  switch (sampler) {
    case Sampler::Gamma: return samplers::gamma<false>(a, stream);
    case Sampler::LogGamma: return samplers::gamma<true>(a, stream);
    case Sampler::Poisson: return samplers::poisson(a, stream);
    case Sampler::Binomial: return samplers::binomial(a, b, stream);
  }
  return 0;
}

}  // namespace strata
