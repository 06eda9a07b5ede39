// The pipeline of matrix products on Hopper (sm_90a): wgmma and TMA. What happens to the sums of a tile is a functor of
// the kernel. Kernels that are compiled at run time use it too, so it includes no header of the toolkit.
//
// One block per multiprocessor, three warpgroups. Warpgroup 0 moves data: a single thread keeps a ring of tiles of a
// and b filled by TMA. Warpgroups 1 and 2 multiply. They either share one tile, each taking half of its rows, or
// (ping_pong) own alternate tiles, so that one's epilogue runs while the other's matrix instructions do. wgmma reads
// both orders of both factors from shared memory, so nothing is transposed.
//
// Bound: the tensor core does 64 x N x 16 in N / 2 cycles. A step of 128 x 256 x 64 takes 1024 cycles and needs 48 KiB
// from L2, 48 bytes per cycle and multiprocessor, about all that L2 gives; two blocks that share their tile of b by
// multicast need 32. docs/internals/gemm.md has a drawing.
#pragma once
#include "cuda/linalg/hopper.cuh"

namespace strata::cuda::hopper {

__device__ inline int steps_of(int k) { return (k + kTileK - 1) / kTileK; }

// The order of tiles. Clusters go down kGroupM cluster rows, then to the next column: the tiles in flight form a nearly
// square block, which reads the fewest distinct rows of a and columns of b and so stays in L2. Other orders have the same
// members (grouped_hopper.cuh).
template <class C> struct Walk {
  static constexpr bool kWholeK = true;      // sums end with k, beyond which TMA reads zeros
  static constexpr bool kNeverEmpty = true;  // all tiles have the same number of terms, at least one
  int rows, columns, clusters, rank, index, end;

  __device__ explicit Walk(const GemmArgs& args) {
    rank = C::kCluster > 1 ? cluster_rank() : 0;
    rows = (args.m + C::kTile.m * C::kCluster - 1) / (C::kTile.m * C::kCluster);
    columns = (args.n + C::kN - 1) / C::kN;
    clusters = gridDim.x / C::kCluster;
    index = blockIdx.x / C::kCluster;
    end = rows * columns * args.batches;
  }
  __device__ bool valid() const { return index < end; }
  __device__ void next() { index += clusters; }

  // The first row and column of this block's tile, and its matrix. A tile past the edge is harmless: TMA reads zeros
  // there and writes nothing.
  struct Tile {
    int m, n, inner, outer;
  };
  __device__ Tile tile(const GemmArgs& args) const {
    const int each = rows * columns, batch = index / each, place = index % each;
    const int first = place / (kGroupM * columns) * kGroupM;
    const int height = min(kGroupM, rows - first), inside = place % (kGroupM * columns);
    return {((first + inside % height) * C::kCluster + rank) * C::kTile.m, inside / height * C::kN, batch % args.inner,
            batch / args.inner};
  }
  // The part of k that the current tile sums over.
  __device__ int first_k() const { return 0; }
  __device__ int depth(const GemmArgs& args) const { return args.k; }
};

// One kernel: the shape of its tiles, the dense dimensions of both factors and the matrix instruction. The unit of k is
// two bytes: one 16-bit or two 8-bit elements.
template <TileShape kShape, class Instruction, bool kAIsAlongK, bool kBIsAlongK, template <class> class Order = Walk>
struct Config {
  using Tiles = Order<Config>;
  static constexpr TileShape kTile = kShape;
  static constexpr bool kAAlongK = kAIsAlongK, kBAlongK = kBIsAlongK;
  static constexpr TileMemory kMemory{kShape, kBIsAlongK};
  static constexpr int kStages = kShape.stages, kCluster = kShape.cluster, kN = kShape.n;
  static constexpr int kRowBytes = 2 * kTileK;
  static constexpr bool kPingPong = kShape.ping_pong;
  static constexpr int kGroupRows = kPingPong ? kShape.m : kShape.m / 2;  // of one of the two multiplying warpgroups
  static constexpr int kBlocks = kGroupRows / 64;                         // wgmma is 64 rows high

