// Steps of optimizers. Inputs are the rate, the count of steps, then all parameters, all gradients, all states.
#include <cmath>

#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

struct Group {
  Tensor x, g;
  std::vector<Tensor> state;
};
// Results have the order of the inputs: all new parameters, then each kind of state.
template <class F> Values optimize(NodeCall& c, size_t states, F&& step) {
  const size_t kinds = states + 2;
  STRATA_CHECK(c.inputs() >= 2 + kinds && (c.inputs() - 2) % kinds == 0, Value,
               "{} inputs; expected a rate, a count and {} per parameter", c.inputs(), kinds);
  const size_t n = (c.inputs() - 2) / kinds;
  const double rate = c.number(size_t{0}).to_double();
  const int64_t count = c.integer(size_t{1});
  Values out((states + 1) * n);
  for (size_t i = 0; i < n; ++i) {
    Group p{c.tensor(2 + i), c.tensor(2 + n + i), {}};
    for (size_t k = 0; k < states; ++k) p.state.push_back(c.tensor(2 + (2 + k) * n + i));
    p.g = add(mul(p.x, c.number("norm_coefficient", 0)), p.g);
    step(p, rate, count);
    out[i] = Value(p.x);
    for (size_t k = 0; k < states; ++k) out[(1 + k) * n + i] = Value(p.state[k]);
  }
  return out;
}
Values adagrad(NodeCall& c) {
  return optimize(c, 1, [&](Group& p, double rate, int64_t count) {
    const double r = rate / (1 + static_cast<double>(count) * c.number("decay_factor", 0));
    p.state[0] = add(p.state[0], mul(p.g, p.g));
    p.x = sub(p.x, div(mul(p.g, r), add(sqrt(p.state[0]), c.number("epsilon", 1e-6))));
  });
}
Values adam(NodeCall& c) {
  const double alpha = c.number("alpha", 0.9), beta = c.number("beta", 0.999);
  return optimize(c, 2, [&](Group& p, double rate, int64_t count) {
    p.state[0] = add(mul(p.state[0], alpha), mul(p.g, 1 - alpha));
    p.state[1] = add(mul(p.state[1], beta), mul(mul(p.g, p.g), 1 - beta));
    const auto t = static_cast<double>(count);
    const double r = count > 0 ? rate * std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t)) : rate;
    p.x = sub(p.x, div(mul(p.state[0], r), add(sqrt(p.state[1]), c.number("epsilon", 1e-6))));
    p.x = mul(p.x, 1 - c.number("norm_coefficient_post", 0));
  });
}
Values momentum(NodeCall& c) {
  const double alpha = c.number("alpha"), beta = c.number("beta");
  const std::string_view mode = c.text("mode");
  STRATA_CHECK(mode == "standard" || mode == "nesterov", Value, "mode is '{}'", mode);
  return optimize(c, 1, [&](Group& p, double rate, int64_t count) {
    p.state[0] = add(mul(p.state[0], alpha), mul(p.g, count > 0 ? beta : 1));
    const Tensor move = mode == "nesterov" ? add(p.g, mul(p.state[0], alpha)) : p.state[0];
    p.x = sub(p.x, mul(move, rate));
  });
}

const OpEntry kTraining[] = {
  {"Adagrad", 1, 3, -1, nullptr, adagrad, "ai.onnx.preview.training"},
  {"Adam", 1, 3, -1, nullptr, adam, "ai.onnx.preview.training"},
  {"Momentum", 1, 3, -1, nullptr, momentum, "ai.onnx.preview.training"},
};
}  // namespace

OpTable training_ops() { return kTraining; }

}  // namespace strata::onnx
