// Cross entropy of rows of logits with class indices: log_softmax and nll_loss without the matrix between them.
//
// Bound by memory: the forward pass reads the logits once and keeps a running maximum and the sum of exponentials below
// it; the backward pass reads them once more and writes the gradient. Rows of odd length are not aligned: the elements
// before the first 16-byte boundary and after the last one are read one by one. Partial results are combined in an order
// that depends on the shape only; losses are summed in double.
#include "cuda/common/eights.cuh"
#include "cuda/common/row_threads.cuh"
#include "cuda/nn/classes.cuh"
#include "cuda/nn/cross_entropy_params.h"

namespace strata::cuda {
namespace {

constexpr int kVectors = 4;  // of eight elements, in flight per thread

template <class T> __device__ __forceinline__ T exponential(T v, bool coarse) {
  if constexpr (sizeof(T) == 4)
    if (coarse) return exp_coarse(v);
  return exp(v);
}

struct Row {
  int64_t row, base;  // its number and its first element
  int thread;
  bool exists;
  int64_t head, vectors;  // elements before the first boundary; whole vectors after it
};
__device__ __forceinline__ Row row_of(const CrossEntropyParams& p) {
  const int shift = 31 - __clz(p.threads);
  Row r;
  r.row = int64_t(blockIdx.x) * (blockDim.x >> shift) + (threadIdx.x >> shift);
  r.base = r.row * p.classes;
  r.thread = int(threadIdx.x) & (p.threads - 1);
  r.exists = r.row < p.rows;
  // Vectors of eight: 16 bytes of a 16-bit type, 32 or 64 bytes of wider ones, which are read in parts of 16.
  const uint64_t size = p.type == kF64 ? 8 : p.type == kF32 ? 4 : 2;
  const uint64_t off = (p.x + uint64_t(r.base) * size) % 16;
  r.head = p.singly ? p.classes : min(int64_t((16 - off) % 16 / size), p.classes);
  r.vectors = (p.classes - r.head) / 8;
  return r;
}

// A maximum and the sum of exponentials below it; -infinity and 0 if there was no element above -infinity.
template <class T> struct Running {
  T most = T(-INFINITY), sum = T(0);
  // While there is no finite element the sum takes 0 as the maximum: NaN still reaches it.
  static __device__ __forceinline__ T below(T most) { return most == T(-INFINITY) ? T(0) : most; }
  __device__ __forceinline__ void raise(T to, bool coarse) {
    const T next = max(most, to);
    sum *= exponential<T>(most - below(next), coarse);
    most = next;
  }
  __device__ __forceinline__ void add(T v, bool coarse) { sum += exponential<T>(v - below(most), coarse); }
};

template <class T> __device__ __forceinline__ void forward(const CrossEntropyParams& p) {
  __shared__ T space[2][32];
  const Row r = row_of(p);
  const bool coarse = p.type == kBF16 || p.type == kF16;
  Running<T> own;
  const auto single = [&](int64_t i) {
    const T v = load<T>(element(p.x, p.type, r.base + i), p.type);
    own.raise(v, coarse);
    own.add(v, coarse);
  };
  if (r.exists) {
    for (int64_t i = r.thread; i < r.head; i += p.threads) single(i);
    for (int64_t i = r.head + r.vectors * 8 + r.thread; i < p.classes; i += p.threads) single(i);
    const int64_t first = r.base + r.head;
    for (int64_t v = r.thread; v < r.vectors; v += int64_t(p.threads) * kVectors) {
      Eights<T, kVectors, Types::Common> x;
      x.template load<true>(
        p.type, [&](int k) { return element(p.x, p.type, first + (v + int64_t(k) * p.threads) * 8); },
        [&](int k) { return v + int64_t(k) * p.threads < r.vectors; });
      T most = T(-INFINITY);
      x.each(p.type, [&](int, int, T e) { most = max(most, e); });
      own.raise(most, coarse);
      x.each(p.type, [&](int, int, T e) { own.add(e, coarse); });
    }
  }
  const T most = over_row<Most>(own.most, p.threads, space[0]);
  own.raise(most, coarse);
  const T log_sum = log(over_row<Add>(own.sum, p.threads, space[1]));
  if (!r.exists || r.thread != 0) return;
  const int64_t t = class_of(p, r.row);
  T loss = T(0);
  if (t >= 0) loss = -(load<T>(element(p.x, p.type, r.base + t), p.type) - most - log_sum) * weight_of<T>(p, t);
  T* stats = reinterpret_cast<T*>(p.stats) + r.row * kCrossEntropyStats;
  stats[0] = most;
  stats[1] = log_sum;
  stats[2] = loss;
  if (p.each) store<T>(const_cast<void*>(element(p.loss, p.type, r.row)), p.type, loss);
}

// The sums over all rows, by one block.
template <class T> __device__ __forceinline__ void sums(const CrossEntropyParams& p) {
  ClassSums own;
  for (int64_t row = threadIdx.x; row < p.rows; row += kClassThreads) {
    const int64_t t = load<int64_t>(element(p.target, p.target_type, row), p.target_type);
    if (t < 0 || t >= p.classes || t == p.ignore) continue;
    own.add({double(reinterpret_cast<const T*>(p.stats)[row * kCrossEntropyStats + 2]), double(weight_of<T>(p, t))});
  }
  own = over_block(own);
  if (threadIdx.x != 0) return;
  *reinterpret_cast<T*>(p.total) = T(own.weight);
  if (!p.each) store<T>(reinterpret_cast<void*>(p.loss), p.type, T(p.mean ? own.loss / own.weight : own.loss));
}

// The gradient of a row, as if no class were the target; then that of the target is written over it. `out` may be x.
template <class T, Types kTypes> __device__ __forceinline__ void backward(const CrossEntropyParams& p) {
  constexpr int kFlight = 16 / int(sizeof(T));
  constexpr bool kCoarse = kTypes == Types::Narrow;
  const Row r = row_of(p);
  const int64_t t = r.exists ? class_of(p, r.row) : -1;
  T most = T(0), log_sum = T(0), scale = T(0);
  if (t >= 0) {
    const T* stats = reinterpret_cast<const T*>(p.stats) + r.row * kCrossEntropyStats;
    most = stats[0];
    log_sum = stats[1];
    scale = load<T>(element(p.grad, p.grad_type, p.each ? r.row : 0), p.grad_type) * weight_of<T>(p, t);
    if (p.mean) scale /= *reinterpret_cast<const T*>(p.total);
  }
  const bool counts = t >= 0;  // an ignored row has no gradient, whatever it contains
  const auto value = [&](T v) { return counts ? exponential<T>(v - most - log_sum, kCoarse) * scale : T(0); };
  const auto read = [&](int64_t i) { return load<T>(element_as<T, kTypes>(p.x, p.type, r.base + i), p.type); };
  const auto put = [&](int64_t i, T v) {
    store<T>(const_cast<void*>(element_as<T, kTypes>(p.out, p.type, r.base + i)), p.type, v);
  };
  const T hit = t >= 0 && r.thread == 0 ? read(t) : T(0);
  if (p.out == p.x) __syncthreads();  // it is read before another thread overwrites it
  if (r.exists) {
    for (int64_t i = r.thread; i < r.head; i += p.threads) put(i, value(read(i)));
    for (int64_t i = r.head + r.vectors * 8 + r.thread; i < p.classes; i += p.threads) put(i, value(read(i)));
    for (int64_t v = r.thread; v < r.vectors; v += int64_t(p.threads) * kFlight) {
      const auto has = [&](int k) { return v + int64_t(k) * p.threads < r.vectors; };
      const auto place = [&](int k) { return r.base + r.head + (v + int64_t(k) * p.threads) * 8; };
      Eights<T, kFlight, kTypes> x;
      x.load(
        p.type, [&](int k) { return element_as<T, kTypes>(p.x, p.type, place(k)); }, has);
      T y[kFlight][8];
      x.each(p.type, [&](int k, int j, T e) { y[k][j] = value(e); });
#pragma unroll
      for (int k = 0; k < kFlight; ++k)
        if (has(k))
          store_eight<T, false>(const_cast<void*>(element_as<T, kTypes>(p.out, p.type, place(k))), p.type, y[k]);
    }
  }
  __syncthreads();
  if (t >= 0 && r.thread == 0) put(t, (exponential<T>(hit - most - log_sum, kCoarse) - T(1)) * scale);
}
}  // namespace

#define STRATA_CROSS_ENTROPY(suffix, T)                                                                             \
  extern "C" __global__ void __launch_bounds__(512) cross_entropy_##suffix(CrossEntropyParams p) { forward<T>(p); } \
  extern "C" __global__ void __launch_bounds__(256) cross_entropy_sums_##suffix(CrossEntropyParams p) { sums<T>(p); }
STRATA_CROSS_ENTROPY(f32, float)
STRATA_CROSS_ENTROPY(f64, double)
#define STRATA_CROSS_ENTROPY_BACKWARD(suffix, T, kTypes)                                                    \
  extern "C" __global__ void __launch_bounds__(512) cross_entropy_backward_##suffix(CrossEntropyParams p) { \
    backward<T, kTypes>(p);                                                                                 \
  }
STRATA_CROSS_ENTROPY_BACKWARD(narrow, float, Types::Narrow)
STRATA_CROSS_ENTROPY_BACKWARD(f32, float, Types::Same)
STRATA_CROSS_ENTROPY_BACKWARD(f64, double, Types::Same)

}  // namespace strata::cuda
