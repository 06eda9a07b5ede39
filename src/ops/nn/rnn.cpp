// Recurrent networks: cells, and whole sequences of several layers in one or both directions. The product with the
// input is one matrix product for all steps; only the product with the state runs step by step.
#include "autograd/autograd.h"
#include "base/checked.h"
#include "ops/check_dtype.h"
#include "ops/nn/recurrent.h"
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {

namespace {
using nn::functional::linear;

using Cell = RecurrentCell;
using State = RecurrentState;

// x has the input's part of the gates (including the bias).
State step(Cell cell, const Tensor& x, const State& s, const Tensor& w, const Tensor& b) {
  return recurrent_step(cell, x, linear(s.h, w, b), s);
}

void check_cell(const char* op, Cell cell, const Tensor& x, const Tensor& h, const Tensor& wi, const Tensor& wh,
                const Tensor& bi, const Tensor& bh) {
  const int64_t gates = gates_of(cell);
  STRATA_CHECK(x.dim() == 1 || x.dim() == 2, Runtime, "{}: expected a 1D or 2D input, got shape {}", op,
               to_string(x.shape()));
  STRATA_CHECK(wi.dim() == 2 && wh.dim() == 2 && wi.size(0) == gates * wh.size(1) && wh.size(0) == wi.size(0), Runtime,
               "{}: weights must be [{} * hidden, input] and [{} * hidden, hidden], got {} and {}", op, gates, gates,
               to_string(wi.shape()), to_string(wh.shape()));
  STRATA_CHECK(x.size(-1) == wi.size(1), Runtime, "{}: input has inconsistent input_size: got {}, expected {}", op,
               x.size(-1), wi.size(1));
  STRATA_CHECK(h.dim() == x.dim() && h.size(-1) == wh.size(1), Runtime,
               "{}: hidden has inconsistent hidden_size: got {}, expected {}", op, h.dim() ? h.size(-1) : 0,
               wh.size(1));
  for (const Tensor* b : {&bi, &bh})
    STRATA_CHECK(!*b || (b->dim() == 1 && b->numel() == wi.size(0)), Runtime,
                 "{}: biases must be [{} * hidden], got shape {}", op, gates, to_string(b->shape()));
}

struct Options {
  const char* op;
  Cell cell;
  bool biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional;
  bool projected = false;  // LSTM with a weight_hr
};

// One layer in one direction: one kernel for all steps, if it has the dtypes and no projection.
RecurrentResult run_layer(Cell cell, const Tensor& x, const State& start, const Tensor& wi, const Tensor& wh,
                          const Tensor& bi, const Tensor& bh, const Tensor& wr, const RecurrentSteps& steps) {
  const bool lstm = cell == Cell::Lstm, whole = lstm && !steps.packed() && !wr;
  const Tensor gates = linear(x, wi, bi && cell != Cell::Gru && !wr ? add(bi, bh) : bi);
  if (whole) {
    const auto all = _lstm_layer(gates, start.h, start.c, wh, steps.reverse);
    return {all[0], select(all[0], 0, steps.time(steps.count - 1)), all[1]};
  }
  const bool one_dtype = gates.dtype() == start.h.dtype() && gates.dtype() == wh.dtype();
  if (wr || !one_dtype || (bh && bh.dtype() != wh.dtype()))
    return compose_recurrent(cell, gates, start, wh, cell == Cell::Gru || wr ? bh : Tensor(), wr, steps);
  const auto all = _recurrent_layer(gates, start.h, start.c, wh, cell == Cell::Gru ? bh : Tensor(), steps.sizes,
                                    static_cast<int64_t>(cell), steps.reverse);
  return {all[0], all[1], lstm ? all[2] : Tensor()};
}

// x is [steps, batch, features], or [sum of sizes, features] when packed. h and c are [layers * directions, batch, hidden].
RecurrentResult run_layers(const Options& o, Tensor x, const Tensor& h0, const Tensor& c0, TensorList params,
                           int64_t count, Shape sizes) {
  const int64_t directions = o.bidirectional ? 2 : 1, per = (o.biases ? 4 : 2) + (o.projected ? 1 : 0);
  const int64_t expected = (Checked(o.layers) * directions * per).get();
  STRATA_CHECK(o.layers > 0 && static_cast<int64_t>(params.size()) == expected, Runtime,
               "{}: expected {} parameters for {} layers{}, got {}", o.op, expected, o.layers,
               o.bidirectional ? " in both directions" : "", params.size());
  STRATA_CHECK(h0.dim() == 3 && h0.size(0) == o.layers * directions, Runtime,
               "{}: expected hidden state of shape [{}, batch, hidden], got {}", o.op, o.layers * directions,
               to_string(h0.shape()));
  std::vector<Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    std::vector<Tensor> sides;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const size_t at = static_cast<size_t>((layer * directions + direction) * per);
      const Tensor &wi = params[at], &wh = params[at + 1];
      const Tensor bi = o.biases ? params[at + 2] : Tensor(), bh = o.biases ? params[at + 3] : Tensor();
      const Tensor wr = o.projected ? params[at + static_cast<size_t>(per) - 1] : Tensor();
      STRATA_CHECK(x.size(-1) == wi.size(-1), Runtime,
                   "{}: input.size(-1) must be equal to input_size. Expected {}, got {}", o.op, wi.size(-1),
                   x.size(-1));
      STRATA_CHECK(h0.size(2) == wh.size(-1), Runtime, "{}: expected hidden size {}, got {}", o.op, wh.size(-1),
                   h0.size(2));
      const State start{select(h0, 0, layer * directions + direction),
                        c0 ? select(c0, 0, layer * directions + direction) : Tensor()};
      const RecurrentResult side =
        run_layer(o.cell, x, start, wi, wh, bi, bh, wr, RecurrentSteps(count, h0.size(1), sizes, direction == 1));
      last_h.push_back(side.h);
      if (side.c) last_c.push_back(side.c);
      sides.push_back(side.output);
    }
    x = sides.size() == 1 ? sides[0] : cat(sides, -1);
    if (o.dropout > 0 && o.train && layer + 1 < o.layers) x = nn::functional::dropout(x, o.dropout, true, false);
  }
  return {x, stack(last_h), last_c.empty() ? Tensor() : stack(last_c)};
}

