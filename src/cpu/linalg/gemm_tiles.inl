// Register tiles of a matrix product, included inside a per-target namespace: kRows x 2 vectors of c stay in registers
// during the loop over k (24 accumulators with AVX-512, 12 with AVX2), so that each loaded vector of b is used kRows
// times.
#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 12;
#elif HWY_TARGET <= HWY_AVX2
constexpr int kRows = 6;
#else
constexpr int kRows = 4;
#endif
constexpr int kVectors = 2;

// c[rows][0..columns) = alpha * a b (+ c). b and c have unit stride along n; columns <= kVectors * lanes.
template <int kR, int kV, class T>
HWY_INLINE void micro(int64_t k, const T* a, int64_t a_m, int64_t a_k, const T* b, int64_t b_k, T* c, int64_t c_m,
                      int64_t columns, T alpha, bool accumulate) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> acc[kR][kV];
  for (int i = 0; i < kR; ++i)
    for (int v = 0; v < kV; ++v) acc[i][v] = hn::Zero(d);
  const bool whole = columns == kV * lanes;
  if (whole) {
    for (int64_t p = 0; p < k; ++p) {
      hn::Vec<decltype(d)> bv[kV];
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) bv[v] = hn::LoadU(d, b + p * b_k + v * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < kR; ++i) {
        const auto x = hn::Set(d, a[i * a_m + p * a_k]);
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) acc[i][v] = hn::MulAdd(x, bv[v], acc[i][v]);
      }
    }
  } else {
    const auto mask = hn::FirstN(d, static_cast<size_t>(columns - (kV - 1) * lanes));
    for (int64_t p = 0; p < k; ++p) {
      hn::Vec<decltype(d)> bv[kV];
#pragma GCC unroll 4
      for (int v = 0; v + 1 < kV; ++v) bv[v] = hn::LoadU(d, b + p * b_k + v * lanes);
      bv[kV - 1] = hn::MaskedLoad(mask, d, b + p * b_k + (kV - 1) * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < kR; ++i) {
        const auto x = hn::Set(d, a[i * a_m + p * a_k]);
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) acc[i][v] = hn::MulAdd(x, bv[v], acc[i][v]);
      }
    }
  }
  const auto scale = hn::Set(d, alpha);
  const auto mask = hn::FirstN(d, static_cast<size_t>(columns - (kV - 1) * lanes));
#pragma GCC unroll 16
  for (int i = 0; i < kR; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      T* out = c + i * c_m + v * lanes;
      const bool part = !whole && v == kV - 1;
      auto value = hn::Mul(acc[i][v], scale);
      if (accumulate) value = hn::Add(value, part ? hn::MaskedLoad(mask, d, out) : hn::LoadU(d, out));
      if (part) hn::BlendedStore(value, mask, d, out);
      else hn::StoreU(value, d, out);
    }
}

template <int kR, class T>
HWY_INLINE void micro_columns(int64_t k, const T* a, int64_t a_m, int64_t a_k, const T* b, int64_t b_k, T* c,
                              int64_t c_m, int64_t columns, T alpha, bool accumulate) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  if (columns > lanes) micro<kR, 2>(k, a, a_m, a_k, b, b_k, c, c_m, columns, alpha, accumulate);
  else micro<kR, 1>(k, a, a_m, a_k, b, b_k, c, c_m, columns, alpha, accumulate);
}

// The last rows: fewer accumulators, the same order of additions.
template <int kR, class T, class... Rest> void micro_rows(int64_t rows, int64_t k, const T* a, Rest... rest) {
  if constexpr (kR > 0) {
    if (rows == kR) return micro_columns<kR, T>(k, a, rest...);
    micro_rows<kR - 1, T>(rows, k, a, rest...);
  }
}
