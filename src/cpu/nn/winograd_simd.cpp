// y = At [(G w Gt) (Bt x B)] A for tiles of 4x4 outputs from 6x6 inputs. A thread processes blocks of tiles: their
// transformed inputs v[36][tile][c], the products m[36][tile][o] and the outputs stay in its cache; most of the work is
// 36 matrix products.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/winograd_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/parallel.h"
#include "cpu/movement/transpose.h"
#include "cpu/nn/winograd.h"
#include "tensor/allocator.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/linalg/gemm_tiles.inl"
#include "cpu/nn/winograd_points.inl"

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
  u[1] = hn::Add(even_a, odd_a);
  u[2] = hn::Sub(even_a, odd_a);
  const V even_b = hn::Mul(hn::Set(d, nb), hn::MulAdd(hn::Set(d, kB2), w[2], w[0])),
          odd_b = hn::Mul(hn::Set(d, nb * kB), w[1]);
  u[3] = hn::Add(even_b, odd_b);
  u[4] = hn::Sub(even_b, odd_b);
  u[5] = w[2];
}

// Outputs [first, last) of one tile from m[point][tile][o].
void transform_output(const Winograd& w, const float* m, int64_t stride, const Tile& t, int64_t first, int64_t last,
                      const float* bias, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* image = y + t.image * w.out[0] * w.out[1] * w.o;
  const int64_t rows = std::min<int64_t>(4, w.out[0] - t.y), columns = std::min<int64_t>(4, w.out[1] - t.x);
  for (int64_t o = first; o < last; o += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, last - o)));
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
      const float* other = w.other ? w.other + (to - y) : nullptr;
      for (int64_t j = 0; j < columns; ++j) {
        V v = hn::Add(points[j], add);
        const V residual = other ? hn::MaskedLoad(mask, d, other + j * w.o) : hn::Zero(d);
        if (other && !w.add_last) v = hn::Add(v, residual);
        if (w.relu) v = hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);  // NaN stays
        if (other && w.add_last) v = hn::Add(v, residual);
        hn::BlendedStore(v, mask, d, to + j * w.o);
      }
    }
  }
}

// Tiles [begin, end), outputs [first, last); first is a multiple of a vector's lanes.
void Block(const Winograd& w, const float* x, const float* u, const float* bias, float* y, int64_t begin, int64_t end,
           int64_t first, int64_t last, float* space) {
  const int64_t rows = end - begin, wide_c = lanes_up(w.c), wide_o = lanes_up(w.o), width = panel_width();
  const int64_t v_stride = plane_stride(rows, wide_c), m_stride = plane_stride(rows, wide_o);
  float *v = space, *m = space + kPoints * v_stride;
  for (int64_t t = 0; t < rows; ++t) transform_input(w, x, Tile(w, begin + t), v + t * wide_c, v_stride);
  const int64_t panel = w.c * width, panels = (w.o + width - 1) / width, parts = (rows + kRows - 1) / kRows,
                most = (rows + parts - 1) / parts;
  for (int64_t p = 0; p < kPoints; ++p)
    for (int64_t o = first; o < last;) {
      const int64_t j = o / width, columns = std::min({width - o % width, lanes_up(last) - o, wide_o - o});
      for (int64_t i = 0; i < rows; i += most)
        micro_rows<kRows, float>(std::min(most, rows - i), w.c,
                                 static_cast<const float*>(v + p * v_stride + i * wide_c), wide_c, int64_t{1},
                                 u + (p * panels + j) * panel + o % width, width, m + p * m_stride + i * wide_o + o,
                                 wide_o, columns, 1.f, false);
      o += columns;
    }
  for (int64_t t = 0; t < rows; ++t)
    transform_output(w, m + t * wide_o, m_stride, Tile(w, begin + t), first, last, bias, y);
}

int64_t SpaceCount(const Winograd& w, int64_t rows) {
  return kPoints * (plane_stride(rows, lanes_up(w.c)) + plane_stride(rows, lanes_up(w.o)));
}
int64_t PanelWidth() { return panel_width(); }

int64_t GroupWidth() { return static_cast<int64_t>(hn::Lanes(D())); }

// Reads the weights of a vector of outputs: directly if outputs are adjacent, transposed first if the weights of an
// output are contiguous, gathered otherwise.
class GroupReader {
 public:
  GroupReader(const WinogradWeights& s, const float* w, int64_t first, int64_t count)
      : s_(s), from_(w + first * s.o_stride), count_(count) {
    const int64_t row = 9 * s.c, span = (s.c - 1) * s.c_stride + 2 * (s.y_stride + s.x_stride) + 1,
                  lanes = GroupWidth();
    if (s.o_stride == 1 || span != row || s.o_stride < row || count < lanes) return;
    turned_ = allocate(static_cast<size_t>(row * lanes) * sizeof(float));
    transpose_tile<float, false>(reinterpret_cast<float*>(turned_->data), lanes, from_, s.o_stride, row, lanes);
  }
  HWY_INLINE V operator()(int64_t c, int64_t y, int64_t x) const {
    const D d;
    const hn::RebindToSigned<D> di;
    const int64_t at = c * s_.c_stride + (s_.flip ? 2 - y : y) * s_.y_stride + (s_.flip ? 2 - x : x) * s_.x_stride;
    if (turned_) return load(reinterpret_cast<const float*>(turned_->data) + at * GroupWidth());
    const auto mask = hn::FirstN(d, static_cast<size_t>(count_));
    if (s_.o_stride == 1) return hn::MaskedLoad(mask, d, from_ + at);
    // Lanes past the end read the first output again; their results are dropped.
    const auto steps = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(s_.o_stride)));
    return hn::GatherIndex(d, from_ + at, hn::IfThenElseZero(hn::RebindMask(di, mask), steps));
  }

 private:
  const WinogradWeights& s_;
  const float* from_;
  int64_t count_;
  Ref<Storage> turned_;
};

