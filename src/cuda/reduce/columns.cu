// Columns of a matrix with contiguous rows: moments, the sums that gradients of norms need, and affine maps with their
// own factors for each column. These are the norms over channels of channels-last tensors, the gradients of layer
// norm's parameters, and variances over the first dimension.
//
// Bound by memory: a thread has eight neighbouring columns in 16-byte accesses, several rows in flight; the other
// threads of a row take the next columns, and `groups` rows are read at a time. Runs of 32 rows are summed in the
// compute type, around the mean so far, the runs in double. A second launch (moments.cu) merges the parts of long
// columns. The order depends on the shape only.
#include "cuda/common/eights.cuh"
#include "cuda/reduce/channels.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kRun = 32;

// The columns and rows of a thread.
struct Share {
  int lane, group, groups;
  int64_t first, begin, end;  // column; rows
  __device__ __forceinline__ Share(int columns_per_block, int64_t columns, int64_t rows, int64_t part) {
    const int lanes = columns_per_block / 8, shift = 31 - __clz(lanes);
    lane = int(threadIdx.x) & (lanes - 1);
    group = int(threadIdx.x) >> shift;
    groups = kThreads >> shift;
    first = int64_t(blockIdx.x) * columns_per_block + lane * 8;
    begin = int64_t(blockIdx.y) * part;
    end = min(begin + part, rows);
    if (first >= columns) end = begin;
  }
  __device__ __forceinline__ int64_t rows_of(int of_group) const {  // of those of the block
    const int64_t rows = end - begin - of_group;
    return rows > 0 ? (rows + groups - 1) / groups : 0;
  }
};

struct Pair {
  double first, second;
};
// One pair per column: merge(pair of the groups so far, their rows, pair of the next group, its rows).
template <class Merge>
__device__ __forceinline__ void leave(const PairParams& p, const Share& at, const Pair (&own)[8], Merge merge) {
  __shared__ Pair space[kThreads * 8];
  const int columns = p.per_block;
#pragma unroll
  for (int j = 0; j < 8; ++j) space[at.group * columns + at.lane * 8 + j] = own[j];
  __syncthreads();
  const int64_t column = int64_t(blockIdx.x) * columns + threadIdx.x;
  if (threadIdx.x >= columns || column >= p.kept.count) return;
  // This thread's own columns may be outside of the matrix, so it counts rows by itself.
  Share rows = at;
  rows.end = min(rows.begin + p.part, p.gone.count);
  Pair all = space[threadIdx.x];
  int64_t count = rows.rows_of(0);
  for (int g = 1; g < at.groups; ++g) {
    const int64_t more = rows.rows_of(g);
    if (more == 0) break;
    merge(all, count, space[g * columns + threadIdx.x], more);
    count += more;
  }
  const int64_t to = int64_t(blockIdx.y) * p.kept.count + column;
  reinterpret_cast<double*>(p.first)[to] = all.first;
  reinterpret_cast<double*>(p.second)[to] = all.second;
}

// Mean and squared deviations of some rows of one column, in double: for squares that a float cannot hold.
template <class T>
__device__ __noinline__ Pair exact_moments(uint64_t x, int32_t type, int64_t first, int64_t step, int count) {
  const auto at = [&](int k) { return double(load<T>(element(x, type, first + k * step), type)); };
  Pair m{0, 0};
  for (int k = 0; k < count; ++k) m.first += at(k);
  m.first /= count;
  for (int k = 0; k < count; ++k) m.second += (at(k) - m.first) * (at(k) - m.first);
  return m;
}
__device__ __forceinline__ void join(Pair& a, double n, const Pair& b, double more) {
  if (n == 0) {
    a = b;
    return;
  }
  const double each = 1 / (n + more), delta = b.first - a.first;
  a.second += b.second + delta * delta * (n * more * each);
  if (delta != 0) a.first = (n * a.first + more * b.first) * each;  // an infinite mean stays infinite
}