  static_assert(kShape.m % (kPingPong ? 64 : 128) == 0 && kN % 16 == 0 && kN <= 256, "tile shape");
  static_assert(kMemory.slice_b % 8 == 0, "a slice must keep whole 8-row swizzle atoms");
  static_assert((kMemory.total + 1024) * kShape.blocks_per_sm <= 228 * 1024, "shared memory of a multiprocessor");
  static_assert(kAAlongK || kShape.load_m == kShape.m, "columns of a come in chunks of 64");
  using Multiply = Instruction;
  using Sums = typename Instruction::Sum[kBlocks][kN / 2];
};

struct Shared {  // addresses
  uint32_t base, full, empty;
};

// Warpgroup 0: one thread.
template <class C>
__device__ inline void produce(const TensorMap& map_a, const TensorMap& map_b, const Shared& shared,
                               const GemmArgs& args) {
  constexpr TileMemory kM = C::kMemory;
  constexpr uint16_t kAll = (1 << C::kCluster) - 1;
  Ring<C::kStages> ring;
  for (typename C::Tiles walk(args); walk.valid(); walk.next()) {
    const auto tile = walk.tile(args);
    const int steps = steps_of(walk.depth(args));
    const int a_inner = args.a_moves & 1 ? tile.inner : 0, a_outer = args.a_moves & 2 ? tile.outer : 0;
    const int b_inner = args.b_moves & 1 ? tile.inner : 0, b_outer = args.b_moves & 2 ? tile.outer : 0;
    for (int step = 0; step < steps; ++step, ring.step()) {
      const uint32_t bar = shared.full + ring.stage * 8;
      barrier_wait(shared.empty + ring.stage * 8, ring.phase ^ 1);  // a fresh barrier reads as "previous phase done"
      barrier_expect_bytes(bar, kM.a + kM.b);
      const int k = walk.first_k() + step * kTileK;
      const uint32_t a = shared.base + ring.stage * kM.a;
      if constexpr (C::kAAlongK) {
        tma_load<false>(a, map_a, bar, {k, tile.m, a_inner, a_outer}, 0);
      } else {
#pragma unroll
        for (int m = 0; m < C::kTile.m; m += 64)  // a swizzled row holds 64 columns: one box per chunk of 64
          tma_load<false>(a + m * C::kRowBytes, map_a, bar, {tile.m + m, k, a_inner, a_outer}, 0);
      }
      // The tile of b is common to the cluster: each block fetches its slice for all.
      const int row = walk.rank * kM.slice_b;
      const uint32_t b = shared.base + kM.at_b + ring.stage * kM.b + row * C::kRowBytes;
      if constexpr (C::kBAlongK) {
        tma_load<(C::kCluster > 1)>(b, map_b, bar, {k, tile.n + row, b_inner, b_outer}, kAll);
      } else {
#pragma unroll
        for (int n = 0; n < C::kN; n += 64)
          tma_load<(C::kCluster > 1)>(b + n * C::kRowBytes, map_b, bar, {tile.n + n, k + row, b_inner, b_outer}, kAll);
      }
    }
  }
}

// Clears what comes after the first `rest` rows of k in a stage. Neither factor is dense along k.
template <class C> __device__ inline void clear_rows(uint32_t a, uint32_t b, int rest, int bar) {
  static_assert(!C::kAAlongK && !C::kBAlongK && C::kPingPong);  // one warpgroup reads the stage
  const int units = (kTileK - rest) * C::kRowBytes / 16;        // of each chunk of 64 columns
  const auto clear = [&](uint32_t tile, int chunks) {
    for (int i = threadIdx.x % 128; i < chunks * units; i += 128)
      store_zeros(tile + (i / units * kTileK + rest) * C::kRowBytes + i % units * 16);
  };
  clear(a, C::kTile.m / 64);
  clear(b, C::kN / 64);
  fence_async_proxy();
  group_sync(bar);
}

// Multiplies a tile whose sums are over `depth` elements of k.
template <class C>
__device__ inline void multiply(typename C::Sums& sums, Ring<C::kStages>& ring, int depth, const Shared& shared,
                                int first_row, int group) {
  constexpr TileMemory kM = C::kMemory;
  // From one k of 16 to the next: in a row, or 16 rows on. In units of 16 bytes.
  constexpr uint32_t kStepA = C::kAAlongK ? 32 >> 4 : 16 * C::kRowBytes >> 4;
  constexpr uint32_t kStepB = C::kBAlongK ? 32 >> 4 : 16 * C::kRowBytes >> 4;
  constexpr uint32_t kGroup = 8 * C::kRowBytes, kChunk = 64 * C::kRowBytes;
  const int thread = threadIdx.x % 128, steps = steps_of(depth);
  // Ping-pong: the ring hands out stages in the order of tiles, and a barrier's parity tells only the current phase
  // from the one before. A warpgroup must therefore not look at the ring until the other has taken its last stage.
  if (C::kPingPong) turn_wait(3 + group);
  int previous = 0;
  for (int step = 0; step < steps; ++step, ring.step()) {
    barrier_wait(shared.full + ring.stage * 8, ring.phase);
    const uint64_t a =
      operand(shared.base + ring.stage * kM.a + first_row * C::kRowBytes, C::kAAlongK ? 16 : kChunk, kGroup);
    const uint64_t b = operand(shared.base + kM.at_b + ring.stage * kM.b, C::kBAlongK ? 16 : kChunk, kGroup);
    if constexpr (!C::Tiles::kWholeK)
      if (depth - step * kTileK < kTileK)
        clear_rows<C>(shared.base + ring.stage * kM.a, shared.base + kM.at_b + ring.stage * kM.b, depth - step * kTileK,
                      1 + group);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kTileK / 16; ++k) {
#pragma unroll
      for (int block = 0; block < C::kBlocks; ++block)
        C::Multiply::multiply(sums[block], a + k * kStepA + block * (kChunk >> 4), b + k * kStepB, step > 0 || k > 0);
    }
    wgmma_commit();
    // One group stays in flight, so that the tensor core never waits for this loop; the one before it has been read by
    // now.
    wgmma_wait<1>();
    // A stage is given back to every block that writes into it: thread i tells the i-th of them.
    if (step > 0 && thread < C::kCluster) barrier_arrive_at(shared.empty + previous * 8, thread);
    previous = ring.stage;
  }
  if (C::kPingPong) turn_give(4 - group);
  wgmma_wait<0>();
  if (thread < C::kCluster) barrier_arrive_at(shared.empty + previous * 8, thread);
}

