// Launches the kernels of cuda/nn/lstm.cu: one launch for all steps if all blocks fit on the device at once, otherwise
// one for each step.
#include "cuda/nn/lstm.h"

#include <array>

#include "cuda/common/tensors.h"
#include "cuda/nn/lstm_params.h"
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
  const int64_t sums = int64_t{kLstmWarps} * kLstmRows * (columns + 16);
  return static_cast<uint32_t>((int64_t{kLstmChunk} * kLstmPad + sums + columns * weight_rows) * 4);
}

Choice choose(const LstmSizes& s, bool backward, const Properties& gpu) {
  for (const int units : {16, 8}) {
    const uint32_t shared = backward ? shared_bytes(units, 4 * s.hidden) : shared_bytes(int64_t{4} * units, s.hidden);
    if (shared > static_cast<uint32_t>(gpu.shared_per_block_optin)) continue;
    const int64_t blocks = ceil_div(s.hidden, units), passes = ceil_div(s.batch, kLstmRows);
    const int64_t parts = std::min(passes, std::max<int64_t>(1, gpu.multiprocessors / blocks));
    const int64_t rows = ceil_div(passes, parts) * kLstmRows;
    Choice c{units, static_cast<int32_t>(rows), static_cast<int32_t>(blocks), 0, shared, false};
    c.parts = static_cast<int32_t>(ceil_div(s.batch, rows));
    c.together = blocks * c.parts <= gpu.multiprocessors;
    return c;
  }
  return {};
}

LstmParams params_of(const LstmSizes& s, const Choice& choice) {
  LstmParams p{};
  p.steps = static_cast<int32_t>(s.steps);
  p.batch = static_cast<int32_t>(s.batch);
  p.hidden = static_cast<int32_t>(s.hidden);
  p.reverse = s.reverse;
  p.rows = choice.rows;
  return p;
}

void run_steps(const Function& kernel, const Choice& choice, LstmParams& p, int32_t steps, const Call& c) {
  const Stream stream = stream_of(c.out().device());
  const Grid grid{static_cast<uint32_t>(choice.blocks), static_cast<uint32_t>(choice.parts)};
  const Tensor done = Workspace(c).take(Shape(std::array{int64_t{choice.parts}}), DType::I32);
  if (choice.together) {
    fill(*done, 0);
    p.done = address(*done);
    p.end = steps;
    return stream.launch_together(kernel, grid, {kLstmThreads}, choice.shared, p);
  }
  for (p.begin = 0; p.begin < steps; ++p.begin) {
    p.end = p.begin + 1;
    stream.launch(kernel, grid, {kLstmThreads}, choice.shared, p);
  }
}
}  // namespace

const char* plan_lstm(const LstmSizes& s, bool backward, Device device, Plan& plan) {
  if (s.steps == 0 || s.batch == 0 || s.hidden == 0) return "nothing to compute";
  if (std::max({s.steps + 1, s.batch * 4 * s.hidden}) > INT32_MAX)
    return "more elements per step than the kernel counts";
  const Choice choice = choose(s, backward, Runtime::gpu(device).properties);
  if (choice.units == 0) return "its part of the weight does not fit into shared memory";
  Workspace(plan).take(Shape(std::array{int64_t{choice.parts}}), DType::I32);
  plan.variant = choice.together ? "one launch" : "a launch for each step";
  plan.keep(choice);
  return nullptr;
}

void run_lstm(const LstmForward& f, const Call& c, const Plan& plan) {
  static const Function kernels[] = {{"lstm", "forward_16"}, {"lstm", "forward_8"}};
  const auto choice = plan.get<Choice>();
  LstmParams p = params_of(f.sizes, choice);
  p.gates = address(f.gates);
  p.weight = address(f.weight);
  p.h0 = address(f.h0);
  p.c0 = address(f.c0);
  p.output = address(f.output);
  p.state = address(f.last);
  p.cells = address(f.cells);
  p.activations = address(f.activations);
  run_steps(kernels[choice.units == 8], choice, p, p.steps, c);
}

void run_lstm_backward(const LstmBackward& b, const Call& c, const Plan& plan) {
  static const Function kernels[] = {{"lstm", "backward_16"}, {"lstm", "backward_8"}};
  const auto choice = plan.get<Choice>();
  LstmParams p = params_of(b.sizes, choice);
  p.gates = address(b.grad_gates);
  p.weight = address(b.weight);
  p.h0 = address(b.grad_h0);
  p.output = address(b.grad);
  p.before = address(b.c0);
  p.state = address(b.grad_c0);
  p.cells = address(b.cells);
  p.activations = address(b.activations);
  if (b.grad_c) copy(b.grad_c0, *b.grad_c);
  else fill(b.grad_c0, 0);
  run_steps(kernels[choice.units == 8], choice, p, p.steps + 1, c);
}

}  // namespace strata::cuda
