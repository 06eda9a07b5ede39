// What the host tells a reduction kernel; compiled by both compilers, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

constexpr int kReduceRun = 32;  // elements that are folded in the compute type before the wide one takes over
constexpr int kColumnResults = 128, kColumnGroups = 16;  // of a block that folds columns: results, and threads of each

struct ReduceParams {
  uint64_t x, out;
  uint64_t partial;  // where parts of results go, one wide number each; 0: results are finished here
  int32_t x_type, out_type;
  int32_t per_block;  // results of one block: a power of two
  int32_t columns;    // neighbouring threads take neighbouring results instead of neighbouring elements
  int32_t root;
  double divide;
  int64_t part;  // elements that one block takes of a result, but of rows (reduce.cu); the grid's y counts the parts
  AxesParams kept, gone;
  int64_t out_stride[kAxesMost];  // of the kept axes
};

struct ArgReduceParams {
  uint64_t x, values, places;  // values may be 0
  int32_t x_type;
  int32_t per_block, columns;
  AxesParams kept;
  int64_t out_stride[kAxesMost];
  int64_t count, stride;  // along the reduced dimension
};

}  // namespace strata::cuda
