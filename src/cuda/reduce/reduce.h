// Reductions on a device, with the interface of cpu/reduce/reduce.h.
#pragma once
#include "record/reduction.h"
#include "record/rows.h"

namespace strata::cuda {

// How elements are read. Rows: reduced dimensions are contiguous, in 16-byte pieces. Columns: kept ones are. Strided:
// any layout.
enum class ReduceMethod : uint8_t { Columns, Rows, Strided };

const char* plan_reduce(const Reduction& r, ReduceMethod method, Plan& plan);
void run_reduce(const Reduction& r, const Call& c, const Plan& plan);
// Reductions of rows in groups of ops; nothing for other ones, and for those that take another order there.
std::optional<RowOp> reduce_in_group(const Reduction& r);
// For launchers that also reduce: the plan and the run of any method.
void reduce(Fold fold, const TensorImpl& x, DimMask reduced, DType cast, const TensorImpl& out, Finish finish,
            Workspace& workspace);
// The first index of the maximum (minimum) along dim; NaN counts as both. `values` may be null.
void arg_reduce(bool largest, const TensorImpl& x, int dim, const TensorImpl* values, const TensorImpl& indices,
                Workspace& workspace);

// --- mapping of reductions to threads -----------------------------------------------------------------------------

// Whether neighbouring threads should process neighbouring results: if those are closer than the elements of one
// result.
bool by_columns(const ReducePlan& plan);
// Results per block of 256 threads: a power of two.
int64_t results_per_block(bool columns, int64_t kept, int64_t gone);
// Elements of a result per block, a multiple of `step`: all, unless there are too few blocks.
int64_t elements_per_part(int64_t kept, int64_t gone, int64_t per_block, int64_t step);

}  // namespace strata::cuda
