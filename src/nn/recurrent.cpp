// Recurrent networks.
#include "nn/recurrent.h"

#include <fmt/core.h>

#include <cmath>

#include "nn/arguments.h"
#include "nn/layer_count.h"
#include "strata/ops.h"

namespace strata::nn {
namespace {

// Calls `results` with the op of a module and with its state in the op's form.
#define STRATA_NAMED(op) [](const auto&... arguments) { return op(arguments...); }
template <class State, class Results>
std::vector<Tensor> with_op(const State& s, const Results& results, const std::vector<Tensor>& hc) {
  if (s.lstm && s.options.proj_size) return results(STRATA_NAMED(_lstm_projected), hc);
  if (s.lstm) return results(STRATA_NAMED(lstm), hc);
  if (s.kind == "GRU") return results(STRATA_NAMED(gru), hc[0]);
  if (s.options.nonlinearity == "relu") return results(STRATA_NAMED(rnn_relu), hc[0]);
  return results(STRATA_NAMED(rnn_tanh), hc[0]);
}
#undef STRATA_NAMED

PackedSequence repacked(const PackedSequence& input, const Tensor& data) {
  return {data, input.batch_sizes, input.sorted_indices, input.unsorted_indices};
}

}  // namespace

struct RNNBase::State final : ModuleState {
  int64_t input_size = 0, hidden_size = 0;
  RNNOptions options;
  bool lstm = false;

  std::string extra_repr() const override {
    std::string text = fmt::format("{}, {}", input_size, hidden_size);
    if (options.proj_size) text += fmt::format(", proj_size={}", options.proj_size);
    if (options.num_layers != 1) text += fmt::format(", num_layers={}", options.num_layers);
    if (!options.bias) text += ", bias=False";
    if (options.batch_first) text += ", batch_first=True";
    if (options.dropout != 0) text += ", dropout=" + detail::show(options.dropout);
    if (options.bidirectional) text += ", bidirectional=True";
    return text;
  }
};
RNNBase::State& RNNBase::own() const { return static_cast<State&>(state()); }
const RNNOptions& RNNBase::options() const { return own().options; }
int64_t RNNBase::input_size() const { return own().input_size; }
int64_t RNNBase::hidden_size() const { return own().hidden_size; }
std::vector<Tensor> RNNBase::weights() const {
  std::vector<Tensor> list;
  for (const ModuleState::Slot& p : own().parameters) list.push_back(*p.tensor);
  return list;
}

RNNBase::RNNBase(const char* kind, int64_t input_size, int64_t hidden_size, const RNNOptions& o)
    : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = kind;
  s.lstm = s.kind == "LSTM";
  s.input_size = input_size;
  s.hidden_size = hidden_size;
  s.options = o;
  STRATA_CHECK(input_size > 0, Value, "{}: input_size must be greater than zero, got {}", kind, input_size);
  STRATA_CHECK(hidden_size > 0, Value, "{}: hidden_size must be greater than zero, got {}", kind, hidden_size);
  STRATA_CHECK(o.num_layers > 0, Value, "{}: num_layers must be greater than zero, got {}", kind, o.num_layers);
  check_layers(o.num_layers, s.kind.c_str());
  STRATA_CHECK(o.dropout >= 0 && o.dropout <= 1, Value, "{}: dropout should be a number in range [0, 1], got {}", kind,
               o.dropout);
  STRATA_CHECK(o.nonlinearity == "tanh" || o.nonlinearity == "relu", Value,
               "{}: Unknown nonlinearity '{}'. Select from 'tanh' or 'relu'.", kind, o.nonlinearity);
  STRATA_CHECK(o.proj_size >= 0 && o.proj_size < hidden_size, Value,
               "{}: proj_size has to be smaller than hidden_size, got {}", kind, o.proj_size);
  STRATA_CHECK(!o.proj_size || s.lstm, Value, "proj_size argument is only supported for LSTM, not RNN or GRU");
  const DType dtype = o.dtype.value_or(default_dtype());
  const Device device = o.device.value_or(Device());
  const int64_t gates = s.lstm ? 4 : s.kind == "GRU" ? 3 : 1, rows = gates * hidden_size;
  const int64_t out = o.proj_size ? o.proj_size : hidden_size, directions = o.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < o.num_layers; ++layer)
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string tail = fmt::format("_l{}{}", layer, direction ? "_reverse" : "");
      const auto weight = [&](const char* name, IntList shape) {
        add_parameter(name + tail, empty(shape, dtype, device));
      };
      weight("weight_ih", {rows, layer == 0 ? input_size : out * directions});
      weight("weight_hh", {rows, out});
      if (o.bias) {
        weight("bias_ih", {rows});
        weight("bias_hh", {rows});
      }
      if (o.proj_size) weight("weight_hr", {o.proj_size, hidden_size});
    }
  reset_parameters();
}

