// Mean and variance over any set of dimensions, and the sums that gradients of norms need.
//
// Bound by memory: each element is read once. As in reduce.cu, a block computes `per_block` results, and long results
// are split into parts. A thread loads a batch, computes its mean and squared deviations in the compute type and merges
// them in double (the formula of Chan, Golub and LeVeque), so that a large mean costs no accuracy. A second launch
// merges the parts.
#include "cuda/common/eights.cuh"
#include "cuda/common/index.cuh"
#include "cuda/reduce/channels.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBatch = 2;  // vectors of eight that a thread loads together

struct Moments {  // of n elements
  double n, mean, squares;
  __device__ __forceinline__ void join(const Moments& o) {
    if (o.n == 0) return;
    if (n == 0) {
      *this = o;
      return;
    }
    const double all = n + o.n, delta = o.mean - mean, each = 1 / all;
    squares += o.squares + delta * delta * n * o.n * each;
    mean = (n * mean + o.n * o.mean) * each;
    n = all;  // an infinite mean stays infinite
  }
  // In double, for squares that overflow a float.
  template <class T, int kCount> __device__ __forceinline__ void take_exactly(const T (&v)[kCount]) {
    Moments m{double(kCount), 0, 0};
#pragma unroll
    for (int j = 0; j < kCount; ++j) m.mean += double(v[j]);
    m.mean /= kCount;
#pragma unroll
    for (int j = 0; j < kCount; ++j) m.squares += (double(v[j]) - m.mean) * (double(v[j]) - m.mean);
    join(m);
  }
  template <class T, int kCount> __device__ __forceinline__ void take(const T (&v)[kCount]) {
    T sum = 0, off = 0, around = 0;
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum += v[j];
    const T middle = sum / T(kCount);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const T d = v[j] - middle;
      off += d;
      around += d * d;
    }
    const T squares = around - off * off / T(kCount);
    if (sizeof(T) == 4 && !(squares > T(1e-30) && squares <= T(3.4e38))) return take_exactly(v);
    join({double(kCount), off == off ? double(middle) + double(off) / kCount : double(middle),
          squares < 0 ? 0.0 : double(squares)});
  }
};
struct Sums {
  double first, second;
  __device__ __forceinline__ void join(const Sums& o) {
    first += o.first;
    second += o.second;
  }
};

template <class P, class S> __device__ __forceinline__ void leave(const P& p, S total, int lane, int64_t result) {
  __shared__ S shared[kThreads];
  const int per_result = kThreads / p.per_block, thread = threadIdx.x;
  shared[thread] = total;
  for (int half = per_result / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) {
      total.join(shared[thread + (p.columns ? half * p.per_block : half)]);
      shared[thread] = total;
    }
  }
  if (lane != 0 || result >= p.kept.count) return;
  const int64_t at = int64_t(blockIdx.y) * p.kept.count + result;
  if constexpr (sizeof(S) == sizeof(Moments)) {
    reinterpret_cast<double*>(p.first)[at] = total.mean;
    reinterpret_cast<double*>(p.second)[at] = total.squares;
  } else {
    reinterpret_cast<double*>(p.first)[at] = total.first;
    reinterpret_cast<double*>(p.second)[at] = total.second;
  }
}

struct Place {
  int lane, per_result;
  int64_t result, begin, end, base;
  bool there;
  __device__ explicit Place(const PairParams& p) {
    const int thread = threadIdx.x;
    per_result = kThreads / p.per_block;
    const int own = p.columns ? thread % p.per_block : thread / per_result;
    lane = p.columns ? thread / p.per_block : thread % per_result;
    result = int64_t(blockIdx.x) * p.per_block + own;
    there = result < p.kept.count;
    begin = int64_t(blockIdx.y) * p.part;
    end = there ? min(begin + p.part, p.gone.count) : begin;
    base = there ? offset_of(p.kept, result) : 0;
  }
};

// Calls take(offsets of kBatch elements or vectors, their reduced indices) for full batches, then one by one.
template <int kStep, int kBatch, class Take>
__device__ __forceinline__ void each_batch(const PairParams& p, const Place& at, const Take& take) {
  const int64_t stride = int64_t(at.per_result) * kStep;
  int64_t i = at.begin + int64_t(at.lane) * kStep;
  for (; i + (kBatch - 1) * stride < at.end; i += kBatch * stride) {
    int64_t offset[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) offset[k] = at.base + offset_of(p.gone, i + k * stride);
    take(offset, i, stride);
  }
  for (; i < at.end; i += stride) {
    const int64_t offset[1] = {at.base + offset_of(p.gone, i)};
    take(offset, i, stride);
  }
}

template <class T, int kCount>
__device__ __forceinline__ void read_eights(uint64_t data, int32_t type, const int64_t (&offset)[kCount],
                                            T (&v)[kCount][8]) {
  Eights<T, kCount> read;
  read.load(
    type, [&](int k) { return element(data, type, offset[k]); }, [](int) { return true; });
  read.get(type, v);
}

