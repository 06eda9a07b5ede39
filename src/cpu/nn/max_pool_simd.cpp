// Max pooling at memory speed. Channels-last: a vector of channels per window position. Planes: a vector of
// neighbouring windows, whose inputs are stride 1 or 2 apart. All other cases run in plain loops.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/max_pool_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"
#include "cpu/nn/max_pool.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using DI = hn::RebindToSigned<D>;
using DB = hn::Rebind<uint8_t, D>;

// best and, with codes, code become v if it is larger, or NaN.
template <bool kCodes> HWY_INLINE void take(V v, int32_t position, V& best, hn::Vec<DI>& code) {
  const auto better = hn::Or(hn::Gt(v, best), hn::IsNaN(v));
  best = hn::IfThenElse(better, v, best);
  if constexpr (kCodes) code = hn::IfThenElse(hn::RebindMask(DI(), better), hn::Set(DI(), position), code);
}
template <bool kCodes> HWY_INLINE void put(V best, hn::Vec<DI> code, size_t count, float* y, uint8_t* codes) {
  const D d;
  if (count >= hn::Lanes(d)) {
    hn::StoreU(best, d, y);
    if constexpr (kCodes) hn::StoreU(hn::DemoteTo(DB(), code), DB(), codes);
  } else {
    hn::BlendedStore(best, hn::FirstN(d, count), d, y);
    if constexpr (!kCodes) return;
    HWY_ALIGN uint8_t bytes[HWY_MAX_BYTES];
    hn::StoreU(hn::DemoteTo(DB(), code), DB(), bytes);
    std::memcpy(codes, bytes, count);
  }
}

// One row of windows, channels-last.
template <bool kCodes> void row_of_pixels(const MaxPool& p, const float* x, int64_t oy, float* y, uint8_t* codes) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t y0 = p.first(0, oy), y1 = p.last(0, oy);
  for (int64_t ox = 0; ox < p.out[1]; ++ox, y += p.inner, codes += kCodes ? p.inner : 0) {
    const int64_t x0 = p.first(1, ox), x1 = p.last(1, ox);
    for (int64_t c = 0; c < p.inner; c += lanes) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, p.inner - c)));
      V best = hn::Set(d, -std::numeric_limits<float>::infinity());
      auto code = hn::Set(DI(), static_cast<int32_t>(y0 * p.kernel[1] + x0));
      for (int64_t i = y0; i < y1; ++i)
        for (int64_t j = x0; j < x1; ++j)
          take<kCodes>(hn::MaskedLoad(mask, d, x + (p.at(0, oy, i) * p.in[1] + p.at(1, ox, j)) * p.inner + c),
                       static_cast<int32_t>(i * p.kernel[1] + j), best, code);
      put<kCodes>(best, code, static_cast<size_t>(std::min(lanes, p.inner - c)), y + c, kCodes ? codes + c : nullptr);
    }
  }
}
void RowOfPixels(const MaxPool& p, const float* x, int64_t oy, float* y, uint8_t* codes) {
  codes ? row_of_pixels<true>(p, x, oy, y, codes) : row_of_pixels<false>(p, x, oy, y, codes);
}

void RowOfPixelsBackward(const MaxPool& p, const float* grad, const uint8_t* codes, int64_t oy, float* x) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool apart = p.apart();
  const int64_t y0 = p.first(0, oy), y1 = p.last(0, oy);
  for (int64_t ox = 0; ox < p.out[1]; ++ox, grad += p.inner, codes += p.inner) {
    const int64_t x0 = p.first(1, ox), x1 = p.last(1, ox);
    for (int64_t c = 0; c < p.inner; c += lanes) {
      const auto count = static_cast<size_t>(std::min(lanes, p.inner - c));
      const auto mask = hn::FirstN(d, count);
      const V g = hn::MaskedLoad(mask, d, grad + c);
      HWY_ALIGN uint8_t bytes[HWY_MAX_BYTES] = {};
      if (count < hn::Lanes(d)) std::memcpy(bytes, codes + c, count);
      const auto code = hn::PromoteTo(DI(), hn::LoadU(DB(), count < hn::Lanes(d) ? bytes : codes + c));
      for (int64_t i = y0; i < y1; ++i)
        for (int64_t j = x0; j < x1; ++j) {
          float* to = x + (p.at(0, oy, i) * p.in[1] + p.at(1, ox, j)) * p.inner + c;
          const auto here = hn::RebindMask(d, hn::Eq(code, hn::Set(DI(), static_cast<int32_t>(i * p.kernel[1] + j))));
          V v = hn::IfThenElseZero(here, g);
          if (!apart) v = hn::Add(v, hn::MaskedLoad(mask, d, to));
          hn::BlendedStore(v, mask, d, to);
        }
    }
  }
}