void RNNBase::reset_parameters() const {
  const double bound = 1 / std::sqrt(static_cast<double>(own().hidden_size));
  for (const Tensor& w : weights()) init::uniform_(w, -bound, bound);
}

void RNNBase::check_features(const Tensor& input) const {
  const State& s = own();
  STRATA_CHECK(input.size(-1) == s.input_size, Runtime,
               "{}: input.size(-1) must be equal to input_size. Expected {}, got {}", s.kind, s.input_size,
               input.size(-1));
}

std::vector<Tensor> RNNBase::start(const Tensor& input, int64_t batch, const Tensor& h, const Tensor& c) const {
  const State& s = own();
  const int64_t rows = s.options.num_layers * (s.options.bidirectional ? 2 : 1);
  const auto begin = [&](const Tensor& state, int64_t width, const char* what) {
    if (!state) return zeros({rows, batch, width}, input.dtype(), input.device());
    STRATA_CHECK(state.dim() == 3 && state.size(0) == rows && state.size(1) == batch && state.size(2) == width, Runtime,
                 "{}: Expected {} size [{}, {}, {}], got {}", s.kind, what, rows, batch, width,
                 to_string(state.shape()));
    return state;
  };
  std::vector<Tensor> states{begin(h, s.options.proj_size ? s.options.proj_size : s.hidden_size, "hidden state")};
  if (s.lstm) states.push_back(begin(c, s.hidden_size, "cell state"));
  return states;
}

std::vector<Tensor> RNNBase::run(const Tensor& input, const Tensor& h, const Tensor& c) const {
  const State& s = own();
  const RNNOptions& o = s.options;
  STRATA_CHECK(input.dim() == 2 || input.dim() == 3, Value, "{}: Expected input to be 2D or 3D, got {}D instead",
               s.kind, input.dim());
  const bool lone = input.dim() == 2;
  const int batch_dim = o.batch_first ? 0 : 1;
  const Tensor x = lone ? unsqueeze(input, batch_dim) : input;
  check_features(x);
  const auto full = [&](const Tensor& state, const char* what) {
    if (!state) return state;
    STRATA_CHECK(state.dim() == input.dim(), Runtime, "{}: {} must have {} dimensions as the input has, got shape {}",
                 s.kind, what, input.dim(), to_string(state.shape()));
    return lone ? unsqueeze(state, 1) : state;
  };
  const std::vector<Tensor> hc = start(x, x.size(batch_dim), full(h, "hidden state"), full(c, "cell state"));
  const auto results = [&](const auto& op, const auto& state) {
    const auto got =
      op(x, state, weights(), o.bias, o.num_layers, o.dropout, s.training, o.bidirectional, o.batch_first);
    return std::vector<Tensor>(got.begin(), got.end());
  };
  std::vector<Tensor> out = with_op(s, results, hc);
  if (lone) {
    out[0] = squeeze(out[0], batch_dim);
    for (size_t i = 1; i < out.size(); ++i) out[i] = squeeze(out[i], 1);
  }
  return out;
}

