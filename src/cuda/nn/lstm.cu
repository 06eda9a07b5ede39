// One LSTM layer over a whole sequence: the product with the state, the gates and the cell of every step in one launch.
//
// Bound by latency: a step is a small product that has to wait for the step before. The blocks run through all steps: each keeps its
// columns of the weight in shared memory, reads the state of its part of the batch from the cache, and a counter per
// part says when all blocks of the part have finished a step. Without room for all blocks at once, one launch per step
// runs the same code. Eight warps share the rows of the weight; their sums are added in order, so the bits are the same
// each time.
#include "cuda/common/dtypes.cuh"
#include "cuda/nn/lstm_params.h"

namespace strata::cuda {
namespace {

__device__ __forceinline__ float logistic(float x) { return 1.f / (1.f + exp(-x)); }

// --- waiting ----------------------------------------------------------------------------------------------------

// All blocks of this part of the batch have finished `steps` steps.
__device__ __forceinline__ void wait_for(const LstmParams& p, int steps) {
  if (threadIdx.x == 0) {
    const auto* done = reinterpret_cast<const volatile uint32_t*>(p.done) + blockIdx.y;
    while (*done < uint32_t(steps) * gridDim.x) {}
    __threadfence();
  }
  __syncthreads();
}
__device__ __forceinline__ void finish_step(const LstmParams& p) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<uint32_t*>(p.done) + blockIdx.y, 1u);
}

// --- the product --------------------------------------------------------------------------------------------------
//
// out[row][column] += sum over k of factors[k][row] weights[k][column], for kLstmRows rows and kColumns columns. A warp
// takes every eighth part of a chunk of k, a lane kLaneRows x kLaneColumns sums.
template <int kColumns> struct Tile {
  static constexpr int kLaneColumns = kColumns >= 32 ? 4 : kColumns / 8;
  static constexpr int kLanesAcross = kColumns / kLaneColumns;
  static constexpr int kLaneRows = kLstmRows / (32 / kLanesAcross);
  static constexpr int kStride = kColumns + 16;  // of a row of sums
  static_assert(kLaneRows % 4 == 0 && kLaneRows * 32 / kLanesAcross == kLstmRows);

  float sum[kLaneRows][kLaneColumns];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& row : sum)
#pragma unroll
      for (float& s : row) s = 0;
  }
  __device__ __forceinline__ void add(const float* factors, const float* weights, int count) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = lane / kLanesAcross * kLaneRows, column = lane % kLanesAcross * kLaneColumns;
    const int part = (count + kLstmWarps - 1) / kLstmWarps, begin = warp * part, end = min(begin + part, count);
#pragma unroll 4
    for (int k = begin; k < end; ++k) {
      float f[kLaneRows], w[kLaneColumns];
#pragma unroll
      for (int r = 0; r < kLaneRows; r += 4)
        *reinterpret_cast<float4*>(f + r) = *reinterpret_cast<const float4*>(factors + k * kLstmPad + row + r);
      if constexpr (kLaneColumns == 4)
        *reinterpret_cast<float4*>(w) = *reinterpret_cast<const float4*>(weights + k * kColumns + column);
      else
#pragma unroll
        for (int c = 0; c < kLaneColumns; ++c) w[c] = weights[k * kColumns + column + c];
#pragma unroll
      for (int r = 0; r < kLaneRows; ++r)
#pragma unroll
        for (int c = 0; c < kLaneColumns; ++c) sum[r][c] = fmaf(f[r], w[c], sum[r][c]);
    }
  }
  // space: [kLstmWarps][kLstmRows][kStride]
  __device__ __forceinline__ void leave(float* space) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = lane / kLanesAcross * kLaneRows, column = lane % kLanesAcross * kLaneColumns;
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r)
#pragma unroll
      for (int c = 0; c < kLaneColumns; ++c) space[(warp * kLstmRows + row + r) * kStride + column + c] = sum[r][c];
  }
  static __device__ __forceinline__ float total(const float* space, int row, int column) {
    float all = 0;
#pragma unroll
    for (int w = 0; w < kLstmWarps; ++w) all += space[(w * kLstmRows + row) * kStride + column];
    return all;
  }
};