// One row of windows of a plane; strides 1 and 2. Columns near the border and near the end of memory are left to the
// caller: returns the columns [begin, end) that were computed.
template <bool kCodes>
void row_of_windows(const MaxPool& p, const float* x, const float* end_of_memory, int64_t oy, float* y, uint8_t* codes,
                    int64_t& begin, int64_t& end) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t s = p.stride[1];
  int64_t ox = 0, stop = p.out[1];
  while (ox < stop && p.first(1, ox) > 0) ++ox;
  while (stop > ox && p.last(1, stop - 1) < p.kernel[1]) --stop;
  begin = ox;
  const int64_t y0 = p.first(0, oy), y1 = p.last(0, oy);
  for (; ox < stop; ox += lanes) {
    const float* furthest = x + p.at(0, oy, y1 - 1) * p.in[1] + p.at(1, ox, p.kernel[1] - 1) + s * lanes;
    if (furthest > end_of_memory) break;
    V best = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto code = hn::Set(DI(), static_cast<int32_t>(y0 * p.kernel[1]));
    for (int64_t i = y0; i < y1; ++i)
      for (int64_t j = 0; j < p.kernel[1]; ++j) {
        const float* from = x + p.at(0, oy, i) * p.in[1] + p.at(1, ox, j);
        V v, odd;
        if (s == 1) v = hn::LoadU(d, from);
        else hn::LoadInterleaved2(d, from, v, odd);
        take<kCodes>(v, static_cast<int32_t>(i * p.kernel[1] + j), best, code);
      }
    put<kCodes>(best, code, static_cast<size_t>(std::min(lanes, stop - ox)), y + ox, kCodes ? codes + ox : nullptr);
  }
  end = std::max(begin, std::min(ox, stop));
}
void RowOfWindows(const MaxPool& p, const float* x, const float* end_of_memory, int64_t oy, float* y, uint8_t* codes,
                  int64_t& begin, int64_t& end) {
  codes ? row_of_windows<true>(p, x, end_of_memory, oy, y, codes, begin, end)
        : row_of_windows<false>(p, x, end_of_memory, oy, y, codes, begin, end);
}

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(RowOfPixels);
HWY_EXPORT(RowOfPixelsBackward);
HWY_EXPORT(RowOfWindows);

namespace {
// f(image, row of windows)
template <class F> void over_rows(const MaxPool& p, F f) {
  const int64_t work = std::max<int64_t>(1, p.out[1] * p.inner * p.kernel[0] * p.kernel[1]);
  parallel_for(p.images * p.out[0], std::max<int64_t>(1, 65536 / work), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) f(r / p.out[0], r % p.out[0]);
  });
}
template <class F> void over_images(const MaxPool& p, F f) {
  parallel_for(p.images, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, p.in_size())),
               [&](int64_t begin, int64_t end) {
                 for (int64_t n = begin; n < end; ++n) f(n);
               });
}

// Windows [begin, end) of a row. x, y and codes belong to the image.
template <class T>
void plain_windows(const MaxPool& p, const T* x, int64_t oy, int64_t begin, int64_t end, T* y, uint8_t* codes) {
  constexpr T lowest =
    std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  const int64_t y0 = p.first(0, oy), y1 = p.last(0, oy);
  for (int64_t ox = begin; ox < end; ++ox) {
    const int64_t x0 = p.first(1, ox), x1 = p.last(1, ox);
    for (int64_t c = 0; c < p.inner; ++c) {
      T best = lowest;
      int64_t code = y0 * p.kernel[1] + x0;
      for (int64_t i = y0; i < y1; ++i)
        for (int64_t j = x0; j < x1; ++j) {
          const T v = x[(p.at(0, oy, i) * p.in[1] + p.at(1, ox, j)) * p.inner + c];
          if (v > best || v != v) {
            best = v;
            code = i * p.kernel[1] + j;
          }
        }
      const int64_t o = (oy * p.out[1] + ox) * p.inner + c;
      y[o] = best;
      if (codes) codes[o] = static_cast<uint8_t>(code);
    }
  }
}

// f(output index, input index) within the image, for every window of row oy.
template <class F> void each_source(const MaxPool& p, const uint8_t* codes, int64_t oy, F f) {
  for (int64_t ox = 0; ox < p.out[1]; ++ox)
    for (int64_t c = 0; c < p.inner; ++c) {
      const int64_t o = (oy * p.out[1] + ox) * p.inner + c, code = codes[o];
      const int64_t iy = p.at(0, oy, code / p.kernel[1]), ix = p.at(1, ox, code % p.kernel[1]);
      STRATA_CHECK(iy >= 0 && iy < p.in[0] && ix >= 0 && ix < p.in[1], Runtime,
                   "max_pool2d: code {} of window [{}, {}] points outside of the input", code, oy, ox);
      f(o, (iy * p.in[1] + ix) * p.inner + c);
    }
}
}  // namespace

