// Launches the kernels of cuda/nn/recurrent.cu: one launch for all steps if all blocks fit on the device at once, otherwise
// one for each step.
#include "cuda/nn/recurrent.h"

#include "cuda/common/tensors.h"
#include "cuda/common/upload.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

struct Choice {
  int32_t units, rows, blocks, parts;  // per block: hidden units, rows of the batch; blocks per part of the batch
  uint32_t shared;
  bool together;  // one launch
};

uint32_t shared_bytes(int64_t columns, int64_t weight_rows) {
  const int count = static_cast<int>(columns);
  const int64_t sums = int64_t{kRecurrentWarps} * kRecurrentRows * recurrent_stride(count);
  const int64_t factors = int64_t{2} * recurrent_chunk(count) * kRecurrentPad;
  return static_cast<uint32_t>((factors + sums + columns * weight_rows) * 4);
}

Choice choose(const RecurrentSizes& s, bool backward, const Properties& gpu) {
  const int64_t gates = gates_of(s.cell);
  for (const int units : {16, 8}) {
    const uint32_t shared = backward ? shared_bytes(units, gates * s.hidden) : shared_bytes(gates * units, s.hidden);
    if (shared > static_cast<uint32_t>(gpu.shared_per_block_optin)) continue;
    const int64_t blocks = ceil_div(s.hidden, units), passes = ceil_div(s.batch, kRecurrentRows);
    const int64_t parts = std::min(passes, std::max<int64_t>(1, gpu.multiprocessors / blocks));
    const int64_t rows = ceil_div(passes, parts) * kRecurrentRows;
    Choice c{units, static_cast<int32_t>(rows), static_cast<int32_t>(blocks), 0, shared, false};
    c.parts = static_cast<int32_t>(ceil_div(s.batch, rows));
    c.together = blocks * c.parts <= gpu.multiprocessors;
    return c;
  }
  return {};
}

// Memory besides the results: the counters, what a GRU's gradient carries from step to step, where each step begins.
struct Extra {
  Tensor done, carried, offsets;
  Extra(const RecurrentSizes& s, bool backward, const Choice& choice, Workspace& space)
      : done(space.take(choice.parts, DType::I32)) {
    if (backward && s.cell == RecurrentCell::Gru) carried = space.take(s.batch * s.hidden, DType::F32);
    if (s.running.empty()) return;
    std::vector<int32_t> list{0};
    for (const int64_t n : s.running) list.push_back(list.back() + static_cast<int32_t>(n));
    offsets = upload(list, space);
  }
};

RecurrentParams params_of(const RecurrentSizes& s, const Choice& choice) {
  RecurrentParams p{};
  p.steps = static_cast<int32_t>(s.steps);
  p.batch = static_cast<int32_t>(s.batch);
  p.hidden = static_cast<int32_t>(s.hidden);
  p.reverse = s.reverse;
  p.relu = s.cell == RecurrentCell::Relu;
  p.rows = choice.rows;
  return p;
}

const Function& kernel_of(RecurrentCell cell, bool backward, int32_t units) {
  static const Function kernels[3][2][2] = {
    {{{"recurrent", "forward_lstm_16"}, {"recurrent", "forward_lstm_8"}},
     {{"recurrent", "backward_lstm_16"}, {"recurrent", "backward_lstm_8"}}},
    {{{"recurrent", "forward_gru_16"}, {"recurrent", "forward_gru_8"}},
     {{"recurrent", "backward_gru_16"}, {"recurrent", "backward_gru_8"}}},
    {{{"recurrent", "forward_plain_16"}, {"recurrent", "forward_plain_8"}},
     {{"recurrent", "backward_plain_16"}, {"recurrent", "backward_plain_8"}}},
  };
  const size_t kind = cell == RecurrentCell::Lstm ? 0 : cell == RecurrentCell::Gru ? 1 : 2;
  return kernels[kind][backward][units == 8];
}

void run_steps(const RecurrentSizes& s, bool backward, const Choice& choice, RecurrentParams& p, const Call& c) {
  // Forward, the states are multiplied; backward, the gradients of the products.
  const uint64_t begins = backward ? p.products : p.output | p.h0;
  p.quads = begins % 16 == 0 && (backward ? gates_of(s.cell) * s.hidden : s.hidden) % 4 == 0;
  const Stream stream = stream_of(c.out().device());
  const Function& kernel = kernel_of(s.cell, backward, choice.units);
  const Grid grid{static_cast<uint32_t>(choice.blocks), static_cast<uint32_t>(choice.parts)};
  Workspace space(c);
  const Extra extra(s, backward, choice, space);
  p.offsets = address(extra.offsets.get());
  if (extra.carried) {
    fill(*extra.carried, 0);
    p.state = address(*extra.carried);
  }
  const int32_t steps = p.steps + (backward ? 1 : 0);
  if (choice.together) {
    fill(*extra.done, 0);
    p.done = address(*extra.done);
    p.end = steps;
    return stream.launch_together(kernel, grid, {kRecurrentThreads}, choice.shared, p);
  }
  for (p.begin = 0; p.begin < steps; ++p.begin) {
    p.end = p.begin + 1;
    stream.launch(kernel, grid, {kRecurrentThreads}, choice.shared, p);
  }
}
}  // namespace

const char* plan_recurrent(const RecurrentSizes& s, bool backward, Device device, Plan& plan) {
  if (s.steps == 0 || s.batch == 0 || s.hidden == 0) return "nothing to compute";
  if (std::max({s.steps + 1, s.batch * 4 * s.hidden, s.running.empty() ? 0 : s.steps * s.batch}) > INT32_MAX)
    return "more elements per step than the kernel counts";
  const Choice choice = choose(s, backward, Runtime::gpu(device).properties);
  if (choice.units == 0) return "its part of the weight does not fit into shared memory";
  Workspace space(plan);
  const Extra counted(s, backward, choice, space);
  plan.variant = choice.together ? "one launch" : "a launch for each step";
  plan.keep(choice);
  return nullptr;
}

void run_recurrent(const RecurrentForward& f, const Call& c, const Plan& plan) {
  const auto choice = plan.get<Choice>();
  RecurrentParams p = params_of(f.sizes, choice);
  p.gates = address(f.gates);
  p.weight = address(f.weight);
  p.bias = address(f.bias);
  p.h0 = address(f.h0);
  p.c0 = address(f.c0);
  p.output = address(f.output);
  p.last = address(f.last);
  p.state = address(f.last_cell);
  p.cells = address(f.cells);
  p.kept = address(f.kept);
  run_steps(f.sizes, false, choice, p, c);
}

void run_recurrent_backward(const RecurrentBackward& b, const Call& c, const Plan& plan) {
  const auto choice = plan.get<Choice>();
  RecurrentParams p = params_of(b.sizes, choice);
  p.gates = address(b.grad_gates);
  p.products = b.grad_products ? address(b.grad_products) : p.gates;
  p.weight = address(b.weight);
  p.h0 = address(b.grad_h0);
  p.output = address(b.grad);
  p.last = address(b.grad_last);
  p.before = address(b.before);
  p.state = address(b.grad_c0);
  p.states = address(b.states);
  p.cells = address(b.cells);
  p.kept = address(b.kept);
  if (b.grad_c0 && b.grad_cell) copy(*b.grad_c0, *b.grad_cell);
  else if (b.grad_c0) fill(*b.grad_c0, 0);
  run_steps(b.sizes, true, choice, p, c);
}

}  // namespace strata::cuda
