// Functions of two numbers for Highway vectors: powers, angles, remainders.
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace math {

// --- powers ---------------------------------------------------------------------------------------------------------
#if HWY_NATIVE_FMA
// a^y in double, for a normal and |y log a| <= 700: within one unit in the last place. The logarithm and its product with y are
// sums of two doubles: with m = a / 2^e in [sqrt(1/2), sqrt(2)) and s = (m - 1) / (m + 1),
// log a = e log 2 + 2 s (1 + z / 3 + z^2 / 5 + ...) for z = s^2. `exponent` is y log a, rounded.
template <Vec V> STRATA_FN V pow_wide(V a, V y, V& exponent) {
  constexpr double series[] = {1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13, 1.0 / 15,
                               1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25};
  constexpr double third = 1.0 / 3, third_rest = 1.850371707708594e-17;
  constexpr double ln2 = 0x1.62e42fefa3800p-1, ln2_rest = 0x1.ef35793c76730p-45;  // e * ln2 is exact
  const D<V> d;
  const hn::RebindToSigned<D<V>> di;
  const V one = like(a, 1);
  const auto bits = hn::BitCast(di, a), from_root = hn::Sub(bits, hn::Set(di, 0x3fe6a09e667f3bcdLL));
  const auto octaves = hn::And(from_root, hn::Set(di, static_cast<int64_t>(0xfff0000000000000ULL)));
  const V m = hn::BitCast(d, hn::Sub(bits, octaves));
  // e + 2^52 + 2^51 as a double: AVX2 has no conversion from int64
  const auto biased =
    hn::ShiftRight<52>(hn::BitCast(hn::RebindToUnsigned<D<V>>(), hn::Add(octaves, hn::Set(di, 1LL << 62))));
  const V magic = like(a, 0x1p52);
  const V e =
    hn::Sub(hn::Sub(hn::BitCast(d, hn::Or(hn::BitCast(di, biased), hn::BitCast(di, magic))), magic), like(a, 1024));

  const V top = hn::Sub(m, one), bottom = hn::Add(m, one), bottom_rest = hn::Sub(m, hn::Sub(bottom, one));
  const V inverse = hn::Div(one, bottom), s = hn::Mul(top, inverse);
  const V s_rest = hn::Mul(inverse, hn::NegMulAdd(s, bottom_rest, hn::NegMulAdd(s, bottom, top)));
  const V z = hn::Mul(s, s), z_rest = fma(hn::Add(s, s), s_rest, hn::MulSub(s, s, z));
  const V tail = hn::Mul(z, two_chains(z, series)), p = hn::Add(like(a, third), tail);
  const V p_rest = hn::Add(hn::Add(hn::Sub(like(a, third), p), tail), like(a, third_rest));
  const V w = hn::Mul(z, p), w_rest = fma(z, p_rest, fma(z_rest, p, hn::MulSub(z, p, w)));
  const V v = hn::Mul(s, w), v_rest = fma(s, w_rest, fma(s_rest, w, hn::MulSub(s, w, v)));
  const V half = hn::Add(s, v), half_rest = hn::Add(hn::Add(hn::Sub(s, half), v), hn::Add(s_rest, v_rest));
  const V whole = hn::Mul(e, like(a, ln2)), logarithm = fma(half, like(a, 2), whole);
  const V part = hn::Add(half, half), rest = fma(e, like(a, ln2_rest), hn::Add(half_rest, half_rest));
  const V log_rest = hn::Add(hn::Add(hn::Sub(whole, logarithm), part), rest);

  exponent = hn::Mul(y, logarithm);
  const V exponent_rest = fma(y, log_rest, hn::MulSub(y, logarithm, exponent));
  // e^exponent = 2^k (1 + r + ...), where the sum of 1 and r and the rest of r are kept exactly.
  const V x = limit(exponent, -700, 700), k = hn::Round(hn::Mul(x, like(x, 1.44269504088896340736)));
  const V coarse = fma(k, like(x, -kLog2), x), r = fma(k, like(x, -kLog2Rest), coarse);
  const V r_rest = hn::Add(fma(k, like(x, -kLog2Rest), hn::Sub(coarse, r)), exponent_rest);
  const V sum = hn::Add(one, r), sum_rest = hn::Add(hn::Sub(one, sum), r);
  const V curve = hn::Mul(hn::Mul(r, r), exp_remainder(r));
  const V small = fma(r_rest, hn::Add(sum, curve), hn::Add(curve, sum_rest));
  return hn::Mul(hn::Add(sum, small), normal_power_of_two(k));
}
#endif

// Double precision carries y log|x| far enough for a float result.
template <Vec V> STRATA_FN V pow(V x, V y) {
  const auto scalar = [](auto a, auto b) { return pow(a, b); };
  if constexpr (!kF32<V>) {
#if HWY_NATIVE_FMA
    const V a = hn::Abs(x);
    V exponent;
    V result = pow_wide(a, y, exponent);
    const V magnitude = hn::Abs(y), half = hn::Mul(y, like(x, 0.5));
    const auto odd = hn::And(hn::Eq(hn::Round(y), y), hn::Ne(hn::Round(half), half));
    result = select(both(odd, hn::Lt(x, hn::Zero(D<V>()))), neg(result), result);
    // Zero, infinity, NaN, roots of negative numbers, and results near the limits of the range are left to the C library.
    const auto known = both(hn::Gt(x, hn::Zero(D<V>())), hn::Lt(magnitude, like(x, 0x1p52)));
    const auto negative =
      both(hn::Lt(x, hn::Zero(D<V>())), both(hn::Eq(hn::Round(y), y), hn::Lt(magnitude, like(x, 0x1p52))));
    const auto normal = both(hn::Ge(a, like(x, 2.2250738585072014e-308)), hn::Lt(a, like(x, HUGE_VAL)));
    const auto good = both(both(either(known, negative), normal), hn::Lt(hn::Abs(exponent), like(x, 700)));
    return or_else(result, good, scalar, x, y);
#else
    return each_lane(scalar, x, y);
#endif
  } else {
    const V zero = hn::Zero(D<V>()), one = like(x, 1), a = hn::Abs(x);
    V f, e;
    split(a, f, e);
    e = select(hn::Eq(a, zero), like(x, -HUGE_VAL), select(is_inf(x), like(x, HUGE_VAL), e));
    const V r = in_double(
      [](auto part, auto octaves, auto v) {  // 2^(v log2(a))
        const auto logarithm = fma(log1p_reduced(part), like(v, 1.44269504088896340736), octaves);
        return exp2_wide(limit(hn::Mul(v, logarithm), -1000, 1000));
      },
      f, e, y);
    const auto whole = hn::Eq(hn::Round(y), y);
    const V half = hn::Mul(y, like(x, 0.5));
    const auto odd = hn::And(whole, hn::Ne(hn::Round(half), half));
    V result = select(hn::And(odd, sign_bit(x)), neg(r), r);
    const auto outside = hn::And(hn::And(hn::Lt(x, zero), hn::Not(whole)), hn::Not(is_inf(x)));
    result = select(outside, like(x, NAN), result);
    result = select(either(is_nan(x), is_nan(y)), like(x, NAN), result);
    const auto is_one = either(either(hn::Eq(y, zero), hn::Eq(x, one)), hn::And(hn::Eq(a, one), is_inf(y)));
    return select(is_one, one, result);
  }
}
template <Vec V> STRATA_FN V hypot(V x, V y) {
  if constexpr (!kF32<V>) return each_lane([](auto a, auto b) { return hypot(a, b); }, x, y);
  else {
    const V r = in_double([](auto a, auto b) { return hn::Sqrt(hn::MulAdd(a, a, hn::Mul(b, b))); }, x, y);
    return select(either(is_inf(x), is_inf(y)), like(x, HUGE_VAL), r);
  }
}

// --- neighbours -----------------------------------------------------------------------------------------------------
// The bits of a float, read as an integer, grow with its magnitude: the next number is one more or one less.
template <Vec V> STRATA_FN V next_after(V a, V b) {
  const hn::RebindToSigned<D<V>> di;
  const V zero = hn::Zero(D<V>()), smallest = hn::BitCast(D<V>(), hn::Set(di, 1));
  const auto bits = hn::BitCast(di, a), one = hn::Set(di, 1);
  const auto away = hn::Xor(hn::Lt(b, a), hn::Gt(a, zero));  // from zero, if neither is NaN and a is not b
  const V next = select(away, hn::BitCast(D<V>(), hn::Add(bits, one)), hn::BitCast(D<V>(), hn::Sub(bits, one)));
  const V moved = select(hn::Eq(a, zero), hn::CopySign(smallest, b), next);
  const V result = select(hn::Eq(a, b), b, moved);
  return select(either(is_nan(a), is_nan(b)), hn::Add(a, b), result);
}

// --- angles ---------------------------------------------------------------------------------------------------------
// atan of the smaller over the larger magnitude, then added to or subtracted from a multiple of pi / 2. In float the
// polynomial (a fit at Chebyshev nodes of [0, 1]) is within 1e-8; in double Highway's Atan is used.
template <Vec V> STRATA_FN V atan2(V y, V x) {
  constexpr double p[] = {-0.3333333173306352,  0.1999973932983558,   -0.14278568748210602,
                          0.11033764115313455,  -0.08656880430154522, 0.06250169444749563,
                          -0.03587153898204336, 0.013507771427020535, -0.002386997316724113};
  const V ax = hn::Abs(x), ay = hn::Abs(y), zero = hn::Zero(D<V>());
  const auto steep = hn::Gt(ay, ax), left = sign_bit(x);
  const V larger = select(steep, ay, ax), smaller = select(steep, ax, ay);
  const auto infinite = both(is_inf(x), is_inf(y));
  const V ratio = select(hn::Eq(larger, zero), zero, select(infinite, like(x, 1), hn::Div(smaller, larger)));
  V angle;
  if constexpr (kF32<V>) {
    const V s = hn::Mul(ratio, ratio);
    angle = fma(hn::Mul(ratio, s), horner(s, p), ratio);
  } else {
    angle = hn::Atan(D<V>(), ratio);
  }
  // pi / 2 as the sum of two numbers of this precision
  const double high = kF32<V> ? 1.57079637050628662109375 : 1.57079632679489655800;
  const double low = kF32<V> ? -4.37113900018624283e-8 : 6.12323399573676603587e-17;
  const V quarters = select(steep, like(x, 1), select(left, like(x, 2), zero));
  angle = select(hn::Xor(steep, left), neg(angle), angle);
  angle = fma(quarters, like(x, high), fma(quarters, like(x, low), angle));
  return select(either(is_nan(x), is_nan(y)), hn::Add(x, y), hn::CopySign(angle, y));
}

// --- remainders -----------------------------------------------------------------------------------------------------
// The remainder of magnitudes is exact while the quotient is small: the rounded quotient is right or one too large, and
// a - q b is a multiple of the last place of b. Float uses double, where the product q b is exact; double needs a fused
// multiply-add. Other quotients, infinities and zeros are left to the C library.
template <Vec V> STRATA_FN V fmod(V a, V b) {
  const auto scalar = [](auto x, auto y) { return fmod(x, y); };
  if constexpr (!kF32<V> && !HWY_NATIVE_FMA) {
    return each_lane(scalar, a, b);
  } else {
    const V u = hn::Abs(a), v = hn::Abs(b), quotient = hn::Div(u, v);
    const auto good = both(hn::Lt(quotient, like(a, kF32<V> ? 0x1p22 : 0x1p51)), hn::Lt(v, like(a, HUGE_VAL)));
#if HWY_NATIVE_FMA
    V rest = hn::NegMulAdd(hn::Trunc(quotient), v, u);
#else
    V rest = in_double([](auto x, auto y) { return hn::Sub(x, hn::Mul(hn::Trunc(hn::Div(x, y)), y)); }, u, v);
#endif
    rest = select(hn::Lt(rest, hn::Zero(D<V>())), hn::Add(rest, v), rest);
    return or_else(hn::CopySign(rest, a), good, scalar, a, b);
  }
}
// Whether a remainder needs one more b: it is not 0 and has the other sign.
template <Vec V> STRATA_FN auto other_sign(V rest, V b) {
  const V zero = hn::Zero(D<V>());
  return both(nonzero(rest), hn::Xor(hn::Lt(b, zero), hn::Lt(rest, zero)));
}
template <Vec V> STRATA_FN V remainder(V a, V b) {
  const V rest = fmod(a, b);
  return select(other_sign(rest, b), hn::Add(rest, b), rest);
}
template <Vec V> STRATA_FN V div_floor(V a, V b) {
  const V rest = fmod(a, b), zero = hn::Zero(D<V>()), one = like(a, 1), plain = hn::Div(a, b);
  V quotient = hn::Div(hn::Sub(a, rest), b);
  quotient = select(other_sign(rest, b), hn::Sub(quotient, one), quotient);
  const V whole = hn::Floor(quotient);
  const V rounded = select(hn::Gt(hn::Sub(quotient, whole), like(a, 0.5)), hn::Add(whole, one), whole);
  const V result = select(hn::Eq(quotient, zero), hn::CopySign(zero, plain), rounded);
  return select(hn::Eq(b, zero), plain, result);
}

}  // namespace math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
