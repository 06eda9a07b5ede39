// Parameters of the kernels of a recurrent layer; shared with device code, so plain types only.
#pragma once
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): device compilers have no <cstdint>

namespace strata::cuda {

constexpr int kRecurrentRows = 16;  // of the batch, that a block multiplies at a time
constexpr int kRecurrentThreads = 256;
constexpr int kRecurrentWarps = kRecurrentThreads / 32;
// Rows of the weight whose factors are in shared memory together, while the next ones are on their way: so many that the
// product of one chunk takes longer than a read from the second cache.
constexpr int recurrent_chunk(int columns) { return columns >= 32 ? 128 : 256; }
// Between two rows of sums: at least the columns, and such that the rows that a warp adds up have different banks.
constexpr int recurrent_stride(int columns) {
  const int units = columns % 16 == 0 && columns != 32 ? 16 : 8;
  return columns + (units - columns % 32 + 32) % 32;
}
constexpr int kRecurrentPad = 20;  // elements between two of them: kRecurrentRows, without bank conflicts

enum class RecurrentCell : int32_t { Tanh, Relu, Lstm, Gru };
constexpr int gates_of(RecurrentCell c) { return c == RecurrentCell::Lstm ? 4 : c == RecurrentCell::Gru ? 3 : 1; }
// What the gradient needs of each hidden unit besides the states: the activated gates; for a GRU, reset, update, the new
// value and the part of the latter that is multiplied by reset.
constexpr int kept_of(RecurrentCell c) { return gates_of(c) > 1 ? 4 : 0; }

// All arrays are contiguous and float. Rows of states are ordered by step, then by sequence; with `offsets`, row
// offsets[t] is the first of step t, and offsets[t + 1] - offsets[t] sequences are running: those of the first rows of the
// batch, fewer at each step. Steps are counted from the first that runs, so the last one of the sequence if it is
// reversed. G is the number of gates, K what is kept.
struct RecurrentParams {
  uint64_t gates;     // [rows, G hidden]: forward, the input's part; backward, their gradients (out)
  uint64_t products;  // backward, GRU: gradients of the products with the state (out); otherwise the same as gates
  uint64_t weight;    // [G hidden, hidden]
  uint64_t bias;      // [G hidden], added to the products with the state; may be 0
  uint64_t h0, c0;    // [batch, hidden]; backward: h0 is a result
  uint64_t output;    // [rows, hidden]; backward: its gradient
  uint64_t last;      // [batch, hidden]: forward, the last state of each sequence; backward, its gradient; may be 0
  uint64_t cells;     // [rows, hidden]; forward: 0 if not needed
  uint64_t kept;      // [rows, K hidden]; forward: 0 if not needed
  uint64_t state;  // [batch, hidden]: forward, the cell after each step; backward, its gradient, or the part of that of
                   // the state that skips the products
  uint64_t before;   // backward: the first cell, or the first state of a GRU
  uint64_t states;   // backward: the output
  uint64_t offsets;  // int32 [steps + 1]; 0: all sequences run for all steps
  uint64_t done;     // counters of finished blocks, one for each part of the batch
  int32_t steps, batch, hidden;
  int32_t reverse, relu;
  int32_t quads;       // the rows that are multiplied lie on borders of 16 bytes
  int32_t begin, end;  // the steps of this launch; the gradient has one more, for h0
  int32_t rows;        // of the batch per block: a multiple of kRecurrentRows
};

}  // namespace strata::cuda
