// Steps of recurrent cells, and layers composed of them.
#include "ops/nn/recurrent.h"

#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {

RecurrentState recurrent_step(RecurrentCell cell, const Tensor& x, const Tensor& r, const RecurrentState& s) {
  if (cell == RecurrentCell::Tanh) return {tanh(add(x, r)), {}};
  if (cell == RecurrentCell::Relu) return {relu(add(x, r)), {}};
  if (cell == RecurrentCell::Lstm) {
    const auto g = chunk(add(x, r), 4, -1);
    const Tensor c = add(mul(sigmoid(g[1]), s.c), mul(sigmoid(g[0]), tanh(g[2])));
    return {mul(sigmoid(g[3]), tanh(c)), c};
  }
  const auto gx = chunk(x, 3, -1), gr = chunk(r, 3, -1);
  const Tensor reset = sigmoid(add(gx[0], gr[0])), update = sigmoid(add(gx[1], gr[1])),
               fresh = tanh(add(gx[2], mul(reset, gr[2])));
  return {add(fresh, mul(update, sub(s.h, fresh))), {}};
}

RecurrentSteps::RecurrentSteps(int64_t steps, int64_t rows, Shape running, bool from_the_end)
    : count(steps), batch(rows), reverse(from_the_end), sizes(running.begin(), running.end()) {
  if (!packed()) return;
  offsets.push_back(0);
  for (const int64_t n : sizes) offsets.push_back(offsets.back() + n);
}

RecurrentResult compose_recurrent(RecurrentCell cell, const Tensor& gates, const RecurrentState& start,
                                  const Tensor& weight, const Tensor& bias, const Tensor& projection,
                                  const RecurrentSteps& steps) {
  RecurrentState s = start;
  std::vector<Tensor> outputs(static_cast<size_t>(steps.count));
  std::vector<RecurrentState> finished;  // of finished sequences (packed, forward): later rows first
  const auto part = [](const RecurrentState& of, int64_t begin, int64_t count) {
    return RecurrentState{narrow(of.h, 0, begin, count), of.c ? narrow(of.c, 0, begin, count) : Tensor()};
  };
  const auto joined = [](const std::vector<RecurrentState>& parts) {
    std::vector<Tensor> hs, cs;
    for (const RecurrentState& p : parts) {
      hs.push_back(p.h);
      cs.push_back(p.c);
    }
    return RecurrentState{cat(hs), cs[0] ? cat(cs) : Tensor()};
  };
  int64_t running = steps.running(steps.time(0));
  if (steps.packed()) s = part(s, 0, running);
  for (int64_t i = 0; i < steps.count; ++i) {
    const int64_t t = steps.time(i), size = steps.running(t);
    if (size > running) s = joined({s, part(start, running, size - running)});  // reversed: sequences start
    if (size < running) {
      finished.push_back(part(s, size, running - size));
      s = part(s, 0, size);
    }
    running = size;
    const Tensor x = steps.packed() ? narrow(gates, 0, steps.offset(t), size) : select(gates, 0, t);
    s = recurrent_step(cell, x, nn::functional::linear(s.h, weight, bias), s);
    if (projection) s.h = nn::functional::linear(s.h, projection);
    outputs[static_cast<size_t>(t)] = s.h;
  }
  if (!finished.empty()) {
    finished.push_back(s);
    std::reverse(finished.begin(), finished.end());
    s = joined(finished);
  }
  return {steps.packed() ? cat(outputs) : stack(outputs), s.h, s.c};
}

void expect_recurrent(const TensorImpl& t, const char* name, Shape shape, DType dtype) {
  bool same = t.dtype == dtype && static_cast<size_t>(t.ndim) == shape.size();
  for (size_t d = 0; same && d < shape.size(); ++d) same = t.shape[d] == shape[d];
  STRATA_CHECK(same, Runtime, "recurrent layer: expected {} of shape {} and dtype {}, got {} and {}", name,
               to_string(shape), name_of(dtype), to_string(t.sizes()), name_of(t.dtype));
}

const TensorImpl& RecurrentOuts::operator[](uint32_t o) {
  const Tensor& out = call_.outs[o];
  if (out.dtype() == DType::F32) return *out;
  made_[o] = make_tensor(out.shape(), DType::F32, out.device());
  return *made_[o];
}
void RecurrentOuts::convert() const {
  for (uint32_t o = 0; o < std::size(made_); ++o)
    if (made_[o]) copy_values(*call_.outs[o], *made_[o]);
}

}  // namespace strata