// Sums -> epilogue -> 16 bits -> shared memory (swizzled, free of bank conflicts) -> device memory, in pieces of 64
// rows.
template <class C, class Epilogue>
__device__ inline void write_out(const typename C::Sums& sums, const TensorMap& map_d, uint32_t staging,
                                 const Epilogue& epilogue, const typename C::Tiles::Tile& tile, int first_row,
                                 int bar) {
  constexpr TileMemory kM = C::kMemory;
  constexpr int kColumns = kM.store_columns, kPieces = C::kN / kColumns, kUnits = kColumns / 8, kUnitMask = kUnits - 1;
  constexpr int kRowShift = kColumns == 64 ? 0 : 1;  // the swizzle of 64 bytes changes every second row
  static_assert(kColumns == 64 || kColumns == 32);
  // Stores that may still read their buffer: with an odd number of pieces, the last one of a tile used the buffer that the
  // first one of the next tile uses.
  constexpr int kOpenStores = C::kBlocks * kPieces % 2 == 0 ? 1 : 0;
  const GemmArgs& args = epilogue.args;
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const int row = warp * 16 + lane % 16;  // the row that this lane addresses in store_matrix
#pragma unroll
  for (int block = 0; block < C::kBlocks; ++block) {
    const int top = tile.m + first_row + block * 64;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const uint32_t buffer = staging + (block * kPieces + piece) % 2 * kM.store;  // TMA reads the other one
      const int left = tile.n + piece * kColumns;
      if (args.tma_stores) {
        if (thread == 0) tma_store_wait_read<kOpenStores>();
        group_sync(bar);
      } else {
        __syncwarp();
      }
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j) {
        uint32_t packed[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {  // q % 2: rows 0-7 or 8-15 of the warp; q / 2: columns 0-7 or 8-15
          const int at = (piece * kColumns + j * 16) / 2 + q * 2;
          packed[q] = epilogue.packed(sums[block][at], sums[block][at + 1], top + warp * 16 + q % 2 * 8 + lane / 4,
                                      left + j * 16 + q / 2 * 8 + lane % 4 * 2, tile.n);
        }
        const uint32_t unit = (j * 2 + lane / 16) ^ (row >> kRowShift & kUnitMask);
        store_matrix(buffer + row * (kColumns * 2) + unit * 16, packed);
      }
      if (args.tma_stores) {
        fence_async_proxy();
        group_sync(bar);
        if (thread == 0) tma_store(map_d, buffer, {left, top, tile.inner, tile.outer});
        continue;
      }
      // Rows that TMA cannot address (not aligned to 16 bytes): each warp writes its own 16 rows.
      __syncwarp();
      const int width = args.n - left, height = args.m - (top + warp * 16);
      uint16_t* out = reinterpret_cast<uint16_t*>(args.d) + tile.outer * args.d_b[0] + tile.inner * args.d_b[1] +
                      (top + warp * 16) * args.d_ld + left;
#pragma unroll 4
      for (int r = 0; r < 16; ++r, out += args.d_ld) {
#pragma unroll
        for (int column = lane; column < kColumns; column += 32) {
          const int own = warp * 16 + r;
          const uint32_t place = (column / 8) ^ (own >> kRowShift & kUnitMask);
          const uint16_t value = load_element(buffer + own * (kColumns * 2) + place * 16 + column % 8 * 2);
          if (r < height && column < width) out[column] = value;
        }
      }
    }
  }
}

