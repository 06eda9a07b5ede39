// Reductions over any set of dimensions of any strided tensor, without copying it.
//
// A value is reduced in three steps whose partition depends on the shape only, so that any thread count gives the same
// bits: runs of at most kChunk elements (or rows) are reduced in the compute type (float, double, int64) with SIMD; the
// runs' results are combined in the wide type (double, int64); the last step converts to the output's dtype. The short
// runs and the wide second step make float sums as accurate as pairwise summation.
#pragma once
#include "cpu/movement/runs.h"
#include "record/reduction.h"
#include "record/rows.h"

namespace strata::cpu {

template <class T> struct WideOf { using type = double; };
template <> struct WideOf<int64_t> { using type = int64_t; };
template <class T> using Wide = typename WideOf<T>::type;

// out is contiguous and has one element per kept position. The input is read as `cast` (its compute type), as requested
// by sum(dtype=...). Bit d of `reduced` is set if dimension d is reduced.
STRATA_API void reduce(Fold fold, const TensorImpl& x, DimMask reduced, DType cast, const TensorImpl& out,
                       Finish finish = {});
// The same by plain loops in the wide type.
STRATA_API void reduce_reference(Fold fold, const TensorImpl& x, DimMask reduced, DType cast, const TensorImpl& out,
                                 Finish finish = {});

// The same reduction in a group of deferred ops: of each row of a contiguous tensor, or of all its elements.
STRATA_API std::optional<RowOp> rows_of_reduction(const Reduction& r);

// --- from the SIMD file -------------------------------------------------------------------------------------------

constexpr int64_t kRun = 1024;  // elements reduced in the compute type before the result is widened
constexpr int kRowsAtOnce = 8;
template <class T> struct FoldTable {
  Wide<T> identity;
  Wide<T> (*combine)(Wide<T>, Wide<T>);
  Wide<T> (*map)(Wide<T>);                // of one element, for the reference
  Wide<T> (*run)(const T* x, int64_t n);  // folds n contiguous elements
  Wide<T> (*bools)(const BoolByte* x, int64_t n);
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
