// log2, log10, atanh, tan, asin, acos and atan for Highway vectors. Float results are computed in float, within 1.1 units in the last
// place: the largest term of a result is added last, with the rounding errors of the terms and arguments before it.
// Polynomials are minimax fits. A product is exact with its error, which needs a fused multiply-add.
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace math {

// first + x times the polynomial: the sum's largest term is added last.
template <Vec V, size_t n> STRATA_FN V led_by(double first, V x, const double (&c)[n]) {
  return fma(x, two_chains(x, c), like(x, first));
}
// x^2 times `by`, with what rounding the square leaves.
template <Vec V> STRATA_FN V square_times(V x, V square, V by) {
  return fma(square, by, hn::Mul(hn::MulSub(x, x, square), by));
}
// What rounding a constant to float leaves.
constexpr double below_float(double c) { return c - static_cast<double>(static_cast<float>(c)); }
constexpr double kHalfPi = 1.57079632679489661923, kHalfPiLow = below_float(kHalfPi);

// large - small + rest for large >= small, rounded once.
template <Vec V> STRATA_FN V minus_plus(V large, V small, V rest) {
  const V sum = hn::Sub(large, small), error = hn::Sub(hn::Sub(large, sum), small);
  return hn::Add(sum, hn::Add(error, rest));
}

// --- logarithms -----------------------------------------------------------------------------------------------------
// octave * e + scale * log(1 + f), with log(1 + f) = f - f^2 / 2 + f^3 p(f). `octave_high` has 16 bits, so that its product with
// an exponent is exact.
// `more` is added with the small terms.
template <Vec V>
STRATA_FN V log_combined(V f, V e, double octave_high, double octave_low, double scale, const V* more = nullptr) {
  constexpr double p[] = {0.3333331059664956,   -0.2499998656002796,  0.20002218207939373,
                          -0.16669248244439544, 0.14218800613661003,  -0.12384457746411459,
                          0.11872142976890572,  -0.11788942864579623, 0.06916088875839091};  // relative error 7e-10
  const V factor = like(f, scale), linear = hn::Mul(f, factor), square = hn::Mul(f, f);
  const V curved = fma(hn::Mul(f, square), two_chains(f, p), hn::Mul(square, like(f, -0.5)));
  V rest = fma(f, like(f, below_float(scale)), hn::MulSub(f, factor, linear));
  rest = fma(e, like(f, octave_low), fma(curved, factor, rest));
  if (more) rest = hn::Add(rest, *more);
  return minus_plus(hn::Mul(e, like(f, octave_high)), neg(linear), rest);
}
template <Vec V> STRATA_FN V log_scaled(V x, double octave_high, double octave_low, double scale) {
  const hn::RebindToSigned<D<V>> di;
  const hn::RebindToUnsigned<D<V>> du;
  const auto bits = hn::BitCast(du, x), least = hn::Set(du, 0x00800000u);
  if (HWY_LIKELY(hn::AllTrue(du, hn::Lt(hn::Sub(bits, least), hn::Set(du, 0x7f000000u))))) {  // positive and normal
    const auto root = hn::Set(di, 0x3f3504f3), shifted = hn::Sub(hn::BitCast(di, x), root);
    const V e = hn::ConvertTo(D<V>(), hn::ShiftRight<23>(shifted));
    const V m = hn::BitCast(D<V>(), hn::Add(hn::And(shifted, hn::Set(di, 0x7fffff)), root));
    return log_combined(hn::Sub(m, like(x, 1)), e, octave_high, octave_low, scale);
  }
  V f, e;
  split(x, f, e);
  return log_edges(x, log_combined(f, e, octave_high, octave_low, scale), 0);
}
template <Vec V> STRATA_FN V log2(V x) {
  if constexpr (kF32<V>) return log_scaled(x, 1, 0, 1.44269504088896340736);
  else return each_lane([](auto v) { return log2(v); }, x);  // exact at powers of two
}
template <Vec V> STRATA_FN V log10(V x) {
  if constexpr (kF32<V>) return log_scaled(x, 0.301025390625, 4.60503898119521e-06, 0.43429448190325182765);
  else return each_lane([](auto v) { return log10(v); }, x);
}

// log((1 + a) / (1 - a)) / 2 for a = |x|. The quotient u and what its rounding leaves, r, give log(u) + r / u; sums with 1 and
// the remainder of the division are exact.
template <Vec V> STRATA_FN V atanh(V x) {
#if HWY_NATIVE_FMA
  if constexpr (kF32<V>) {
    const V a = hn::Abs(x), one = like(x, 1);
    const V top = hn::Add(one, a), top_rest = hn::Sub(a, hn::Sub(top, one));
    const V below = hn::Sub(one, a), below_rest = hn::Sub(hn::Sub(one, below), a);
    const V u = hn::Div(top, below);
    const V remainder = hn::Add(hn::NegMulAdd(u, below, top), hn::NegMulAdd(u, below_rest, top_rest));
    const V more = hn::Mul(hn::Div(remainder, top), like(x, 0.5));
    V f, e;
    split(u, f, e);
    const V inside = log_combined(f, e, 0.346572875976562500, 7.1430341014e-07, 0.5, &more);
    // Near zero the sum above would lose the last bit: x + x^3 / 3, whose next term is 2^-30 of x.
    const V near_zero = fma(hn::Mul(hn::Mul(a, a), a), like(x, 1.0 / 3), a);
    const V finite = select(hn::Lt(a, like(x, 0.0078125)), near_zero, inside);
    const V y = select(hn::Lt(a, one), finite, select(hn::Eq(a, one), like(x, HUGE_VAL), like(x, NAN)));
    return select(is_nan(x), x, hn::CopySign(y, x));
  }
#endif
  return atanh_wide(x);
}

// --- the tangent ----------------------------------------------------------------------------------------------------
// For |x| < 20000 the quotient q by pi / 2 has 14 bits, and x - q * 1.57... is exact. The next two parts of pi / 2 have 10 bits
// each: their products are exact, and so are the differences where they cancel. The remainder is `r` and the part `low` that its
// rounding leaves; for odd q the tangent is -1 / tan(r).
template <Vec V> STRATA_FN V tan_reduced(V x) {
  constexpr double second = 4.371395334601402e-08, third = -2.5650592760939617e-12, fourth = 1.7151244994428829e-15;
  constexpr double p[] = {0.13332569722376136,  0.054070533671560096,   0.02122758401568023,
                          0.010976617884436489, -8.806194816488621e-05, 0.004463490541415256};  // relative error 2e-9
  const V one = like(x, 1), q = hn::Round(hn::Mul(x, like(x, 1 / kHalfPi)));
  const V a = hn::NegMulAdd(q, like(x, kHalfPi), x), b = fma(q, like(x, second), a), r = fma(q, like(x, third), b);
  const V errors = hn::Add(fma(q, like(x, second), hn::Sub(a, b)), fma(q, like(x, third), hn::Sub(b, r)));
  const V low = fma(q, like(x, fourth), errors);
  const V s = hn::Mul(r, r), cubic = hn::Mul(r, square_times(r, s, led_by(0.3333335242620787, s, p))),
          t = hn::Add(r, cubic);
  const V rest = fma(low, fma(t, t, one), cubic), high = hn::Add(r, rest);
  const V remaining = hn::Add(hn::Sub(r, high), rest), inverse = hn::Div(neg(one), high);
  const V error = fma(inverse, remaining, fma(inverse, high, one));
  const V half = hn::Mul(q, like(x, 0.5));
  return select(hn::Ne(hn::Round(half), half), fma(inverse, error, inverse), high);
}
template <Vec V> STRATA_FN V tan(V x) {
  if constexpr (!kF32<V>) return each_lane([](auto v) { return tan(v); }, x);
  else {
    const auto good = reducible(x);
    const V y = tan_reduced(hn::IfThenElseZero(good, x));
    return or_else(
      select(hn::Eq(x, hn::Zero(D<V>())), x, y), good, [](auto v) { return tan(v); }, x);
  }
}

// --- angles ---------------------------------------------------------------------------------------------------------
// asin(r) = r + rest for r = |x| up to 1/2; beyond, r is the root of z = (1 - |x|) / 2 and asin|x| = pi / 2 - 2 (r + rest).
template <Vec V> struct ArcSine {
  MaskOf<V> far;
  V r, rest;
};
template <Vec V> STRATA_FN ArcSine<V> arc_sine(V x) {
  constexpr double p[] = {0.1666666023375143,  0.07500494366246765,  0.04451836546133457,
                          0.03179840630260303, 0.014467490821216072, 0.03748229501407662};  // relative error 3e-10
  const V a = hn::Abs(x), half = like(x, 0.5);
  const auto far = hn::Gt(a, half);
  const V z = select(far, fma(neg(half), a, half), hn::Mul(a, a)), root = hn::Sqrt(z), r = select(far, root, a);
  // What rounding the root leaves: (z - root^2) / (2 root), for which a coarse reciprocal is enough.
  const V coarse = hn::ApproximateReciprocal(hn::Max(root, like(x, 1e-18)));
  const V left = hn::IfThenElseZero(far, hn::Mul(hn::Mul(hn::NegMulAdd(root, root, z), half), coarse));
  return {far, r, fma(hn::Mul(r, z), two_chains(z, p), left)};
}
template <Vec V> STRATA_FN V asin(V x) {
  V y;
  if constexpr (kF32<V>) {
    const ArcSine<V> s = arc_sine(x);
    const V rest = fma(like(x, -2), s.rest, like(x, kHalfPiLow));
    const V far = minus_plus(like(x, kHalfPi), hn::Add(s.r, s.r), rest);
    y = hn::CopySign(select(s.far, far, hn::Add(s.r, s.rest)), x);
  } else y = hn::Asin(D<V>(), x);
  return select(hn::Le(hn::Abs(x), like(x, 1)), y, like(x, NAN));
}
template <Vec V> STRATA_FN V acos(V x) {
  V y;
  if constexpr (
    kF32<V>) {  // pi / 2 - asin(x), 2 asin(root) or pi - 2 asin(root): a multiple of pi / 2 minus r and the rest
    const ArcSine<V> s = arc_sine(x);
    const V zero = hn::Zero(D<V>()), one = like(x, 1), two = like(x, 2);
    const auto negative = hn::Lt(x, zero);
    const V quarters = select(s.far, hn::IfThenElseZero(negative, two), one);
    // The signed multiple of asin that is subtracted.
    const V times = select(s.far, select(negative, two, neg(two)), hn::CopySign(one, x));
    const V rest = hn::NegMulAdd(times, s.rest, hn::Mul(quarters, like(x, kHalfPiLow)));
    y = minus_plus(hn::Mul(quarters, like(x, kHalfPi)), hn::Mul(times, s.r), rest);
  } else y = hn::Acos(D<V>(), x);
  return select(hn::Le(hn::Abs(x), like(x, 1)), y, like(x, NAN));
}
// atan(z) = z + z h for z up to 1; beyond, pi / 2 - atan(1 / |x|).
template <Vec V> STRATA_FN V atan(V x) {
  if constexpr (!kF32<V>) return select(is_nan(x), x, hn::Atan(D<V>(), x));
  else {
    constexpr double
      p[] = {0.19998663663864136,  -0.14265671095802654,  0.10960243993636354,
             -0.0842804343777472,  0.05839081320607065,   -0.031618351996170885,
             0.011154735080543368, -0.0018479510017711896};  // relative error 4e-9; the first two are floats
    const V one = like(x, 1), a = hn::Min(hn::Abs(x), like(x, 1e18));
    const auto steep = hn::Gt(a, one);
    const V inverse = hn::Div(one, a), z = select(steep, inverse, a), s = hn::Mul(z, z);
    // What rounding the quotient leaves, times the derivative 1 / (1 + z^2).
    const V slope = hn::Mul(inverse, hn::ApproximateReciprocal(hn::Add(one, s)));
    const V left = hn::IfThenElseZero(steep, hn::Mul(hn::NegMulAdd(inverse, a, one), slope));
    const V h = square_times(z, s, led_by(-0.33333301544189453, s, p)), right = like(x, kHalfPi);
    const V sum = hn::Sub(right, z), error = hn::Sub(hn::Sub(right, sum), z);
    const V far = hn::Add(sum, hn::NegMulAdd(z, h, hn::Add(error, hn::Sub(like(x, kHalfPiLow), left))));
    return select(is_nan(x), x, hn::CopySign(select(steep, far, fma(z, h, z)), x));
  }
}

}  // namespace math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