template <class T> __device__ __forceinline__ void moments(const PairParams& p) {
  const Place at(p);
  Moments total{0, 0, 0};
  if (p.vectors) {
    each_batch<8, kBatch>(p, at, [&]<int kCount>(const int64_t(&offset)[kCount], int64_t, int64_t) {
      T v[kCount][8];
      read_eights(p.x, p.x_type, offset, v);
      total.take(reinterpret_cast<T(&)[kCount * 8]>(v));
    });
  } else {
    each_batch<1, 8>(p, at, [&]<int kCount>(const int64_t(&offset)[kCount], int64_t, int64_t) {
      T v[kCount];
#pragma unroll
      for (int k = 0; k < kCount; ++k) v[k] = load<T>(element(p.x, p.x_type, offset[k]), p.x_type);
      total.take(v);
    });
  }
  leave(p, total, at.lane, at.result);
}

// Sums of g and of g (x - mean), the latter times rstd if the statistics belong to the reduced elements.
template <class T> __device__ __forceinline__ void gradient(const PairParams& p) {
  const Place at(p);
  const T* means = reinterpret_cast<const T*>(p.mean);
  const T* rstds = reinterpret_cast<const T*>(p.rstd);
  const T center = !rstds && at.there ? means[at.result] : T(0);
  Sums total{0, 0};
  if (p.vectors) {
    each_batch<8, kBatch>(p, at, [&]<int kCount>(const int64_t(&offset)[kCount], int64_t, int64_t) {
      T g[kCount][8], x[kCount][8], first = 0, second = 0;
      read_eights(p.grad, p.grad_type, offset, g);
      read_eights(p.x, p.x_type, offset, x);
#pragma unroll
      for (int k = 0; k < kCount; ++k)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          first += g[k][j];
          second += g[k][j] * (x[k][j] - center);
        }
      total.join({double(first), double(second)});
    });
  } else {
    each_batch<1, 8>(p, at, [&]<int kCount>(const int64_t(&offset)[kCount], int64_t i, int64_t stride) {
      T g[kCount], x[kCount], first = 0, second = 0;
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        g[k] = load<T>(element(p.grad, p.grad_type, offset[k]), p.grad_type);
        x[k] = load<T>(element(p.x, p.x_type, offset[k]), p.x_type);
        if (rstds) x[k] = (means ? x[k] - means[i + k * stride] : x[k]) * rstds[i + k * stride];
      }
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        first += g[k];
        second += g[k] * (x[k] - center);
      }
      total.join({double(first), double(second)});
    });
  }
  leave(p, total, at.lane, at.result);
}

// The parts of one result: each thread merges a strided subset of them, then the threads are merged as a tree.
template <class S> __device__ __forceinline__ S joined(const FinishParams& p, int64_t result, int lane) {
  S total{};
  for (int64_t k = lane; k < p.parts; k += p.threads) {
    const double a = reinterpret_cast<const double*>(p.first)[k * p.results + result],
                 b = reinterpret_cast<const double*>(p.second)[k * p.results + result];
    if constexpr (sizeof(S) == sizeof(Moments)) total.join({double(min(p.part, p.count - k * p.part)), a, b});
    else total.join({a, b});
  }
  for (int half = p.threads / 2; half > 0; half /= 2) {
    S other;
    double* from = reinterpret_cast<double*>(&total);
    double* to = reinterpret_cast<double*>(&other);
#pragma unroll
    for (int j = 0; j < int(sizeof(S) / 8); ++j) to[j] = __shfl_down_sync(0xffffffffu, from[j], half);
    total.join(other);
  }
  return total;
}

// The result of this thread, clamped to the last one; whether this thread writes it.
__device__ __forceinline__ int64_t result_of(const FinishParams& p, int& lane, bool& writes) {
  lane = int(threadIdx.x) % p.threads;
  const int64_t result = int64_t(blockIdx.x) * (kThreads / p.threads) + threadIdx.x / p.threads;
  writes = lane == 0 && result < p.results;
  return min(result, p.results - 1);
}

template <class T> __device__ __forceinline__ void put(uint64_t data, int32_t type, int64_t i, T v) {
  store<T>(const_cast<void*>(element(data, type, i)), type, v);
}

template <class T> __device__ __forceinline__ void batch_norm(const FinishParams& p) {
  int lane;
  bool writes;
  const int64_t c = result_of(p, lane, writes);
  const Moments m = joined<Moments>(p, c, lane);
  if (!writes) return;
  const double mean = m.mean, variance = m.squares / double(p.count);
  const auto update = [&](uint64_t data, int32_t type, double now) {
    if (!data) return;
    const T before = load<T>(element(data, type, c), type);
    put<T>(data, type, c, T((1 - p.momentum) * double(before) + p.momentum * now));
  };
  update(p.running_mean, p.running_mean_type, mean);
  update(p.running_var, p.running_var_type, variance * (double(p.count) / double(p.count - 1)));
  const T center = T(mean), rstd = T(1 / sqrt(variance + p.eps));
  const T scale = (p.weight ? load<T>(element(p.weight, p.weight_type, c), p.weight_type) : T(1)) * rstd;
  const T bias = p.bias ? load<T>(element(p.bias, p.bias_type, c), p.bias_type) : T(0);
  reinterpret_cast<T*>(p.scale)[c] = scale;
  reinterpret_cast<T*>(p.center)[c] = center;
  reinterpret_cast<T*>(p.shift)[c] = bias - T(mean - double(center)) * scale;  // corrects the rounding of the mean
  reinterpret_cast<T*>(p.mean)[c] = center;
  reinterpret_cast<T*>(p.rstd)[c] = rstd;
}