RecurrentResult run_sequence(const Options& o, const Tensor& input, const Tensor& h0, const Tensor& c0,
                             TensorList params, bool batch_first) {
  STRATA_CHECK(input.dim() == 3, Runtime, "{}: expected a 3D input [steps, batch, features], got shape {}", o.op,
               to_string(input.shape()));
  const Tensor x = batch_first ? transpose(input, 0, 1) : input;
  STRATA_CHECK(x.size(0) > 0, Runtime, "{}: expected sequence length to be larger than 0", o.op);
  STRATA_CHECK(h0.dim() == 3 && h0.size(1) == x.size(1), Runtime,
               "{}: expected hidden state for a batch of {}, got shape {}", o.op, x.size(1), to_string(h0.shape()));
  RecurrentResult r = run_layers(o, x, h0, c0, params, x.size(0), {});
  if (batch_first) r.output = transpose(r.output, 0, 1);
  return r;
}
RecurrentResult run_packed(const Options& o, const Tensor& data, const Tensor& batch_sizes, const Tensor& h0,
                           const Tensor& c0, TensorList params) {
  STRATA_CHECK(data.dim() == 2 && batch_sizes.dim() == 1 && batch_sizes.dtype() == DType::I64, Runtime,
               "{}: expected packed data [rows, features] and int64 batch sizes", o.op);
  if (batch_sizes.is_meta()) refuse_shape_from_values(o.op);
  const Tensor sizes = contiguous(host_values(batch_sizes));
  const Shape running(sizes.data<int64_t>(), static_cast<size_t>(sizes.numel()));
  int64_t total = 0, before = INT64_MAX;
  for (const int64_t n : running) {
    STRATA_CHECK(n > 0 && n <= before, Runtime, "{}: batch sizes must be positive and fall, got {}", o.op,
                 to_string(running));
    total += n;
    before = n;
  }
  STRATA_CHECK(!running.empty() && total == data.size(0), Runtime, "{}: batch sizes add up to {}, the data has {} rows",
               o.op, total, data.size(0));
  STRATA_CHECK(h0.dim() == 3 && h0.size(1) == running[0], Runtime,
               "{}: expected hidden state for a batch of {}, got shape {}", o.op, running[0], to_string(h0.shape()));
  return run_layers(o, data, h0, c0, params, sizes.numel(), running);
}
}  // namespace

