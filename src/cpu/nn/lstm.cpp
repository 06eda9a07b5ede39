// The reference: one step, one sequence, one unit after the other.
#include "cpu/nn/lstm.h"

#include <cmath>
#include <vector>

namespace strata::cpu {

template <class T> void lstm_forward_reference(const Lstm& s, const LstmForward<T>& p) {
  const int64_t h = s.hidden, size = s.batch * h;
  const auto sigmoid = [](T x) { return 1 / (1 + std::exp(-x)); };
  const T *before = p.h0, *cell = p.c0;
  std::vector<T> kept(static_cast<size_t>(2 * size));
  for (int64_t i = 0; i < s.steps; ++i) {
    const int64_t t = s.step_at(i);
    T *out = p.output + t * size, *c = p.cells ? p.cells + t * size : kept.data() + i % 2 * size;
    for (int64_t r = 0; r < s.batch; ++r)
      for (int64_t u = 0; u < h; ++u) {
        T gate[4];
        for (int64_t k = 0; k < 4; ++k) {
          gate[k] = p.gates[t * 4 * size + (r * 4 + k) * h + u];
          for (int64_t j = 0; j < h; ++j) gate[k] += before[r * h + j] * p.weight[(k * h + u) * h + j];
          gate[k] = k == 2 ? std::tanh(gate[k]) : sigmoid(gate[k]);
          if (p.activations) p.activations[t * 4 * size + (r * 4 + k) * h + u] = gate[k];
        }
        const T now = gate[1] * cell[r * h + u] + gate[0] * gate[2];
        c[r * h + u] = now;
        out[r * h + u] = gate[3] * std::tanh(now);
      }
    before = out;
    cell = c;
  }
  for (int64_t i = 0; i < size; ++i) p.c_last[i] = cell[i];
}

template <class T> void lstm_backward_reference(const Lstm& s, const LstmBackward<T>& p) {
  const int64_t h = s.hidden, size = s.batch * h;
  for (int64_t i = 0; i < size; ++i) {
    p.grad_h0[i] = 0;
    p.grad_c0[i] = p.grad_c ? p.grad_c[i] : 0;
  }
  for (int64_t i = s.steps; i-- > 0;) {
    const int64_t t = s.step_at(i);
    const T *act = p.activations + t * 4 * size, *before = i ? p.cells + s.step_at(i - 1) * size : p.c0;
    T* gates = p.grad_gates + t * 4 * size;
    for (int64_t r = 0; r < s.batch; ++r)
      for (int64_t u = 0; u < h; ++u) {
        const int64_t at = r * h + u;
        const auto gate = [&](int64_t k) { return act[(r * 4 + k) * h + u]; };
        const T squashed = std::tanh(p.cells[t * size + at]), gh = p.grad_output[t * size + at] + p.grad_h0[at],
                gc = p.grad_c0[at] + gh * gate(3) * (1 - squashed * squashed);
        const T grads[] = {gc * gate(2) * gate(0) * (1 - gate(0)), gc * before[at] * gate(1) * (1 - gate(1)),
                           gc * gate(0) * (1 - gate(2) * gate(2)), gh * squashed * gate(3) * (1 - gate(3))};
        for (int64_t k = 0; k < 4; ++k) gates[(r * 4 + k) * h + u] = grads[k];
        p.grad_c0[at] = gc * gate(1);
      }
    for (int64_t r = 0; r < s.batch; ++r)
      for (int64_t u = 0; u < h; ++u) {
        T sum = 0;
        for (int64_t k = 0; k < 4 * h; ++k) sum += gates[r * 4 * h + k] * p.weight[k * h + u];
        p.grad_h0[r * h + u] = sum;
      }
  }
}

template void lstm_forward_reference(const Lstm&, const LstmForward<float>&);
template void lstm_forward_reference(const Lstm&, const LstmForward<double>&);
template void lstm_backward_reference(const Lstm&, const LstmBackward<float>&);
template void lstm_backward_reference(const Lstm&, const LstmBackward<double>&);

}  // namespace strata::cpu
