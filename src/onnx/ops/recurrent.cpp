// RNN, GRU and LSTM of ONNX: gates in its order, any activations, peepholes, clipping, lengths per batch, both layouts.
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

struct Activation {
  std::string name;
  double alpha, beta;
};
Tensor activated(const Tensor& x, const Activation& f) {
  const std::string& n = f.name;
  if (n == "sigmoid") return sigmoid(x);
  if (n == "tanh") return tanh(x);
  if (n == "relu") return relu(x);
  if (n == "hardsigmoid") return clamp(add(mul(x, f.alpha), f.beta), 0, 1);
  if (n == "leakyrelu") return F::leaky_relu(x, f.alpha);
  if (n == "thresholdedrelu") return threshold(x, f.alpha, 0);
  if (n == "scaledtanh") return mul(tanh(mul(x, f.beta)), f.alpha);
  if (n == "affine") return add(mul(x, f.alpha), f.beta);
  if (n == "elu") return elu_scaled(x, f.alpha, 1, 1);
  if (n == "softsign") return F::softsign(x);
  if (n == "softplus") return F::softplus(x, 1, 30);
  fail(ErrorKind::Value, "activation '" + n + "' is not one of ONNX's");
}
double default_alpha(const std::string& n) { return n == "hardsigmoid" ? 0.2 : n == "leakyrelu" ? 0.01 : 1; }
double default_beta(const std::string& n) { return n == "hardsigmoid" ? 0.5 : n == "scaledtanh" ? 1 : 0; }

struct Recurrent {
  size_t gates;        // rows of W per hidden unit
  size_t activations;  // per direction
  bool cell;
};
struct Layer {  // of one direction
  Tensor w, r, bias_w, bias_r, peephole, h, c;
  std::vector<Activation> f;
  bool reverse;
};

std::vector<Activation> activations_of(const NodeCall& c, std::initializer_list<const char*> defaults,
                                       size_t directions) {
  std::vector<std::string> names = c.texts("activations");
  const std::vector<double> alpha = c.numbers("activation_alpha"), beta = c.numbers("activation_beta");
  if (names.empty())
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  STRATA_CHECK(names.size() == defaults.size() * directions, Value, "{} activations; expected {}", names.size(),
               defaults.size() * directions);
  std::vector<Activation> out;
  for (size_t i = 0; i < names.size(); ++i) {
    for (char& ch : names[i]) ch = static_cast<char>(ch >= 'A' && ch <= 'Z' ? ch + 'a' - 'A' : ch);
    out.push_back({names[i], i < alpha.size() ? alpha[i] : default_alpha(names[i]),
                   i < beta.size() ? beta[i] : default_beta(names[i])});
  }
  return out;
}
Tensor clipped(const NodeCall& c, const Tensor& x) {
  return c.has("clip") ? clamp(x, -c.number("clip"), c.number("clip")) : x;
}
std::vector<Tensor> gates_of(const Tensor& x, int64_t hidden) { return split(x, hidden, -1); }

// One step: from the projected input [batch, gates * hidden] and the state to the new state.
void step_rnn(const NodeCall& c, const Layer& l, const Tensor& x, Tensor& h, Tensor&) {
  h = activated(clipped(c, add(x, F::linear(h, l.r, l.bias_r))), l.f[0]);
}
void step_gru(const NodeCall& c, const Layer& l, const Tensor& x, Tensor& h, Tensor&) {
  const int64_t n = h.size(-1);
  const std::vector<Tensor> in = gates_of(x, n), r = split(l.r, n, 0);
  const Tensor rows_zr = narrow(l.r, 0, 0, 2 * n), bias_zr = narrow(l.bias_r, 0, 0, 2 * n),
               bias_h = narrow(l.bias_r, 0, 2 * n, n);
  const std::vector<Tensor> recurrent = gates_of(F::linear(h, rows_zr, bias_zr), n);
  const Tensor z = activated(clipped(c, add(in[0], recurrent[0])), l.f[0]);
  const Tensor reset = activated(clipped(c, add(in[1], recurrent[1])), l.f[0]);
  const Tensor inner =
    c.flag("linear_before_reset") ? mul(reset, F::linear(h, r[2], bias_h)) : F::linear(mul(reset, h), r[2], bias_h);
  const Tensor candidate = activated(clipped(c, add(in[2], inner)), l.f[1]);
  h = add(candidate, mul(z, sub(h, candidate)));
}
void step_lstm(const NodeCall& c, const Layer& l, const Tensor& x, Tensor& h, Tensor& state) {
  const int64_t n = h.size(-1);
  const std::vector<Tensor> g = gates_of(add(x, F::linear(h, l.r, l.bias_r)), n);  // input, output, forget, cell
  std::vector<Tensor> p;
  if (l.peephole) p = split(l.peephole, n, 0);  // input, output, forget
  const auto with = [&](const Tensor& gate, size_t k, const Tensor& cell) {
    return l.peephole ? add(gate, mul(p[k], cell)) : gate;
  };
  const Tensor i = activated(clipped(c, with(g[0], 0, state)), l.f[0]);
  const Tensor forget = c.flag("input_forget") ? rsub(i, 1) : activated(clipped(c, with(g[2], 2, state)), l.f[0]);
  const Tensor candidate = activated(clipped(c, g[3]), l.f[1]);
  state = add(mul(forget, state), mul(i, candidate));
  const Tensor o = activated(clipped(c, with(g[1], 1, state)), l.f[0]);
  h = mul(o, activated(state, l.f[2]));
}
using StepFunction = void (*)(const NodeCall&, const Layer&, const Tensor&, Tensor&, Tensor&);

