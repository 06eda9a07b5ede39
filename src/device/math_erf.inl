// erf, erfc and the normal distribution for Highway vectors.
//
// erf in float: two polynomials, in the manner of N. Juffa: |x| <= 0.928 directly; beyond, erfc(x) = exp(polynomial of |x|).
// In double: the four ranges and rational functions of FreeBSD's s_erf.c (Sun Microsystems, 1993; freely distributable).
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace math {

// erf near zero, erfc elsewhere; `near` tells which of the two `value` is.
template <Vec V> struct ErfParts {
  MaskOf<V> near;
  V erf, erfc;  // erfc of |x|
};

template <Vec V> STRATA_FN ErfParts<V> erf_parts_f32(V x) {
  const V t = hn::Abs(x), s = hn::Mul(x, x);
  V small = fma(like(x, -5.96761703e-4), s, like(x, 4.99119423e-3));
  small = fma(small, s, like(x, -2.67681349e-2));
  small = fma(small, s, like(x, 1.12819925e-1));
  small = fma(small, s, like(x, -3.76125336e-1));
  small = fma(small, s, like(x, 1.28379166e-1));
  small = fma(small, x, x);
  const V a = hn::Min(like(x, 10.5), t);  // exp of the polynomial is 0 from here on
  V r = fma(like(x, -1.72853470e-5), a, like(x, 3.83197126e-4));
  const V u = fma(like(x, -3.88396438e-3), a, like(x, 2.42546219e-2));
  r = fma(r, hn::Mul(a, a), u);
  r = fma(r, a, like(x, -1.06777877e-1));
  r = fma(r, a, like(x, -6.34846687e-1));
  r = fma(r, a, like(x, -1.28717512e-1));
  r = fma(r, a, neg(a));
  return {hn::Le(t, like(x, 0.927734375)), small, exp_coarse(r)};
}

template <Vec V> STRATA_FN ErfParts<V> erf_parts_f64(V x) {
  constexpr double pp[] = {1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
                           -5.77027029648944159157e-03, -2.37630166566501626084e-05};
  constexpr double qq[] = {1,
                           3.97917223959155352819e-01,
                           6.50222499887672944485e-02,
                           5.08130628187576562776e-03,
                           1.32494738004321644526e-04,
                           -3.96022827877536812320e-06};
  constexpr double pa[] = {-2.36211856075265944077e-03, 4.14856118683748331666e-01,  -3.72207876035701323847e-01,
                           3.18346619901161753674e-01,  -1.10894694282396677476e-01, 3.54783043256182359371e-02,
                           -2.16637559486879084300e-03};
  constexpr double qa[] = {1,
                           1.06420880400844228286e-01,
                           5.40397917702171048937e-01,
                           7.18286544141962662868e-02,
                           1.26171219808761642112e-01,
                           1.36370839120290507362e-02,
                           1.19844998467991074170e-02};
  constexpr double ra[] = {-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
                           -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
                           -8.12874355063065934246e+01, -9.81432934416914548592e+00};
  constexpr double sa[] = {1,
                           1.96512716674392571292e+01,
                           1.37657754143519042600e+02,
                           4.34565877475229228821e+02,
                           6.45387271733267880336e+02,
                           4.29008140027567833386e+02,
                           1.08635005541779435134e+02,
                           6.57024977031928170135e+00,
                           -6.04244152148580987438e-02};
  constexpr double rb[] = {-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
                           -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
                           -4.83519191608651397019e+02};
  constexpr double sb[] = {1,
                           3.03380607434824582924e+01,
                           3.25792512996573918826e+02,
                           1.53672958608443695994e+03,
                           3.19985821950859553908e+03,
                           2.55305040643316442583e+03,
                           4.74528541206955367215e+02,
                           -2.24409524465858183362e+01};
  const V t = hn::Abs(x), one = like(x, 1);
  // |x| < 0.84375
  const V z = hn::Mul(x, x), small = fma(x, hn::Div(horner(z, pp), horner(z, qq)), x);
  // up to 1.25: around 1
  const V w = hn::Sub(hn::Min(t, like(x, 1.25)), one);
  const V middle = hn::Sub(like(x, 1 - 8.45062911510467529297e-01), hn::Div(horner(w, pa), horner(w, qa)));
  // beyond: exp(-x^2 - 0.5625 + R(1/x^2)) / x, with x^2 split so that its square is exact
  const V a = hn::Max(hn::Min(t, like(x, 28)), like(x, 1.25)), inverse = hn::Div(one, hn::Mul(a, a));
  const auto far = hn::Ge(a, like(x, 1 / 0.35));
  const V ratio = hn::Div(select(far, horner(inverse, rb), horner(inverse, ra)),
                          select(far, horner(inverse, sb), horner(inverse, sa)));
  const hn::RebindToUnsigned<D<V>> du;
  const V head = hn::BitCast(D<V>(), hn::And(hn::BitCast(du, a), hn::Set(du, uint64_t{0xffffffff00000000u})));
  const V first = hn::Exp(D<V>(), hn::Sub(hn::Neg(hn::Mul(head, head)), like(x, 0.5625)));
  const V second = hn::Exp(D<V>(), fma(hn::Sub(head, a), hn::Add(head, a), ratio));
  const V tail = hn::Div(hn::Mul(first, second), a);
  return {hn::Lt(t, like(x, 0.84375)), small, select(hn::Lt(t, like(x, 1.25)), middle, tail)};
}

template <Vec V> STRATA_FN ErfParts<V> erf_parts(V x) {
  if constexpr (kF32<V>) return erf_parts_f32(x);
  else return erf_parts_f64(x);
}

template <Vec V> STRATA_FN V erf(V x) {
  const ErfParts<V> p = erf_parts(x);
  return select(is_nan(x), x, select(p.near, p.erf, hn::CopySign(hn::Sub(like(x, 1), p.erfc), x)));
}
// Float, within 2 units in the last place: 1 - x p(x^2) near zero; from |x| = 0.44 on e^(-x^2) P(y) / (1 + 2 |x|) with
// y = (|x| - 2) / (|x| + 2), up to |x| = 10.1, where the result is 0. Minimax fits, relative errors 1e-10 and 1e-8. What rounding
// x^2, 1 + 2 |x|, P and the quotient leaves is added to the product.
template <Vec V> STRATA_FN V erfc_f32(V x) {
  constexpr double near[] = {1.1283791642598138, -0.37612610635038907, 0.11283003432341696, -0.026776252853203317,
                             0.004771680238858738};
  constexpr double first = 1.2769783934624188;
  constexpr double p[] = {-0.09276398084204335,  -0.16603142510991048,   0.1640553466781209,
                          -0.05420429837448607,  -0.008059875109588072,  0.008631680959335513,
                          0.0013135227426846136, -0.0012299273741511487, -0.00040057679493103884};
  constexpr double e[] = {0.5000000077829491,  0.1666666686078422,    0.041666269993159144,
                          0.00833326432396083, 0.0013946077417376873, 0.00019918406542238987};  // (e^r - 1 - r) / r^2
  const V one = like(x, 1), two = like(x, 2), a = hn::Min(like(x, 10.1), hn::Abs(x)), square = hn::Mul(a, a);
  const V small = hn::NegMulAdd(x, two_chains(square, near), one);
  const V up = hn::Add(a, two), coarse = hn::ApproximateReciprocal(up);
  const V y = hn::Mul(hn::Sub(a, two), fma(coarse, hn::NegMulAdd(up, coarse, one), coarse));
  const V curve = hn::Mul(y, two_chains(y, p)), P = hn::Add(like(x, first), curve);
  const V P_low = hn::Add(hn::Sub(like(x, first), P), hn::Add(curve, like(x, below_float(first))));
  const V wide = fma(a, two, one), wide_low = fma(a, two, hn::Sub(one, wide)), W = hn::Div(one, wide);
  const V W_low = hn::Mul(W, hn::NegMulAdd(W, wide_low, hn::NegMulAdd(W, wide, one)));
  const V factor = hn::Mul(P, W), low = fma(P_low, W, fma(P, W_low, hn::MulSub(P, W, factor)));
  const V k = hn::Round(hn::Mul(square, like(x, -1.44269504088896340736)));
  const V whole = fma(k, like(x, -1.42860682030941723212e-6), hn::NegMulSub(k, like(x, 0.693145751953125), square));
  const V below = hn::MulSub(a, a, square), r = hn::Sub(whole, below), r_low = hn::Sub(hn::Sub(whole, r), below);
  const V power = fma(hn::Mul(r, r), two_chains(r, e), r);  // e^r - 1
  const V tail = scale_by(hn::Add(factor, fma(factor, power, fma(factor, r_low, low))), k);
  const V far = select(hn::Lt(x, hn::Zero(D<V>())), hn::Sub(two, tail), tail);
  return select(is_nan(x), x, select(hn::Lt(a, like(x, 0.44)), small, far));
}
template <Vec V> STRATA_FN V erfc(V x) {
  if constexpr (kF32<V>) {
    return erfc_f32(x);
  } else {
    const ErfParts<V> p = erf_parts_f64(x);
    const V far = select(hn::Lt(x, like(x, 0)), hn::Sub(like(x, 2), p.erfc), p.erfc);
    return select(is_nan(x), x, select(p.near, hn::Sub(like(x, 1), p.erf), far));
  }
}
// In float: x times a polynomial of w = -log(1 - x^2), or of its root for w > 5 (floats reach 16); fits at Chebyshev nodes,
// relative error 1e-8. 1 - |x| is exact where w is large, and elsewhere the polynomial hardly depends on its rounding.
template <Vec V> STRATA_FN V erfinv(V x) {
  if constexpr (!kF32<V>) return each_lane([](auto v) { return erfinv(v); }, x);
  else {
    constexpr double low[] = {1.501409360450329,       0.24664027905463662,    -0.004177392875203149,
                              -0.001252726391773229,   0.00021834938623976644, -4.9724196894547514e-06,
                              -3.4639852676333717e-06, 4.6813134805534123e-07, 2.3335967195708108e-08,
                              -8.931925970244222e-09};
    constexpr double high[] = {2.9583201186908905,    1.0037185194947125,      0.007049698224069817,
                               -0.005297638794204177, 0.0037772173803611443,   -0.0025376648611873456,
                               0.0013201845451586889, -0.00029324345238345714, -0.00018004414779663452,
                               0.0001115385807799795};
    const D<V> d;
    const V one = like(x, 1), a = hn::Abs(x);
    const V w = hn::Min(like(x, 17), neg(hn::Log(d, hn::Mul(hn::Sub(one, a), hn::Add(one, a)))));
    const auto far = hn::Gt(w, like(x, 5));
    V factor = horner(hn::Sub(w, like(x, 2.5)), low);
    if (!hn::AllFalse(d, far)) factor = select(far, horner(hn::Sub(hn::Sqrt(w), like(x, 3.125)), high), factor);
    const V inside = hn::Mul(x, factor), edge = hn::CopySign(like(x, HUGE_VAL), x);
    return select(hn::Lt(a, one), inside, select(hn::Eq(a, one), edge, like(x, NAN)));
  }
}
// float: the lower tail is 2^Q(|x|), with one polynomial Q (weighted minimax fit to log2 of the tail up to |x| = 14, where
// the result is 0) and one for 2^f. The relative error is 2e-7 near zero and 4e-6 at -5; the absolute error is below 1e-7.
template <Vec V> STRATA_FN V normal_cdf_f32(V x) {
  constexpr double q[] = {-0.9999999615625086,    -1.1511062494811988,    -0.4592048580796245,
                          -0.05248579244472211,   0.007004628362243905,   -3.79337260245806e-05,
                          -0.0002678398379651285, 7.587500478002874e-05,  -1.1686712066497984e-05,
                          1.0790748096542556e-06, -5.539090850203521e-08, 1.1994883366184455e-09};
  constexpr double p[] = {1.0,
                          0.6931472057371939,
                          0.24022646890469984,
                          0.055503287770857376,
                          0.009618488974886923,
                          0.0013399931180308722,
                          0.0001534580721705942};
  const V t = hn::Min(like(x, 14), hn::Abs(x)), e = hn::Max(like(x, -127), two_chains(t, q));
  const V k = hn::Round(e), tail = hn::Mul(two_chains(hn::Sub(e, k), p), power_of_two(k));
  return select(hn::Lt(x, hn::Zero(D<V>())), tail, hn::Sub(like(x, 1), tail));
}

template <Vec V> STRATA_FN V normal_cdf(V x) {
  if constexpr (kF32<V>) return normal_cdf_f32(x);
  else {
    const V z = hn::Mul(x, like(x, 0.70710678118654752440)), half = like(x, 0.5);
    const ErfParts<V> p = erf_parts(z);
    const V tail = hn::Mul(half, p.erfc), far = select(hn::Lt(z, like(x, 0)), tail, hn::Sub(like(x, 1), tail));
    return select(is_nan(x), x, select(p.near, fma(half, p.erf, half), far));
  }
}

}  // namespace math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
