// Gamma functions of floats for Highway vectors, computed in double. Doubles use the C library, lane by lane.
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace math {

// For 0 < x < 8 (double): x is moved into [2, 3) by the recurrence. lgamma(2 + t) / t there is a polynomial (a fit at
// Chebyshev nodes, relative error 2e-14), so that the zeros at 1 and 2 are exact.
template <Vec V> STRATA_FN V lgamma_small(V x) {
  constexpr double p[] = {0.5693657409458384,      0.26758179939860294,     -0.04480584269730744,
                          0.010877001537325145,    -0.0030951823022478684,  0.0009610971908817186,
                          -0.00031505897508600923, 0.00010711026520292673,  -3.735712130719009e-05,
                          1.3209435196820365e-05,  -4.7616528381864556e-06, 1.952611650020307e-06,
                          -7.193427165093918e-07};
  const V one = like(x, 1), two = like(x, 2);
  const auto below = hn::Lt(x, two);
  V t = hn::Sub(x, two), product = one;
  for (int k = 0; k < 5; ++k) {  // (x - 1) (x - 2) ... down to [2, 3)
    const auto far = hn::Ge(t, one);
    product = select(far, hn::Mul(product, hn::Add(t, one)), product);
    t = select(far, hn::Sub(t, one), t);
  }
  const auto tiny = hn::Lt(x, one);
  product = select(below, select(tiny, hn::Mul(x, hn::Add(x, one)), x), product);
  t = select(below, select(tiny, x, hn::Sub(x, one)), t);
  const V logarithm = hn::Log(D<V>(), product);
  return fma(t, horner(hn::Sub(t, like(x, 0.5)), p), select(below, neg(logarithm), logarithm));
}
// Stirling's series for x >= 8 (double).
template <Vec V> STRATA_FN V lgamma_large(V x) {
  constexpr double p[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
  const V inverse = hn::Div(like(x, 1), x), series = hn::Mul(inverse, horner(hn::Mul(inverse, inverse), p));
  const V result = fma(hn::Sub(x, like(x, 0.5)), hn::Log(D<V>(), x), hn::Sub(like(x, 0.91893853320467274178), x));
  return hn::Add(result, series);
}
// For x < 0 (double) that is no integer: pi times the distance to the nearest integer, which is exact before the product.
template <Vec V> STRATA_FN V turn_of(V x) { return hn::Mul(hn::Sub(x, hn::Round(x)), like(x, 3.14159265358979323846)); }

template <Vec V> STRATA_FN V lgamma_wide(V x) {
  const D<V> d;
  const V zero = hn::Zero(d), infinity = like(x, HUGE_VAL);
  const auto negative = hn::Lt(x, zero);
  const V z = select(negative, hn::Sub(like(x, 1), x), x);
  const auto small = hn::Lt(z, like(x, 8));
  V result = zero;
  if (!hn::AllFalse(d, small)) result = lgamma_small(hn::Min(z, like(x, 8)));
  if (!hn::AllTrue(d, small)) result = select(small, result, lgamma_large(hn::Max(z, like(x, 8))));
  if (HWY_UNLIKELY(!hn::AllFalse(d, negative))) {  // the reflection formula
    const V sine = hn::Abs(hn::Sin(d, turn_of(x)));
    const V reflected = hn::Sub(log(hn::Div(like(x, 3.14159265358979323846), sine)), result);
    result = select(negative, select(hn::Eq(hn::Round(x), x), infinity, reflected), result);
  }
  result = select(either(hn::Eq(x, zero), is_inf(x)), infinity, result);
  return select(is_nan(x), x, result);
}
template <Vec V> STRATA_FN V lgamma(V x) {
  if constexpr (kF32<V>) return in_double([](auto v) { return lgamma_wide(v); }, x);
  else return each_lane([](auto v) { return lgamma(v); }, x);
}

// Reflection for x < 0; below 10 the recurrence, whose ten reciprocals 1 / (x + k) pair up: k and 9 - k have the sum
// (2 x + 9) / (x^2 + 9 x + k (9 - k)); then the asymptotic series.
template <Vec V> STRATA_FN V digamma_wide(V x) {
  constexpr double p[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const D<V> d;
  const V zero = hn::Zero(d), one = like(x, 1), ten = like(x, 10);
  const auto negative = hn::Lt(x, zero);
  const V z = select(negative, hn::Sub(one, x), x);
  const auto small = hn::Lt(z, ten);
  V result = zero;
  if (!hn::AllFalse(d, small)) {
    const V nine = like(x, 9), w = hn::Mul(z, hn::Add(z, nine));
    V top = one, bottom = w;
    for (double c : {8.0, 14.0, 18.0, 20.0}) {
      const V factor = hn::Add(w, like(x, c));
      top = fma(top, factor, bottom);
      bottom = hn::Mul(bottom, factor);
    }
    const V sum = hn::Div(hn::Mul(hn::Add(hn::Add(z, z), nine), top), bottom);
    result = select(small, neg(sum), zero);
  }
  const V large = select(small, hn::Add(z, ten), z), inverse = hn::Div(one, large), square = hn::Mul(inverse, inverse);
  const V series = fma(square, horner(square, p), hn::Mul(like(x, 0.5), inverse));
  result = hn::Add(result, hn::Sub(log(large), series));
  if (HWY_UNLIKELY(!hn::AllFalse(d, negative))) {
    const V angle = turn_of(x), cotangent = hn::Div(hn::Cos(d, angle), hn::Sin(d, angle));
    const V reflected = hn::NegMulAdd(cotangent, like(x, 3.14159265358979323846), result);
    result = select(negative, select(hn::Eq(hn::Round(x), x), like(x, NAN), reflected), result);
  }
  return select(hn::Eq(x, zero), hn::CopySign(like(x, HUGE_VAL), neg(x)), result);
}
template <Vec V> STRATA_FN V digamma(V x) {
  if constexpr (kF32<V>) return in_double([](auto v) { return digamma_wide(v); }, x);
  else return each_lane([](auto v) { return digamma(v); }, x);
}

// The same steps for the derivative of digamma: the squares of the reciprocals, two at a time.
template <Vec V> STRATA_FN V trigamma_wide(V x) {
  constexpr double p[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66};
  const D<V> d;
  const V zero = hn::Zero(d), one = like(x, 1), ten = like(x, 10), infinity = like(x, HUGE_VAL);
  const auto negative = hn::Lt(x, zero);
  const V z = select(negative, hn::Sub(one, x), x);
  const auto small = hn::Lt(z, ten);
  V result = zero;
  if (!hn::AllFalse(d, small)) {
    for (int k = 0; k < 10; k += 2) {
      const V u = hn::Add(z, like(x, k)), v = hn::Add(u, one), product = hn::Mul(u, v);
      result = hn::Add(result, hn::Div(fma(u, u, hn::Mul(v, v)), hn::Mul(product, product)));
    }
    result = select(small, result, zero);
  }
  const V inverse = hn::Div(one, select(small, hn::Add(z, ten), z)), square = hn::Mul(inverse, inverse);
  const V series = fma(hn::Mul(square, inverse), horner(square, p), fma(square, like(x, 0.5), inverse));
  result = hn::Add(result, series);
  if (HWY_UNLIKELY(!hn::AllFalse(d, negative))) {
    const V sine = hn::Sin(d, turn_of(x));
    const V reflected = hn::Sub(hn::Div(like(x, 9.86960440108935861883), hn::Mul(sine, sine)), result);
    result = select(negative, select(hn::Eq(hn::Round(x), x), infinity, reflected), result);
  }
  return select(is_nan(x), x, select(hn::Eq(x, zero), infinity, result));
}
// n is the same in all lanes.
template <Vec V> STRATA_FN V polygamma(V x, V n) {
  if constexpr (kF32<V>)
    if (hn::GetLane(n) == 1) return in_double([](auto v) { return trigamma_wide(v); }, x);
  return each_lane([](auto v, auto k) { return polygamma(v, k); }, x, n);
}

// The incomplete gamma functions of incomplete_gamma (math_scalar.inl) for 0 < a <= kLargestOrder and finite x > 0 (double),
// with a relative error of about 1e-11. The fraction is the quotient of two recurrences, without a division per step. Four steps
// are taken between tests, and lanes that have converged stay as they are: a result never depends on its neighbours.
constexpr double kLargestOrder = 1e5;
template <Vec V> HWY_NOINLINE V incomplete_gamma_wide(V a, V x, bool lower) {
  const D<V> d;
  const V zero = hn::Zero(d), one = like(x, 1), precise = like(x, 1e-13);
  const V exponent = hn::Sub(hn::MulSub(a, hn::Log(d, x), x), lgamma_wide(a));
  const V front = hn::Exp(d, limit(exponent, -700, 700));
  const auto below = hn::Lt(x, hn::Add(a, one));
  V series = zero, fraction = zero;
  if (!hn::AllFalse(d, below)) {
    V term = hn::IfThenElseZero(below, hn::Div(one, a)), at = a;
    series = term;
    do {
      for (int k = 0; k < 4; ++k) {
        at = hn::Add(at, one);
        term = hn::Mul(term, hn::Div(x, at));
        series = hn::Add(series, term);
      }
      term = hn::IfThenElseZero(hn::Gt(term, hn::Mul(series, precise)), term);
    } while (!hn::AllTrue(d, hn::Eq(term, zero)));
  }
  if (!hn::AllTrue(d, below)) {
    V count = zero, y = hn::Sub(one, a), z = hn::Add(hn::Add(x, y), one);
    V p = hn::Div(hn::Add(x, one), hn::Mul(z, x)), q = one, p_before = hn::Div(one, hn::Mul(z, x)),
      q_before = hn::Div(one, z);
    auto active = hn::Not(below);
    while (!hn::AllFalse(d, active)) {
      for (int k = 0; k < 4; ++k) {
        count = hn::Add(count, one);
        y = hn::Add(y, one);
        z = hn::Add(z, like(x, 2));
        const V product = hn::Mul(y, count);
        const V next_p = hn::MulSub(p, z, hn::Mul(p_before, product)),
                next_q = hn::MulSub(q, z, hn::Mul(q_before, product));
        p_before = p;
        q_before = q;
        p = next_p;
        q = next_q;
      }
      const V inverse = hn::Div(one, q);
      p = hn::Mul(p, inverse);
      p_before = hn::Mul(p_before, inverse);
      q_before = hn::Mul(q_before, inverse);
      q = one;
      const auto moved = hn::Gt(hn::Abs(hn::Sub(p, fraction)), hn::Mul(p, precise));
      fraction = select(active, p, fraction);
      active = hn::And(active, moved);
    }
  }
  const V value = hn::Mul(front, select(below, series, fraction));
  return select(lower ? below : hn::Not(below), value, hn::Sub(one, value));
}
template <Vec V, class F> STRATA_FN V incomplete_gamma(V a, V x, bool lower, F scalar) {
  if constexpr (!kF32<V>) return each_lane(scalar, a, x);
  else {
    const V zero = hn::Zero(D<V>()), one = like(x, 1);
    const auto good = hn::And(hn::And(hn::Gt(a, zero), hn::Le(a, like(a, kLargestOrder))),
                              hn::And(hn::Gt(x, zero), hn::Lt(x, like(x, HUGE_VAL))));
    const auto wide = [lower](auto v, auto w) { return incomplete_gamma_wide(v, w, lower); };
    return or_else(in_double(wide, select(good, a, one), select(good, x, one)), good, scalar, a, x);
  }
}
template <Vec V> STRATA_FN V igamma(V a, V x) {
  return incomplete_gamma(a, x, true, [](auto v, auto w) { return igamma(v, w); });
}
template <Vec V> STRATA_FN V igammac(V a, V x) {
  return incomplete_gamma(a, x, false, [](auto v, auto w) { return igammac(v, w); });
}

}  // namespace math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
