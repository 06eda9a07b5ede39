// Convolutions of few input channels, such as the first layer of a network: a window is so short that packing it would
// cost more than its sum. Rows of the input are copied once with their padding; then kRows neighbouring pixels times
// two vectors of output channels stay in registers during the loop over the window. Bound by writing the output.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/shallow_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/parallel.h"
#include "cpu/nn/shallow.h"
#include "tensor/allocator.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/linalg/gemm_tiles.inl"

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// kR pixels, `step` apart in x, times one panel of weights [k][2 * lanes]; `count` output channels of it exist.
template <int kR>
HWY_INLINE void pixels(int64_t k, const float* x, const int32_t* offset, int64_t step, const float* w,
                       const float* bias, int64_t count, float* y, int64_t y_step, bool relu) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::FirstN(d, static_cast<size_t>(std::min(lanes, count))),
             high = hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(0, count - lanes)));
  V acc[kR][2];
  const V b0 = bias ? hn::MaskedLoad(low, d, bias) : hn::Zero(d),
          b1 = bias && count > lanes ? hn::MaskedLoad(high, d, bias + lanes) : hn::Zero(d);
  for (int i = 0; i < kR; ++i) {
    acc[i][0] = b0;
    acc[i][1] = b1;
  }
  for (int64_t p = 0; p < k; ++p) {
    const V w0 = hn::LoadU(d, w + p * 2 * lanes), w1 = hn::LoadU(d, w + p * 2 * lanes + lanes);
    const float* from = x + offset[p];
#pragma GCC unroll 16
    for (int i = 0; i < kR; ++i) {
      const V v = hn::Set(d, from[i * step]);
      acc[i][0] = hn::MulAdd(v, w0, acc[i][0]);
      acc[i][1] = hn::MulAdd(v, w1, acc[i][1]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kR; ++i) {
    for (V& v : acc[i])
      if (relu) v = hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);  // NaN stays
    hn::BlendedStore(acc[i][0], low, d, y + i * y_step);
    if (count > lanes) hn::BlendedStore(acc[i][1], high, d, y + i * y_step + lanes);
  }
}
template <int kR, class... Rest> HWY_INLINE void some_pixels(int64_t rows, Rest... rest) {
  if constexpr (kR > 0) {
    if (rows == kR) return pixels<kR>(rest...);
    some_pixels<kR - 1>(rows, rest...);
  }
}

// Output rows [begin, end) of one image; `rows` is scratch for the input rows they read.
void ShallowRows(const Shallow& s, const float* x, const float* w, const float* bias, const int32_t* offset, float* y,
                 int64_t begin, int64_t end, float* rows) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t k = s.c * s.kernel[0] * s.kernel[1], wide = s.padded_width(), top = begin * s.stride[0] - s.padding[0];
  for (int64_t r = 0; r < s.rows_under(end - begin); ++r) {
    float* to = rows + r * wide * s.c;
    std::fill_n(to, wide * s.c, 0.f);
    const int64_t iy = top + r;
    if (iy < 0 || iy >= s.in[0]) continue;
    for (int64_t c = 0; c < s.c; ++c)
      for (int64_t ix = 0; ix < std::min(s.in[1], wide - s.padding[1]); ++ix)
        to[(ix + s.padding[1]) * s.c + c] = x[c * s.c_stride + iy * s.y_stride + ix * s.x_stride];
  }
  const int64_t parts = (s.out[1] + kRows - 1) / kRows, most = (s.out[1] + parts - 1) / parts;
  for (int64_t oy = begin; oy < end; ++oy)
    for (int64_t ox = 0; ox < s.out[1]; ox += most)
      for (int64_t o = 0; o < s.o; o += 2 * lanes)
        some_pixels<kRows>(
          std::min(most, s.out[1] - ox), k,
          static_cast<const float*>(rows + ((oy - begin) * s.stride[0] * wide + ox * s.stride[1]) * s.c), offset,
          s.stride[1] * s.c, w + o * k, bias ? bias + o : nullptr, std::min(2 * lanes, s.o - o),
          y + (oy * s.out[1] + ox) * s.o + o, s.o, s.relu);
}
int64_t ShallowPanel() { return 2 * static_cast<int64_t>(hn::Lanes(D())); }

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(ShallowRows);
HWY_EXPORT(ShallowPanel);

void shallow(const Shallow& s, const float* x, const float* weight, const int64_t* weight_strides, const float* bias,
             float* y) {
  const int64_t width = HWY_DYNAMIC_DISPATCH(ShallowPanel)(), k = s.c * s.kernel[0] * s.kernel[1];
  const int64_t panels = (s.o + width - 1) / width, wide = s.padded_width();
  const auto packed = allocate(static_cast<size_t>(panels * width * k) * sizeof(float));
  auto* w = reinterpret_cast<float*>(packed->data);
  std::fill_n(w, panels * width * k, 0.f);
  int32_t offset[kMostShallowWindow];
  int64_t p = 0;
  for (int64_t i = 0; i < s.kernel[0]; ++i)
    for (int64_t j = 0; j < s.kernel[1]; ++j)
      for (int64_t c = 0; c < s.c; ++c, ++p) {
        offset[p] = static_cast<int32_t>((i * s.dilation[0] * wide + j * s.dilation[1]) * s.c + c);
        for (int64_t o = 0; o < s.o; ++o)
          w[(o / width * k + p) * width + o % width] =
            weight[o * weight_strides[0] + c * weight_strides[1] + i * weight_strides[2] + j * weight_strides[3]];
      }
  constexpr int64_t kBlock = 16;  // output rows per unit of work
  const int64_t blocks = (s.out[0] + kBlock - 1) / kBlock, work = std::min(kBlock, s.out[0]) * s.out[1] * s.o * k;
  parallel_for(s.n * blocks, std::max<int64_t>(1, 100000 / work), [&](int64_t begin, int64_t end) {
    const auto space =
      allocate(static_cast<size_t>(s.rows_under(std::min(kBlock, s.out[0])) * wide * s.c) * sizeof(float));
    for (int64_t u = begin; u < end; ++u) {
      const int64_t n = u / blocks, row = u % blocks * kBlock;
      HWY_DYNAMIC_DISPATCH(ShallowRows)
      (s, x + n * s.n_stride, w, bias, offset, y + n * s.out[0] * s.out[1] * s.o, row, std::min(s.out[0], row + kBlock),
       reinterpret_cast<float*>(space->data));
    }
  });
}
}  // namespace strata::cpu
#endif