template <class T, Types kTypes> __device__ __forceinline__ void moments(const PairParams& p) {
  constexpr int kFlight = kInFlight<T, kTypes>;
  const Share at(p.per_block, p.kept.count, p.gone.count, p.part);
  Pair all[8];
  T around[8];  // the mean so far: sums of squares around it lose no digits
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    all[j] = {0, 0};
    around[j] = T(0);
  }
  int64_t n = 0;
  for (int64_t row = at.begin + at.group; row < at.end;) {
    T sum[8], squares[8];
    uint32_t differ[8];  // 0: all elements are equal, so that sums of 0 are exact
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      sum[j] = squares[j] = T(0);
      differ[j] = 0;
    }
    const int64_t start = row;
    int taken = 0;
    for (int k = 0; k < kRun && row < at.end; k += kFlight, row += int64_t(kFlight) * at.groups) {
      const int here = int(min(int64_t(kFlight), (at.end - row + at.groups - 1) / at.groups));
      Eights<T, kFlight, kTypes> read;
      read.load(
        p.x_type,
        [&](int i) {
          return element_as<T, kTypes>(p.x, p.x_type, (row + int64_t(i) * at.groups) * p.gone.stride[0] + at.first);
        },
        [&](int i) { return i < here; });
      if (n == 0 && k == 0) {
        read.each(p.x_type, [&](int i, int j, T v) { around[j] += i < here ? v : T(0); });
#pragma unroll
        for (int j = 0; j < 8; ++j) around[j] /= T(here);
      }
      read.each(p.x_type, [&](int i, int j, T v) {
        const T d = i < here ? v - around[j] : T(0);
        sum[j] += d;
        squares[j] += d * d;
        if constexpr (sizeof(T) == 4) differ[j] |= __float_as_uint(d) << 1;
      });
      taken += here;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const double s = double(sum[j]), off = s / taken;
      Pair m{double(around[j]) + off, max(0.0, double(squares[j]) - s * off)};
      const bool fits = squares[j] <= T(3e38) && (squares[j] >= T(1e-30) || differ[j] == 0);
      if (sizeof(T) == 4 && !fits)
        m =
          exact_moments<T>(p.x, p.x_type, start * p.gone.stride[0] + at.first + j, at.groups * p.gone.stride[0], taken);
      join(all[j], double(n), m, double(taken));
      around[j] = T(all[j].first);
    }
    n += taken;
  }
  leave(p, at, all, [](Pair& a, int64_t n, const Pair& b, int64_t more) { join(a, double(n), b, double(more)); });
}

// Sums of g and of g (x - mean): the mean of the column or, with kByRow, of the row, then times the row's rstd.
template <class T, Types kTypes, bool kByRow> __device__ __forceinline__ void gradient(const PairParams& p) {
  constexpr int kFlight = kInFlight<T, kTypes> / 2;
  const Share at(p.per_block, p.kept.count, p.gone.count, p.part);
  const T* means = reinterpret_cast<const T*>(p.mean);
  const T* rstds = reinterpret_cast<const T*>(p.rstd);
  Pair all[8];
  T center[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    all[j] = {0, 0};
    center[j] = !kByRow && at.first < p.kept.count ? means[at.first + j] : T(0);
  }
  for (int64_t row = at.begin + at.group; row < at.end;) {
    T first[8], second[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) first[j] = second[j] = T(0);
    for (int k = 0; k < kRun && row < at.end; k += kFlight, row += int64_t(kFlight) * at.groups) {
      const auto row_at = [&](int i) { return row + int64_t(i) * at.groups; };
      const auto has = [&](int i) { return row_at(i) < at.end; };
      Eights<T, kFlight, kTypes> x, g;
      x.load(
        p.x_type, [&](int i) { return element_as<T, kTypes>(p.x, p.x_type, row_at(i) * p.gone.stride[0] + at.first); },
        has);
      g.load(
        p.grad_type,
        [&](int i) { return element_as<T, kTypes>(p.grad, p.grad_type, row_at(i) * p.gone.stride[0] + at.first); },
        has);
      T mean[kFlight], rstd[kFlight];
#pragma unroll
      for (int i = 0; i < kFlight; ++i) {
        mean[i] = kByRow && means && has(i) ? means[row_at(i)] : T(0);
        rstd[i] = kByRow && has(i) ? rstds[row_at(i)] : T(0);
      }
      T v[kFlight][8];
      x.get(p.x_type, v);
      g.each(p.grad_type, [&](int i, int j, T e) {
        first[j] += e;  // 0 for rows that do not exist
        second[j] += e * (kByRow ? (v[i][j] - mean[i]) * rstd[i] : v[i][j] - center[j]);
      });
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      all[j].first += double(first[j]);
      all[j].second += double(second[j]);
    }
  }
  leave(p, at, all, [](Pair& a, int64_t, const Pair& b, int64_t) {
    a.first += b.first;
    a.second += b.second;
  });
}

