// The frame of fused kernels with ops on rows (cuda/pointwise/fused_rows_source.cpp), compiled by NVRTC.
//
// Bound by memory: each element of a tensor is read once and each stored result written once. The threads of a row, from part of a
// warp up to a block, hold it in registers, in the partition of the kernels of single ops, so that folds have their bits. Tensors with
// elements of their own for each row are loaded first, all in flight together; values that are needed later are kept in their
// element type, 16-bit ones in half a register.
#pragma once
#include "cuda/common/row_threads.cuh"
#include "cuda/linalg/mma.cuh"
#include "cuda/pointwise/fused.cuh"

namespace strata::fused {

using cuda::RowPart;

// The host writes the same bytes (fused_rows.cpp).
template <class P, int kWords> struct RowParams {
  P of;
  unsigned long long word[kWords ? kWords : 1];
  long long rows, n;
  unsigned long long aligned;  // a bit for each tensor that has vectors, then one for each result
  int threads, unused;         // of a row
};

// The elements of a row, of memory with all rows one after the other.
template <class S, class Row>
__device__ __forceinline__ void load_row(const Row& row, const void* data, bool aligned,
                                         Elements<S, 8> (&a)[Row::kVectors]) {
  const S* const from = static_cast<const S*>(data) + row.base;
  if (aligned) {
#pragma unroll
    for (int k = 0; k < Row::kVectors; ++k) {
      a[k] = {};
      if (row.has(k)) a[k] = load_vector<S, 8>(from, row.place(k));
    }
  } else {
#pragma unroll
    for (int k = 0; k < Row::kVectors; ++k) {
      a[k] = {};
      if (!row.has(k)) continue;
#pragma unroll
      for (int j = 0; j < 8; ++j) a[k].item[j] = from[row.place(k) + j];
    }
  }
}
// The same in shared memory, for rows that leave no registers for more than a block: vector k of a thread is at
// k * blockDim.x + threadIdx.x. Each thread reads what it has copied itself.
template <class S, class Row>
__device__ __forceinline__ Elements<S, 8>* stage_row(const Row& row, const void* data, bool aligned, void* shared) {
  static_assert(sizeof(Elements<S, 8>) == 16);
  auto* const to = static_cast<Elements<S, 8>*>(shared) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < Row::kVectors; ++k) {
    const bool has = row.has(k);
    const S* const from = static_cast<const S*>(data) + (has ? row.base + row.place(k) : 0);
#if __CUDA_ARCH__ >= 800
    if (aligned) {
      cuda::mma::copy_async(unsigned(__cvta_generic_to_shared(to + k * blockDim.x)), from, has ? 16 : 0);
      continue;
    }
#endif
    Elements<S, 8> v = {};
    if (has) {
#pragma unroll
      for (int j = 0; j < 8; ++j) v.item[j] = from[j];
    }
    to[k * blockDim.x] = v;
  }
#if __CUDA_ARCH__ >= 800
  cuda::mma::copies_commit();
#endif
  return to;
}
__device__ __forceinline__ void wait_for_staged() {
#if __CUDA_ARCH__ >= 800
  cuda::mma::copies_wait<0>();
#endif
}
template <class S, class Row>
__device__ __forceinline__ void store_vector_of(const Row& row, void* data, bool aligned, int k,
                                                const Elements<S, 8>& a) {
  if (!row.has(k)) return;
  const long long at = row.base + row.place(k);
  if (aligned) return store_vector(data, at, a);
#pragma unroll
  for (int j = 0; j < 8; ++j) static_cast<S*>(data)[at + j] = a.item[j];
}
// Vector k of a tensor that is the same for all rows.
template <class S, class Row>
__device__ __forceinline__ Elements<S, 8> load_shared(const Row& row, const void* data, bool aligned, int k) {
  Elements<S, 8> v = {};
  if (!row.has(k)) return v;
  if (aligned) return load_vector<S, 8>(data, row.place(k));
#pragma unroll
  for (int j = 0; j < 8; ++j) v.item[j] = static_cast<const S*>(data)[row.place(k) + j];
  return v;
}
// Vector k of the strided tensor with the number `tensor` among those.
template <class S, class Row, class P>
__device__ __forceinline__ Elements<S, 8> load_places(const Row& row, const P& p, const void* data, int tensor, int k) {
  if (!row.has(k)) return {};
  const Offsets<P> at(p, unsigned(row.base + row.place(k)));
  return load_strided<S, 8>(data, at.of[tensor], p.step[tensor][0], p.vector_rows >> tensor & 1);
}

// The value of a row of a tensor, or several; 0 for a row that does not exist.
template <class T, class S, class Row> __device__ __forceinline__ T load_stat(const Row& row, const void* data) {
  return row.there ? value_of<T>(static_cast<const S*>(data)[row.row]) : T(0);
}
template <class S, class Row, class T, int kWidth>
__device__ __forceinline__ void load_stats(const Row& row, const void* data, T (&v)[kWidth]) {
#pragma unroll
  for (int w = 0; w < kWidth; ++w)
    v[w] = row.there ? value_of<T>(static_cast<const S*>(data)[row.row * kWidth + w]) : T(0);
}
template <class S, class Row, class T> __device__ __forceinline__ void store_stat(const Row& row, void* data, T v) {
  if (row.there && row.lane == 0) set(static_cast<S*>(data)[row.row], v);
}
template <class S, class Row, class T, int kWidth>
__device__ __forceinline__ void store_stats(const Row& row, void* data, const T (&v)[kWidth]) {
  if (!row.there || row.lane != 0) return;
#pragma unroll
  for (int w = 0; w < kWidth; ++w) set(static_cast<S*>(data)[row.row * kWidth + w], v[w]);
}
template <class S, class T> __device__ __forceinline__ T rounded(T v) {
  T one[1] = {v};
  round_to<S>(one);
  return one[0];
}

// Between element types and T.
template <class T, class S> __device__ __forceinline__ void get_vector(const Elements<S, 8>& from, T (&v)[8]) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) get_two(from, j, reinterpret_cast<T(&)[2]>(v[j]));
}
template <class T, class S> __device__ __forceinline__ void set_vector(Elements<S, 8>& to, const T (&v)[8]) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) set_two(to, j, reinterpret_cast<const T(&)[2]>(v[j]));
}

}  // namespace strata::fused
