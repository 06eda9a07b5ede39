// One LSTM layer over a whole sequence, in one direction.
#pragma once
#include <cstddef>
#include <cstdint>

namespace strata::cpu {

struct Lstm {
  int64_t steps, batch, hidden;
  bool reverse;  // from the last step to the first
  int64_t step_at(int64_t i) const { return reverse ? steps - 1 - i : i; }
};

// gates [steps, batch, 4 hidden]: the input's part, including biases, in the order i f g o; weight [4 hidden, hidden].
// activations (as gates, after sigmoid and tanh) and cells [steps, batch, hidden] may be null; c_last holds the last
// cell. packed is the weight as packed by lstm_pack, or null.
template <class T> struct LstmForward {
  const T *gates, *h0, *c0, *weight, *packed;
  T *output, *c_last, *cells, *activations;
};
// grad_c, the gradient of the last cell, may be null. grad_gates as gates; grad_h0 and grad_c0 [batch, hidden].
template <class T> struct LstmBackward {
  const T *grad_output, *grad_c, *activations, *cells, *c0, *weight;
  T *grad_gates, *grad_h0, *grad_c0;
};

template <class T> void lstm_forward(const Lstm& s, const LstmForward<T>& p);
template <class T> void lstm_backward(const Lstm& s, const LstmBackward<T>& p);
// The weight in the order in which lstm_forward reads it.
template <class T> size_t lstm_packed_bytes(const Lstm& s);
template <class T> void lstm_pack(const Lstm& s, const T* weight, T* packed);
// Plain loops.
template <class T> void lstm_forward_reference(const Lstm& s, const LstmForward<T>& p);
template <class T> void lstm_backward_reference(const Lstm& s, const LstmBackward<T>& p);

}  // namespace strata::cpu
