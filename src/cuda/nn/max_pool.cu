// max_pool2d with a byte per window that stores the position of its maximum, its gradient, and gathering by these
// bytes.
//
// Bound by memory: the windows of neighbouring threads overlap in the cache. The gradient is gathered, not scattered:
// each input element reads the windows that contain it, so no sum depends on timing.
#include "cuda/common/dtypes.cuh"
#include "cuda/nn/max_pool_windows.cuh"

namespace strata::cuda {
namespace {

struct Place {
  int32_t n, c, y, x;
};
__device__ __forceinline__ Place place_of(uint32_t i, const FastDivisor (&size)[2], const FastDivisor& channels) {
  Place p;
  p.x = int32_t(split_off(i, size[1]));
  p.y = int32_t(split_off(i, size[0]));
  p.c = int32_t(split_off(i, channels));
  p.n = int32_t(i);
  return p;
}
__device__ __forceinline__ int64_t offset(const int64_t (&stride)[4], const Place& p, int32_t y, int32_t x) {
  return p.n * stride[0] + p.c * stride[1] + y * stride[2] + x * stride[3];
}

// Plain: big and small are of type T, Narrow: of a 16-bit type; in both cases, their offsets fit 32 bits.
enum class Layout { Any, Plain, Narrow };
template <Layout kLayout> struct OffsetOf { using type = int32_t; };
template <> struct OffsetOf<Layout::Any> { using type = int64_t; };
template <class T, Layout kLayout>
__device__ __forceinline__ T get(uint64_t data, int32_t type, typename OffsetOf<kLayout>::type i) {
  if constexpr (kLayout == Layout::Plain) return reinterpret_cast<const T*>(data)[i];
  else if constexpr (kLayout == Layout::Any) return load<T>(element(data, type, i), type);
  else {
    const uint16_t bits = reinterpret_cast<const uint16_t*>(data)[i];
    return type == kBF16 ? bf16_to_float(bits) : half_to_float(bits);
  }
}
template <class T, Layout kLayout>
__device__ __forceinline__ void put(uint64_t data, int32_t type, typename OffsetOf<kLayout>::type i, T v) {
  if constexpr (kLayout == Layout::Plain) reinterpret_cast<T*>(data)[i] = v;
  else if constexpr (kLayout == Layout::Any) store<T>(const_cast<void*>(element(data, type, i)), type, v);
  else reinterpret_cast<uint16_t*>(data)[i] = type == kBF16 ? float_to_bf16(v) : float_to_half(v);
}

template <class T, Layout kLayout = Layout::Any> __device__ __forceinline__ void forward(const MaxPoolParams& p) {
  using Offset = typename OffsetOf<kLayout>::type;
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Place at = place_of(uint32_t(i), p.out_div, p.channels);
  const auto base = Offset(at.n * p.big_stride[0] + at.c * p.big_stride[1]);
  const auto step_y = Offset(p.big_stride[2]), step_x = Offset(p.big_stride[3]);
  T best = T(0);
  int code = -1;
  for (int ky = 0; ky < p.kernel[0]; ++ky) {
    const int32_t y = at.y * p.stride[0] - p.padding[0] + ky * p.dilation[0];
    if (y < 0 || y >= p.in[0]) continue;
    for (int kx = 0; kx < p.kernel[1]; ++kx) {
      const int32_t x = at.x * p.stride[1] - p.padding[1] + kx * p.dilation[1];
      if (x < 0 || x >= p.in[1]) continue;
      const T v = get<T, kLayout>(p.big, p.big_type, base + y * step_y + x * step_x);
      if (code < 0 || v > best || (v != v && best == best)) {
        best = v;
        code = ky * p.kernel[1] + kx;
      }
    }
  }
  put<T, kLayout>(p.small, p.small_type, Offset(offset(p.small_stride, at, at.y, at.x)), best);
  if (p.codes) reinterpret_cast<uint8_t*>(p.codes)[offset(p.code_stride, at, at.y, at.x)] = uint8_t(code);
}

template <class T, Layout kLayout = Layout::Any> __device__ __forceinline__ void backward(const MaxPoolParams& p) {
  using Offset = typename OffsetOf<kLayout>::type;
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Place at = place_of(uint32_t(i), p.in_div, p.channels);
  const auto plane = Offset(at.n * p.small_stride[0] + at.c * p.small_stride[1]),
             codes = Offset(at.n * p.code_stride[0] + at.c * p.code_stride[1]);
  const auto small_y = Offset(p.small_stride[2]), small_x = Offset(p.small_stride[3]),
             code_y = Offset(p.code_stride[2]), code_x = Offset(p.code_stride[3]);
  T sum = T(0);
  each_window(p, 0, at.y, [&](int ky, int y) {
    each_window(p, 1, at.x, [&](int kx, int x) {
      const int code = reinterpret_cast<const uint8_t*>(p.codes)[codes + y * code_y + x * code_x];
      if (code == ky * p.kernel[1] + kx)
        sum += get<T, kLayout>(p.small, p.small_type, plane + y * small_y + x * small_x);
    });
  });
  put<T, kLayout>(p.big, p.big_type, Offset(offset(p.big_stride, at, at.y, at.x)), sum);
}

// The same if windows do not overlap: a thread writes all elements of the cell that holds its window.
template <class T, Layout kLayout = Layout::Any>
__device__ __forceinline__ void backward_apart(const MaxPoolParams& p) {
  using Offset = typename OffsetOf<kLayout>::type;
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Place at = place_of(uint32_t(i), p.cells, p.channels);
  int code = -1;
  T grad = T(0);
  if (at.y < p.out[0] && at.x < p.out[1]) {
    code = reinterpret_cast<const uint8_t*>(p.codes)[offset(p.code_stride, at, at.y, at.x)];
    grad = get<T, kLayout>(p.small, p.small_type, Offset(offset(p.small_stride, at, at.y, at.x)));
  }
  const int32_t y0 = at.y * p.stride[0] - p.padding[0], x0 = at.x * p.stride[1] - p.padding[1];
  const auto base = Offset(at.n * p.big_stride[0] + at.c * p.big_stride[1]);
  const auto step_y = Offset(p.big_stride[2]), step_x = Offset(p.big_stride[3]);
  if constexpr (kLayout == Layout::Plain) {
    if (p.pairs) {  // a cell is two elements wide: whole sectors are written
      for (int ky = 0; ky < p.stride[0]; ++ky) {
        if (y0 + ky >= p.in[0]) break;
        const int first = ky < p.kernel[0] ? code - ky * p.kernel[1] : -1;
        *reinterpret_cast<float2*>(reinterpret_cast<float*>(p.big) + base + (y0 + ky) * step_y + x0) =
          make_float2(first == 0 ? grad : 0.f, first == 1 && p.kernel[1] > 1 ? grad : 0.f);
      }
      return;
    }
  }
  for (int ky = 0; ky < p.stride[0]; ++ky) {
    const int32_t y = y0 + ky;
    if (y < 0 || y >= p.in[0]) continue;
    for (int kx = 0; kx < p.stride[1]; ++kx) {
      const int32_t x = x0 + kx;
      if (x < 0 || x >= p.in[1]) continue;
      const bool here = ky < p.kernel[0] && kx < p.kernel[1] && code == ky * p.kernel[1] + kx;
      put<T, kLayout>(p.big, p.big_type, base + y * step_y + x * step_x, here ? grad : T(0));
    }
  }
}

template <class T> __device__ __forceinline__ void gather(const MaxPoolParams& p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Place at = place_of(uint32_t(i), p.out_div, p.channels);
  const int code = reinterpret_cast<const uint8_t*>(p.codes)[offset(p.code_stride, at, at.y, at.x)];
  const int32_t y = at.y * p.stride[0] - p.padding[0] + code / p.kernel[1] * p.dilation[0],
                x = at.x * p.stride[1] - p.padding[1] + code % p.kernel[1] * p.dilation[1];
  T v = T(0);
  if (y >= 0 && y < p.in[0] && x >= 0 && x < p.in[1])
    v = load<T>(element(p.big, p.big_type, offset(p.big_stride, at, y, x)), p.big_type);
  store<T>(const_cast<void*>(element(p.small, p.small_type, offset(p.small_stride, at, at.y, at.x))), p.small_type, v);
}
}  // namespace

#define STRATA_MAX_POOL(suffix, T)                                                                                     \
  extern "C" __global__ void __launch_bounds__(256) forward_##suffix(MaxPoolParams p) { forward<T>(p); }               \
  extern "C" __global__ void __launch_bounds__(256) backward_##suffix(MaxPoolParams p) { backward<T>(p); }             \
  extern "C" __global__ void __launch_bounds__(256) backward_apart_##suffix(MaxPoolParams p) { backward_apart<T>(p); } \
  extern "C" __global__ void __launch_bounds__(256) gather_##suffix(MaxPoolParams p) { gather<T>(p); }
// Float and 16-bit types only: the common cases.
extern "C" __global__ void __launch_bounds__(256) forward_plain(MaxPoolParams p) { forward<float, Layout::Plain>(p); }
extern "C" __global__ void __launch_bounds__(256) forward_narrow(MaxPoolParams p) { forward<float, Layout::Narrow>(p); }
extern "C" __global__ void __launch_bounds__(256) backward_plain(MaxPoolParams p) { backward<float, Layout::Plain>(p); }
extern "C" __global__ void __launch_bounds__(256) backward_narrow(MaxPoolParams p) {
  backward<float, Layout::Narrow>(p);
}
extern "C" __global__ void __launch_bounds__(256) backward_apart_plain(MaxPoolParams p) {
  backward_apart<float, Layout::Plain>(p);
}
extern "C" __global__ void __launch_bounds__(256) backward_apart_narrow(MaxPoolParams p) {
  backward_apart<float, Layout::Narrow>(p);
}

STRATA_MAX_POOL(f32, float)
STRATA_MAX_POOL(f64, double)
STRATA_MAX_POOL(i64, int64_t)

}  // namespace strata::cuda