std::vector<Tensor> RNNBase::run(const PackedSequence& input, const Tensor& h, const Tensor& c) const {
  const State& s = own();
  const RNNOptions& o = s.options;
  STRATA_CHECK(input.data && input.batch_sizes && input.batch_sizes.numel() > 0, Value,
               "{}: the packed sequence is empty; pack one first", s.kind);
  STRATA_CHECK(input.data.dim() == 2, Value, "{}: expected packed data [rows, features], got shape {}", s.kind,
               to_string(input.data.shape()));
  check_features(input.data);
  const Tensor sizes = strata::to(input.batch_sizes, DType::I64);
  std::vector<Tensor> hc = start(input.data, select(sizes, 0, 0).item<int64_t>(), h, c);
  if (input.sorted_indices)
    for (Tensor& state : hc) state = index_select(state, 1, input.sorted_indices);
  const auto results = [&](const auto& op, const auto& state) {
    const auto got =
      op(input.data, sizes, state, weights(), o.bias, o.num_layers, o.dropout, s.training, o.bidirectional);
    return std::vector<Tensor>(got.begin(), got.end());
  };
  std::vector<Tensor> out = with_op(s, results, hc);
  if (input.unsorted_indices)
    for (size_t i = 1; i < out.size(); ++i) out[i] = index_select(out[i], 1, input.unsorted_indices);
  return out;
}

std::vector<Tensor> RNNBase::call(const Tensor& input, const Tensor& h, const Tensor& c) const {
  if (!has_hooks()) [[likely]]
    return run(input, h, c);
  return with_hooks({input, h, c}, [this](const std::vector<Tensor>& in) { return run(in[0], in[1], in[2]); });
}
std::vector<Tensor> RNNBase::call(const PackedSequence& input, const Tensor& h, const Tensor& c) const {
  if (!has_hooks()) [[likely]]
    return run(input, h, c);
  return with_hooks({input.data, h, c}, [&](const std::vector<Tensor>& in) {
    return run({in[0], input.batch_sizes, input.sorted_indices, input.unsorted_indices}, in[1], in[2]);
  });
}

RNN::RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& o) : RNNBase("RNN", input_size, hidden_size, o) {}
GRU::GRU(int64_t input_size, int64_t hidden_size, const RNNOptions& o) : RNNBase("GRU", input_size, hidden_size, o) {}
LSTM::LSTM(int64_t input_size, int64_t hidden_size, const RNNOptions& o)
    : RNNBase("LSTM", input_size, hidden_size, o) {}

Recurrence RNN::operator()(const Tensor& input, const Tensor& h) const {
  const auto out = call(input, h, {});
  return {out[0], out[1]};
}
Recurrence GRU::operator()(const Tensor& input, const Tensor& h) const {
  const auto out = call(input, h, {});
  return {out[0], out[1]};
}
PackedRecurrence RNN::operator()(const PackedSequence& input, const Tensor& h) const {
  const auto out = call(input, h, {});
  return {repacked(input, out[0]), out[1]};
}
PackedRecurrence GRU::operator()(const PackedSequence& input, const Tensor& h) const {
  const auto out = call(input, h, {});
  return {repacked(input, out[0]), out[1]};
}
PackedLSTMRecurrence LSTM::operator()(const PackedSequence& input, const LSTMState& state) const {
  const auto out = call(input, state.h, state.c);
  return {repacked(input, out[0]), {out[1], out[2]}};
}
LSTMRecurrence LSTM::operator()(const Tensor& input, const LSTMState& state) const {
  const auto out = call(input, state.h, state.c);
  return {out[0], {out[1], out[2]}};
}

struct CellBase::State final : ModuleState {
  int64_t input_size = 0, hidden_size = 0;
  CellOptions options;
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