template <class T> __device__ __forceinline__ void batch_norm_backward(const FinishParams& p) {
  int lane;
  bool writes;
  const int64_t c = result_of(p, lane, writes);
  const Sums s = joined<Sums>(p, c, lane);
  if (!writes) return;
  const double r = double(reinterpret_cast<const T*>(p.rstd)[c]), n = double(p.count);
  const double scale = (p.weight ? load<double>(element(p.weight, p.weight_type, c), p.weight_type) : 1) * r,
               slope = -scale * r * r * s.second / n;
  put<T>(p.grad_weight, p.grad_weight_type, c, T(s.second * r));
  put<T>(p.grad_bias, p.grad_bias_type, c, T(s.first));
  reinterpret_cast<T*>(p.scale)[c] = T(scale);
  reinterpret_cast<T*>(p.slope)[c] = T(slope);
  reinterpret_cast<T*>(p.center)[c] = reinterpret_cast<const T*>(p.mean)[c];
  reinterpret_cast<T*>(p.shift)[c] = T(-scale * s.first / n);
}

template <class T> __device__ __forceinline__ void columns(const FinishParams& p) {
  int lane;
  bool writes;
  const int64_t c = result_of(p, lane, writes);
  const Sums s = joined<Sums>(p, c, lane);
  if (!writes) return;
  put<T>(p.grad_weight, p.grad_weight_type, c, T(s.second));
  if (p.grad_bias) put<T>(p.grad_bias, p.grad_bias_type, c, T(s.first));
}

// A thread processes one vector of one channel, or one element.
template <class T> __device__ __forceinline__ void channels(const ChannelParams& p) {
  const int64_t unit = int64_t(blockIdx.x) * kThreads + threadIdx.x, i = unit * (p.vectors ? 8 : 1);
  if (i >= p.count) return;
  int64_t c;
  if (p.fast) {
    uint32_t rest = uint32_t(unit);
    split_off(rest, p.by_spatial);
    c = split_off(rest, p.by_channels);
  } else {
    c = i / p.spatial % p.channels;
  }
  const ChannelFactors<T, 1> of(p, c);
  const T center = of.center[0], scale = of.scale[0], shift = of.shift[0];  // x and center may be large: subtract first
  const T slope = !p.grad ? T(0) : p.adds ? scale : reinterpret_cast<const T*>(p.slope)[c];
  const T factor = p.adds ? T(1) : scale;
  const auto result = [&](T d, T g) {
    const T y = p.grad ? g * factor + d * slope + shift : d * scale + shift;
    return p.relu && y < T(0) ? T(0) : y;  // NaN stays NaN
  };
  void* const to = const_cast<void*>(element(p.out, p.out_type, i));
  if (p.vectors) {
    T x[8], g[8] = {};
    load_eight<T>(element(p.x, p.x_type, i), p.x_type, x);
    if (p.grad) load_eight<T>(element(p.grad, p.grad_type, i), p.grad_type, g);
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = result(x[j] - center, g[j]);
    store_eight<T>(to, p.out_type, x);
  } else {
    const T x = load<T>(element(p.x, p.x_type, i), p.x_type);
    const T g = p.grad ? load<T>(element(p.grad, p.grad_type, i), p.grad_type) : T(0);
    store<T>(to, p.out_type, result(x - center, g));
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) finish_moments(FinishParams p) {
  int lane;
  bool writes;
  const int64_t result = result_of(p, lane, writes);
  const Moments m = joined<Moments>(p, result, lane);
  if (!writes) return;
  int64_t at = 0;
  if (p.kept.dims == 1) {
    at = result * p.out_stride[0];
  } else {
    uint32_t rest = uint32_t(result);
    for (int d = 0; d < p.kept.dims; ++d) at += int64_t(split_off(rest, p.kept.size[d])) * p.out_stride[d];
  }
  const double variance = m.squares / max(0.0, double(p.count) - p.correction);
  if (p.variance) put<double>(p.variance, p.variance_type, at, p.root ? sqrt(variance) : variance);
  if (p.average) put<double>(p.average, p.average_type, at, m.mean);
}

#define STRATA_KERNEL(name, P)                                                          \
  extern "C" __global__ void __launch_bounds__(256) name##_f32(P p) { name<float>(p); } \
  extern "C" __global__ void __launch_bounds__(256) name##_f64(P p) { name<double>(p); }
STRATA_KERNEL(moments, PairParams)
STRATA_KERNEL(gradient, PairParams)
STRATA_KERNEL(batch_norm, FinishParams)
STRATA_KERNEL(batch_norm_backward, FinishParams)
STRATA_KERNEL(columns, FinishParams)
STRATA_KERNEL(channels, ChannelParams)

}  // namespace strata::cuda