template <class T> void max_pool(const MaxPool& p, const T* x, T* y, uint8_t* codes) {
  const T* end_of_memory = x + p.images * p.in_size();
  over_rows(p, [&](int64_t n, int64_t oy) {
    const T* image = x + n * p.in_size();
    T* to = y + n * p.out_size();
    uint8_t* where = codes ? codes + n * p.out_size() : nullptr;
    if constexpr (std::is_same_v<T, float>) {
      const int64_t row = oy * p.out[1] * p.inner;
      if (p.inner > 1) return HWY_DYNAMIC_DISPATCH(RowOfPixels)(p, image, oy, to + row, where ? where + row : nullptr);
      if (p.stride[1] <= 2) {
        int64_t begin, end;
        HWY_DYNAMIC_DISPATCH(RowOfWindows)
        (p, image, end_of_memory, oy, to + row, where ? where + row : nullptr, begin, end);
        plain_windows(p, image, oy, 0, begin, to, where);
        return plain_windows(p, image, oy, end, p.out[1], to, where);
      }
    }
    plain_windows(p, image, oy, 0, p.out[1], to, where);
  });
}

template <class T> void max_pool_backward(const MaxPool& p, const T* grad, const uint8_t* codes, T* out) {
  // Whole images per thread: windows of neighbouring rows may share inputs.
  const bool all_written = p.apart() && p.stride[0] == p.kernel[0] && p.stride[1] == p.kernel[1] &&
                           p.out[0] * p.stride[0] == p.in[0] && p.out[1] * p.stride[1] == p.in[1] && p.inner > 1 &&
                           std::is_same_v<T, float>;
  over_images(p, [&](int64_t n) {
    T* to = out + n * p.in_size();
    const T* g = grad + n * p.out_size();
    const uint8_t* from = codes + n * p.out_size();
    if (!all_written) std::fill_n(to, p.in_size(), T(0));
    for (int64_t oy = 0; oy < p.out[0]; ++oy) {
      if constexpr (std::is_same_v<T, float>)
        if (p.inner > 1) {
          const int64_t row = oy * p.out[1] * p.inner;
          HWY_DYNAMIC_DISPATCH(RowOfPixelsBackward)(p, g + row, from + row, oy, to);
          continue;
        }
      each_source(p, from, oy, [&](int64_t o, int64_t i) { to[i] += g[o]; });
    }
  });
}

template <class T> void max_pool_gather(const MaxPool& p, const T* x, const uint8_t* codes, T* y) {
  over_rows(p, [&](int64_t n, int64_t oy) {
    const T* from = x + n * p.in_size();
    T* to = y + n * p.out_size();
    each_source(p, codes + n * p.out_size(), oy, [&](int64_t o, int64_t i) { to[o] = from[i]; });
  });
}

template <class T> void max_pool_reference(const MaxPool& p, const T* x, T* y, uint8_t* codes) {
  for (int64_t n = 0; n < p.images; ++n)
    for (int64_t oy = 0; oy < p.out[0]; ++oy)
      plain_windows(p, x + n * p.in_size(), oy, 0, p.out[1], y + n * p.out_size(),
                    codes ? codes + n * p.out_size() : nullptr);
}

template <class T> void max_pool_backward_reference(const MaxPool& p, const T* grad, const uint8_t* codes, T* out) {
  std::fill_n(out, p.images * p.in_size(), T(0));
  for (int64_t n = 0; n < p.images; ++n)
    for (int64_t oy = 0; oy < p.out[0]; ++oy)
      each_source(p, codes + n * p.out_size(), oy,
                  [&](int64_t o, int64_t i) { out[n * p.in_size() + i] += grad[n * p.out_size() + o]; });
}

template <class T> void max_pool_gather_reference(const MaxPool& p, const T* x, const uint8_t* codes, T* y) {
  for (int64_t n = 0; n < p.images; ++n)
    for (int64_t oy = 0; oy < p.out[0]; ++oy)
      each_source(p, codes + n * p.out_size(), oy,
                  [&](int64_t o, int64_t i) { y[n * p.out_size() + o] = x[n * p.in_size() + i]; });
}

#define STRATA_MAX_POOL(T)                                                                 \
  template void max_pool(const MaxPool&, const T*, T*, uint8_t*);                          \
  template void max_pool_backward(const MaxPool&, const T*, const uint8_t*, T*);           \
  template void max_pool_gather(const MaxPool&, const T*, const uint8_t*, T*);             \
  template void max_pool_backward_reference(const MaxPool&, const T*, const uint8_t*, T*); \
  template void max_pool_gather_reference(const MaxPool&, const T*, const uint8_t*, T*);   \
  template void max_pool_reference(const MaxPool&, const T*, T*, uint8_t*);
STRATA_MAX_POOL(float)
STRATA_MAX_POOL(double)
STRATA_MAX_POOL(int64_t)
#undef STRATA_MAX_POOL

}  // namespace strata::cpu
#endif