// Runs a direction; returns the outputs [steps, batch, hidden].
Tensor run_layer(const NodeCall& c, Layer& l, const Tensor& x, const Ints& lengths, StepFunction step) {
  const int64_t steps = x.size(0), batch = x.size(1);
  const Tensor projected = F::linear(x, l.w, l.bias_w);  // all steps at once
  std::vector<Tensor> outputs(static_cast<size_t>(steps));
  const Tensor ends = lengths.empty() ? Tensor() : reshape(moved(host_ints(lengths), x.device()), {batch, 1});
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = l.reverse ? steps - 1 - i : i;
    const Tensor before = l.h, cell_before = l.c;
    step(c, l, select(projected, 0, t), l.h, l.c);
    outputs[static_cast<size_t>(t)] = l.h;
    if (!ends) continue;  // past its end a sequence keeps its state and its outputs are 0
    const Tensor inside = gt(ends, t);
    outputs[static_cast<size_t>(t)] = where(inside, l.h, zeros_like(l.h));
    l.h = where(inside, l.h, before);
    if (l.c) l.c = where(inside, l.c, cell_before);
  }
  return outputs.empty() ? zeros({0, batch, l.h.size(-1)}, like(x)) : stack(outputs, 0);
}

Values recurrent(NodeCall& c, const Recurrent& kind, std::initializer_list<const char*> defaults, StepFunction step) {
  const bool batch_first = c.flag("layout");
  Tensor x = c.tensor(0);
  const Tensor w = c.tensor(1), r = c.tensor(2), bias = c.maybe(3);
  STRATA_CHECK(x.dim() == 3 && w.dim() == 3 && r.dim() == 3, Value,
               "X {}, W {} and R {}; expected three dimensions each", to_string(x.shape()), to_string(w.shape()),
               to_string(r.shape()));
  if (batch_first) x = transpose(x, 0, 1);
  const int64_t directions = w.size(0), hidden = r.size(2), batch = x.size(1);
  const std::string_view direction = c.text("direction", "forward");
  STRATA_CHECK(directions == (direction == "bidirectional" ? 2 : 1) &&
                 w.size(1) == static_cast<int64_t>(kind.gates) * hidden && r.size(1) == w.size(1),
               Value, "W {} and R {} for direction '{}' and {} hidden units", to_string(w.shape()),
               to_string(r.shape()), direction, hidden);
  const Ints lengths = c.has(size_t{4}) ? c.ints(size_t{4}) : Ints();
  STRATA_CHECK(lengths.empty() || static_cast<int64_t>(lengths.size()) == batch, Value, "{} lengths for a batch of {}",
               lengths.size(), batch);
  const std::vector<Activation> all = activations_of(c, defaults, static_cast<size_t>(directions));
  const auto initial = [&](size_t input, int64_t d) {
    if (!c.has(input)) return zeros({batch, hidden}, like(x));
    const Tensor t = c.tensor(input);
    return select(batch_first ? transpose(t, 0, 1) : t, 0, d);
  };
  std::vector<Tensor> outputs, last_h, last_c;
  for (int64_t d = 0; d < directions; ++d) {
    Layer l;
    l.w = select(w, 0, d);
    l.r = select(r, 0, d);
    const int64_t rows = l.w.size(0);
    const Tensor b = bias ? select(bias, 0, d) : zeros({2 * rows}, like(x));
    l.bias_w = narrow(b, 0, 0, rows);
    l.bias_r = narrow(b, 0, rows, rows);
    l.h = initial(5, d);
    if (kind.cell) l.c = initial(6, d);
    if (kind.cell && c.has(size_t{7})) l.peephole = select(c.tensor(7), 0, d);
    l.reverse = direction == "reverse" || d == 1;
    const auto first = static_cast<std::ptrdiff_t>(static_cast<size_t>(d) * kind.activations);
    l.f.assign(all.begin() + first, all.begin() + first + static_cast<std::ptrdiff_t>(kind.activations));
    outputs.push_back(run_layer(c, l, x, lengths, step));
    last_h.push_back(l.h);
    last_c.push_back(l.c);
  }
  const Tensor y = stack(outputs, batch_first ? 2 : 1);  // [steps, directions, batch, hidden]
  const int64_t at = batch_first ? 1 : 0;
  Values out{Value(batch_first ? transpose(y, 0, 1) : y), Value(stack(last_h, at))};
  if (kind.cell) out.emplace_back(stack(last_c, at));
  return out;
}
Values rnn(NodeCall& c) { return recurrent(c, {1, 1, false}, {"Tanh"}, step_rnn); }
Values gru_of(NodeCall& c) { return recurrent(c, {3, 2, false}, {"Sigmoid", "Tanh"}, step_gru); }
Values lstm_of(NodeCall& c) { return recurrent(c, {4, 3, true}, {"Sigmoid", "Tanh", "Tanh"}, step_lstm); }

const OpEntry kRecurrent[] = {
  {"RNN", 7, 3, 6, nullptr, rnn},
  {"GRU", 7, 3, 6, nullptr, gru_of},
  {"LSTM", 7, 3, 8, nullptr, lstm_of},
};
}  // namespace

OpTable recurrent_ops() { return kRecurrent; }

}  // namespace strata::onnx
