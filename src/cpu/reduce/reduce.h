// Reductions over any set of dimensions of any strided tensor, without copying it.
//
// A value is folded in three steps whose cut depends on the shape alone, so that every thread count gives the same bits:
// runs of at most kChunk elements (or rows) are folded in the compute type (float, double, int64), SIMD lanes side by side;
// the runs' results are combined in the wide type (double, int64); the last step converts to the output's dtype.
// The short runs and the wide second step keep float sums as accurate as pairwise summation.
#pragma once
#include "cpu/movement/runs.h"
#include "record/reduction.h"

namespace strata::cpu {

template <class T> struct WideOf { using type = double; };
template <> struct WideOf<int64_t> { using type = int64_t; };
template <class T> using Wide = typename WideOf<T>::type;

// out is contiguous and holds one element per kept position. The input is read as `cast` (compute type of it), as
// sum(dtype=...) asks for. Bit d of `reduced` is set when dimension d disappears.
STRATA_API void reduce(Fold fold, const TensorImpl& x, uint32_t reduced, DType cast, const TensorImpl& out,
                       Finish finish = {});
// The same by plain loops in the wide type.
STRATA_API void reduce_reference(Fold fold, const TensorImpl& x, uint32_t reduced, DType cast, const TensorImpl& out,
                                 Finish finish = {});

// --- what the SIMD file gives ---------------------------------------------------------------------------------------

constexpr int kRowsAtOnce = 8;
template <class T> struct FoldTable {
  Wide<T> identity;
  Wide<T> (*combine)(Wide<T>, Wide<T>);
  Wide<T> (*map)(Wide<T>);                // of one element, for the reference
  Wide<T> (*run)(const T* x, int64_t n);  // folds n contiguous elements
  void (*columns)(const T* const* rows, int count, int64_t n,
                  T* acc);  // acc[i] = fold(acc[i], rows[0..count)[i]); count <= kRowsAtOnce
  void (*widen)(const T* acc, int64_t n, Wide<T>* total);  // total[i] = combine(total[i], acc[i])
  void (*merge)(const Wide<T>* part, int64_t n, Wide<T>* total);
};
template <class T> const FoldTable<T>& fold_table(Fold f);

// out[i] = x[i * stride] as T, for any dtype of x.
template <class T> inline void load_block(DType from, const std::byte* x, int64_t stride, int64_t n, T* out) {
  load_run<T>(out, x, from, stride, n);
}

}  // namespace strata::cpu
