// Vectors of floats from and to bfloat16 in memory; included inside a per-target namespace.
#if HWY_TARGET != HWY_SCALAR
HWY_INLINE hn::Vec<hn::ScalableTag<float>> load_bfloats(const BFloat16* from) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint32_t, decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> dn;
  const auto wide = hn::PromoteTo(du, hn::LoadU(dn, reinterpret_cast<const uint16_t*>(from)));
  return hn::BitCast(d, hn::ShiftLeft<16>(wide));
}

// Two vectors, rounded to nearest even. Without NaN the result is the upper halves of the rounded bits.
HWY_INLINE void store_bfloats(hn::Vec<hn::ScalableTag<float>> x, hn::Vec<hn::ScalableTag<float>> y, BFloat16* to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint32_t, decltype(d)> du;
  const hn::ScalableTag<uint16_t> both;
  const size_t lanes = hn::Lanes(d);
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Or(hn::IsNaN(x), hn::IsNaN(y))))) {
    HWY_ALIGN float some[2 * hn::MaxLanes(d)];
    hn::Store(x, d, some);
    hn::Store(y, d, some + lanes);
    for (size_t k = 0; k < 2 * lanes; ++k) to[k] = BFloat16(some[k]);
    return;
  }
  const auto rounded_bits = [&](auto v) HWY_ATTR {
    const auto u = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1u));
    return hn::BitCast(both, hn::Add(hn::Add(u, hn::Set(du, 0x7fffu)), odd));
  };
  hn::StoreU(hn::ConcatOdd(both, rounded_bits(y), rounded_bits(x)), both, reinterpret_cast<uint16_t*>(to));
}
#endif
