// Products with an epilogue of the user on Hopper, compiled at run time: the pipeline of hopper_pipeline.cuh, with the
// epilogue applied to the sums in registers.
//
// Config:  Instruction: wgmma; Result, Second; kShape: the shape of its tiles; kAAlongK, kBAlongK: k is the dense
//          dimension of the factor; kColumns: of a piece; kResults; kAmax: whether the largest result is wanted.
// Epilogue: constructed from (KernelParams, TileBatch). ahead, begin and columns read its tensors as the readers in
//          gemm_readers.cuh do; first and second(sum, m, n, batch, j, q, e) -> value.
#pragma once
#include "cuda/custom/gemm_hopper_kernel_params.h"
#include "cuda/custom/gemm_readers.cuh"
#include "cuda/linalg/hopper_pipeline.cuh"
#include "cuda/linalg/wgmma_along_k.cuh"

namespace strata::gemm {

// Four pairs of 16-bit results as store_matrix takes them.
template <class Result> __device__ __forceinline__ void store_pairs(uint32_t address, const Result (&values)[4][2]) {
  uint32_t words[4];
#pragma unroll
  for (int q = 0; q < 4; ++q) words[q] = uint32_t(values[q][0].bits) | uint32_t(values[q][1].bits) << 16;
  cuda::hopper::store_matrix(address, words);
}

// Stores results of any size and strides from registers: four lanes write neighbouring elements.
template <class Result>
__device__ __forceinline__ void store_from_registers(const Output& to, int64_t offset, const Piece& at, int j,
                                                     const Result (&values)[4][2]) {
  struct alignas(2 * sizeof(Result)) Pair {
    Result low, high;
  };
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    if (at.row(q) >= at.rows) continue;
    Result* row = reinterpret_cast<Result*>(to.data) + offset + at.row(q) * to.m;
    const int n = at.column(j, q, 0);
    if (to.pairs && n + 1 < at.columns) {
      *reinterpret_cast<Pair*>(row + n) = Pair{values[q][0], values[q][1]};
      continue;
    }
#pragma unroll
    for (int e = 0; e < 2; ++e)
      if (n + e < at.columns) row[(n + e) * to.n] = values[q][e];
  }
}

// Sums -> epilogue -> results, piece by piece. 16-bit results leave through shared memory and TMA if their rows are
// aligned, others from registers.
template <class C, class User, class Epilogue>
__device__ __forceinline__ void write_results(const typename C::Sums& sums, const HopperParams& p,
                                              const cuda::hopper::Job<C>& job, Epilogue& epilogue,
                                              const TileBatch& batch) {
  using namespace cuda::hopper;
  constexpr int kColumns = User::kColumns, kPieces = C::kN / kColumns, kAll = C::kBlocks * kPieces;
  constexpr int kUnitMask = kColumns / 8 - 1, kRowShift = kColumns == 64 ? 0 : 1;
  constexpr bool kBoth = User::kResults == 2;
  constexpr bool kCanStage = sizeof(typename User::Result) == 2 && (!kBoth || sizeof(typename User::Second) == 2);
  static_assert(kColumns == C::kMemory.store_columns);
  // Stores that may still read their buffer; two results use both buffers for each piece. With an odd number of pieces,
  // the last one of a tile used the buffer that the first one of the next tile uses.
  constexpr int kOpenStores = !kBoth && kAll % 2 == 0 ? 1 : 0;
  const bool through_tma = kCanStage && p.gemm.tma_stores;
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const int row = warp * 16 + lane % 16;  // the row that this lane addresses in store_matrix
  const int64_t offset = batch.offset(p.user, p.user.c_b);
  const int64_t second_offset = kBoth ? batch.offset(p.user, p.user.second_b) : 0;
  const Output first_to{p.user.c, p.user.c_m, p.user.c_n, p.user.pairs};
  const auto piece_at = [&](int i) {
    Piece piece{job.tile.m + job.first_row + i / kPieces * 64 + warp * 16, job.tile.n + i % kPieces * kColumns,
                p.gemm.m, p.gemm.n};
    // Pieces below each other have the same columns: the compiler would keep all their addresses in registers.
    asm volatile("" : "+r"(piece.m), "+r"(piece.n));
    return piece;
  };
  uint32_t largest = 0;
  epilogue.ahead(piece_at(0));
#pragma unroll
  for (int i = 0; i < kAll; ++i) {
    const uint32_t buffer = job.staging + (kBoth ? 0 : i % 2 * C::kMemory.store);
    const uint32_t second_buffer = job.staging + C::kMemory.store;
    if (through_tma) {
      if (thread == 0) tma_store_wait_read<kOpenStores>();
      group_sync(job.bar);
    } else {
      __syncwarp();
    }
    const Piece at = piece_at(i);
    epilogue.begin(at, buffer + warp * 16 * (kColumns * 2));
    if (i + 1 < kAll) epilogue.ahead(piece_at(i + 1));
#pragma unroll
    for (int j = 0; j < kColumns / 16; ++j) {
      const uint32_t place = row * (kColumns * 2) + (((j * 2 + lane / 16) ^ (row >> kRowShift & kUnitMask)) * 16);
      epilogue.columns(buffer + place);
      typename User::Result first[4][2];
      typename User::Second second[4][2];
#pragma unroll
      for (int q = 0; q < 4; ++q)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const auto sum = sums[i / kPieces][(i % kPieces * kColumns + j * 16) / 2 + q * 2 + e];
          const int m = at.row_inside(q), n = at.column_inside(j, q, e);
          const auto value = epilogue.first(sum, m, n, batch.linear, j, q, e);
          put(first[q][e], value);
          if (User::kAmax && at.row(q) < at.rows && at.column(j, q, e) < at.columns)
            largest = max(largest, magnitude(value));
          if constexpr (kBoth) put(second[q][e], epilogue.second(sum, m, n, batch.linear, j, q, e));
        }
      if constexpr (kCanStage) {
        if (through_tma) {
          store_pairs(buffer + place, first);
          if constexpr (kBoth) store_pairs(second_buffer + place, second);
          continue;
        }
      }
      store_from_registers(first_to, offset, at, j, first);
      if constexpr (kBoth) store_from_registers(p.user.second, second_offset, at, j, second);
    }
    if (through_tma) {
      fence_async_proxy();
      group_sync(job.bar);
      const Place to{at.n, at.m - warp * 16, job.tile.inner, job.tile.outer};
      if (thread == 0) {
        tma_store(p.d, buffer, to);
        if (kBoth) tma_store(p.second, second_buffer, to);
      }
    }
  }
  if (User::kAmax) publish_amax(p.user, largest);
}

template <class User, class Epilogue> __device__ __forceinline__ void run_hopper(const HopperParams& p) {
  using namespace cuda::hopper;
  using C = Config<User::kShape, typename User::Instruction, User::kAAlongK, User::kBAlongK>;
  const auto finish = [&](const typename C::Sums& sums, const Job<C>& job) {
    const TileBatch batch{job.tile.inner, job.tile.outer, int64_t(job.tile.outer) * p.gemm.inner + job.tile.inner};
    Epilogue epilogue(p.user, batch);
    write_results<C, User>(sums, p, job, epilogue, batch);
  };
  cuda::hopper::gemm<C>(
    p.a, p.b, p.d, p.gemm, [](const Job<C>&) {}, finish);
}

}  // namespace strata::gemm
