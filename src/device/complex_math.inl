// Elementary functions of complex numbers, computed in double; see functors/complex.h. Host code uses the C library's, which
// follow Annex G of the C standard at zeros, infinities and NaN. Device code has none: its formulas below agree with them
// for finite numbers and keep signed zeros on the branch cuts (Kahan, "Branch cuts for complex elementary functions").
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace complex_math {

using Wide = Complex<double>;

STRATA_FN Wide times_i(Wide z) { return {-z.im, z.re}; }
STRATA_FN Wide over_i(Wide z) { return {z.im, -z.re}; }
STRATA_FN double modulus(Wide z) { return ::hypot(z.re, z.im); }

#ifdef __CUDACC__
STRATA_FN Wide product(Wide a, Wide b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
STRATA_FN Wide exp(Wide z) {
  if (z.im == 0) return {::exp(z.re), z.im};
  double s, c;
  ::sincos(z.im, &s, &c);
  if (::isinf(z.re) && !::isfinite(z.im)) return z.re < 0 ? Wide{0, 0} : Wide{z.re, NAN};
  if (z.re <= 709) {
    const double e = ::exp(z.re);
    return {e * c, e * s};
  }
  const double half = ::exp(z.re / 2);  // the product may be finite although exp(z.re) is not
  return {half * c * half, half * s * half};
}
STRATA_FN Wide log(Wide z) {
  const double a = ::fmax(::fabs(z.re), ::fabs(z.im)), b = ::fmin(::fabs(z.re), ::fabs(z.im));
  const double angle = ::atan2(z.im, z.re);
  if (a > 1e300) return {::log(::hypot(z.re / 2, z.im / 2)) + 0.69314718055994530942, angle};
  if (a > 0.5 && a < 1.5) return {0.5 * ::log1p((a - 1) * (a + 1) + b * b), angle};
  return {::log(modulus(z)), angle};
}
STRATA_FN Wide sqrt(Wide z) {
  if (z.re == 0 && z.im == 0) return {0, z.im};
  if (::isinf(z.im)) return {INFINITY, z.im};
  if (::isinf(z.re)) {
    if (z.re > 0) return {z.re, z.im != z.im ? z.im : ::copysign(0.0, z.im)};
    return {z.im != z.im ? z.im : 0, ::copysign(INFINITY, z.im)};
  }
  const bool large = ::fmax(::fabs(z.re), ::fabs(z.im)) > 1e300, small = modulus(z) < 1e-290;
  const double before = large ? 0.25 : small ? 0x1p108 : 1, after = large ? 2 : small ? 0x1p-54 : 1;
  const double x = z.re * before, y = z.im * before;
  const double t = ::sqrt((::fabs(x) + ::hypot(x, y)) * 0.5);
  if (x >= 0) return {t * after, y / (2 * t) * after};
  return {::fabs(y) / (2 * t) * after, ::copysign(t * after, z.im)};
}
STRATA_FN Wide sinh(Wide z) {
  if (z.im == 0) return {::sinh(z.re), z.im};
  double s, c;
  ::sincos(z.im, &s, &c);
  if (z.re == 0) return {z.re, s};
  if (::fabs(z.re) < 709) return {::sinh(z.re) * c, ::cosh(z.re) * s};
  const double half = ::exp(::fabs(z.re) / 2);
  return {::copysign(0.5 * half, z.re) * c * half, 0.5 * half * s * half};
}
STRATA_FN Wide cosh(Wide z) {
  if (z.im == 0) return {::cosh(z.re), ::copysign(0.0, z.re) * ::copysign(1.0, z.im)};
  double s, c;
  ::sincos(z.im, &s, &c);
  if (z.re == 0) return {c, z.re * s};
  if (::fabs(z.re) < 709) return {::cosh(z.re) * c, ::sinh(z.re) * s};
  const double half = ::exp(::fabs(z.re) / 2);
  return {0.5 * half * c * half, ::copysign(0.5 * half, z.re) * s * half};
}
STRATA_FN Wide tanh(Wide z) {
  double s, c;
  ::sincos(z.im, &s, &c);
  if (::fabs(z.re) > 22) {
    const double im = ::isfinite(z.im) ? 4 * s * c * ::exp(-2 * ::fabs(z.re)) : 0;
    return {::copysign(1.0, z.re), ::copysign(im, s * c)};
  }
  if (z.im == 0) return {::tanh(z.re), z.im};
  if (z.re == 0) return {z.re, ::tan(z.im)};
  const double t = ::tan(z.im), beta = 1 + t * t, h = ::sinh(z.re), rho = ::sqrt(1 + h * h), d = 1 + beta * h * h;
  return {beta * rho * h / d, t / d};
}
STRATA_FN Wide asin(Wide z) {
  if (modulus(z) > 1e150) {  // the products below would overflow
    const Wide l = log(Wide{::fabs(z.re), ::fabs(z.im)});
    return {::copysign(1.57079632679489661923 - l.im, z.re), ::copysign(l.re + 0.69314718055994530942, z.im)};
  }
  const Wide a = sqrt(Wide{1 - z.re, -z.im}), b = sqrt(Wide{1 + z.re, z.im});
  return {::atan2(z.re, product(a, b).re), ::copysign(::asinh(product(Wide{a.re, -a.im}, b).im), z.im)};
}
STRATA_FN Wide acos(Wide z) {
  if (modulus(z) > 1e150) {
    const Wide l = log(Wide{z.re, ::fabs(z.im)});
    return {l.im, ::copysign(l.re + 0.69314718055994530942, -z.im)};
  }
  const Wide a = sqrt(Wide{1 - z.re, -z.im}), b = sqrt(Wide{1 + z.re, z.im});
  return {2 * ::atan2(a.re, b.re), ::copysign(::asinh(product(Wide{b.re, -b.im}, a).im), -z.im)};
}
STRATA_FN Wide acosh(Wide z) {
  const Wide w = acos(z);
  return ::copysign(1.0, z.im) < 0 ? Wide{w.im, -w.re} : Wide{-w.im, w.re};
}
STRATA_FN Wide atanh(Wide z) {
  if (modulus(z) > 1e150) return {::copysign(0.0, z.re), ::copysign(1.57079632679489661923, z.im)};
  const double x = ::fabs(z.re), e = (1 - x) * (1 - x) + z.im * z.im;
  return {::copysign(0.25 * ::log1p(4 * x / e), z.re), 0.5 * ::atan2(2 * z.im, (1 - z.re) * (1 + z.re) - z.im * z.im)};
}
STRATA_FN Wide sin(Wide z) { return over_i(sinh(times_i(z))); }
STRATA_FN Wide cos(Wide z) { return cosh(times_i(z)); }
STRATA_FN Wide tan(Wide z) { return over_i(tanh(times_i(z))); }
STRATA_FN Wide asinh(Wide z) { return over_i(asin(times_i(z))); }
STRATA_FN Wide atan(Wide z) { return over_i(atanh(times_i(z))); }
#else
#define STRATA_COMPLEX_FUNCTION(name)                                           \
  STRATA_FN Wide name(Wide z) {                                                 \
    const std::complex<double> r = std::name(std::complex<double>(z.re, z.im)); \
    return {r.real(), r.imag()};                                                \
  }
STRATA_COMPLEX_FUNCTION(exp)
STRATA_COMPLEX_FUNCTION(log)
STRATA_COMPLEX_FUNCTION(sqrt)
STRATA_COMPLEX_FUNCTION(sin)
STRATA_COMPLEX_FUNCTION(cos)
STRATA_COMPLEX_FUNCTION(tan)
STRATA_COMPLEX_FUNCTION(sinh)
STRATA_COMPLEX_FUNCTION(cosh)
STRATA_COMPLEX_FUNCTION(tanh)
STRATA_COMPLEX_FUNCTION(asin)
STRATA_COMPLEX_FUNCTION(acos)
STRATA_COMPLEX_FUNCTION(atan)
STRATA_COMPLEX_FUNCTION(asinh)
STRATA_COMPLEX_FUNCTION(acosh)
STRATA_COMPLEX_FUNCTION(atanh)
#undef STRATA_COMPLEX_FUNCTION
#endif

// exp(z) - 1 without cancellation near 0: the real part is expm1(x) cos(y) - 2 sin(y/2)^2.
STRATA_FN Wide expm1(Wide z) {
  const Wide e = exp(z);
  if (!(::fabs(z.re) < 700) || !(::fabs(z.im) < 1e8)) return {e.re - 1, e.im};
  const double s = ::sin(z.im / 2);
  return {::expm1(z.re) * ::cos(z.im) - 2 * s * s, e.im};
}
// log(1 + z) without cancellation near 0: |1 + z|^2 = 1 + x (2 + x) + y^2.
STRATA_FN Wide log1p(Wide z) {
  if (!(modulus(z) < 0.5)) return log(Wide{1 + z.re, z.im});
  return {0.5 * ::log1p(z.re * (2 + z.re) + z.im * z.im), ::atan2(z.im, 1 + z.re)};
}

}  // namespace complex_math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
