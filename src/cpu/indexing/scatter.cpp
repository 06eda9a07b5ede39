// Gather and scatter along one dimension. The lines along it are independent, so they are distributed over threads;
// within a thread the dimension is the outer loop over a run of neighbouring lines, which keeps memory accesses in
// order.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "cpu/indexing/indexing.h"

namespace strata::cpu {
namespace {

constexpr int64_t kGrain = 1 << 14, kRun = 512;  // elements per piece of parallel work; lines per run

// Calls f(offset in a, offset in b, index) for all elements of `index`. a is indexed along dim: its offset excludes
// that. b has index's shape or more. Both strides are given by dimension of index.
template <class F>
void each_element(const TensorImpl& index, int dim, const int64_t* sa, const int64_t* sb, const F& f) {
  const int nd = index.ndim;
  if (nd == 0) return f(0, 0, *reinterpret_cast<const int64_t*>(index.data));
  const int last = nd - 1 == dim ? -1 : nd - 1;  // the run dimension; none if dim itself is the innermost
  const int64_t along = index.shape[dim], width = last < 0 ? 1 : index.shape[last];
  const int64_t runs = (width + kRun - 1) / kRun, lines = index.numel / (along * width);
  const auto* values = reinterpret_cast<const int64_t*>(index.data);
  const int64_t si = last < 0 ? 0 : index.strides[last], ra = last < 0 ? 0 : sa[last], rb = last < 0 ? 0 : sb[last];
  parallel_for(lines * runs, std::max<int64_t>(1, kGrain / (along * std::min(width, kRun))),
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) {
                   int64_t a = 0, b = 0, i = 0, rest = unit / runs;
                   for (int d = nd; d-- > 0;) {
                     if (d == dim || d == last) continue;
                     const int64_t k = rest % index.shape[d];
                     rest /= index.shape[d];
                     a += k * sa[d];
                     b += k * sb[d];
                     i += k * index.strides[d];
                   }
                   const int64_t along_i = index.strides[dim], along_b = sb[dim];
                   if (last < 0) {
                     for (int64_t k = 0; k < along; ++k) f(a, b + k * along_b, values[i + k * along_i]);
                     continue;
                   }
                   const int64_t from = unit % runs * kRun, to = std::min(width, from + kRun);
                   for (int64_t k = 0; k < along; ++k)
                     for (int64_t j = from; j < to; ++j)
                       f(a + j * ra, b + k * along_b + j * rb, values[i + k * along_i + j * si]);
                 }
               });
}

template <class T> T multiply(T a, T b) {
  if constexpr (std::is_same_v<T, BoolByte>) return a && b;
  else if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(a * b);
  else return T(static_cast<float>(a) * static_cast<float>(b));
}
template <class T> T plus(T a, T b) {
  if constexpr (std::is_same_v<T, BoolByte>) return a || b;
  else if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(a + b);
  else return T(static_cast<float>(a) + static_cast<float>(b));
}
// NaN wins, as in amax and amin.
template <class T> T extreme(T a, T b, bool larger) {
  if constexpr (std::is_integral_v<T>) return larger ? std::max(a, b) : std::min(a, b);
  else {
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const C x = static_cast<C>(a), y = static_cast<C>(b);
    if (std::isnan(x)) return a;
    if (std::isnan(y)) return b;
    return (larger ? x < y : y < x) ? b : a;
  }
}

constexpr int64_t kZeroStrides[kMaxDims] = {};
}  // namespace

void check_indices(const TensorImpl& index, int64_t size, int dim, const char* op) {
  if (index.numel == 0) return;
  const auto check = [&](int64_t v) {
    STRATA_CHECK(v >= 0 && v < size, Runtime, "{}: index {} is out of bounds for dimension {} with size {}", op, v, dim,
                 size);
  };
  if (!index.contiguous)
    return each_element(index, std::max(0, index.ndim - 1), kZeroStrides, kZeroStrides,
                        [&](int64_t, int64_t, int64_t v) { check(v); });
  const auto* values = reinterpret_cast<const int64_t*>(index.data);
  parallel_for(index.numel, 2 * kGrain, [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 1024;  // without a branch per element, so that the compiler vectorizes it
    for (int64_t from = begin; from < end; from += kBlock) {
      const int64_t to = std::min(end, from + kBlock);
      uint64_t outside = 0;  // the top bit: v < 0 or size - 1 - v < 0
      for (int64_t i = from; i < to; ++i) {
        const auto v = static_cast<uint64_t>(values[i]);
        outside |= v | (static_cast<uint64_t>(size) - 1 - v);
      }
      if (outside >> 63)
        for (int64_t i = from; i < to; ++i) check(values[i]);
    }
  });
}

void gather(const TensorImpl& out, const TensorImpl& in, int dim, const TensorImpl& index) {
  if (index.numel == 0) return;
  dispatch_size(out.dtype, [&]<class T> {
    T* to = reinterpret_cast<T*>(out.data);
    const T* from = reinterpret_cast<const T*>(in.data);
    const int64_t stride = in.ndim ? in.strides[dim] : 1;
    each_element(index, dim, in.strides, out.strides,
                 [=](int64_t a, int64_t b, int64_t v) { to[b] = from[a + v * stride]; });
  });
}

void scatter(const TensorImpl& out, int dim, const TensorImpl& index, const TensorImpl& src, Scatter how) {
  if (index.numel == 0) return;
  const int64_t* sb = src.numel == 1 && src.ndim == 0 ? kZeroStrides : src.strides;
  const int64_t stride = out.ndim ? out.strides[dim] : 1;
  const auto run = [&]<class T>(const auto& write) {
    T* to = reinterpret_cast<T*>(out.data);
    const T* from = reinterpret_cast<const T*>(src.data);
    each_element(index, dim, out.strides, sb,
                 [&](int64_t a, int64_t b, int64_t v) { write(to[a + v * stride], from[b]); });
  };
  if (how == Scatter::Assign)
    return dispatch_size(out.dtype, [&]<class T> { run.template operator()<T>([](T& d, T v) { d = v; }); });
  dispatch_real(out.dtype, [&]<class T> {
    if (how == Scatter::Add) run.template operator()<T>([](T& d, T v) { d = plus(d, v); });
    else if (how == Scatter::Multiply) run.template operator()<T>([](T& d, T v) { d = multiply(d, v); });
    else run.template operator()<T>([larger = how == Scatter::Max](T& d, T v) { d = extreme(d, v, larger); });
  });
}

}  // namespace strata::cpu
