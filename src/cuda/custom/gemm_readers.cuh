// How an epilogue on Hopper reads tensors: a piece of the result at a time, into registers, before the sums that need the
// values. Loads of single elements inside the epilogue would wait for memory once per element.
//
// A piece has the 16 rows and kColumns columns of a warp. Value (j, q, e) of a lane, as wgmma distributes sums, is in row
// q % 2 * 8 + lane / 4 and column j * 16 + q / 2 * 8 + lane % 4 * 2 + e.
#pragma once
#include "cuda/custom/gemm_functions.cuh"
#include "cuda/linalg/hopper.cuh"

namespace strata::gemm {

// The matrix of the batch that a tile belongs to. There are at most two dimensions; no division is needed.
struct TileBatch {
  int inner, outer;
  int64_t linear;
  __device__ __forceinline__ int64_t offset(const KernelParams& p, const int64_t (&strides)[Product::kMaxBatch]) const {
    if (p.batch_dims == 2) return outer * strides[0] + inner * strides[1];
    return p.batch_dims == 1 ? inner * strides[0] : 0;
  }
};

// The piece of a warp: its first row and column, and the ends of the matrix.
struct Piece {
  int m, n, rows, columns;
  __device__ __forceinline__ int row(int q) const { return m + q % 2 * 8 + int(threadIdx.x) % 32 / 4; }
  __device__ __forceinline__ int column(int j, int q, int e) const {
    return n + j * 16 + q / 2 * 8 + int(threadIdx.x) % 4 * 2 + e;
  }
  // Values outside of the matrix are not stored. Those that are read for them come from the nearest element inside, so
  // that there are no branches.
  __device__ __forceinline__ int row_inside(int q) const { return min(row(q), rows - 1); }
  __device__ __forceinline__ int column_inside(int j, int q, int e) const { return min(column(j, q, e), columns - 1); }
};

// What `bias[n]` and `residual[m, n]` are inside the epilogue: the value that was read for this element.
template <class T> struct Held {
  T value;
  __device__ __forceinline__ T operator[](int64_t) const { return value; }
};
template <class T> struct HeldRow {
  T value;
  __device__ __forceinline__ Held<T> operator[](int64_t) const { return {value}; }
};

// Does nothing where a reader has nothing to do.
struct Reader {
  __device__ __forceinline__ void ahead(const Piece&) {}
  __device__ __forceinline__ void begin(const Piece&, uint32_t) {}
  __device__ __forceinline__ void columns(uint32_t) {}
};

// bias[n]
template <class Sum, class Stored, int kColumns> struct ColumnReader : Reader {
  const Stored* data;
  int64_t stride;
  Stored values[kColumns / 16][2][2];
  __device__ __forceinline__ ColumnReader(const KernelParams& p, int i, const TileBatch& batch)
      : data(reinterpret_cast<const Stored*>(p.extras[i].data) + batch.offset(p, p.extras[i].batch)),
        stride(p.extras[i].stride[0]) {}
  __device__ __forceinline__ void begin(const Piece& at, uint32_t) {
#pragma unroll
    for (int j = 0; j < kColumns / 16; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int e = 0; e < 2; ++e) values[j][half][e] = data[at.column_inside(j, half * 2, e) * stride];
  }
  __device__ __forceinline__ auto held(int j, int q, int e) const {
    return Held<typename Loaded<Sum, Stored>::Type>{
      typename Loaded<Sum, Stored>::Type(strata_load(values[j][q / 2][e]))};
  }
};

// scale[m]
template <class Sum, class Stored> struct RowReader : Reader {
  const Stored* data;
  int64_t stride;
  Stored values[2];
  __device__ __forceinline__ RowReader(const KernelParams& p, int i, const TileBatch& batch)
      : data(reinterpret_cast<const Stored*>(p.extras[i].data) + batch.offset(p, p.extras[i].batch)),
        stride(p.extras[i].stride[0]) {}
  __device__ __forceinline__ void begin(const Piece& at, uint32_t) {
#pragma unroll
    for (int q = 0; q < 2; ++q) values[q] = data[at.row_inside(q) * stride];
  }
  __device__ __forceinline__ auto held(int, int q, int) const {
    return Held<typename Loaded<Sum, Stored>::Type>{typename Loaded<Sum, Stored>::Type(strata_load(values[q % 2]))};
  }
};

// residual[m, n] of any dtype and strides. kPairs: two neighbours in a row are one aligned load.
template <class Sum, class Stored, int kColumns, bool kPairs> struct MatrixReader : Reader {
  struct alignas(kPairs ? 2 * sizeof(Stored) : sizeof(Stored)) Pair {
    Stored at[2];
  };
  const Stored* data;
  int64_t row_stride, column_stride;
  Pair values[kColumns / 16][4];
  __device__ __forceinline__ MatrixReader(const KernelParams& p, int i, const TileBatch& batch)
      : data(reinterpret_cast<const Stored*>(p.extras[i].data) + batch.offset(p, p.extras[i].batch)),
        row_stride(p.extras[i].stride[0]),
        column_stride(p.extras[i].stride[1]) {}
  __device__ __forceinline__ void begin(const Piece& at, uint32_t) {
#pragma unroll
    for (int j = 0; j < kColumns / 16; ++j)
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const Stored* row = data + at.row_inside(q) * row_stride;
        if (kPairs && at.column(j, q, 1) < at.columns) {
          values[j][q] = *reinterpret_cast<const Pair*>(row + at.column(j, q, 0));
          continue;
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) values[j][q].at[e] = row[at.column_inside(j, q, e) * column_stride];
      }
  }
  __device__ __forceinline__ auto held(int j, int q, int e) const {
    return HeldRow<typename Loaded<Sum, Stored>::Type>{
      typename Loaded<Sum, Stored>::Type(strata_load(values[j][q].at[e]))};
  }
};

