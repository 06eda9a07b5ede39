// Reads and writes rows at index tensors; gathers and scatters elements along a dimension.
//
// Bound by memory: data is read and written once, in units of up to 16 bytes, four of them in flight per thread;
// neighbouring threads process neighbouring units. If several elements go to one position, the last one wins: either
// one thread walks over all elements that may collide, or an atomic integer maximum, which does not depend on the order
// of threads, finds the winners first: in an array of all positions or, if these are many more, in a hash table.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/units.cuh"
#include "cuda/indexing/targets.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256, kItems = 4;

struct Row {
  int64_t offset, number;
  bool good;  // bad indices read row 0 and never write
};
__device__ __forceinline__ Row row_of(const RowsParams& p, int64_t i) {
  Row r{0, 0, true};
  for (int k = 0; k < p.indices; ++k) {
    const RowsParams::Index& x = p.index[k];
    const int64_t at = in_range(p.faults, index_at(x.data, p.index_type, i), x.size, p.front, r.good);
    r.offset += at * x.stride;
    r.number += at * x.weight;
  }
  return r;
}

struct Unit3 {  // a unit of the block: outer, index element, inner
  int64_t outer, i, inner;
};
__device__ __forceinline__ Unit3 parts_of(const RowsParams& p, int64_t u) {
  if (p.fast) {
    uint32_t rest = uint32_t(u);
    const uint32_t inner = split_off(rest, p.by_inner), i = split_off(rest, p.by_n);
    return {rest, i, inner};
  }
  const int64_t rest = u / p.inner.count;
  return {rest / p.n, rest % p.n, u % p.inner.count};
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) take_rows(RowsParams p) {
  const int64_t first = int64_t(blockIdx.x) * kThreads * kItems + threadIdx.x;
  Unit moved[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int64_t u = first + j * kThreads;
    if (u >= p.total) continue;
    const Unit3 at = parts_of(p, u);
    const int64_t from = offset_of(p.outer, at.outer) + row_of(p, at.i).offset + offset_of(p.inner, at.inner);
    moved[j] = load_unit(p.table, from, p.log_unit);
  }
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    if (first + j * kThreads < p.total) store_unit(p.block, first + j * kThreads, p.log_unit, moved[j]);
}

namespace {
// A hash table with linear probing, of row numbers in the upper half of a slot and index elements in the lower one. Which
// slot a row gets depends on timing, which index element it has in the end does not.
constexpr uint64_t kEmptySlot = ~0ull;
__device__ __forceinline__ uint32_t first_slot(const RowsParams& p, int64_t row) {
  return uint32_t(row) * 0x9E3779B1u >> (32 - p.log_slots);
}
__device__ __forceinline__ void mark_slot(const RowsParams& p, int64_t row, int64_t i) {
  auto* const slots = reinterpret_cast<unsigned long long*>(p.slots);
  const uint64_t own = uint64_t(row) << 32 | uint64_t(i);
  for (uint32_t at = first_slot(p, row);; at = (at + 1) & ((1u << p.log_slots) - 1)) {
    const uint64_t found = atomicCAS(slots + at, kEmptySlot, own);
    if (found == kEmptySlot) return;
    if (found >> 32 != uint64_t(row)) continue;
    atomicMax(slots + at, own);
    return;
  }
}
__device__ __forceinline__ uint32_t slot_of(const RowsParams& p, int64_t row) {
  for (uint32_t at = first_slot(p, row);; at = (at + 1) & ((1u << p.log_slots) - 1)) {
    const uint64_t found = reinterpret_cast<const uint64_t*>(p.slots)[at];
    if (found >> 32 == uint64_t(row)) return uint32_t(found);
  }
}
// Whether index element i is the last one of its row.
__device__ __forceinline__ bool wins(const RowsParams& p, int64_t row, int64_t i) {
  if (p.winners) return reinterpret_cast<const int32_t*>(p.winners)[row] == i;
  return !p.slots || slot_of(p, row) == i;
}
}  // namespace

