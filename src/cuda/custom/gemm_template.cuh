// Products of matrices with an epilogue of the user, compiled at run time (strata.gemm.compile). Usable by hand, too:
// write a Config and an Epilogue as gemm_source.cpp does, and call run() in a kernel.
//
// A block computes a kM x kN tile of c. Tiles of both factors, kK deep, pass through kStages stages of shared memory by
// cp.async. 16-bit factors are multiplied by tensor cores (TensorCoreSums), float and double by ordinary instructions
// (PlainSums). The epilogue is applied to the sums in registers, before they are rounded.
//
// Config:  Element, Result; kM, kN, kK, kStages; kWarpsM, kWarpsN (of tensor cores); kAAlongK, kBAlongK: k is the dense
//          dimension of the factor; kAVector, kBVector: bytes of a copy of 16-bit elements, 16, 8 or 4, or 0 for any
//          strides and addresses. For run(): Second, the type of a second result; kResults; kAmax.
// Epilogue: constructed from (KernelParams, BatchIndex); first and second(sum, m, n, batch) -> value.
//
// 8-bit integers (signed char) and TF32 (Tf32) are on tensor cores too. Their factors are dense along k, and sizes and
// strides are in units of two bytes, as if they were 16-bit floats: kK is too.
#pragma once
#include "cuda/custom/gemm_functions.cuh"
#include "cuda/linalg/mma.cuh"

namespace strata::gemm {

using cuda::TilePlace;

template <class A, class B> constexpr bool kSame = false;
template <class A> constexpr bool kSame<A, A> = true;

template <class T> constexpr bool kOnTensorCores = sizeof(T) == 2 || kSame<T, signed char> || kSame<T, Tf32>;
template <class T> struct SumOf { using Type = float; };
template <> struct SumOf<signed char> { using Type = int; };

// Loads tiles into a ring of kStages stages, multiplying the oldest meanwhile. bring(stage, step) starts the copies of
// a tile, multiply(stage) uses it. Afterwards the shared memory is free.
template <int kStages, class Bring, class Multiply>
__device__ __forceinline__ void pipeline(int steps, Bring bring, Multiply multiply) {
  const auto start = [&](int step) {
    if (step < steps) bring(step % kStages, step);
    cuda::mma::copies_commit();  // empty groups at the end keep the number of groups in flight constant
  };
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) start(step);
  for (int step = 0; step < steps; ++step) {
    cuda::mma::copies_wait<kStages - 2>();
    __syncthreads();  // the tile is complete, and no thread still reads the stage that is filled next
    start(step + kStages - 1);
    multiply(step % kStages);
  }
  cuda::mma::copies_wait<0>();
  __syncthreads();
}

// --- 16-bit factors --------------------------------------------------------------------------------------------------

// A tile of one factor: rows of 16-byte pieces, kOuter rows along k or kDepth rows along the other dimension. The pieces
// are permuted, so that the eight rows of an ldmatrix are in different banks.
template <bool kAlongK_, int kOuter, int kDepth> struct Tile16 {
  static constexpr bool kAlongK = kAlongK_;
  static constexpr int kRows = kAlongK ? kOuter : kDepth, kPieces = (kAlongK ? kDepth : kOuter) / 8;
  static constexpr int kPower = kPieces & -kPieces, kSpread = kPower < 8 ? kPower : 8;
  static constexpr int kBytes = kOuter * kDepth * 2;
  // Of the piece that begins at `outer` and k, of which the one along rows is a multiple of 8.
  static __device__ __forceinline__ uint32_t offset(int outer, int k) {
    const int row = kAlongK ? outer : k, piece = (kAlongK ? k : outer) / 8;
    return (row * kPieces + (piece ^ (row / (8 / kSpread) % kSpread))) * 16;
  }
};

