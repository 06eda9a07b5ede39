// y = At [(G w Gt) (Bt x B)] A for tiles of 4x4 outputs from 6x6 inputs. A thread takes blocks of tiles: their transformed
// inputs v[36][tile][c], the products m[36][tile][o] and the outputs stay in its cache; 36 matrix products do the work.
//
// The six evaluation points are 0, ±a, ±b and infinity. With a = 11/16, b = 3/2 the rounding error is 3 times that of the
// plain sum in float32 (root mean square; measured with normal inputs), with the usual 1 and 2 it is 6 times. Their powers
// up to a²b² are exact in float32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/winograd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/parallel.h"
#include "cpu/winograd.h"
#include "tensor/allocator.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/simd/gemm_tiles.inl"

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr float kA = 0.6875f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB;
constexpr int kPoints = 36;

// Rows of m lie this far apart: the 36 values of a channel must not meet in one set of the cache.
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
  out[1] = hn::MulAdd(a, odd_a, even_a), out[2] = hn::NegMulAdd(a, odd_a, even_a);
  const V even_b = hn::NegMulAdd(a2, x[2], x[4]), odd_b = hn::NegMulAdd(a2, x[1], x[3]);
  out[3] = hn::MulAdd(b, odd_b, even_b), out[4] = hn::NegMulAdd(b, odd_b, even_b);
  out[5] = hn::NegMulAdd(sum, x[3], hn::MulAdd(product, x[1], x[5]));
}

// At m: six vectors to four.
HWY_INLINE void output_points(const V* m, V* y) {
  const D d;
  const V s1 = hn::Add(m[1], m[2]), d1 = hn::Sub(m[1], m[2]), s2 = hn::Add(m[3], m[4]), d2 = hn::Sub(m[3], m[4]);
  y[0] = hn::Add(hn::Add(m[0], s1), s2);
  y[1] = hn::MulAdd(hn::Set(d, kA), d1, hn::Mul(hn::Set(d, kB), d2));
  y[2] = hn::MulAdd(hn::Set(d, kA2), s1, hn::Mul(hn::Set(d, kB2), s2));
  y[3] = hn::MulAdd(hn::Set(d, kA2 * kA), d1, hn::MulAdd(hn::Set(d, kB2 * kB), d2, m[5]));
}

// G w: three vectors to six.
HWY_INLINE void weight_points(const V* w, V* u) {
  const D d;
  constexpr float na = 1 / (2 * kA2 * (kA2 - kB2)), nb = 1 / (2 * kB2 * (kB2 - kA2));
  u[0] = hn::Mul(hn::Set(d, 1 / (kA2 * kB2)), w[0]);
  const V even_a = hn::Mul(hn::Set(d, na), hn::MulAdd(hn::Set(d, kA2), w[2], w[0])),
          odd_a = hn::Mul(hn::Set(d, na * kA), w[1]);
  u[1] = hn::Add(even_a, odd_a), u[2] = hn::Sub(even_a, odd_a);
  const V even_b = hn::Mul(hn::Set(d, nb), hn::MulAdd(hn::Set(d, kB2), w[2], w[0])),
          odd_b = hn::Mul(hn::Set(d, nb * kB), w[1]);
  u[3] = hn::Add(even_b, odd_b), u[4] = hn::Sub(even_b, odd_b);
  u[5] = w[2];
}

struct Tile {
  int64_t image, y, x;  // of its first output
  Tile(const Winograd& w, int64_t index) {
    const int64_t across = (w.out[1] + 3) / 4, down = (w.out[0] + 3) / 4;
    x = index % across * 4, y = index / across % down * 4, image = index / across / down;
  }
};

// One tile into v[point][tile][c]; `v` points at the tile's row of point 0.
void transform_input(const Winograd& w, const float* x, const Tile& t, float* v, int64_t stride) {
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

void transform_output(const Winograd& w, const float* m, int64_t stride, const Tile& t, const float* bias, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* image = y + t.image * w.out[0] * w.out[1] * w.o;
  const int64_t rows = std::min<int64_t>(4, w.out[0] - t.y), columns = std::min<int64_t>(4, w.out[1] - t.x);
  for (int64_t o = 0; o < w.o; o += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, w.o - o)));
    V half[4][6];
    for (int64_t j = 0; j < 6; ++j) {
      V column[6], points[4];
      for (int64_t i = 0; i < 6; ++i) column[i] = load(m + (6 * i + j) * stride + o);
      output_points(column, points);
      for (int64_t i = 0; i < 4; ++i) half[i][j] = points[i];
    }
    const V add = bias ? hn::MaskedLoad(mask, d, bias + o) : hn::Zero(d);
    for (int64_t i = 0; i < rows; ++i) {
      V points[4];
      output_points(half[i], points);
      float* to = image + ((t.y + i) * w.out[1] + t.x) * w.o + o;
      for (int64_t j = 0; j < columns; ++j) hn::BlendedStore(hn::Add(points[j], add), mask, d, to + j * w.o);
    }
  }
}

