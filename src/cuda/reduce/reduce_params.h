// Parameters of a reduction kernel; shared with device code, so plain types only.
#pragma once
#include "cuda/common/axes_params.h"

namespace strata::cuda {

constexpr int kReduceRun = 32;  // elements that are reduced in the compute type before switching to the wide one
constexpr int kColumnResults = 128, kColumnGroups = 16;  // for columns, per block: results, and threads of each

struct ReduceParams {
  uint64_t x, out;
  uint64_t partial;  // destination for parts of results, one wide number each; 0: results are final
  int32_t x_type, out_type;
  int32_t per_block;  // results per block: a power of two
  int32_t columns;    // neighbouring threads process neighbouring results instead of neighbouring elements
  int32_t root;
  int32_t bytes;  // elements are integers of one byte, in aligned pieces of 16
  double divide;
  int64_t part;  // elements of a result per block, except for rows (reduce.cu); the grid's y counts the parts
  AxesParams kept, gone;
  int64_t out_stride[kAxesMost];  // of the kept axes
};

struct ArgReduceParams {
  ReduceParams of;                    // without out; one axis is reduced
  uint64_t values, places;            // of the results; values may be 0
  uint64_t part_values, part_places;  // [parts][results] of the compute type and int64; 0: there is one part
  int64_t parts;
  int32_t lanes;  // threads that compare the parts of a result: 1 or a block
};

}  // namespace strata::cuda