  std::string extra_repr() const override {
    return fmt::format("{}, {}{}{}", input_size, hidden_size, options.bias ? "" : ", bias=False",
                       options.nonlinearity == "tanh" ? "" : ", nonlinearity=" + options.nonlinearity);
  }
};
CellBase::State& CellBase::own() const { return static_cast<State&>(state()); }
Tensor& CellBase::weight_ih() const { return own().weight_ih; }
Tensor& CellBase::weight_hh() const { return own().weight_hh; }
Tensor& CellBase::bias_ih() const { return own().bias_ih; }
Tensor& CellBase::bias_hh() const { return own().bias_hh; }

CellBase::CellBase(const char* kind, int64_t gates, int64_t input_size, int64_t hidden_size, const CellOptions& o)
    : Module(std::make_shared<State>()) {
  State& s = own();
  s.kind = kind;
  s.input_size = input_size;
  s.hidden_size = hidden_size;
  s.options = o;
  STRATA_CHECK(o.nonlinearity == "tanh" || o.nonlinearity == "relu", Value, "{}: Unknown nonlinearity: {}", kind,
               o.nonlinearity);
  const DType dtype = o.dtype.value_or(default_dtype());
  const Device device = o.device.value_or(Device());
  const auto add_weight = [&](const char* name, Tensor& slot, bool made, IntList shape) {
    if (made) slot = empty(shape, dtype, device).set_requires_grad();
    s.parameters.push_back({name, &slot});
  };
  add_weight("weight_ih", s.weight_ih, true, {gates * hidden_size, input_size});
  add_weight("weight_hh", s.weight_hh, true, {gates * hidden_size, hidden_size});
  add_weight("bias_ih", s.bias_ih, o.bias, {gates * hidden_size});
  add_weight("bias_hh", s.bias_hh, o.bias, {gates * hidden_size});
  reset_parameters();
}

void CellBase::reset_parameters() const {
  const double bound = own().hidden_size > 0 ? 1 / std::sqrt(static_cast<double>(own().hidden_size)) : 0;
  for (const Tensor& w : parameters()) init::uniform_(w, -bound, bound);
}

Tensor CellBase::start(const Tensor& input, const Tensor& given) const {
  STRATA_CHECK(input.dim() == 1 || input.dim() == 2, Value, "{}: Expected input to be 1D or 2D, got {}D instead",
               name(), input.dim());
  if (given) return given;
  std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
  shape.back() = own().hidden_size;
  return zeros(shape, input.dtype(), input.device());
}

RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, const CellOptions& o)
    : CellBase("RNNCell", 1, input_size, hidden_size, o) {}
GRUCell::GRUCell(int64_t input_size, int64_t hidden_size, const CellOptions& o)
    : CellBase("GRUCell", 3, input_size, hidden_size, o) {}
LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, const CellOptions& o)
    : CellBase("LSTMCell", 4, input_size, hidden_size, o) {}

Tensor RNNCell::operator()(const Tensor& x, const Tensor& h) const {
  const State& s = own();
  const Tensor h0 = start(x, h);
  if (s.options.nonlinearity == "relu") return rnn_relu_cell(x, h0, s.weight_ih, s.weight_hh, s.bias_ih, s.bias_hh);
  return rnn_tanh_cell(x, h0, s.weight_ih, s.weight_hh, s.bias_ih, s.bias_hh);
}
Tensor GRUCell::operator()(const Tensor& x, const Tensor& h) const {
  const State& s = own();
  return gru_cell(x, start(x, h), s.weight_ih, s.weight_hh, s.bias_ih, s.bias_hh);
}
LSTMState LSTMCell::operator()(const Tensor& x, const LSTMState& state) const {
  const State& s = own();
  const auto out = lstm_cell(x, {start(x, state.h), start(x, state.c)}, s.weight_ih, s.weight_hh, s.bias_ih, s.bias_hh);
  return {out[0], out[1]};
}

}  // namespace strata::nn
