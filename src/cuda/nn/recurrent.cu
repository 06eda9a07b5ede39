// One layer of an LSTM, a GRU or a plain recurrent network over a whole sequence: the product with the state and the gates
// of every step in one launch. A batch may be packed: then fewer of its sequences run at each step.
//
// Bound by latency: a step is a small product that has to wait for the step before. The blocks run through all steps: each keeps its
// columns of the weight in shared memory, reads the state of its part of the batch from the cache, and a counter per
// part says when all blocks of the part have finished a step. Without room for all blocks at once, one launch per step
// runs the same code. Eight warps share the rows of the weight; their sums are added in order, so the bits are the same
// each time.
#include "cuda/common/dtypes.cuh"
#include "cuda/nn/recurrent_params.h"

namespace strata::cuda {
namespace {

template <RecurrentCell kCell> constexpr int kGatesOf = gates_of(kCell);
template <RecurrentCell kCell> constexpr int kKeptOf = kept_of(kCell);
template <int kColumns> constexpr int kChunkOf = recurrent_chunk(kColumns);

__device__ __forceinline__ float logistic(float x) { return 1.f / (1.f + exp(-x)); }

// --- waiting ----------------------------------------------------------------------------------------------------

// All blocks of this part of the batch have finished `steps` steps.
__device__ __forceinline__ void wait_for(const RecurrentParams& p, int steps) {
  if (threadIdx.x == 0) {
    const uint32_t* counter = reinterpret_cast<const uint32_t*>(p.done) + blockIdx.y;
    uint32_t done;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(done) : "l"(counter) : "memory");
    while (done < uint32_t(steps) * gridDim.x);
  }
  __syncthreads();
}
// The barrier orders what the block wrote before the release of its first thread.
__device__ __forceinline__ void finish_step(const RecurrentParams& p) {
  __syncthreads();
  uint32_t* counter = reinterpret_cast<uint32_t*>(p.done) + blockIdx.y;
  if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

// --- the product --------------------------------------------------------------------------------------------------
//
// out[row][column] += sum over k of factors[k][row] weights[k][column], for kRecurrentRows rows and kColumns columns. A warp
// takes every eighth part of a chunk of k. So that a lane has many sums for each number it reads, few lanes share the
// tile, and groups of them share the part of the warp.
template <int kColumns> struct Tile {
  static constexpr int kLaneRows = 8, kVector = kColumns % 3 == 0 ? 2 : 4;  // columns that lie side by side
  static constexpr int kVectors = kColumns % 3 == 0 ? 3 : 2, kLaneColumns = kVector * kVectors;
  static constexpr int kAcross = kColumns / kLaneColumns, kLanes = kAcross * (kRecurrentRows / kLaneRows);
  static constexpr int kGroups = 32 / kLanes, kSums = kLaneRows * kLaneColumns;
  static constexpr int kKept = kSums / kGroups;  // of the sums over all groups, those that this lane has in the end
  static constexpr int kStride = recurrent_stride(kColumns);
  static_assert(kLanes * kGroups == 32 && kKept % kVector == 0);

  float sum[kSums];

  // Of vector i. The vectors of a lane are apart, so that those of neighbours are side by side.
  static __device__ __forceinline__ int column(int i) {
    return i * (kColumns / kVectors) + int(threadIdx.x) % kLanes % kAcross * kVector;
  }
  static __device__ __forceinline__ int row() { return int(threadIdx.x) % kLanes / kAcross * kLaneRows; }
  static __device__ __forceinline__ int group() { return int(threadIdx.x) % 32 / kLanes; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& s : sum) s = 0;
  }
  __device__ __forceinline__ void add(const float* factors, const float* weights, int count) {
    const int part = (count + kRecurrentWarps * kGroups - 1) / (kRecurrentWarps * kGroups) * kGroups;
    const int begin = int(threadIdx.x) / 32 * part, end = min(begin + part, count), first = row();
#pragma unroll 4
    for (int k = begin + group(); k < end; k += kGroups) {
      float f[kLaneRows], w[kLaneColumns];
#pragma unroll
      for (int r = 0; r < kLaneRows; r += 4)
        *reinterpret_cast<float4*>(f + r) = *reinterpret_cast<const float4*>(factors + k * kRecurrentPad + first + r);
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const float* from = weights + k * kColumns + column(i);
        if constexpr (kVector == 4) *reinterpret_cast<float4*>(w + 4 * i) = *reinterpret_cast<const float4*>(from);
        else *reinterpret_cast<float2*>(w + 2 * i) = *reinterpret_cast<const float2*>(from);
      }
#pragma unroll
      for (int r = 0; r < kLaneRows; ++r)
#pragma unroll
        for (int c = 0; c < kLaneColumns; ++c) sum[r * kLaneColumns + c] = fmaf(f[r], w[c], sum[r * kLaneColumns + c]);
    }
  }
  // Groups exchange halves of their sums until each has kKept of them over all groups; returns the first of these.
  template <int kHalf> __device__ __forceinline__ int exchange() {
    if constexpr (kHalf < kKept) {
      return 0;
    } else {
      constexpr int kMask = kHalf / kKept;  // 4, 2, 1 for eight groups
      const bool upper = (group() & kMask) != 0;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const float other = __shfl_xor_sync(0xffffffffu, upper ? sum[i] : sum[i + kHalf], kMask * kLanes);
        sum[i] = (upper ? sum[i + kHalf] : sum[i]) + other;
      }
      return (upper ? kHalf : 0) + exchange<kHalf / 2>();
    }
  }
  // space: [kRecurrentWarps][kRecurrentRows][kStride].
  __device__ __forceinline__ void leave(float* space) {
    const int kept = exchange<kSums / 2>();
    float* to = space + (int(threadIdx.x) / 32 * kRecurrentRows + row()) * kStride;
#pragma unroll
    for (int i = 0; i < kKept; i += kVector) {
      const int at = kept + i;
      float* place = to + at / kLaneColumns * kStride + column(at % kLaneColumns / kVector);
      if constexpr (kVector == 4) *reinterpret_cast<float4*>(place) = {sum[i], sum[i + 1], sum[i + 2], sum[i + 3]};
      else *reinterpret_cast<float2*>(place) = {sum[i], sum[i + 1]};
    }
  }
  static __device__ __forceinline__ float total(const float* space, int row, int column) {
    float all = 0;
#pragma unroll
    for (int w = 0; w < kRecurrentWarps; ++w) all += space[(w * kRecurrentRows + row) * kStride + column];
    return all;
  }
};