STRATA_OP(
  rnn_tanh_cell,
  "rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor")
  .doc("tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh).")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, const Tensor& h, const Tensor& wi, const Tensor& wh, const Tensor& bi,
                const Tensor& bh) {
    check_cell("rnn_tanh_cell", Cell::Tanh, x, h, wi, wh, bi, bh);
    return step(Cell::Tanh, linear(x, wi, bi), {h, {}}, wh, bh).h;
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(3,4), f(3,5), f(5,4), f(5,5), f(5), f(5)"})
  .error("f(3,4), f(3,5), f(5,3), f(5,5)", ErrorKind::Runtime, "inconsistent input_size");

STRATA_OP(
  rnn_relu_cell,
  "rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor")
  .doc("relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh).")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, const Tensor& h, const Tensor& wi, const Tensor& wh, const Tensor& bi,
                const Tensor& bh) {
    check_cell("rnn_relu_cell", Cell::Relu, x, h, wi, wh, bi, bh);
    return step(Cell::Relu, linear(x, wi, bi), {h, {}}, wh, bh).h;
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(3,4), f(3,5), f(5,4), f(5,5), f(5), f(5)"})
  .error("f(3,4), f(3,4), f(5,4), f(5,5)", ErrorKind::Runtime, "inconsistent hidden_size");

STRATA_OP(gru_cell,
          "gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor")
  .doc("One step of a gated recurrent unit.")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, const Tensor& h, const Tensor& wi, const Tensor& wh, const Tensor& bi,
                const Tensor& bh) {
    refuse_integers(x, "gru_cell");
    check_cell("gru_cell", Cell::Gru, x, h, wi, wh, bi, bh);
    return step(Cell::Gru, linear(x, wi, bi), {h, {}}, wh, bh).h;
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(3,4), f(3,5), f(15,4), f(15,5), f(15), f(15)"})
  .error("f(3,4), f(3,5), f(5,4), f(5,5)", ErrorKind::Runtime, "weights must be");

STRATA_OP(lstm_cell,
          "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
          "(Tensor, Tensor)")
  .doc("One step of an LSTM; hx is (h, c).")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, TensorList hx, const Tensor& wi, const Tensor& wh, const Tensor& bi,
                const Tensor& bh) {
    refuse_integers(x, "lstm_cell");
    STRATA_CHECK(hx.size() == 2, Runtime, "lstm_cell: expected two hidden states, got {}", hx.size());
    check_cell("lstm_cell", Cell::Lstm, x, hx[0], wi, wh, bi, bh);
    const State s = step(Cell::Lstm, linear(x, wi, bi), {hx[0], hx[1]}, wh, bh);
    return std::array<Tensor, 2>{s.h, s.c};
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(3,4), [f(3,5), f(3,5)], f(20,4), f(20,5), f(20), f(20)"})
  .error("f(3,4), [f(3,5)], f(20,4), f(20,5)", ErrorKind::Runtime, "expected two hidden states");

STRATA_OP(lstm,
          "lstm(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
          "train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)")
  .doc("An LSTM over a sequence; params are w_ih, w_hh, b_ih, b_hh of each layer and direction.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, TensorList hx, TensorList params, bool biases, int64_t layers, double dropout,
                bool train, bool both, bool batch_first) {
    refuse_integers(x, "lstm");
    STRATA_CHECK(hx.size() == 2, Runtime, "lstm: expected two hidden states, got {}", hx.size());
    const RecurrentResult r =
      run_sequence({"lstm", Cell::Lstm, biases, layers, dropout, train, both}, x, hx[0], hx[1], params, batch_first);
    return std::array<Tensor, 3>{r.output, r.h, r.c};
  })
  .autocast(Autocast::Lower)
  .samples({"f(2,3,4), [f(1,3,5), f(1,3,5)], [f(20,4), f(20,5), f(20), f(20)], True, 1, 0.0, False, False, False"})
  .error("f(3,4), [f(1,3,5), f(1,3,5)], [f(20,4), f(20,5)], False, 1, 0.0, False, False, False", ErrorKind::Runtime,
         "expected a 3D input");

