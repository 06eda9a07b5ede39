// Discrete Fourier transforms of lines of complex numbers in global memory.
//
// A pass of radix r reads r elements that are n / r apart, transforms them, multiplies them by twiddle factors and writes them
// next to each other (Stockham's order), so that the result is in natural order after one pass per factor of n. Bound by
// memory: each pass reads and writes every element once. A thread computes one butterfly.
#include "cuda/common/dtypes.cuh"
#include "cuda/fft/fft_params.h"
#include "device/complex.h"

namespace strata::cuda {

template <class T> __device__ __forceinline__ Complex<T> multiply(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// exp(sign 2 pi i k / n) for 0 <= k < n.
template <class T> __device__ __forceinline__ Complex<T> root(int64_t k, int64_t n, int sign) {
  double s, c;
  ::sincospi(2.0 * double(k) / double(n), &s, &c);
  return {T(c), T(sign < 0 ? -s : s)};
}

template <int kRadix, class T> __device__ __forceinline__ void butterfly(Complex<T>* a, int sign) {
  if constexpr (kRadix == 2) {
    const Complex<T> x = a[0], y = a[1];
    a[0] = {x.re + y.re, x.im + y.im};
    a[1] = {x.re - y.re, x.im - y.im};
  } else {
    Complex<T> even[2] = {a[0], a[2]}, odd[2] = {a[1], a[3]};
    butterfly<2>(even, sign);
    butterfly<2>(odd, sign);
    const Complex<T> turned = sign < 0 ? Complex<T>{odd[1].im, -odd[1].re} : Complex<T>{-odd[1].im, odd[1].re};
    a[0] = {even[0].re + odd[0].re, even[0].im + odd[0].im};
    a[2] = {even[0].re - odd[0].re, even[0].im - odd[0].im};
    a[1] = {even[1].re + turned.re, even[1].im + turned.im};
    a[3] = {even[1].re - turned.re, even[1].im - turned.im};
  }
}

template <int kRadix, class T> __device__ __forceinline__ void one_butterfly(const FftParams& p, int64_t i) {
  const int64_t per_line = p.groups * p.stride, line = i / per_line, b = i % per_line, group = b / p.stride,
                q = b % p.stride;
  const auto* in = reinterpret_cast<const Complex<T>*>(p.in) + line * p.n + q + p.stride * group;
  auto* out = reinterpret_cast<Complex<T>*>(p.out) + line * p.n + q + p.stride * p.radix * group;
  const int64_t apart = p.stride * p.groups, length = p.groups * p.radix;
  const T scale = T(p.scale);
  if constexpr (kRadix > 0) {
    Complex<T> a[kRadix];
#pragma unroll
    for (int k = 0; k < kRadix; ++k) a[k] = in[k * apart];
    butterfly<kRadix>(a, p.sign);
#pragma unroll
    for (int k = 0; k < kRadix; ++k) {
      const Complex<T> z = k == 0 ? a[0] : multiply(a[k], root<T>(group * k, length, p.sign));
      out[k * p.stride] = {z.re * scale, z.im * scale};
    }
  } else {  // any radix, by direct summation
#pragma unroll 1
    for (int k = 0; k < p.radix; ++k) {
      Complex<T> sum = in[0];
#pragma unroll 1
      for (int j = 1; j < p.radix; ++j) {
        const Complex<T> z = multiply(in[j * apart], root<T>(j * k % p.radix, p.radix, p.sign));
        sum = {sum.re + z.re, sum.im + z.im};
      }
      const Complex<T> z = multiply(sum, root<T>(group * k, length, p.sign));
      out[k * p.stride] = {z.re * scale, z.im * scale};
    }
  }
}
template <class T> __device__ __forceinline__ void fft_pass(const FftParams& p) {
  const int64_t count = p.lines * p.groups * p.stride;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    if (p.radix == 4) one_butterfly<4, T>(p, i);
    else if (p.radix == 2) one_butterfly<2, T>(p, i);
    else one_butterfly<0, T>(p, i);
  }
}

// exp(sign pi i k^2 / n): the chirp of Bluestein's method.
template <class T> __device__ __forceinline__ Complex<T> chirp(int64_t k, int64_t n, int sign) {
  return root<T>((k % (2 * n)) * (k % (2 * n)) % (2 * n), 2 * n, sign);
}
// out[line][i], of p.n elements, is in[line][i] times the chirp for i < groups (the length of a transform), 0 beyond.
template <class T> __device__ __forceinline__ void chirp_in(const FftParams& p) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.lines * p.n;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t line = i / p.n, k = i % p.n;
    Complex<T> z{0, 0};
    if (k < p.groups)
      z = multiply(reinterpret_cast<const Complex<T>*>(p.in)[line * p.groups + k], chirp<T>(k, p.groups, p.sign));
    reinterpret_cast<Complex<T>*>(p.out)[i] = z;
  }
}
// out[i] = the conjugate chirp, with negative indices at the end.
template <class T> __device__ __forceinline__ void chirp_filter(const FftParams& p) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.n; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t k = i < p.groups ? i : p.n - i;
    reinterpret_cast<Complex<T>*>(p.out)[i] = k < p.groups ? chirp<T>(k, p.groups, -p.sign) : Complex<T>{0, 0};
  }
}
// out[line][i] *= in[i].
template <class T> __device__ __forceinline__ void multiply_lines(const FftParams& p) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.lines * p.n;
       i += int64_t(gridDim.x) * blockDim.x) {
    auto* out = reinterpret_cast<Complex<T>*>(p.out);
    out[i] = multiply(out[i], reinterpret_cast<const Complex<T>*>(p.in)[i % p.n]);
  }
}
// out[line][k] = in[line][k] times the chirp and the scale; lines of the input have `groups` elements.
template <class T> __device__ __forceinline__ void chirp_out(const FftParams& p) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.lines * p.n;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t line = i / p.n, k = i % p.n;
    const Complex<T> z =
      multiply(reinterpret_cast<const Complex<T>*>(p.in)[line * p.groups + k], chirp<T>(k, p.n, p.sign));
    reinterpret_cast<Complex<T>*>(p.out)[i] = {z.re * T(p.scale), z.im * T(p.scale)};
  }
}
// The whole spectrum of a real line from its first half: out[n - k] = conj(in[k]).
template <class T> __device__ __forceinline__ void hermitian(const FftParams& p) {
  const int64_t bins = p.n / 2 + 1;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.lines * p.n;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t line = i / p.n, k = i % p.n;
    const Complex<T> z = reinterpret_cast<const Complex<T>*>(p.in)[line * bins + (k < bins ? k : p.n - k)];
    reinterpret_cast<Complex<T>*>(p.out)[i] = {z.re, k < bins ? z.im : -z.im};
  }
}

#define STRATA_FFT_KERNEL(name)                                                                 \
  extern "C" __global__ void __launch_bounds__(256) name##_f32(FftParams p) { name<float>(p); } \
  extern "C" __global__ void __launch_bounds__(256) name##_f64(FftParams p) { name<double>(p); }
STRATA_FFT_KERNEL(fft_pass)
STRATA_FFT_KERNEL(chirp_in)
STRATA_FFT_KERNEL(chirp_filter)
STRATA_FFT_KERNEL(multiply_lines)
STRATA_FFT_KERNEL(chirp_out)
STRATA_FFT_KERNEL(hermitian)
#undef STRATA_FFT_KERNEL

}  // namespace strata::cuda
