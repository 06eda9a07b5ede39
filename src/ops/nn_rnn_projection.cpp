// LSTM whose state is projected to a smaller width after each step.
#include "strata/ops.h"

namespace strata {

STRATA_OP(lstm_projected,
          "_lstm_projected(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
          "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)")
  .doc("lstm() with h = weight_hr @ h; params are w_ih, w_hh, b_ih, b_hh, w_hr of each layer and direction.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, TensorList hx, TensorList params, bool biases, int64_t layers, double dropout,
                bool train, bool both_ways, bool batch_first) {
    const int64_t ways = both_ways ? 2 : 1, per = biases ? 5 : 3;
    STRATA_CHECK(hx.size() == 2, Runtime, "lstm: expected two hidden states, got {}", hx.size());
    STRATA_CHECK(input.dim() == 3, Runtime, "lstm: expected a 3D input [steps, batch, features], got shape {}",
                 to_string(input.shape()));
    STRATA_CHECK(layers > 0 && static_cast<int64_t>(params.size()) == layers * ways * per, Runtime,
                 "lstm: expected {} parameters, got {}", layers * ways * per, params.size());
    Tensor x = batch_first ? transpose(input, 0, 1) : input;
    STRATA_CHECK(x.size(0) > 0, Runtime, "lstm: expected sequence length to be larger than 0");
    std::vector<Tensor> last_h, last_c;
    for (int64_t layer = 0; layer < layers; ++layer) {
      std::vector<Tensor> sides;
      for (int64_t way = 0; way < ways; ++way) {
        const Tensor* p = &params[static_cast<size_t>((layer * ways + way) * per)];
        const Tensor gates = nn::functional::linear(x, p[0], biases ? p[2] : Tensor());
        Tensor h = select(hx[0], 0, layer * ways + way), c = select(hx[1], 0, layer * ways + way);
        const int64_t steps = x.size(0);
        std::vector<Tensor> outputs(static_cast<size_t>(steps));
        for (int64_t i = 0; i < steps; ++i) {
          const int64_t t = way ? steps - 1 - i : i;
          const auto g =
            chunk(add(select(gates, 0, t), nn::functional::linear(h, p[1], biases ? p[3] : Tensor())), 4, -1);
          c = add(mul(sigmoid(g[1]), c), mul(sigmoid(g[0]), tanh(g[2])));
          h = nn::functional::linear(mul(sigmoid(g[3]), tanh(c)), p[per - 1]);
          outputs[static_cast<size_t>(t)] = h;
        }
        last_h.push_back(h), last_c.push_back(c), sides.push_back(stack(outputs));
      }
      x = sides.size() == 1 ? sides[0] : cat(sides, -1);
      if (dropout > 0 && train && layer + 1 < layers) x = nn::functional::dropout(x, dropout);
    }
    return std::array<Tensor, 3>{batch_first ? transpose(x, 0, 1) : x, stack(last_h), stack(last_c)};
  })
  .samples(
    {"f(2,3,4), [f(1,3,2), f(1,3,5)], [f(20,4), f(20,2), f(20), f(20), f(2,5)], True, 1, 0.0, False, False, False"})
  .error("f(2,3,4), [f(1,3,2), f(1,3,5)], [f(20,4)], True, 1, 0.0, False, False, False", ErrorKind::Runtime,
         "expected 5 parameters");

}  // namespace strata