STRATA_OP(lstm_data,
          "lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, "
          "float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)")
  .doc("lstm over a packed batch of sequences in descending order of length.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& data, const Tensor& sizes, TensorList hx, TensorList params, bool biases, int64_t layers,
                double dropout, bool train, bool both) {
    STRATA_CHECK(hx.size() == 2, Runtime, "lstm: expected two hidden states, got {}", hx.size());
    const RecurrentResult r =
      run_packed({"lstm", Cell::Lstm, biases, layers, dropout, train, both}, data, sizes, hx[0], hx[1], params);
    return std::array<Tensor, 3>{r.output, r.h, r.c};
  })
  .autocast(Autocast::Lower)
  .samples({"f(6,4), t[3,2,1], [f(1,3,5), f(1,3,5)], [f(20,4), f(20,5), f(20), f(20)], True, 1, 0.0, False, False"});

STRATA_OP(lstm_projected,
          "_lstm_projected(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
          "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)")
  .doc("lstm() with h = weight_hr @ h; params are w_ih, w_hh, b_ih, b_hh, w_hr of each layer and direction.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, TensorList hx, TensorList params, bool biases, int64_t layers, double dropout,
                bool train, bool both, bool batch_first) {
    STRATA_CHECK(hx.size() == 2, Runtime, "lstm: expected two hidden states, got {}", hx.size());
    const Options o{"lstm", Cell::Lstm, biases, layers, dropout, train, both, true};
    const RecurrentResult r = run_sequence(o, x, hx[0], hx[1], params, batch_first);
    return std::array<Tensor, 3>{r.output, r.h, r.c};
  })
  .autocast(Autocast::Lower)
  .samples(
    {"f(2,3,4), [f(1,3,2), f(1,3,5)], [f(20,4), f(20,2), f(20), f(20), f(2,5)], True, 1, 0.0, False, False, False"})
  .error("f(2,3,4), [f(1,3,2), f(1,3,5)], [f(20,4)], True, 1, 0.0, False, False, False", ErrorKind::Runtime,
         "expected 5 parameters");

STRATA_OP(lstm_projected_data,
          "_lstm_projected.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int "
          "num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)")
  .doc("_lstm_projected over a packed batch of sequences in descending order of length.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& data, const Tensor& sizes, TensorList hx, TensorList params, bool biases, int64_t layers,
                double dropout, bool train, bool both) {
    STRATA_CHECK(hx.size() == 2, Runtime, "lstm: expected two hidden states, got {}", hx.size());
    const Options o{"lstm", Cell::Lstm, biases, layers, dropout, train, both, true};
    const RecurrentResult r = run_packed(o, data, sizes, hx[0], hx[1], params);
    return std::array<Tensor, 3>{r.output, r.h, r.c};
  })
  .autocast(Autocast::Lower)
  .samples({"f(6,4), t[3,2,1], [f(1,3,2), f(1,3,5)], [f(20,4), f(20,2), f(20), f(20), f(2,5)], True, 1, 0.0, False, "
            "False"});