// What warpgroup 1 or 2 (group 0 or 1) does with its sums: begin(job) before the main loop of a tile, finish(sums,
// job) after it.
template <class C> struct Job {
  typename C::Tiles::Tile tile;
  uint32_t staging, row;  // addresses in shared memory: two buffers for results, and kN floats
  int first_row, bar;     // bar: a named barrier of the warpgroup
};

template <class C, class Begin, class Finish>
__device__ inline void consume(const Shared& shared, const GemmArgs& args, int group, const Begin& begin,
                               const Finish& finish) {
  constexpr TileMemory kM = C::kMemory;
  const int first_row = C::kPingPong ? 0 : group * C::kGroupRows;
  Ring<C::kStages> ring;
  typename C::Tiles walk(args);
  typename C::Sums sums;
  const auto pass = [&] {  // the other warpgroup's tile
    if (C::Tiles::kNeverEmpty || walk.valid()) ring.skip(steps_of(walk.depth(args)));
    walk.next();
  };
  if (C::kPingPong && group == 1) {
    turn_give(3);  // the first turn is the other's
    pass();
  }
  while (walk.valid()) {
    const Job<C> job{walk.tile(args), shared.base + kM.at_store + group * 2 * kM.store,
                     shared.base + kM.at_row + group * C::kN * 4, first_row, 1 + group};
    if (!C::Tiles::kNeverEmpty && walk.depth(args) == 0) {
      if (C::kPingPong) {  // it has its turn, but takes no stage
        turn_wait(3 + group);
        turn_give(4 - group);
      }
      const typename C::Sums zeros = {};  // not `sums`: wgmma in flight allows no other writes to its registers
      finish(zeros, job);
    } else {
      begin(job);
      multiply<C>(sums, ring, walk.depth(args), shared, first_row, group);
      finish(sums, job);
    }
    walk.next();
    if (C::kPingPong) pass();
  }
  if (args.tma_stores && threadIdx.x % 128 == 0) tma_store_wait_read<0>();  // shared memory must outlive these reads
}

// Stores read(column) of the tile's columns as floats in shared memory, ahead of the main loop, which hides the latency.
template <class C, class Read>
__device__ inline void keep_row(const Job<C>& job, const GemmArgs& args, const Read& read) {
  // The last tile's readers must be through. With TMA stores the barriers of write_out say so already.
  if (!args.tma_stores) group_sync(job.bar);
  for (int i = threadIdx.x % 128; i < C::kN; i += 128)
    store_float(job.row + i * 4, job.tile.n + i < args.n ? read(job.tile.n + i) : 0);
  if (!args.tma_stores) group_sync(job.bar);
}

template <class C, class Begin, class Finish>
__device__ inline void gemm(const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_d,
                            const GemmArgs& args, const Begin& begin, const Finish& finish) {
  extern __shared__ __align__(1024) char memory[];
  const uint32_t base = shared_address(memory);
  if (base % 1024 != 0) __trap();  // a swizzle atom has 1024 bytes; holds while nothing else here is __shared__
  const Shared shared{base, base + C::kMemory.at_barriers, base + C::kMemory.at_barriers + C::kStages * 8};
  if (threadIdx.x == 0) {
    tma_prefetch(map_a);
    tma_prefetch(map_b);
    if (args.tma_stores) tma_prefetch(map_d);
    for (int s = 0; s < C::kStages; ++s) {
      barrier_init(shared.full + s * 8, 1);
      barrier_init(shared.empty + s * 8, (C::kPingPong ? 1 : 2) * C::kCluster);
    }
    barrier_init_fence();
  }
  if constexpr (C::kCluster > 1) cluster_sync();  // no block may write into another before its barriers exist
  else __syncthreads();

  // 168 (80 with two blocks per multiprocessor) registers per thread at launch; warpgroup 0 gives most of its own away.
  const int group = threadIdx.x / 128;
  if (group == 0) {
    registers_give_back<(C::kTile.blocks_per_sm == 1 ? 40 : 24)>();
    if (threadIdx.x == 0) produce<C>(map_a, map_b, shared, args);
  } else {
    registers_take<(C::kTile.blocks_per_sm == 1 ? 232 : 104)>();
    consume<C>(shared, args, group - 1, begin, finish);
  }
  if constexpr (C::kCluster > 1) {
    __syncwarp();
    cluster_sync();  // no block may leave while another can still write into it
  }
}

}  // namespace strata::cuda::hopper