// The factors of one chunk: `count` numbers of each of kLstmRows rows, transposed into shared memory. They are read
// past the first cache, which does not see what other blocks wrote.
struct Chunk {
  static constexpr int kEach = kLstmChunk * kLstmRows / kLstmThreads;  // numbers of a thread
  float value[kEach];
  __device__ __forceinline__ void read(const float* from, int64_t stride, int rows, int count) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = i * kLstmThreads + int(threadIdx.x), row = at / 8 % kLstmRows,
                k = at / (8 * kLstmRows) * 8 + at % 8;
      value[i] = row < rows && k < count ? __ldcg(from + row * stride + k) : 0.f;
    }
  }
  __device__ __forceinline__ void write(float* to) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = i * kLstmThreads + int(threadIdx.x), row = at / 8 % kLstmRows,
                k = at / (8 * kLstmRows) * 8 + at % 8;
      to[k * kLstmPad + row] = value[i];
    }
  }
};

// Columns of the weight times the factors at `from` (rows of `count` numbers), left in `space`.
template <int kColumns>
__device__ __forceinline__ void multiply(const float* from, int rows, int count, float* factors, const float* weights,
                                         float* space) {
  Tile<kColumns> tile;
  tile.clear();
  Chunk chunk;
  chunk.read(from, count, rows, min(kLstmChunk, count));
  for (int begin = 0; begin < count; begin += kLstmChunk) {
    chunk.write(factors);
    __syncthreads();
    const int next = begin + kLstmChunk;
    if (next < count) chunk.read(from + next, count, rows, min(kLstmChunk, count - next));
    tile.add(factors, weights + begin * kColumns, min(kLstmChunk, count - begin));
    __syncthreads();
  }
  tile.leave(space);
  __syncthreads();
}

struct Shared {
  float *factors, *space, *weights;
  __device__ __forceinline__ explicit Shared(int space_size) {
    extern __shared__ float4 memory[];
    factors = reinterpret_cast<float*>(memory);
    space = factors + kLstmChunk * kLstmPad;
    weights = space + space_size;
  }
};
template <int kColumns> constexpr int kSpace = kLstmWarps* kLstmRows* Tile<kColumns>::kStride;

__device__ __forceinline__ int64_t place(const LstmParams& p, int step, int row) {  // of a state
  return (int64_t(p.reverse ? p.steps - 1 - step : step) * p.batch + row) * p.hidden;
}
__device__ __forceinline__ float* numbers(uint64_t data) { return reinterpret_cast<float*>(data); }

// kUnits of the hidden units per block: their four gates are the columns.
template <int kUnits> __device__ __forceinline__ void forward(const LstmParams& p) {
  constexpr int kColumns = 4 * kUnits;
  const Shared shared(kSpace<kColumns>);
  const int first_unit = int(blockIdx.x) * kUnits, h = p.hidden;
  const float* weight = numbers(p.weight);
  for (int i = threadIdx.x; i < kColumns * h; i += kLstmThreads) {
    const int column = i / h, k = i % h, unit = first_unit + column % kUnits;
    shared.weights[k * kColumns + column] = unit < h ? weight[(int64_t(column / kUnits) * h + unit) * h + k] : 0.f;
  }
  const int first_row = int(blockIdx.y) * p.rows, last_row = min(first_row + p.rows, p.batch);
  for (int step = p.begin; step < p.end; ++step) {
    if (step > p.begin) wait_for(p, step - p.begin);
    const float* state = step > 0 ? numbers(p.output) + place(p, step - 1, 0) : numbers(p.h0);
    for (int base = first_row; base < last_row; base += kLstmRows) {
      const int rows = min(kLstmRows, last_row - base), row = base + int(threadIdx.x) / kUnits,
                unit = first_unit + int(threadIdx.x) % kUnits;
      const bool mine = threadIdx.x < kUnits * kLstmRows && row < last_row && unit < h;
      const int64_t at = mine ? place(p, step, row) : 0;
      float gate[4] = {0, 0, 0, 0};
#pragma unroll
      for (int g = 0; g < 4; ++g)
        if (mine) gate[g] = numbers(p.gates)[at * 4 + g * h + unit];
      multiply<kColumns>(state + int64_t(base) * h, rows, h, shared.factors, shared.weights, shared.space);
      if (mine) {
#pragma unroll
        for (int g = 0; g < 4; ++g)
          gate[g] += Tile<kColumns>::total(shared.space, row - base, g * kUnits + unit - first_unit);
        const float in = logistic(gate[0]), forget = logistic(gate[1]), next = tanh(gate[2]), out = logistic(gate[3]);
        const int64_t own = int64_t(row) * h + unit;
        const float cell = forget * (step > 0 ? numbers(p.state) : numbers(p.c0))[own] + in * next;
        numbers(p.state)[own] = cell;
        numbers(p.output)[at + unit] = out * tanh(cell);
        if (p.cells) {
          numbers(p.cells)[at + unit] = cell;
          float* kept = numbers(p.activations) + at * 4 + unit;
          kept[0] = in;
          kept[h] = forget;
          kept[2 * h] = next;
          kept[3 * h] = out;
        }
      }
      __syncthreads();
    }
    if (step + 1 < p.end) finish_step(p);
  }
}