void Block(const Winograd& w, const float* x, const float* u, const float* bias, float* y, int64_t begin, int64_t end,
           float* space) {
  const int64_t rows = end - begin, wide_c = lanes_up(w.c), wide_o = lanes_up(w.o), width = panel_width();
  const int64_t v_stride = plane_stride(rows, wide_c), m_stride = plane_stride(rows, wide_o);
  float *v = space, *m = space + kPoints * v_stride;
  for (int64_t t = 0; t < rows; ++t) transform_input(w, x, Tile(w, begin + t), v + t * wide_c, v_stride);
  const int64_t panel = w.c * width, panels = (w.o + width - 1) / width;
  for (int64_t p = 0; p < kPoints; ++p)
    for (int64_t j = 0; j < panels; ++j)
      for (int64_t i = 0; i < rows; i += kRows)
        micro_rows<kRows, float>(std::min<int64_t>(kRows, rows - i), w.c,
                                 static_cast<const float*>(v + p * v_stride + i * wide_c), wide_c, int64_t{1},
                                 u + (p * panels + j) * panel, width, m + p * m_stride + i * wide_o + j * width, wide_o,
                                 std::min(width, wide_o - j * width), 1.f, false);
  for (int64_t t = 0; t < rows; ++t) transform_output(w, m + t * wide_o, m_stride, Tile(w, begin + t), bias, y);
}

int64_t SpaceCount(const Winograd& w, int64_t rows) {
  return kPoints * (plane_stride(rows, lanes_up(w.c)) + plane_stride(rows, lanes_up(w.o)));
}
int64_t PanelWidth() { return panel_width(); }

// One panel of outputs: u[point][panel][c][width], columns past the last output zero.
void PanelWeights(const WinogradWeights& s, const float* w, int64_t panel, float* u) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = panel_width(), panels = (s.o + width - 1) / width;
  const auto steps = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(s.o_stride)));
  for (int64_t c = 0; c < s.c; ++c)
    for (int64_t k = 0; k < width; k += lanes) {
      const int64_t o = panel * width + k, count = std::clamp<int64_t>(s.o - o, 0, lanes);
      const auto mask = hn::FirstN(d, static_cast<size_t>(count));
      // Lanes past the end read the first output again; their results are dropped.
      const auto index = hn::IfThenElseZero(hn::RebindMask(di, mask), steps);
      const float* from = w + (count ? o : 0) * s.o_stride + c * s.c_stride;
      V half[6][3];
      for (int64_t x = 0; x < 3; ++x) {
        V column[3], points[6];
        for (int64_t y = 0; y < 3; ++y)
          column[y] =
            hn::GatherIndex(d, from + (s.flip ? 2 - y : y) * s.y_stride + (s.flip ? 2 - x : x) * s.x_stride, index);
        weight_points(column, points);
        for (int64_t y = 0; y < 6; ++y) half[y][x] = points[y];
      }
      for (int64_t y = 0; y < 6; ++y) {
        V points[6];
        weight_points(half[y], points);
        for (int64_t x = 0; x < 6; ++x)
          hn::StoreU(hn::IfThenElseZero(mask, points[x]), d,
                     u + (((6 * y + x) * panels + panel) * s.c + c) * width + k);
      }
    }
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(Block);
HWY_EXPORT(SpaceCount);
HWY_EXPORT(PanelWidth);
HWY_EXPORT(PanelWeights);

// In multiply-adds of the matrix product's rate. A transformed value costs about 6 of them (transform, store, load), a
// transformed weight 12 (it is written to memory and read back), and whole vectors are computed.
bool winograd_pays(const Winograd& w, bool weights_ready) {
  const int64_t computed = (w.o + 15) / 16 * 16;
  const double c = static_cast<double>(w.c), o = static_cast<double>(computed), tiles = static_cast<double>(w.tiles());
  const double plain = 9 * c * o * static_cast<double>(w.n * w.out[0] * w.out[1]);
  const double rows = std::max(tiles, 6.0);  // fewer rows than the registers hold run at the rate of loads
  const double ours = 36 * (rows * c * o + 6 * tiles * (c + o) + (weights_ready ? 4 : 12) * c * o);
  return w.c >= 16 && w.o >= 16 && ours < plain;
}

int64_t winograd_weight_count(int64_t c, int64_t o) {
  const int64_t width = HWY_DYNAMIC_DISPATCH(PanelWidth)();
  return 36 * c * ((o + width - 1) / width * width);
}

void winograd_weights(const WinogradWeights& s, const float* w, float* u) {
  const int64_t width = HWY_DYNAMIC_DISPATCH(PanelWidth)(), panels = (s.o + width - 1) / width;
  parallel_for(panels, std::max<int64_t>(1, 2048 / (s.c * width)), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) HWY_DYNAMIC_DISPATCH(PanelWeights)(s, w, p, u);
  });
}

void winograd(const Winograd& w, const float* x, const float* u, const float* bias, float* y) {
  // Tiles per block: as many as the second-level cache holds, or more where the weights are so large that reading them
  // once per block would cost as much as a larger block's spilling.
  const int64_t tiles = w.tiles(), per_tile = 36 * 4 * (w.c + w.o);
  int64_t rows = std::max<int64_t>((768 << 10) / per_tile, w.c * w.o / (2 * (w.c + w.o))) / 12 * 12;
  rows = std::clamp<int64_t>(rows, 24, 240);
  const bool small = tiles * 36 * w.c * w.o < 4 << 20;  // shorter than it takes to wake a thread and share the weights
  const int64_t threads = small ? 1 : num_threads();
  const int64_t blocks = (tiles + rows * threads - 1) / (rows * threads) * threads;
  rows = (tiles + blocks - 1) / blocks;
  parallel_for(blocks, (blocks + threads - 1) / threads, [&](int64_t first, int64_t last) {
    const auto space = allocate(static_cast<size_t>(HWY_DYNAMIC_DISPATCH(SpaceCount)(w, rows)) * sizeof(float));
    for (int64_t b = first; b < last; ++b) {
      const int64_t begin = std::min(tiles, b * rows), end = std::min(tiles, begin + rows);
      if (begin < end) HWY_DYNAMIC_DISPATCH(Block)(w, x, u, bias, y, begin, end, reinterpret_cast<float*>(space->data));
    }
  });
}

}  // namespace strata::cpu
#endif
