// The weight gradient of a 3x3 convolution: Gt [sum over tiles (Bt x B) (A g At)] G, the adjoint of the forward method.
// Per evaluation point it is one matrix product over the tiles, z[tile][o] transposed times v[tile][c].
//
// Many tiles are split into pieces whose number depends on the sizes only; each piece has its own sums, which are added
// in order at the end, so any number of threads gives the same bits. A single piece is split by outputs instead.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/winograd_weight_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/parallel.h"
#include "cpu/nn/winograd.h"
#include "tensor/allocator.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/linalg/gemm_tiles.inl"
#include "cpu/nn/winograd_points.inl"

// A y: four vectors to six.
HWY_INLINE void gradient_points(const V* y, V* z) {
  const D d;
  const V even_a = hn::MulAdd(hn::Set(d, kA2), y[2], y[0]), even_b = hn::MulAdd(hn::Set(d, kB2), y[2], y[0]);
  const V odd_a = hn::MulAdd(hn::Set(d, kA2 * kA), y[3], hn::Mul(hn::Set(d, kA), y[1])),
          odd_b = hn::MulAdd(hn::Set(d, kB2 * kB), y[3], hn::Mul(hn::Set(d, kB), y[1]));
  z[0] = y[0];
  z[5] = y[3];
  z[1] = hn::Add(even_a, odd_a);
  z[2] = hn::Sub(even_a, odd_a);
  z[3] = hn::Add(even_b, odd_b);
  z[4] = hn::Sub(even_b, odd_b);
}

// Gt m: six vectors to three.
HWY_INLINE void taps(const V* m, V* w) {
  const D d;
  constexpr float na = 1 / (2 * kA2 * (kA2 - kB2)), nb = 1 / (2 * kB2 * (kB2 - kA2));
  const V sum_a = hn::Mul(hn::Set(d, na), hn::Add(m[1], m[2])), sum_b = hn::Mul(hn::Set(d, nb), hn::Add(m[3], m[4]));
  w[0] = hn::MulAdd(hn::Set(d, 1 / (kA2 * kB2)), m[0], hn::Add(sum_a, sum_b));
  w[1] = hn::MulAdd(hn::Set(d, na * kA), hn::Sub(m[1], m[2]), hn::Mul(hn::Set(d, nb * kB), hn::Sub(m[3], m[4])));
  w[2] = hn::Add(m[5], hn::MulAdd(hn::Set(d, kA2), sum_a, hn::Mul(hn::Set(d, kB2), sum_b)));
}

// Outputs [first, last) of one tile into z[point][tile][o]; pixels past the border are zero.
void transform_gradient(const Winograd& w, const float* g, const Tile& t, int64_t first, int64_t last, float* z,
                        int64_t stride) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* image = g + t.image * w.out[0] * w.out[1] * w.o;
  for (int64_t o = first; o < last; o += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, last - o)));
    V half[6][4];
    for (int64_t j = 0; j < 4; ++j) {
      V column[4], points[6];
      for (int64_t i = 0; i < 4; ++i)
        column[i] = t.y + i < w.out[0] && t.x + j < w.out[1]
                      ? hn::MaskedLoad(mask, d, image + ((t.y + i) * w.out[1] + t.x + j) * w.o + o)
                      : hn::Zero(d);
      gradient_points(column, points);
      for (int64_t i = 0; i < 6; ++i) half[i][j] = points[i];
    }
    for (int64_t i = 0; i < 6; ++i) {
      V points[6];
      gradient_points(half[i], points);
      for (int64_t j = 0; j < 6; ++j) hn::StoreU(points[j], d, z + (6 * i + j) * stride + o);
    }
  }
}

// Workspace of `rows` tiles: v[36][rows][c], then z[36][rows][o].
struct Rows {
  int64_t wide_c, wide_o, v_stride, z_stride;
  Rows(const Winograd& w, int64_t rows)
      : wide_c(lanes_up(w.c)),
        wide_o(lanes_up(w.o)),
        v_stride(plane_stride(rows, wide_c)),
        z_stride(plane_stride(rows, wide_o)) {}
};
int64_t RowsCount(const Winograd& w, int64_t rows) {
  const Rows r(w, rows);
  return kPoints * (r.v_stride + r.z_stride);
}
int64_t SumCount(const Winograd& w) { return w.o * lanes_up(w.c); }  // per point

// sums[point][o][c] (+)= the products of tiles [begin, end), for outputs [first, last).
void AddTiles(const Winograd& w, const float* x, const float* g, int64_t begin, int64_t end, int64_t first,
              int64_t last, bool add, float* space, float* sums) {
  const int64_t rows = end - begin, width = panel_width();
  const Rows r(w, rows);
  float *v = space, *z = space + kPoints * r.v_stride;
  for (int64_t t = 0; t < rows; ++t) {
    const Tile tile(w, begin + t);
    transform_input(w, x, tile, v + t * r.wide_c, r.v_stride);
    transform_gradient(w, g, tile, first, last, z + t * r.wide_o, r.z_stride);
  }
  for (int64_t p = 0; p < kPoints; ++p)
    for (int64_t c = 0; c < r.wide_c; c += width)
      for (int64_t o = first; o < last; o += kRows)
        micro_rows<kRows, float>(
          std::min<int64_t>(kRows, last - o), rows, static_cast<const float*>(z + p * r.z_stride + o), int64_t{1},
          r.wide_o, static_cast<const float*>(v + p * r.v_stride + c), r.wide_c,
          sums + p * SumCount(w) + o * r.wide_c + c, r.wide_c, std::min(width, r.wide_c - c), 1.f, add);
}