// Rows of `length` factors: of the step before, or of the first state for sequences that were not running then. `quads`:
// every fourth factor is on a border of 16 bytes.
struct Rows {
  const float *from, *first;
  int running, count, length;
  bool quads;
};

// The factors of one chunk: kLength numbers of each of kRecurrentRows rows, transposed into shared memory. They are read
// past the first cache, which does not see what other blocks wrote.
template <int kLength> struct Chunk {
  static constexpr int kQuads = kLength * kRecurrentRows / 4 / kRecurrentThreads;  // of a thread
  float4 value[kQuads];
  __device__ __forceinline__ void read(const Rows& rows, int begin) {
    const int row = int(threadIdx.x) % kRecurrentRows;
    const float* from = (row < rows.running ? rows.from : rows.first) + int64_t(row) * rows.length;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int k = begin + (i * kRecurrentThreads + int(threadIdx.x)) / kRecurrentRows * 4;
      float4 v = {0, 0, 0, 0};
      if (row < rows.count && k < rows.length) {
        if (rows.quads) {
          v = __ldcg(reinterpret_cast<const float4*>(from + k));
        } else {
          v.x = __ldcg(from + k);
          if (k + 1 < rows.length) v.y = __ldcg(from + k + 1);
          if (k + 2 < rows.length) v.z = __ldcg(from + k + 2);
          if (k + 3 < rows.length) v.w = __ldcg(from + k + 3);
        }
      }
      value[i] = v;
    }
  }
  __device__ __forceinline__ void write(float* to) const {
    const int row = int(threadIdx.x) % kRecurrentRows;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      float* place = to + (i * kRecurrentThreads + int(threadIdx.x)) / kRecurrentRows * 4 * kRecurrentPad + row;
      place[0] = value[i].x;
      place[kRecurrentPad] = value[i].y;
      place[2 * kRecurrentPad] = value[i].z;
      place[3 * kRecurrentPad] = value[i].w;
    }
  }
};