STRATA_OP(gru,
          "gru(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
          "bool bidirectional, bool batch_first) -> (Tensor, Tensor)")
  .doc("A gated recurrent unit over a sequence.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, const Tensor& h, TensorList params, bool biases, int64_t layers, double dropout,
                bool train, bool both, bool batch_first) {
    const RecurrentResult r =
      run_sequence({"gru", Cell::Gru, biases, layers, dropout, train, both}, x, h, {}, params, batch_first);
    return std::array<Tensor, 2>{r.output, r.h};
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(2,3,4), f(2,3,5), [f(15,4), f(15,5), f(15,4), f(15,5)], False, 1, 0.0, False, True, False"});

STRATA_OP(gru_data,
          "gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
          "float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)")
  .doc("gru over a packed batch of sequences in descending order of length.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& data, const Tensor& sizes, const Tensor& h, TensorList params, bool biases,
                int64_t layers, double dropout, bool train, bool both) {
    const RecurrentResult r =
      run_packed({"gru", Cell::Gru, biases, layers, dropout, train, both}, data, sizes, h, {}, params);
    return std::array<Tensor, 2>{r.output, r.h};
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(6,4), t[3,2,1], f(1,3,5), [f(15,4), f(15,5), f(15), f(15)], True, 1, 0.0, False, False"});

STRATA_OP(rnn_tanh,
          "rnn_tanh(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
          "train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)")
  .doc("A plain recurrent network with tanh over a sequence.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, const Tensor& h, TensorList params, bool biases, int64_t layers, double dropout,
                bool train, bool both, bool batch_first) {
    const RecurrentResult r =
      run_sequence({"rnn_tanh", Cell::Tanh, biases, layers, dropout, train, both}, x, h, {}, params, batch_first);
    return std::array<Tensor, 2>{r.output, r.h};
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(2,3,4), f(2,3,5), [f(5,4), f(5,5), f(5), f(5), f(5,5), f(5,5), f(5), f(5)], True, 2, 0.0, False, False, "
            "False"});

STRATA_OP(rnn_tanh_data,
          "rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
          "float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)")
  .doc("rnn_tanh over a packed batch of sequences in descending order of length.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& data, const Tensor& sizes, const Tensor& h, TensorList params, bool biases,
                int64_t layers, double dropout, bool train, bool both) {
    const RecurrentResult r =
      run_packed({"rnn_tanh", Cell::Tanh, biases, layers, dropout, train, both}, data, sizes, h, {}, params);
    return std::array<Tensor, 2>{r.output, r.h};
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(6,4), t[3,2,1], f(1,3,5), [f(5,4), f(5,5), f(5), f(5)], True, 1, 0.0, False, False"});

STRATA_OP(rnn_relu,
          "rnn_relu(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
          "train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)")
  .doc("A plain recurrent network with relu over a sequence.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, const Tensor& h, TensorList params, bool biases, int64_t layers, double dropout,
                bool train, bool both, bool batch_first) {
    const RecurrentResult r =
      run_sequence({"rnn_relu", Cell::Relu, biases, layers, dropout, train, both}, x, h, {}, params, batch_first);
    return std::array<Tensor, 2>{r.output, r.h};
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(3,2,4), f(1,3,5), [f(5,4), f(5,5)], False, 1, 0.0, False, False, True"});

STRATA_OP(rnn_relu_data,
          "rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
          "float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)")
  .doc("rnn_relu over a packed batch of sequences in descending order of length.")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& data, const Tensor& sizes, const Tensor& h, TensorList params, bool biases,
                int64_t layers, double dropout, bool train, bool both) {
    const RecurrentResult r =
      run_packed({"rnn_relu", Cell::Relu, biases, layers, dropout, train, both}, data, sizes, h, {}, params);
    return std::array<Tensor, 2>{r.output, r.h};
  })
  .autocast_cuda(Autocast::Lower)
  .samples({"f(6,4), t[3,2,1], f(1,3,5), [f(5,4), f(5,5), f(5), f(5)], True, 1, 0.0, False, False"});

}  // namespace strata