// Output o of the gradient, to[o][3][3][c], from the sums of all pieces.
void FinishOutput(const Winograd& w, const float* sums, int64_t pieces, int64_t o, float* to) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t plane = SumCount(w), wide_c = lanes_up(w.c);
  for (int64_t c = 0; c < w.c; c += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, w.c - c)));
    V half[3][6];
    for (int64_t j = 0; j < 6; ++j) {
      V column[6], w3[3];
      for (int64_t i = 0; i < 6; ++i) {
        const float* from = sums + (6 * i + j) * plane + o * wide_c + c;
        column[i] = load(from);
        for (int64_t p = 1; p < pieces; ++p) column[i] = hn::Add(column[i], load(from + p * kPoints * plane));
      }
      taps(column, w3);
      for (int64_t i = 0; i < 3; ++i) half[i][j] = w3[i];
    }
    for (int64_t i = 0; i < 3; ++i) {
      V w3[3];
      taps(half[i], w3);
      for (int64_t j = 0; j < 3; ++j) hn::BlendedStore(w3[j], mask, d, to + ((o * 3 + i) * 3 + j) * w.c + c);
    }
  }
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(RowsCount);
HWY_EXPORT(SumCount);
HWY_EXPORT(AddTiles);
HWY_EXPORT(FinishOutput);

namespace {
constexpr int64_t kPoints = 36,
                  kMostSums = 5 << 18;  // floats: one piece's sums nearly fit the L2 cache

float* memory(const Ref<Storage>& s) { return reinterpret_cast<float*>(s->data); }
Ref<Storage> floats(int64_t count) { return allocate(static_cast<size_t>(count) * sizeof(float)); }
int64_t pieces_of(const Winograd& w) { return std::clamp<int64_t>(w.tiles() / 64, 1, 8); }
}  // namespace

// As winograd_pays: a transformed value costs about 6 multiply-adds, a sum that is written and read back about 12.
bool winograd_weight_pays(const Winograd& w) {
  const double c = static_cast<double>(w.c), o = static_cast<double>(w.o), tiles = static_cast<double>(w.tiles());
  const double plain = 9 * c * o * static_cast<double>(w.n * w.out[0] * w.out[1]);
  const double ours = 36 * (tiles * c * o + 6 * tiles * (c + o) + 12 * c * o * static_cast<double>(pieces_of(w)));
  return w.c >= 16 && w.o >= 16 && kPoints * HWY_DYNAMIC_DISPATCH(SumCount)(w) <= kMostSums && ours < plain;
}

void winograd_weight(const Winograd& w, const float* x, const float* g, float* to) {
  const int64_t tiles = w.tiles(), pieces = pieces_of(w), sums_of_piece = kPoints * HWY_DYNAMIC_DISPATCH(SumCount)(w);
  const auto sums = floats(pieces * sums_of_piece);
  if (pieces > 1) {
    const int64_t rows = std::clamp<int64_t>((512 << 10) / (kPoints * 4 * (w.c + w.o)), 16, 128);
    parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
      const auto space = floats(HWY_DYNAMIC_DISPATCH(RowsCount)(w, rows));
      for (int64_t p = first; p < last; ++p) {
        const int64_t begin = tiles * p / pieces, end = tiles * (p + 1) / pieces;
        for (int64_t t = begin; t < end; t += rows) {
          HWY_DYNAMIC_DISPATCH(AddTiles)
          (w, x, g, t, std::min(t + rows, end), 0, w.o, t > begin, memory(space), memory(sums) + p * sums_of_piece);
        }
      }
    });
    parallel_for(w.o, std::max<int64_t>(1, 50000 / (pieces * kPoints * w.c)), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) HWY_DYNAMIC_DISPATCH(FinishOutput)(w, memory(sums), pieces, o, to);
    });
    return;
  }
  constexpr int64_t kGroup = 16;  // outputs: whole vectors on every target
  const int64_t groups = (w.o + kGroup - 1) / kGroup, work = kGroup * w.c * kPoints * (tiles + 12);
  parallel_for(groups, std::max<int64_t>(1, 400000 / work), [&](int64_t begin, int64_t end) {
    const auto space = floats(HWY_DYNAMIC_DISPATCH(RowsCount)(w, tiles));
    const int64_t first = begin * kGroup, last = std::min(w.o, end * kGroup);
    HWY_DYNAMIC_DISPATCH(AddTiles)(w, x, g, 0, tiles, first, last, false, memory(space), memory(sums));
    for (int64_t o = first; o < last; ++o) HWY_DYNAMIC_DISPATCH(FinishOutput)(w, memory(sums), 1, o, to);
  });
}

}  // namespace strata::cpu
#endif