// One vector of outputs: u[point][panel][c][width], padded with zeros.
void GroupWeights(const WinogradWeights& s, const float* w, int64_t group, float* u) {
  const D d;
  const int64_t lanes = GroupWidth(), width = panel_width(), panels = (s.o + width - 1) / width, o = group * lanes;
  const int64_t panel = o / width, count = std::clamp<int64_t>(s.o - o, 0, lanes);
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  const GroupReader weight(s, w, count ? o : 0, count);
  for (int64_t c = 0; c < s.c; ++c) {
    V half[6][3];
    for (int64_t x = 0; x < 3; ++x) {
      V column[3], points[6];
      for (int64_t y = 0; y < 3; ++y) column[y] = weight(c, y, x);
      weight_points(column, points);
      for (int64_t y = 0; y < 6; ++y) half[y][x] = points[y];
    }
    for (int64_t y = 0; y < 6; ++y) {
      V points[6];
      weight_points(half[y], points);
      for (int64_t x = 0; x < 6; ++x)
        hn::StoreU(hn::IfThenElseZero(mask, points[x]), d,
                   u + (((6 * y + x) * panels + panel) * s.c + c) * width + o % width);
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
HWY_EXPORT(GroupWidth);
HWY_EXPORT(GroupWeights);

// In multiply-adds of the matrix product's rate. A transformed value costs about 6 of them (transform, store, load), a
// transformed weight 12 (written to memory and read back), and whole vectors are computed.
bool winograd_pays(const Winograd& w, bool weights_ready) {
  const int64_t computed = (w.o + 15) / 16 * 16;
  const double c = static_cast<double>(w.c), o = static_cast<double>(computed), tiles = static_cast<double>(w.tiles());
  const double plain = 9 * c * o * static_cast<double>(w.n * w.out[0] * w.out[1]);
  const double rows = std::max(tiles, 6.0);  // fewer rows than the registers hold are limited by loads
  const double ours = 36 * (rows * c * o + 6 * tiles * (c + o) + (weights_ready ? 4 : 12) * c * o);
  return w.c >= 16 && w.o >= 16 && ours < plain;
}

int64_t winograd_weight_count(int64_t c, int64_t o) {
  const int64_t width = HWY_DYNAMIC_DISPATCH(PanelWidth)();
  return 36 * c * ((o + width - 1) / width * width);
}

void winograd_weights(const WinogradWeights& s, const float* w, float* u) {
  const int64_t width = HWY_DYNAMIC_DISPATCH(PanelWidth)(), group = HWY_DYNAMIC_DISPATCH(GroupWidth)();
  const int64_t groups = (s.o + width - 1) / width * width / group;
  parallel_for(groups, std::max<int64_t>(1, 512 / (s.c * group)), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) HWY_DYNAMIC_DISPATCH(GroupWeights)(s, w, g, u);
  });
}

void winograd(const Winograd& w, const float* x, const float* u, const float* bias, float* y) {
  // Tiles per block: as many as the L2 cache holds, or more if the weights are so large that reading them once per
  // block would cost as much as spilling a larger block.
  const int64_t tiles = w.tiles(), per_tile = 36 * 4 * (w.c + w.o);
  int64_t rows = std::max<int64_t>((768 << 10) / per_tile, w.c * w.o / (2 * (w.c + w.o))) / 12 * 12;
  rows = std::clamp<int64_t>(rows, 24, 240);
  const int64_t threads = num_threads();
  const int64_t blocks = (tiles + rows * threads - 1) / (rows * threads) * threads;
  rows = (tiles + blocks - 1) / blocks;
  parallel_for(blocks, (blocks + threads - 1) / threads, [&](int64_t first, int64_t last) {
    const auto space = allocate(static_cast<size_t>(HWY_DYNAMIC_DISPATCH(SpaceCount)(w, rows)) * sizeof(float));
    for (int64_t b = first; b < last; ++b) {
      const int64_t begin = std::min(tiles, b * rows), end = std::min(tiles, begin + rows);
      if (begin < end) HWY_DYNAMIC_DISPATCH(Block)
      (w, x, u, bias, y, begin, end, 0, w.o, reinterpret_cast<float*>(space->data));
    }
  });
}

bool winograd_is_few(const Winograd& w) { return w.tiles() <= 48; }

void winograd_few(const Winograd& w, const float* x, const WinogradWeights& from, const float* weights, const float* u,
                  const float* bias, float* y) {
  const int64_t tiles = w.tiles(), group = HWY_DYNAMIC_DISPATCH(GroupWidth)(), groups = (w.o + group - 1) / group;
  const auto made = u ? Ref<Storage>() : allocate(static_cast<size_t>(winograd_weight_count(w.c, w.o)) * sizeof(float));
  auto* transformed = u ? nullptr : reinterpret_cast<float*>(made->data);
  const int64_t work = group * w.c * 36 * (tiles + 12);
  parallel_for(groups, std::max<int64_t>(1, 400000 / work), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; transformed && g < end; ++g)
      HWY_DYNAMIC_DISPATCH(GroupWeights)(from, weights, g, transformed);
    const auto space = allocate(static_cast<size_t>(HWY_DYNAMIC_DISPATCH(SpaceCount)(w, tiles)) * sizeof(float));
    HWY_DYNAMIC_DISPATCH(Block)
    (w, x, u ? u : transformed, bias, y, 0, tiles, begin * group, std::min(w.o, end * group),
     reinterpret_cast<float*>(space->data));
  });
}

}  // namespace strata::cpu
#endif