// Finds the last index element of each row.
extern "C" __global__ void __launch_bounds__(256) mark_rows(RowsParams p) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.n) return;
  const Row row = row_of(p, i);
  if (!row.good) return;
  if (p.slots) mark_slot(p, row.number, i);
  else atomicMax(reinterpret_cast<int32_t*>(p.winners) + row.number, int32_t(i));
}
namespace {
// write(row, index element, offset in the table, position in the block) for each unit of the block whose index is in range.
template <class F> __device__ __forceinline__ void each_unit(const RowsParams& p, const F& write) {
  const int64_t first = int64_t(blockIdx.x) * kThreads * kItems + threadIdx.x;
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int64_t u = first + j * kThreads;
    if (u >= p.total) continue;
    const Unit3 at = parts_of(p, u);
    const Row row = row_of(p, at.i);
    if (row.good)
      write(row, at.i, offset_of(p.outer, at.outer) + row.offset + offset_of(p.inner, at.inner), p.single ? 0 : u);
  }
}
// Adds in any order: the bits vary. The units are elements of T.
template <class T> __device__ __forceinline__ void add_units(const RowsParams& p) {
  each_unit(p, [&](const Row&, int64_t, int64_t to, int64_t from) {
    atomicAdd(reinterpret_cast<T*>(p.table) + to, reinterpret_cast<const T*>(p.block)[from]);
  });
}
}  // namespace
extern "C" __global__ void __launch_bounds__(256) put_rows(RowsParams p) {
  each_unit(p, [&](const Row& row, int64_t i, int64_t to, int64_t from) {
    if (wins(p, row.number, i)) store_unit(p.table, to, p.log_unit, load_unit(p.block, from, p.log_unit));
  });
}
extern "C" __global__ void __launch_bounds__(256) add_units_f32(RowsParams p) { add_units<float>(p); }
extern "C" __global__ void __launch_bounds__(256) add_units_f64(RowsParams p) { add_units<double>(p); }

namespace {
// A thread adds all values of a column, in order. For few index elements.
template <class T> __device__ __forceinline__ void add_rows(const RowsParams& p) {
  const int64_t column = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= p.outer.count * p.inner.count) return;
  const int64_t outer = column / p.inner.count, inner = column % p.inner.count;
  const int64_t base = offset_of(p.outer, outer) + offset_of(p.inner, inner);
  for (int64_t i = 0; i < p.n; ++i) {
    const Row row = row_of(p, i);
    if (!row.good) continue;
    void* to = const_cast<void*>(element(p.table, p.type, base + row.offset));
    const int64_t from = p.single ? 0 : (outer * p.n + i) * p.inner.count + inner;
    store<T>(to, p.type, load<T>(to, p.type) + load<T>(element(p.block, p.type, from), p.type));
  }
}
}  // namespace
extern "C" __global__ void __launch_bounds__(256) add_rows_f32(RowsParams p) { add_rows<float>(p); }
extern "C" __global__ void __launch_bounds__(256) add_rows_f64(RowsParams p) { add_rows<double>(p); }
extern "C" __global__ void __launch_bounds__(256) add_rows_i64(RowsParams p) { add_rows<int64_t>(p); }

// The row numbers to sort by; bad indices get the number after the last.
extern "C" __global__ void __launch_bounds__(256) row_numbers(RowsParams p) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.n) return;
  const Row row = row_of(p, i);
  reinterpret_cast<uint32_t*>(p.keys)[i] = uint32_t(row.good ? row.number : p.index[0].size * p.index[0].weight);
}
// Only reports indices out of range.
extern "C" __global__ void __launch_bounds__(256) check_rows(RowsParams p) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < p.n) row_of(p, i);
}

// --- along a dimension -----------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(256) gather(AlongParams p) {
  const int64_t first = int64_t(blockIdx.x) * kThreads * kItems + threadIdx.x;
  const int log_unit = log_size(p.type);
  Unit moved[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int64_t e = first + j * kThreads;
    if (e >= p.axes.count) continue;
    bool good = true;
    const int64_t i = in_range(p.faults, index_at(p.index, p.index_type, e), p.size, true, good);
    moved[j] = load_unit(p.table, offset_of(p.axes, e) + i * p.stride, log_unit);
  }
#pragma unroll
  for (int j = 0; j < kItems; ++j)
    if (first + j * kThreads < p.axes.count) store_unit(p.block, first + j * kThreads, log_unit, moved[j]);
}