// Columns of the weight times rows of factors, left in `space`. Two chunks are on their way while one is multiplied.
template <int kColumns>
__device__ __forceinline__ void multiply(const Rows& rows, float* factors, const float* weights, float* space) {
  constexpr int kChunk = kChunkOf<kColumns>, kHalf = kChunk * kRecurrentPad;
  Tile<kColumns> tile;
  tile.clear();
  Chunk<kChunk> even, odd;
  even.read(rows, 0);
  odd.read(rows, kChunk);
  even.write(factors);
  __syncthreads();
  for (int begin = 0; begin < rows.length; begin += 2 * kChunk) {
    even.read(rows, begin + 2 * kChunk);
    tile.add(factors, weights + begin * kColumns, min(kChunk, rows.length - begin));
    odd.write(factors + kHalf);
    __syncthreads();
    const int second = begin + kChunk;
    if (second >= rows.length) break;
    odd.read(rows, begin + 3 * kChunk);
    tile.add(factors + kHalf, weights + second * kColumns, min(kChunk, rows.length - second));
    even.write(factors);
    __syncthreads();
  }
  tile.leave(space);
  __syncthreads();
}

template <int kColumns> struct Shared {
  float *factors, *space, *weights;
  __device__ __forceinline__ Shared() {
    extern __shared__ float4 memory[];
    factors = reinterpret_cast<float*>(memory);
    space = factors + 2 * kChunkOf<kColumns> * kRecurrentPad;
    weights = space + kRecurrentWarps * kRecurrentRows * Tile<kColumns>::kStride;
  }
};

__device__ __forceinline__ float* numbers(uint64_t data) { return reinterpret_cast<float*>(data); }

// The rows of a step: where they begin, and how many sequences are running. Outside of the sequence, none are.
struct Step {
  int64_t first;
  int running;
  __device__ __forceinline__ Step(const RecurrentParams& p, int step) : first(0), running(0) {
    if (step < 0 || step >= p.steps) return;
    const int t = p.reverse ? p.steps - 1 - step : step;
    const auto* offsets = reinterpret_cast<const int32_t*>(p.offsets);
    first = offsets ? offsets[t] : int64_t(t) * p.batch;
    running = offsets ? offsets[t + 1] - offsets[t] : p.batch;
  }
};

// kUnits of the hidden units per block: their gates are the columns.
template <RecurrentCell kCell, int kUnits> __device__ __forceinline__ void forward(const RecurrentParams& p) {
  constexpr int kGates = kGatesOf<kCell>, kColumns = kGates * kUnits;
  const Shared<kColumns> shared;
  const int first_unit = int(blockIdx.x) * kUnits, h = p.hidden;
  const float* weight = numbers(p.weight);
  for (int i = threadIdx.x; i < kColumns * h; i += kRecurrentThreads) {
    const int column = i / h, k = i % h, unit = first_unit + column % kUnits;
    shared.weights[k * kColumns + column] = unit < h ? weight[(int64_t(column / kUnits) * h + unit) * h + k] : 0.f;
  }
  const int unit = first_unit + int(threadIdx.x) % kUnits;
  float bias[kGates];
#pragma unroll
  for (int g = 0; g < kGates; ++g) bias[g] = p.bias && unit < h ? numbers(p.bias)[g * h + unit] : 0.f;
  const int first_row = int(blockIdx.y) * p.rows, last_row = min(first_row + p.rows, p.batch);
  for (int step = p.begin; step < p.end; ++step) {
    if (step > p.begin) wait_for(p, step - p.begin);
    const Step now(p, step), past(p, step - 1), next(p, step + 1);
    const int end = min(last_row, now.running);
    for (int base = first_row; base < end; base += kRecurrentRows) {
      const int row = base + int(threadIdx.x) / kUnits;
      const bool mine = threadIdx.x < kUnits * kRecurrentRows && row < end && unit < h;
      const int64_t at = mine ? (now.first + row) * h : 0, own = int64_t(row) * h + unit;
      float x[kGates] = {};
#pragma unroll
      for (int g = 0; g < kGates; ++g)
        if (mine) x[g] = numbers(p.gates)[at * kGates + g * h + unit];
      float before = 0;  // the cell of an LSTM, the state of a GRU
      if (mine && kCell == RecurrentCell::Lstm) before = (row < past.running ? numbers(p.state) : numbers(p.c0))[own];
      if (mine && kCell == RecurrentCell::Gru)
        before = __ldcg(row < past.running ? numbers(p.output) + (past.first + row) * h + unit : numbers(p.h0) + own);
      const Rows rows{numbers(p.output) + (past.first + base) * h,
                      numbers(p.h0) + int64_t(base) * h,
                      past.running - base,
                      min(kRecurrentRows, end - base),
                      h,
                      p.quads != 0};
      multiply<kColumns>(rows, shared.factors, shared.weights, shared.space);
      if (mine) {
        float r[kGates];
#pragma unroll
        for (int g = 0; g < kGates; ++g)
          r[g] = Tile<kColumns>::total(shared.space, row - base, g * kUnits + unit - first_unit) + bias[g];
        float result, keep[4];
        if constexpr (kCell == RecurrentCell::Lstm) {
          keep[0] = logistic(x[0] + r[0]);
          keep[1] = logistic(x[1] + r[1]);
          keep[2] = tanh(x[2] + r[2]);
          keep[3] = logistic(x[3] + r[3]);
          const float cell = keep[1] * before + keep[0] * keep[2];
          numbers(p.state)[own] = cell;
          if (p.cells) numbers(p.cells)[at + unit] = cell;
          result = keep[3] * tanh(cell);
        } else if constexpr (kCell == RecurrentCell::Gru) {
          keep[0] = logistic(x[0] + r[0]);
          keep[1] = logistic(x[1] + r[1]);
          keep[2] = tanh(x[2] + keep[0] * r[2]);
          keep[3] = r[2];
          result = keep[2] + keep[1] * (before - keep[2]);
        } else {
          result = p.relu ? (x[0] + r[0] < 0.f ? 0.f : x[0] + r[0]) : tanh(x[0] + r[0]);
        }
        numbers(p.output)[at + unit] = result;
        if (p.last && row >= next.running) numbers(p.last)[own] = result;
        if (kKeptOf<kCell> && p.kept)
#pragma unroll
          for (int k = 0; k < kKeptOf<kCell>; ++k) numbers(p.kept)[at * 4 + k * h + unit] = keep[k];
      }
      __syncthreads();
    }
    if (step + 1 < p.end) finish_step(p);
  }
}

