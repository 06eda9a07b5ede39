// Parameters of the kernels of an LSTM layer; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kLstmRows = 16;  // of the batch, that a block multiplies at a time
constexpr int kLstmThreads = 256;
constexpr int kLstmWarps = kLstmThreads / 32;
constexpr int kLstmChunk = 512;  // rows of the weight whose factors are in shared memory together
constexpr int kLstmPad = 20;     // elements between two of them: kLstmRows, without bank conflicts

// All arrays are contiguous and float. Steps are counted from the first that runs, so the last one of the sequence if
// it is reversed.
struct LstmParams {
  uint64_t gates;               // [steps, batch, 4 hidden]: forward, the input's part; backward, their gradients (out)
  uint64_t weight;              // [4 hidden, hidden]
  uint64_t h0, c0;              // [batch, hidden]; backward: results
  uint64_t output;              // [steps, batch, hidden]; backward: its gradient
  uint64_t cells, activations;  // [steps, batch, (4) hidden]; forward: 0 if they are not needed
  uint64_t state;               // [batch, hidden]: forward, the cell after each step; backward, its gradient
  uint64_t before;              // backward: the first cell
  uint64_t done;                // forward and backward: counters of finished blocks, one for each part of the batch
  int32_t steps, batch, hidden;
  int32_t reverse;
  int32_t begin, end;  // the steps of this launch; the gradient has one more, for h0
  int32_t rows;        // of the batch per block: a multiple of kLstmRows
};

}  // namespace strata::cuda
