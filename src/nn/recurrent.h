// Recurrent networks: RNN, LSTM and GRU over sequences, and their cells.
#pragma once
#include <optional>

#include "nn/module.h"
#include "nn/packed.h"

namespace strata::nn {

using utils::rnn::PackedSequence;

struct RNNOptions {
  int64_t num_layers = 1;
  std::string nonlinearity = "tanh";  // of RNN: tanh or relu
  bool bias = true, batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  int64_t proj_size = 0;  // of LSTM: the width of its projected state; 0: no projection
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

// Shared parts of RNN, LSTM and GRU. Parameters are named weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ...,
// _reverse.
class STRATA_API RNNBase : public Module {
 public:
  void reset_parameters() const;
  const RNNOptions& options() const;
  int64_t input_size() const;
  int64_t hidden_size() const;
  std::vector<Tensor> weights() const;  // in the order of the names

 protected:
  RNNBase(const char* kind, int64_t input_size, int64_t hidden_size, const RNNOptions& options);
  RNNBase(None) : Module(none) {}
  // Returns output, h and for LSTM c. Undefined states start as zeros; an input of two dimensions has no batch. Hooks
  // get the input, h and c; for packed sequences the data.
  std::vector<Tensor> call(const Tensor& input, const Tensor& h, const Tensor& c) const;
  std::vector<Tensor> call(const PackedSequence& input, const Tensor& h, const Tensor& c) const;

 private:
  std::vector<Tensor> run(const Tensor& input, const Tensor& h, const Tensor& c) const;
  std::vector<Tensor> run(const PackedSequence& input, const Tensor& h, const Tensor& c) const;
  void check_features(const Tensor& input) const;
  // h and for LSTM c of the right sizes: the given ones or zeros.
  std::vector<Tensor> start(const Tensor& input, int64_t batch, const Tensor& h, const Tensor& c) const;
  struct State;
  State& own() const;
};

struct Recurrence {  // auto [output, h] = rnn(x)
  Tensor output, h;
};
struct LSTMState {
  Tensor h, c;
};
struct LSTMRecurrence {  // auto [output, state] = lstm(x)
  Tensor output;
  LSTMState state;
};
// The same for packed sequences. States are in the order of the batch, not of the lengths.
struct PackedRecurrence {
  PackedSequence output;
  Tensor h;
};
struct PackedLSTMRecurrence {
  PackedSequence output;
  LSTMState state;
};

// h' = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh), or relu, over [steps, batch, features].
class STRATA_API RNN : public RNNBase {
 public:
  RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {});
  RNN(None) : RNNBase(none) {}
  Recurrence operator()(const Tensor& input, const Tensor& h = {}) const;
  PackedRecurrence operator()(const PackedSequence& input, const Tensor& h = {}) const;
};

// Gated recurrent unit.
class STRATA_API GRU : public RNNBase {
 public:
  GRU(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {});
  GRU(None) : RNNBase(none) {}
  Recurrence operator()(const Tensor& input, const Tensor& h = {}) const;
  PackedRecurrence operator()(const PackedSequence& input, const Tensor& h = {}) const;
};

// Long short-term memory.
class STRATA_API LSTM : public RNNBase {
 public:
  LSTM(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {});
  LSTM(None) : RNNBase(none) {}
  LSTMRecurrence operator()(const Tensor& input, const LSTMState& state = {}) const;
  PackedLSTMRecurrence operator()(const PackedSequence& input, const LSTMState& state = {}) const;
};

struct CellOptions {
  bool bias = true;
  std::string nonlinearity = "tanh";  // of RNNCell
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

// Shared parts of the cells: weight_ih, weight_hh, bias_ih, bias_hh.
class STRATA_API CellBase : public Module {
 public:
  void reset_parameters() const;
  Tensor& weight_ih() const;
  Tensor& weight_hh() const;
  Tensor& bias_ih() const;
  Tensor& bias_hh() const;

 protected:
  CellBase(const char* kind, int64_t gates, int64_t input_size, int64_t hidden_size, const CellOptions& options);
  CellBase(None) : Module(none) {}
  Tensor start(const Tensor& input, const Tensor& state) const;  // zeros for an undefined state
  struct State;
  State& own() const;
};

// One step of RNN: the new h.
class STRATA_API RNNCell : public CellBase {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {});
  Tensor operator()(const Tensor& input, const Tensor& h = {}) const;
};
// One step of GRU: the new h.
class STRATA_API GRUCell : public CellBase {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {});
  Tensor operator()(const Tensor& input, const Tensor& h = {}) const;
};
// One step of LSTM: the new h and c.
class STRATA_API LSTMCell : public CellBase {
 public:
  LSTMCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {});
  LSTMState operator()(const Tensor& input, const LSTMState& state = {}) const;
};

}  // namespace strata::nn