// The gradient of one unit at one step. What it needs is read before the product that its state's gradient waits for.
template <RecurrentCell kCell> struct UnitGradient {
  static constexpr bool kCarries = kCell == RecurrentCell::Lstm || kCell == RecurrentCell::Gru;
  float kept[4], result, before, carried;  // before: as in forward; carried: the unit's element of `state`

  __device__ __forceinline__ void read(const RecurrentParams& p, const Step& now, const Step& past, int row, int unit) {
    const int h = p.hidden;
    const int64_t at = (now.first + row) * h + unit, own = int64_t(row) * h + unit;
    const bool running = row < now.running;
    if (kCarries) {
      carried = numbers(p.state)[own];
#pragma unroll
      for (int k = 0; k < 4; ++k) kept[k] = running ? numbers(p.kept)[(now.first + row) * 4 * h + k * h + unit] : 0.f;
      const float* past_values = numbers(kCell == RecurrentCell::Lstm ? p.cells : p.states);
      before = row < past.running ? past_values[(past.first + row) * h + unit] : numbers(p.before)[own];
    }
    if (kCell != RecurrentCell::Gru)
      result = running ? numbers(kCell == RecurrentCell::Lstm ? p.cells : p.states)[at] : 0.f;
  }
  // g is the gradient of the state.
  __device__ __forceinline__ void write(const RecurrentParams& p, const Step& now, int row, int unit, float g) const {
    const int h = p.hidden;
    const int64_t at = (now.first + row) * h * kGatesOf<kCell> + unit, own = int64_t(row) * h + unit;
    float* to = numbers(p.gates) + at;
    if constexpr (kCell == RecurrentCell::Lstm) {
      const float cell = tanh(result), grad_cell = carried + g * kept[3] * (1.f - cell * cell);
      to[0] = grad_cell * kept[2] * kept[0] * (1.f - kept[0]);
      to[h] = grad_cell * before * kept[1] * (1.f - kept[1]);
      to[2 * h] = grad_cell * kept[0] * (1.f - kept[2] * kept[2]);
      to[3 * h] = g * cell * kept[3] * (1.f - kept[3]);
      numbers(p.state)[own] = grad_cell * kept[1];
    } else if constexpr (kCell == RecurrentCell::Gru) {
      const float reset = kept[0], update = kept[1], fresh = kept[2], product = kept[3];
      const float grad_fresh = g * (1.f - update) * (1.f - fresh * fresh);
      const float grad_reset = grad_fresh * product * reset * (1.f - reset);
      const float grad_update = g * (before - fresh) * update * (1.f - update);
      float* products = numbers(p.products) + at;
      to[0] = grad_reset;
      to[h] = grad_update;
      to[2 * h] = grad_fresh;
      products[0] = grad_reset;
      products[h] = grad_update;
      products[2 * h] = grad_fresh * reset;
      numbers(p.state)[own] = g * update;
    } else {
      to[0] = p.relu ? (result > 0.f ? g : 0.f) : g * (1.f - result * result);
    }
  }
};