// The pieces of the tiles of one factor that a thread loads.
template <class Tile, int kVector, int kThreads> struct Loader16 {
  static constexpr int kAll = Tile::kRows * Tile::kPieces, kEach = (kAll + kThreads - 1) / kThreads;
  const uint16_t *from[kEach], *base;
  uint32_t to[kEach];
  int k[kEach], there[kEach];  // there: elements inside the matrix, without regard to k
  int64_t outer_step, k_step;

  __device__ __forceinline__ Loader16(const uint16_t* matrix, int64_t outer_stride, int64_t k_stride, int64_t first,
                                      int64_t size)
      : base(matrix), outer_step(outer_stride), k_step(k_stride) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int piece = int(threadIdx.x) + i * kThreads, row = piece / Tile::kPieces,
                column = piece % Tile::kPieces * 8;
      const int outer = Tile::kAlongK ? row : column;
      const int64_t left = size - first - outer;
      k[i] = Tile::kAlongK ? column : row;
      there[i] = piece >= kAll || left <= 0 ? 0 : Tile::kAlongK || left > 8 ? 8 : int(left);
      from[i] = base + (first + outer) * outer_step + k[i] * k_step;
      to[i] = Tile::offset(outer, k[i]);
    }
  }

  // Loads the next tile, in which `left` elements of k are inside the matrix.
  __device__ __forceinline__ void bring(uint32_t tile, int64_t left, int64_t depth) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (kAll % kThreads != 0 && int(threadIdx.x) + i * kThreads >= kAll) break;
      const int64_t rest = left - k[i];
      const int count = rest <= 0 ? 0 : Tile::kAlongK && rest < there[i] ? int(rest) : there[i];
      if constexpr (kVector > 0) {
#pragma unroll
        for (int v = 0; v < 16; v += kVector) {
          const int bytes = min(max(count * 2 - v, 0), kVector);
          cuda::mma::copy_async<kVector == 0 ? 16 : kVector>(tile + to[i] + v, bytes ? from[i] + v / 2 : base, bytes);
        }
      } else {
        uint32_t words[4] = {};
        const int64_t step = Tile::kAlongK ? k_step : outer_step;
#pragma unroll
        for (int e = 0; e < 8; ++e)
          if (e < count) words[e / 2] |= uint32_t(from[i][e * step]) << (e % 2 * 16);
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(tile + to[i]), "r"(words[0]), "r"(words[1]),
                     "r"(words[2]), "r"(words[3])
                     : "memory");
      }
      from[i] += depth * k_step;
    }
  }
};

