// Shared parts of Winograd's method, included inside a per-target namespace after gemm_tiles.inl: the evaluation
// points, and the input transform.
//
// The six points are 0, ±a, ±b and infinity. With a = 11/16, b = 3/2 the rounding error is 3 times that of direct
// summation in float32 (root mean square; measured with normal inputs), with the usual 1 and 2 it is 6 times. Their
// powers up to a²b² are exact in float32.
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr float kA = 0.6875f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB;
constexpr int kPoints = 36;

// Padded distance between planes of m: the 36 values of a channel must not map to one cache set.
HWY_INLINE int64_t plane_stride(int64_t rows, int64_t width) { return rows * width + 16; }
HWY_INLINE int64_t lanes_up(int64_t n) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  return (n + lanes - 1) / lanes * lanes;
}
HWY_INLINE int64_t panel_width() { return kVectors * static_cast<int64_t>(hn::Lanes(D())); }
HWY_INLINE V load(const float* p) { return hn::LoadU(D(), p); }

// Bt x of six vectors.
HWY_INLINE void input_points(const V* x, V* out) {
  const D d;
  const V a = hn::Set(d, kA), b = hn::Set(d, kB), a2 = hn::Set(d, kA2), b2 = hn::Set(d, kB2),
          sum = hn::Set(d, kA2 + kB2), product = hn::Set(d, kA2 * kB2);
  out[0] = hn::NegMulAdd(sum, x[2], hn::MulAdd(product, x[0], x[4]));
  const V even_a = hn::NegMulAdd(b2, x[2], x[4]), odd_a = hn::NegMulAdd(b2, x[1], x[3]);
  out[1] = hn::MulAdd(a, odd_a, even_a);
  out[2] = hn::NegMulAdd(a, odd_a, even_a);
  const V even_b = hn::NegMulAdd(a2, x[2], x[4]), odd_b = hn::NegMulAdd(a2, x[1], x[3]);
  out[3] = hn::MulAdd(b, odd_b, even_b);
  out[4] = hn::NegMulAdd(b, odd_b, even_b);
  out[5] = hn::NegMulAdd(sum, x[3], hn::MulAdd(product, x[1], x[5]));
}

struct Tile {
  int64_t image, y, x;  // of its first output
  Tile(const Winograd& w, int64_t index) {
    const int64_t across = (w.out[1] + 3) / 4, down = (w.out[0] + 3) / 4;
    x = index % across * 4;
    y = index / across % down * 4;
    image = index / across / down;
  }
};

// Transforms one tile into v[point][tile][c]; `v` points at the tile's row of point 0.
inline void transform_input(const Winograd& w, const float* x, const Tile& t, float* v, int64_t stride) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t top = t.y - w.padding[0], left = t.x - w.padding[1];
  const float* image = x + t.image * w.in[0] * w.in[1] * w.c;
  for (int64_t c = 0; c < w.c; c += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, w.c - c)));
    V half[6][6];
    for (int64_t j = 0; j < 6; ++j) {
      V column[6], points[6];
      const bool inside = left + j >= 0 && left + j < w.in[1];
      for (int64_t i = 0; i < 6; ++i)
        column[i] = inside && top + i >= 0 && top + i < w.in[0]
                      ? hn::MaskedLoad(mask, d, image + ((top + i) * w.in[1] + left + j) * w.c + c)
                      : hn::Zero(d);
      input_points(column, points);
      for (int64_t i = 0; i < 6; ++i) half[i][j] = points[i];
    }
    for (int64_t i = 0; i < 6; ++i) {
      V points[6];
      input_points(half[i], points);
      for (int64_t j = 0; j < 6; ++j) hn::StoreU(points[j], d, v + (6 * i + j) * stride + c);
    }
  }
}