// kUnits of the hidden units per block are the columns; steps run backwards, the last one gives the gradient of h0.
template <int kUnits> __device__ __forceinline__ void backward(const LstmParams& p) {
  const Shared shared(kSpace<kUnits>);
  const int first_unit = int(blockIdx.x) * kUnits, h = p.hidden;
  const float* weight = numbers(p.weight);
  for (int i = threadIdx.x; i < 4 * h * kUnits; i += kLstmThreads) {
    const int k = i / kUnits, unit = first_unit + i % kUnits;
    shared.weights[i] = unit < h ? weight[int64_t(k) * h + unit] : 0.f;
  }
  const int first_row = int(blockIdx.y) * p.rows, last_row = min(first_row + p.rows, p.batch);
  for (int count = p.begin; count < p.end; ++count) {
    if (count > p.begin) wait_for(p, count - p.begin);
    const int step = p.steps - 1 - count;  // -1: after the first step
    for (int base = first_row; base < last_row; base += kLstmRows) {
      const int rows = min(kLstmRows, last_row - base), row = base + int(threadIdx.x) / kUnits,
                unit = first_unit + int(threadIdx.x) % kUnits;
      const bool mine = threadIdx.x < kUnits * kLstmRows && row < last_row && unit < h;
      const int64_t own = int64_t(row) * h + unit;
      float gate[4] = {0, 0, 0, 0}, cell = 0, past = 0, g = 0, grad_cell = 0;
      if (mine && step >= 0) {
        const int64_t at = place(p, step, row);
        const float* kept = numbers(p.activations) + at * 4 + unit;
#pragma unroll
        for (int k = 0; k < 4; ++k) gate[k] = kept[k * h];
        cell = tanh(numbers(p.cells)[at + unit]);
        past = step > 0 ? numbers(p.cells)[place(p, step - 1, row) + unit] : numbers(p.before)[own];
        g = numbers(p.output)[at + unit];
        grad_cell = numbers(p.state)[own];
      }
      if (count > 0) {
        multiply<kUnits>(numbers(p.gates) + place(p, step + 1, base) * 4, rows, 4 * h, shared.factors, shared.weights,
                         shared.space);
        if (mine) g += Tile<kUnits>::total(shared.space, row - base, unit - first_unit);
      }
      if (mine && step < 0) numbers(p.h0)[own] = g;
      if (mine && step >= 0) {
        grad_cell += g * gate[3] * (1.f - cell * cell);
        float* to = numbers(p.gates) + place(p, step, row) * 4 + unit;
        to[0] = grad_cell * gate[2] * gate[0] * (1.f - gate[0]);
        to[h] = grad_cell * past * gate[1] * (1.f - gate[1]);
        to[2 * h] = grad_cell * gate[0] * (1.f - gate[2] * gate[2]);
        to[3 * h] = g * cell * gate[3] * (1.f - gate[3]);
        numbers(p.state)[own] = grad_cell * gate[1];
      }
      __syncthreads();
    }
    if (count + 1 < p.end) finish_step(p);
  }
}
}  // namespace

#define STRATA_LSTM(units)                                                                                  \
  extern "C" __global__ void __launch_bounds__(256, 1) forward_##units(LstmParams p) { forward<units>(p); } \
  extern "C" __global__ void __launch_bounds__(256, 1) backward_##units(LstmParams p) { backward<units>(p); }
STRATA_LSTM(16)
STRATA_LSTM(8)

}  // namespace strata::cuda