// residual[m, n] of 16 bits whose rows begin at multiples of 16 bytes. Whole rows of the piece are loaded, while the piece
// before it is computed, and pass through the shared memory of the results, which has room for one such matrix.
template <class Sum, class Stored, int kColumns> struct StagedReader : Reader {
  static constexpr int kUnits = kColumns / 8, kLoads = kUnits * 16 / 32, kRowShift = kColumns == 64 ? 0 : 1;
  const Stored* data;
  int64_t row_stride;
  uint4 next[kLoads];
  uint32_t words[4];  // of 16 columns
  __device__ __forceinline__ StagedReader(const KernelParams& p, int i, const TileBatch& batch)
      : data(reinterpret_cast<const Stored*>(p.extras[i].data) + batch.offset(p, p.extras[i].batch)),
        row_stride(p.extras[i].stride[0]) {}
  __device__ __forceinline__ void ahead(const Piece& at) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int row = min(at.m + (i * 32 + lane) / kUnits, at.rows - 1), column = at.n + lane % kUnits * 8;
      const auto* from = reinterpret_cast<const unsigned short*>(data + row * row_stride) + column;
      if (column + 8 <= at.columns) {
        next[i] = *reinterpret_cast<const uint4*>(from);
        continue;
      }
      uint32_t w[4] = {};
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (column + e < at.columns) w[e / 2] |= uint32_t(from[e]) << (e % 2 * 16);
      next[i] = make_uint4(w[0], w[1], w[2], w[3]);
    }
  }
  // rows: address of the warp's first row in the buffer of the piece.
  __device__ __forceinline__ void begin(const Piece&, uint32_t rows) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int row = (i * 32 + lane) / kUnits, unit = lane % kUnits ^ (row >> kRowShift & (kUnits - 1));
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(rows + row * (kColumns * 2) + unit * 16),
                   "r"(next[i].x), "r"(next[i].y), "r"(next[i].z), "r"(next[i].w)
                   : "memory");
    }
    __syncwarp();
  }
  // address: as for store_matrix of the same 16 columns.
  __device__ __forceinline__ void columns(uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  }
  __device__ __forceinline__ auto held(int, int q, int e) const {
    Stored value;
    value.bits = (unsigned short)(words[q] >> (e * 16));
    return HeldRow<typename Loaded<Sum, Stored>::Type>{typename Loaded<Sum, Stored>::Type(strata_load(value))};
  }
};

}  // namespace strata::gemm