template <class C> struct TensorCoreSums {
  using Sum = typename SumOf<typename C::Element>::Type;
  using Unit = uint16_t;
  using TileA = Tile16<C::kAAlongK, C::kM, C::kK>;
  using TileB = Tile16<C::kBAlongK, C::kN, C::kK>;
  static constexpr bool kBf16 = kSame<typename C::Element, strata_bfloat16>;
  static constexpr int kThreads = C::kWarpsM * C::kWarpsN * 32, kStageBytes = TileA::kBytes + TileB::kBytes;
  static constexpr int kWarpRows = C::kM / C::kWarpsM, kWarpColumns = C::kN / C::kWarpsN;
  static constexpr int kFragsM = kWarpRows / 16, kFragsN = kWarpColumns / 8;
  const int lane, warp_m, warp_n;  // warp_m, warp_n: where the warp's part of the tile begins
  Sum sums[kFragsM][kFragsN][4];

  __device__ __forceinline__ TensorCoreSums()
      : lane(threadIdx.x % 32),
        warp_m(int(threadIdx.x) / 32 % C::kWarpsM * kWarpRows),
        warp_n(int(threadIdx.x) / 32 / C::kWarpsM * kWarpColumns) {}

  __device__ __forceinline__ void multiply(uint32_t a, uint32_t b) {
    const int block = lane / 8, row = lane % 8;
#pragma unroll
    for (int k = 0; k < C::kK; k += 16) {
      uint32_t fa[kFragsM][4], fb[kFragsN / 2][4];
#pragma unroll
      for (int i = 0; i < kFragsM; ++i)  // blocks: rows 0-7, rows 8-15, then the same of k 8-15
        cuda::mma::load_matrices<!C::kAAlongK>(
          fa[i], a + (C::kAAlongK ? TileA::offset(warp_m + i * 16 + lane % 16, k + lane / 16 * 8)
                                  : TileA::offset(warp_m + i * 16 + block % 2 * 8, k + block / 2 * 8 + row)));
#pragma unroll
      for (int j = 0; j < kFragsN / 2; ++j)  // blocks: k 0-7, k 8-15, then the same of columns 8-15
        cuda::mma::load_matrices<!C::kBAlongK>(
          fb[j], b + (C::kBAlongK ? TileB::offset(warp_n + j * 16 + block / 2 * 8 + row, k + block % 2 * 8)
                                  : TileB::offset(warp_n + j * 16 + block / 2 * 8, k + block % 2 * 8 + row)));
#pragma unroll
      for (int i = 0; i < kFragsM; ++i)
#pragma unroll
        for (int j = 0; j < kFragsN; ++j) {
          const uint32_t b0 = fb[j / 2][j % 2 * 2], b1 = fb[j / 2][j % 2 * 2 + 1];
          if constexpr (kSame<typename C::Element, signed char>) cuda::mma::multiply_bytes(sums[i][j], fa[i], b0, b1);
          else if constexpr (kSame<typename C::Element, Tf32>) cuda::mma::multiply_tf32(sums[i][j], fa[i], b0, b1);
          else cuda::mma::multiply<kBf16>(sums[i][j], fa[i], b0, b1);
        }
    }
  }

  // The tile at row m0 and column n0 of the product of two matrices.
  __device__ __forceinline__ void accumulate(const Product& p, char* memory, const void* a, const void* b, int64_t m0,
                                             int64_t n0) {
    const uint32_t base = cuda::shared_address(memory);
    Loader16<TileA, C::kAVector, kThreads> from_a(static_cast<const uint16_t*>(a), p.a_m, p.a_k, m0, p.m);
    Loader16<TileB, C::kBVector, kThreads> from_b(static_cast<const uint16_t*>(b), p.b_n, p.b_k, n0, p.n);
#pragma unroll
    for (int i = 0; i < kFragsM; ++i)
#pragma unroll
      for (int j = 0; j < kFragsN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
    pipeline<C::kStages>(
      int((p.k + C::kK - 1) / C::kK),
      [&](int stage, int step) {
        const uint32_t tile = base + stage * kStageBytes;
        const int64_t left = p.k - int64_t(step) * C::kK;
        from_a.bring(tile, left, C::kK);
        from_b.bring(tile + TileA::kBytes, left, C::kK);
      },
      [&](int stage) {
        const uint32_t tile = base + stage * kStageBytes;
        multiply(tile, tile + TileA::kBytes);
      });
  }

  // f(row, column, low, high) for each pair of neighbouring sums of this thread, f(row, column, sum) for each sum.
  template <class F> __device__ __forceinline__ void each_pair(F f) const {
#pragma unroll
    for (int i = 0; i < kFragsM; ++i)
#pragma unroll
      for (int j = 0; j < kFragsN; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          f(warp_m + i * 16 + half * 8 + lane / 4, warp_n + j * 8 + lane % 4 * 2, sums[i][j][half * 2],
            sums[i][j][half * 2 + 1]);
  }
  template <class F> __device__ __forceinline__ void each(F f) const {
    each_pair([&](int row, int column, Sum low, Sum high) {
      f(row, column, low);
      f(row, column + 1, high);
    });
  }
};

// --- float and double ------------------------------------------------------------------------------------------------

// 256 threads as 16 x 16, each with kM / 16 x kN / 16 sums. Elements are copied one by one, so any strides will do.
template <class C> struct PlainSums {
  using T = typename C::Element;
  using Sum = T;
  using Unit = T;
  static constexpr int kThreads = 256, kPitchA = C::kM + 4, kPitchB = C::kN + 4;
  static constexpr int kFloatsA = C::kK * kPitchA, kStage = kFloatsA + C::kK * kPitchB;
  static constexpr int kEachM = C::kM / 16, kEachN = C::kN / 16;
  // A thread's rows and columns are in groups of up to four neighbours: vector loads without bank conflicts.
  static constexpr int kGroupM = kEachM < 4 ? kEachM : 4, kGroupN = kEachN < 4 ? kEachN : 4;
  T sums[kEachM][kEachN];

  static __device__ __forceinline__ int row_of(int i) {
    return int(threadIdx.x) / 16 * kGroupM + i % kGroupM + i / kGroupM * 16 * kGroupM;
  }
  static __device__ __forceinline__ int column_of(int j) {
    return int(threadIdx.x) % 16 * kGroupN + j % kGroupN + j / kGroupN * 16 * kGroupN;
  }

  template <bool kAlongK, int kOuter, int kPitch>
  static __device__ __forceinline__ void bring(uint32_t tile, const T* matrix, int64_t outer_step, int64_t k_step,
                                               int64_t first, int64_t size, int64_t k0, int64_t k_end) {
#pragma unroll 4
    for (int at = threadIdx.x; at < kOuter * C::kK; at += kThreads) {
      const int outer = kAlongK ? at / C::kK : at % kOuter, k = kAlongK ? at % C::kK : at / kOuter;
      const bool inside = first + outer < size && k0 + k < k_end;
      const T* from = inside ? matrix + (first + outer) * outer_step + (k0 + k) * k_step : matrix;
      cuda::mma::copy_async<sizeof(T)>(tile + (k * kPitch + outer) * int(sizeof(T)), from, inside ? sizeof(T) : 0);
    }
  }

  __device__ __forceinline__ void accumulate(const Product& p, char* memory, const T* from_a, const T* from_b,
                                             int64_t m0, int64_t n0) {
    T* tiles = reinterpret_cast<T*>(memory);
    const uint32_t base = cuda::shared_address(memory);
#pragma unroll
    for (int i = 0; i < kEachM; ++i)
#pragma unroll
      for (int j = 0; j < kEachN; ++j) sums[i][j] = 0;
    pipeline<C::kStages>(
      int((p.k + C::kK - 1) / C::kK),
      [&](int stage, int step) {
        const uint32_t tile = base + stage * kStage * int(sizeof(T));
        const int64_t k0 = int64_t(step) * C::kK;
        bring<C::kAAlongK, C::kM, kPitchA>(tile, from_a, p.a_m, p.a_k, m0, p.m, k0, p.k);
        bring<C::kBAlongK, C::kN, kPitchB>(tile + kFloatsA * int(sizeof(T)), from_b, p.b_n, p.b_k, n0, p.n, k0, p.k);
      },
      [&](int stage) {
        const T *ta = tiles + stage * kStage, *tb = ta + kFloatsA;
#pragma unroll
        for (int k = 0; k < C::kK; ++k) {
          T x[kEachM], y[kEachN];
#pragma unroll
          for (int i = 0; i < kEachM; ++i) x[i] = ta[k * kPitchA + row_of(i)];
#pragma unroll
          for (int j = 0; j < kEachN; ++j) y[j] = tb[k * kPitchB + column_of(j)];
#pragma unroll
          for (int i = 0; i < kEachM; ++i)
#pragma unroll
            for (int j = 0; j < kEachN; ++j) sums[i][j] += x[i] * y[j];
        }
      });
  }

  template <class F> __device__ __forceinline__ void each(F f) const {
#pragma unroll
    for (int i = 0; i < kEachM; ++i)
#pragma unroll
      for (int j = 0; j < kEachN; ++j) f(row_of(i), column_of(j), sums[i][j]);
  }
};

template <class C, bool kTensorCores> struct SumsOf { using Type = TensorCoreSums<C>; };
template <class C> struct SumsOf<C, false> { using Type = PlainSums<C>; };
template <class C> using Sums = typename SumsOf<C, kOnTensorCores<typename C::Element>>::Type;

// --- the kernel ------------------------------------------------------------------------------------------------------

// Writes a tile of 16-bit results through shared memory, so that whole rows of 16-byte pieces are stored.
template <class C, class Result, class Value>
__device__ __forceinline__ void store_rows(const Product& p, const TensorCoreSums<C>& tile, char* memory, Result* c,
                                           int64_t m0, int64_t n0, int64_t first, Value value) {
  constexpr int kPitch = C::kN + 8, kPieces = C::kN / 8;
  struct alignas(4) Pair {
    Result low, high;
  };
  using Sum = typename TensorCoreSums<C>::Sum;
  auto* rows = reinterpret_cast<Result*>(memory);
  tile.each_pair([&](int row, int column, Sum low, Sum high) {
    if (m0 + row < first || m0 + row >= p.m) return;
    Pair pair{};
    if (n0 + column < p.n) put(pair.low, value(low, row, column));
    if (n0 + column + 1 < p.n) put(pair.high, value(high, row, column + 1));
    *reinterpret_cast<Pair*>(rows + row * kPitch + column) = pair;
  });
  __syncthreads();
  for (int piece = threadIdx.x; piece < C::kM * kPieces; piece += TensorCoreSums<C>::kThreads) {
    const int row = piece / kPieces, column = piece % kPieces * 8;
    if (m0 + row < first || m0 + row >= p.m) continue;
    uint16_t* to = reinterpret_cast<uint16_t*>(c) + (m0 + row) * p.c_m + n0 + column;
    const auto* from = reinterpret_cast<const uint16_t*>(rows + row * kPitch + column);
    if (n0 + column + 8 <= p.n) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (n0 + column + e < p.n) to[e] = from[e];
    }
  }
  __syncthreads();
}

// Writes value(sum, row, column) for all sums of a tile that are inside of c, from row `first` on. wide: rows of c are
// dense and begin at multiples of 16 bytes.
template <class C, class Result, class Value>
__device__ __forceinline__ void store(const Product& p, const Sums<C>& tile, char* memory, Result* c, int64_t m0,
                                      int64_t n0, int64_t first, bool wide, Value value) {
  if constexpr (sizeof(Result) == 2 && kOnTensorCores<typename C::Element>) {
    if (wide) {
      store_rows<C>(p, tile, memory, c, m0, n0, first, value);
      return;
    }
  }
  tile.each([&](int row, int column, typename Sums<C>::Sum sum) {
    if (m0 + row >= first && m0 + row < p.m && n0 + column < p.n)
      put(c[(m0 + row) * p.c_m + (n0 + column) * p.c_n], value(sum, row, column));
  });
}

template <class C, class Epilogue> __device__ __forceinline__ void run(const KernelParams& p, char* memory) {
  const TilePlace place(blockIdx.x, int((p.m + C::kM - 1) / C::kM), int((p.n + C::kN - 1) / C::kN));
  const int64_t m0 = int64_t(place.row) * C::kM, n0 = int64_t(place.column) * C::kN;
  // Elements of factors, or units of two bytes.
  using Sum = typename Sums<C>::Sum;
  constexpr int kUnit = kOnTensorCores<typename C::Element> ? 2 : sizeof(typename C::Element);
  for (int64_t index = blockIdx.y; index < p.batches; index += gridDim.y) {
    const BatchIndex batch(p, index);
    Sums<C> tile;
    const auto at = [&](uint64_t factor, const int64_t(&strides)[Product::kMaxBatch]) {
      return reinterpret_cast<const typename Sums<C>::Unit*>(factor + batch.offset(p, strides) * kUnit);
    };
    tile.accumulate(p, memory, at(p.a, p.a_b), at(p.b, p.b_b), m0, n0);
    const Epilogue epilogue(p, batch);
    uint32_t largest = 0;
    auto* c = reinterpret_cast<typename C::Result*>(p.c) + batch.offset(p, p.c_b);
    store<C>(p, tile, memory, c, m0, n0, 0, p.wide_stores, [&](Sum sum, int row, int column) {
      const auto value = epilogue.first(sum, int(m0 + row), int(n0 + column), batch.linear);
      if (C::kAmax) largest = max(largest, magnitude(value));
      return value;
    });
    if constexpr (C::kResults == 2) {
      Product second = p;
      second.c_m = p.second.m;
      second.c_n = p.second.n;
      auto* to = reinterpret_cast<typename C::Second*>(p.second.data) + batch.offset(p, p.second_b);
      store<C>(second, tile, memory, to, m0, n0, 0, p.second_wide, [&](Sum sum, int row, int column) {
        return epilogue.second(sum, int(m0 + row), int(n0 + column), batch.linear);
      });
    }
    if (C::kAmax) publish_amax(p, largest);
  }
}

}  // namespace strata::gemm