// Finds the last element that goes to each position of the table, which is contiguous here.
extern "C" __global__ void __launch_bounds__(256) mark_targets(AlongParams p) {
  const int64_t e = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (e >= p.axes.count) return;
  const int64_t to = target_of(p, e);
  if (to >= 0) atomicMax(reinterpret_cast<int32_t*>(p.winners) + to, int32_t(e));
}
extern "C" __global__ void __launch_bounds__(256) put_targets(AlongParams p) {
  const int64_t e = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (e >= p.axes.count) return;
  const int64_t to = target_of(p, e);
  if (to < 0 || (p.winners && reinterpret_cast<const int32_t*>(p.winners)[to] != e)) return;
  store_unit(p.table, to, log_size(p.type), load_unit(p.block, p.single ? 0 : e, log_size(p.type)));
}
extern "C" __global__ void __launch_bounds__(256) target_numbers(AlongParams p) {
  const int64_t e = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (e >= p.axes.count) return;
  const int64_t to = target_of(p, e);
  reinterpret_cast<uint32_t*>(p.keys)[e] = uint32_t(to >= 0 ? to : p.table_count);
}

namespace {
// Adds in any order: integers, whose sums do not depend on it (N is unsigned, so that they wrap around), or floats, whose
// bits vary.
template <class N> __device__ __forceinline__ void add_targets(const AlongParams& p) {
  const int64_t e = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (e >= p.axes.count) return;
  const int64_t to = target_of(p, e);
  if (to >= 0) atomicAdd(reinterpret_cast<N*>(p.table) + to, reinterpret_cast<const N*>(p.block)[p.single ? 0 : e]);
}
}  // namespace
extern "C" __global__ void __launch_bounds__(256) add_targets_u32(AlongParams p) { add_targets<unsigned>(p); }
extern "C" __global__ void __launch_bounds__(256) add_targets_u64(AlongParams p) { add_targets<unsigned long long>(p); }
extern "C" __global__ void __launch_bounds__(256) add_targets_f32(AlongParams p) { add_targets<float>(p); }
extern "C" __global__ void __launch_bounds__(256) add_targets_f64(AlongParams p) { add_targets<double>(p); }

namespace {
struct Place3 {
  int64_t table, index, block;
};
__device__ __forceinline__ Place3 line_of(const AlongParams& p, int64_t line) {
  Place3 at{0, 0, 0};
  if (p.axes.dims == 1) return {line * p.axes.stride[0], line * p.index_stride[0], line * p.block_stride[0]};
  uint32_t rest = uint32_t(line);
  for (int d = 0; d < p.axes.dims; ++d) {
    const int64_t k = split_off(rest, p.axes.size[d]);
    at.table += k * p.axes.stride[d];
    at.index += k * p.index_stride[d];
    at.block += k * p.block_stride[d];
  }
  return at;
}
template <class T> __device__ __forceinline__ T joined(int how, T a, T b) {
  switch (how) {
    case 1: return a + b;
    case 2: return a * b;
    case 3: return a != a || (b == b && !(a < b)) ? a : b;  // NaN wins
    default: return a != a || (b == b && !(b < a)) ? a : b;
  }
}
// A thread walks along a whole line, so threads do not collide.
template <class T> __device__ __forceinline__ void scatter_lines(const AlongParams& p) {
  const int64_t line = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (line >= p.axes.count) return;
  const Place3 at = line_of(p, line);
  for (int64_t k = 0; k < p.length; ++k) {
    bool good = true;
    const int64_t i =
      in_range(p.faults, index_at(p.index, p.index_type, at.index + k * p.index_step), p.size, true, good);
    if (!good) continue;
    const int64_t from = p.single ? 0 : at.block + k * p.block_step, to = at.table + i * p.stride;
    if (p.how == 0) {
      store_unit(p.table, to, log_size(p.type), load_unit(p.block, from, log_size(p.type)));
      continue;
    }
    void* place = const_cast<void*>(element(p.table, p.type, to));
    store<T>(place, p.type, joined<T>(p.how, load<T>(place, p.type), load<T>(element(p.block, p.type, from), p.type)));
  }
}
}  // namespace
extern "C" __global__ void __launch_bounds__(256) scatter_lines_f32(AlongParams p) { scatter_lines<float>(p); }
extern "C" __global__ void __launch_bounds__(256) scatter_lines_f64(AlongParams p) { scatter_lines<double>(p); }
extern "C" __global__ void __launch_bounds__(256) scatter_lines_i64(AlongParams p) { scatter_lines<int64_t>(p); }

}  // namespace strata::cuda
