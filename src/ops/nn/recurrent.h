// Layers of recurrent networks, shared by the ops for sequences and by the kernels of whole layers.
#pragma once
#include "cuda/nn/recurrent_params.h"
#include "record/kernel.h"

namespace strata {

using cuda::gates_of;
using cuda::RecurrentCell;

struct RecurrentState {
  Tensor h, c;  // c: LSTM
};
// One step, composed of other ops. x has the input's part of the gates, including its bias; r is the product with the
// state, including its bias.
RecurrentState recurrent_step(RecurrentCell cell, const Tensor& x, const Tensor& r, const RecurrentState& s);

// Where the rows of each step are. All sequences run for all steps, or `sizes` has the number that runs at each step (a
// packed batch, in descending order of length): then rows are ordered by step, then by sequence.
struct RecurrentSteps {
  int64_t count, batch;
  bool reverse;
  std::vector<int64_t> sizes, offsets;

  RecurrentSteps(int64_t steps, int64_t rows, Shape running, bool from_the_end);
  bool packed() const { return !sizes.empty(); }
  int64_t time(int64_t i) const { return reverse ? count - 1 - i : i; }  // of the i-th step that runs
  int64_t running(int64_t t) const { return packed() ? sizes[static_cast<size_t>(t)] : batch; }
  int64_t offset(int64_t t) const { return packed() ? offsets[static_cast<size_t>(t)] : t * batch; }
  int64_t rows() const { return offset(count); }
};

struct RecurrentResult {
  Tensor output, h, c;
};
// A layer in one direction, composed of other ops, which can be differentiated any number of times. gates is [steps, batch,
// gates], or [rows, gates] if packed. projection (LSTM) is applied to each state; it may be undefined.
RecurrentResult compose_recurrent(RecurrentCell cell, const Tensor& gates, const RecurrentState& start,
                                  const Tensor& weight, const Tensor& bias, const Tensor& projection,
                                  const RecurrentSteps& steps);

// Checks an argument of a layer.
void expect_recurrent(const TensorImpl& t, const char* name, Shape shape, DType dtype);

// Results of kernels that write float32: narrower ones are converted afterwards.
class RecurrentOuts {
 public:
  explicit RecurrentOuts(const Call& c) : call_(c) {}
  const TensorImpl& operator[](uint32_t o);
  void convert() const;

 private:
  const Call& call_;
  Tensor made_[5];
};

}  // namespace strata