// As `channels` of moments.cu, of rows of channels.
template <class T, Types kTypes, bool kGrad> __device__ __forceinline__ void affine(const ChannelParams& p) {
  constexpr int kFlight = kInFlight<T, kTypes> / 2;
  const Share at(p.lanes * 8, p.channels, p.count / p.channels, p.part);
  if (at.begin == at.end) return;
  const ChannelFactors<T, 8> of(p, at.first);
  T slope[8];
  if (kGrad && !p.adds) ChannelFactors<T, 8>::get(p.slope, TagOf<T>::value, at.first, slope);
  T factor[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    factor[j] = p.adds ? T(1) : of.scale[j];
    if (kGrad && p.adds) slope[j] = of.scale[j];
  }
  for (int64_t row = at.begin + at.group; row < at.end; row += int64_t(kFlight) * at.groups) {
    const auto place = [&](int i) { return (row + int64_t(i) * at.groups) * p.channels + at.first; };
    const auto has = [&](int i) { return row + int64_t(i) * at.groups < at.end; };
    Eights<T, kFlight, kTypes> x, g;
    x.load(
      p.x_type, [&](int i) { return element_as<T, kTypes>(p.x, p.x_type, place(i)); }, has);
    if (kGrad)
      g.load(
        p.grad_type, [&](int i) { return element_as<T, kTypes>(p.grad, p.grad_type, place(i)); }, has);
    T v[kFlight][8];
    x.get(p.x_type, v);
    const auto times = [&](T d, int j) { return d * (kGrad ? slope[j] : of.scale[j]) + of.shift[j]; };
#pragma unroll
    for (int i = 0; i < kFlight; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) v[i][j] = times(v[i][j] - of.center[j], j);
    if (kGrad) g.each(p.grad_type, [&](int i, int j, T e) { v[i][j] += e * factor[j]; });
    if (p.relu) {
#pragma unroll
      for (int i = 0; i < kFlight; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) v[i][j] = v[i][j] < T(0) ? T(0) : v[i][j];  // NaN stays NaN
    }
#pragma unroll
    for (int i = 0; i < kFlight; ++i)
      if (has(i)) store_eight<T, false>(const_cast<void*>(element(p.out, p.out_type, place(i))), p.out_type, v[i]);
  }
}
}  // namespace

#define STRATA_COLUMNS(suffix, T, kTypes)                                                                             \
  extern "C" __global__ void __launch_bounds__(256, 2) moments_##suffix(PairParams p) { moments<T, kTypes>(p); }      \
  extern "C" __global__ void __launch_bounds__(256, 2) gradient_##suffix(PairParams p) {                              \
    gradient<T, kTypes, false>(p);                                                                                    \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(256, 2) row_gradient_##suffix(PairParams p) {                          \
    gradient<T, kTypes, true>(p);                                                                                     \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(256) affine_##suffix(ChannelParams p) { affine<T, kTypes, false>(p); } \
  extern "C" __global__ void __launch_bounds__(256) affine_backward_##suffix(ChannelParams p) {                       \
    affine<T, kTypes, true>(p);                                                                                       \
  }
STRATA_COLUMNS(narrow, float, Types::Narrow)
STRATA_COLUMNS(f32, float, Types::Common)
STRATA_COLUMNS(f64, double, Types::Same)

}  // namespace strata::cuda
