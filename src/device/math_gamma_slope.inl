// The implicit gradient of gamma numbers (Figurnov et al., 2018): how log x grows with the shape a while P(a, x), the
// distribution function, keeps its value: -(dP/da) / (x dP/dx). Included by functors/special.h.
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace math {

// Gauss and Legendre's rule with 24 nodes for the two integrals over t = x e^s below, from s = 0 to where the integrand
// has fallen by e^-37: upwards (above the mode), where 1 - P is the integral, or downwards.
STRATA_FN double log_gamma_slope_integral(double a, double x, double log_x, bool up) {
  constexpr double node[] = {0.06405689286260563, 0.1911188674736163, 0.3150426796961634, 0.4337935076260451,
                             0.5454214713888396,  0.6480936519369755, 0.7401241915785544, 0.820001985973903,
                             0.8864155270044011,  0.9382745520027328, 0.9747285559713095, 0.9951872199970213};
  constexpr double weight[] = {0.12793819534675216, 0.1258374563468283,  0.12167047292780339,  0.1155056680537256,
                               0.10744427011596563, 0.09761865210411388, 0.08619016153195327,  0.0733464814110803,
                               0.05929858491543678, 0.04427743881741981, 0.028531388628933663, 0.0123412297999872};
  constexpr double kFall = 37;
  const double sign = up ? 1 : -1, distance = ::fabs(x - a);
  double end = 2 * kFall / (distance + ::sqrt(distance * distance + 2 * kFall * x));
  for (int step = 0; step < 3; ++step) {  // Newton's method
    const double growth = ::expm1(sign * end);
    end -= (sign * a * end - x * growth + kFall) / (sign * (a - x * (growth + 1)));
  }
  const double offset = sign * (log_x - digamma(a));
  double sum = 0;
  for (int k = 0; k < 24; ++k) {
    const double s = end * 0.5 * (1 + (k < 12 ? -node[k] : node[k - 12]));
    sum += weight[k % 12] * ::exp(sign * a * s - x * ::expm1(sign * s)) * (offset + s);
  }
  return 0.5 * end * sum;
}

STRATA_FN double log_gamma_slope(double a, double log_x) {
  const double x = ::exp(log_x);
  if (!(a > 0) || is_nan(log_x)) return NAN;
  if (a > 1e14) return 1 / a;  // the numbers are a with a negligible deviation
  if (x > 1e14) return x == INFINITY ? 0 : (log_x - digamma(a)) / (x - a);
  if (a >= 30 || x >= a + 1) return log_gamma_slope_integral(a, x, log_x, x >= a);
  // The series of P, differentiated term by term: all terms but a few are positive.
  double term = 1 / a, psi = digamma(a + 1), total = term, sum = term * (psi - log_x);
  for (int n = 1; n < 400 && term > total * 1e-17; ++n) {
    const double inverse = 1 / (a + n);
    term *= x * inverse;
    psi += inverse;
    total += term;
    sum += term * (psi - log_x);
  }
  return sum;
}

template <class T> STRATA_FN T standard_log_gamma_grad(T a, T log_x) {
  return T(log_gamma_slope(double(a), double(log_x)));
}
template <class T> STRATA_FN T standard_gamma_grad(T a, T x) {
  return x > T(0) ? T(double(x) * log_gamma_slope(double(a), ::log(double(x)))) : x == T(0) ? T(0) : T(NAN);
}
#if defined(STRATA_SIMD_TARGET) && HWY_TARGET != HWY_SCALAR
template <Vec V> STRATA_FN V standard_log_gamma_grad(V a, V log_x) {
  return each_lane([](auto p, auto q) { return standard_log_gamma_grad(p, q); }, a, log_x);
}
template <Vec V> STRATA_FN V standard_gamma_grad(V a, V x) {
  return each_lane([](auto p, auto q) { return standard_gamma_grad(p, q); }, a, x);
}
#endif

}  // namespace math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