// kUnits of the hidden units per block are the columns; steps run backwards, the last one gives the gradient of h0. In a
// reversed batch that is packed, sequences get theirs when they have begun.
template <RecurrentCell kCell, int kUnits> __device__ __forceinline__ void backward(const RecurrentParams& p) {
  constexpr int kGates = kGatesOf<kCell>;
  const Shared<kUnits> shared;
  const int first_unit = int(blockIdx.x) * kUnits, h = p.hidden;
  const float* weight = numbers(p.weight);
  for (int i = threadIdx.x; i < kGates * h * kUnits; i += kRecurrentThreads) {
    const int k = i / kUnits, unit = first_unit + i % kUnits;
    shared.weights[i] = unit < h ? weight[int64_t(k) * h + unit] : 0.f;
  }
  const int unit = first_unit + int(threadIdx.x) % kUnits;
  const int first_row = int(blockIdx.y) * p.rows, last_row = min(first_row + p.rows, p.batch);
  for (int count = p.begin; count < p.end; ++count) {
    if (count > p.begin) wait_for(p, count - p.begin);
    const int step = p.steps - 1 - count;  // -1: after the first step
    const Step now(p, step), past(p, step - 1), next(p, step + 1);
    const int end = min(last_row, max(now.running, next.running));
    for (int base = first_row; base < end; base += kRecurrentRows) {
      const int row = base + int(threadIdx.x) / kUnits;
      const bool mine = threadIdx.x < kUnits * kRecurrentRows && row < end && unit < h;
      const int64_t own = int64_t(row) * h + unit;
      float g = mine && row < now.running ? numbers(p.output)[(now.first + row) * h + unit] : 0.f;
      UnitGradient<kCell> gradient;
      if (mine) gradient.read(p, now, past, row, unit);
      if (mine && row >= next.running && p.last) g += numbers(p.last)[own];
      if (next.running > base) {
        const float* from = numbers(p.products) + (next.first + base) * kGates * h;
        const int rows = min(kRecurrentRows, min(next.running, end) - base);
        multiply<kUnits>({from, from, rows, rows, kGates * h, p.quads != 0}, shared.factors, shared.weights,
                         shared.space);
        if (mine) g += Tile<kUnits>::total(shared.space, row - base, unit - first_unit);
      }
      if (mine && kCell == RecurrentCell::Gru) g += gradient.carried;
      if (mine && row < now.running) gradient.write(p, now, row, unit, g);
      else if (mine) numbers(p.h0)[own] = g;
      __syncthreads();
    }
    if (count + 1 < p.end) finish_step(p);
  }
}
}  // namespace

#define STRATA_RECURRENT(name, cell, units)                                                           \
  extern "C" __global__ void __launch_bounds__(256, 1) forward_##name##_##units(RecurrentParams p) {  \
    forward<RecurrentCell::cell, units>(p);                                                           \
  }                                                                                                   \
  extern "C" __global__ void __launch_bounds__(256, 1) backward_##name##_##units(RecurrentParams p) { \
    backward<RecurrentCell::cell, units>(p);                                                          \
  }
STRATA_RECURRENT(lstm, Lstm, 16)
STRATA_RECURRENT(lstm, Lstm, 8)
STRATA_RECURRENT(gru, Gru, 16)
STRATA_RECURRENT(gru, Gru, 8)
STRATA_RECURRENT(plain, Tanh, 16)
STRATA_RECURRENT(plain, Tanh, 8)

}  // namespace strata::cuda
