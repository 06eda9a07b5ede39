// A layer of a recurrent network as one op: a GRU, a plain network, or an LSTM over a packed batch. On devices, one kernel
// runs all steps; elsewhere each step is a product and a few pointwise ops, which record nothing.
#include "strata/args/nn/recurrent_layer.h"
#include "autograd/autograd.h"
#include "cuda/nn/recurrent.h"
#include "ops/device_inputs.h"
#include "ops/nn/recurrent.h"
#include "ops/transfer.h"

namespace strata {
namespace {

// Cell, sizes and steps of a call. gates is [steps, batch, gates * hidden], or [rows, gates * hidden] of a packed batch.
struct Layer {
  RecurrentCell cell;
  int64_t hidden, gates;
  RecurrentSteps steps;

  bool lstm() const { return cell == RecurrentCell::Lstm; }
  bool gru() const { return cell == RecurrentCell::Gru; }
  std::vector<int64_t> shape(int64_t columns) const {  // of something with a row per sequence and step
    if (steps.packed()) return {steps.rows(), columns};
    return {steps.count, steps.batch, columns};
  }
  cuda::RecurrentSizes device_sizes() const {
    return {cell, steps.count, steps.batch, hidden, steps.reverse, steps.sizes};
  }
};

RecurrentCell cell_of(int64_t number) {
  STRATA_CHECK(number >= 0 && number <= static_cast<int64_t>(RecurrentCell::Gru), Value,
               "recurrent layer: cell is {}, expected 0 (tanh), 1 (relu), 2 (LSTM) or 3 (GRU)", number);
  return static_cast<RecurrentCell>(number);
}

// `rows` has the dimensions of the gates.
Layer describe_layer(const TensorImpl& rows, const TensorImpl& weight, const TensorImpl& state, IntList sizes,
                     int64_t cell_number, bool reverse) {
  const RecurrentCell cell = cell_of(cell_number);
  const bool packed = sizes.size > 0;
  STRATA_CHECK(weight.ndim == 2 && state.ndim == 2 && rows.ndim == (packed ? 2 : 3) && rows.shape[0] > 0, Runtime,
               "recurrent layer: expected rows for one or more steps, a state [batch, hidden] and a weight, got {}, {} "
               "and {}",
               to_string(rows.sizes()), to_string(state.sizes()), to_string(weight.sizes()));
  const Shape running(sizes.data, sizes.size);
  int64_t total = 0, before = state.shape[0];
  for (const int64_t n : running) {
    STRATA_CHECK(n > 0 && n <= before, Runtime,
                 "recurrent layer: batch sizes must be positive, fall and be at most {}, got {}", state.shape[0],
                 to_string(running));
    before = n;
    total += n;
  }
  STRATA_CHECK(!packed || total == rows.shape[0], Runtime,
               "recurrent layer: batch sizes add up to {}, but there are {} rows", total, rows.shape[0]);
  const int64_t hidden = weight.shape[1];
  Layer l{cell, hidden, gates_of(cell),
          RecurrentSteps(packed ? static_cast<int64_t>(sizes.size) : rows.shape[0],
                         packed ? state.shape[0] : rows.shape[1], running, reverse)};
  const int64_t square[] = {l.gates * hidden, hidden}, first[] = {l.steps.batch, hidden};
  expect_recurrent(weight, "a weight", square, rows.dtype);
  expect_recurrent(state, "a state", first, rows.dtype);
  return l;
}
Layer layer_of(const args::recurrent_layer& a) {
  const Layer l = describe_layer(a.gates(), a.weight(), a.h0(), a.sizes(), a.cell(), a.reverse());
  const int64_t state[] = {l.steps.batch, l.hidden}, bias[] = {l.gates * l.hidden};
  expect_recurrent(a.gates(), "gates", l.shape(l.gates * l.hidden), a.gates().dtype);
  STRATA_CHECK(l.lstm() == a.has_c0(), Runtime, "recurrent layer: an LSTM has cells, other layers have none");
  if (a.has_c0()) expect_recurrent(*a.c0(), "a cell", state, a.gates().dtype);
  if (a.has_bias()) expect_recurrent(*a.bias(), "a bias", bias, a.gates().dtype);
  return l;
}
Layer layer_of(const args::recurrent_layer_backward& a) {
  return describe_layer(a.grad(), a.weight(), a.h0(), a.sizes(), a.cell(), a.reverse());
}

// --- one kernel, on devices ------------------------------------------------------------------------------------------

const char* plan_layer(const Call& c, Plan& plan) {
  const args::recurrent_layer a(c);
  if (compute_type(a.gates().dtype) != DType::F32) return "it computes in float32 only";
  return cuda::plan_recurrent(layer_of(a).device_sizes(), false, a.gates().device, plan);
}
const char* plan_layer_backward(const Call& c, Plan& plan) {
  const args::recurrent_layer_backward a(c);
  if (compute_type(a.grad().dtype) != DType::F32) return "it computes in float32 only";
  return cuda::plan_recurrent(layer_of(a).device_sizes(), true, a.grad().device, plan);
}

void run_layer_in_one(const Call& c, const Plan& plan) {
  const args::recurrent_layer a(c);
  const DType type = DType::F32;
  const Layer l = layer_of(a);
  const bool keep = *a.keep();
  const Tensor gates = dense(a.share_gates(), type), weight = dense(a.share_weight(), type),
               h0 = dense(a.share_h0(), type), c0 = dense(a.share_c0(), type), bias = dense(a.share_bias(), type);
  RecurrentOuts out(c);
  cuda::run_recurrent(
    {
      .sizes = l.device_sizes(),
      .gates = *gates,
      .h0 = *h0,
      .weight = *weight,
      .output = out[0],
      .bias = bias.get(),
      .c0 = c0.get(),
      .last = &out[1],
      .last_cell = l.lstm() ? &out[2] : nullptr,
      .cells = keep && l.lstm() ? &out[3] : nullptr,
      .kept = keep && kept_of(l.cell) ? &out[4] : nullptr,
    },
    c, plan);
  out.convert();
}
void run_layer_backward_in_one(const Call& c, const Plan& plan) {
  const args::recurrent_layer_backward a(c);
  const DType type = DType::F32;
  const Layer l = layer_of(a);
  const Tensor grad = dense(a.share_grad(), type), last = dense(a.share_grad_last(), type),
               grad_cell = dense(a.share_grad_cell(), type), kept = dense(a.share_kept(), type),
               cells = dense(a.share_cells(), type), states = dense(a.share_states(), type),
               weight = dense(a.share_weight(), type), before = dense(l.lstm() ? a.share_c0() : a.share_h0(), type);
  RecurrentOuts out(c);
  cuda::run_recurrent_backward(
    {
      .sizes = l.device_sizes(),
      .grad = *grad,
      .weight = *weight,
      .before = *before,
      .grad_gates = out[0],
      .grad_h0 = out[2],
      .grad_last = last.get(),
      .grad_cell = grad_cell.get(),
      .states = states.get(),
      .cells = cells.get(),
      .kept = kept.get(),
      .grad_products = l.gru() ? &out[1] : nullptr,
      .grad_c0 = l.lstm() ? &out[3] : nullptr,
    },
    c, plan);
  out.convert();
}

// --- step by step ----------------------------------------------------------------------------------------------------

// The rows of step t.
Tensor at_step(const Tensor& rows, const RecurrentSteps& steps, int64_t t) {
  return steps.packed() ? narrow(rows, 0, steps.offset(t), steps.running(t)) : select(rows, 0, t);
}

// A copy in the compute type, whose first rows are updated at each step.
Tensor running_copy(const Tensor& t, DType type) { return t ? clone(to(alias(*t), type)) : Tensor(); }
void update_rows(const Tensor& to, int64_t count, const Tensor& from) { copy_values(*narrow(to, 0, 0, count), *from); }

void run_layer_by_steps(const Call& c) {
  const args::recurrent_layer a(c);
  const Layer l = layer_of(a);
  const DType type = compute_type(c.out().dtype());
  const Tensor gates = dense(a.share_gates(), type), weight = transpose(dense(a.share_weight(), type), 0, 1),
               bias = dense(a.share_bias(), type);
  const bool keep = *a.keep() && kept_of(l.cell);
  const Tensor h = running_copy(a.share_h0(), type), cell = running_copy(a.share_c0(), type);
  const auto put = [&](uint32_t o, int64_t t, const Tensor& value) {
    copy_values(*at_step(c.outs[o], l.steps, t), *value);
  };
  for (int64_t i = 0; i < l.steps.count; ++i) {
    const int64_t t = l.steps.time(i), n = l.steps.running(t);
    const Tensor x = at_step(gates, l.steps, t), before = narrow(h, 0, 0, n);
    const Tensor r = bias ? addmm(bias, before, weight) : mm(before, weight);
    const auto part = [&](const Tensor& of, int64_t k) { return narrow(of, 1, k * l.hidden, l.hidden); };
    Tensor result;
    if (l.lstm()) {
      const Tensor all = add(x, r), in = sigmoid(part(all, 0)), forget = sigmoid(part(all, 1)),
                   next = tanh(part(all, 2)), out = sigmoid(part(all, 3)),
                   now = add(mul(forget, narrow(cell, 0, 0, n)), mul(in, next));
      result = mul(out, tanh(now));
      update_rows(cell, n, now);
      if (keep) {
        put(3, t, now);
        put(4, t, cat({in, forget, next, out}, 1));
      }
    } else if (l.gru()) {
      const Tensor both = sigmoid(add(narrow(x, 1, 0, 2 * l.hidden), narrow(r, 1, 0, 2 * l.hidden))),
                   reset = part(both, 0), update = part(both, 1), product = part(r, 2),
                   fresh = tanh(add(part(x, 2), mul(reset, product)));
      result = add(fresh, mul(update, sub(before, fresh)));
      if (keep) put(4, t, cat({reset, update, fresh, product}, 1));
    } else {
      result = l.cell == RecurrentCell::Relu ? relu(add(x, r)) : tanh(add(x, r));
    }
    put(0, t, result);
    update_rows(h, n, result);
  }
  copy_values(*c.outs[1], *h);
  if (cell) copy_values(*c.outs[2], *cell);
}

// The states or cells before step i: those of the step before, and the first ones of sequences that begin.
Tensor before_step(const Tensor& all, const Tensor& first, const RecurrentSteps& steps, int64_t i) {
  const int64_t n = steps.running(steps.time(i));
  if (i == 0) return narrow(first, 0, 0, n);
  const int64_t t = steps.time(i - 1), running = std::min(n, steps.running(t));
  const Tensor rows = at_step(all, steps, t);
  if (running == n) return narrow(rows, 0, 0, n);
  return cat({rows, narrow(first, 0, running, n - running)});
}

void run_layer_backward_by_steps(const Call& c) {
  const args::recurrent_layer_backward a(c);
  const Layer l = layer_of(a);
  const DType type = compute_type(c.out().dtype());
  const Tensor grad = dense(a.share_grad(), type), kept = dense(a.share_kept(), type),
               cells = dense(a.share_cells(), type), states = dense(a.share_states(), type),
               h0 = dense(a.share_h0(), type), c0 = dense(a.share_c0(), type), weight = dense(a.share_weight(), type);
  const auto begin = [&](const Tensor& given) {
    return given ? running_copy(given, type) : zeros({l.steps.batch, l.hidden}, type);
  };
  const Tensor gh = begin(a.share_grad_last()), gc = begin(a.share_grad_cell());
  const auto slope = [](const Tensor& sigmoid) { return mul(sigmoid, rsub(sigmoid, 1.0)); };
  const auto tanh_slope = [](const Tensor& tanh) { return rsub(square(tanh), 1.0); };
  for (int64_t i = l.steps.count; i-- > 0;) {
    const int64_t t = l.steps.time(i), n = l.steps.running(t);
    const auto gate = [&](int64_t k) { return narrow(at_step(kept, l.steps, t), 1, k * l.hidden, l.hidden); };
    const Tensor g = add(at_step(grad, l.steps, t), narrow(gh, 0, 0, n));
    Tensor gates, products;
    if (l.lstm()) {
      const Tensor squashed = tanh(at_step(cells, l.steps, t)), before = before_step(cells, c0, l.steps, i),
                   cell = add(narrow(gc, 0, 0, n), mul(mul(g, gate(3)), tanh_slope(squashed)));
      gates = products = cat({mul(mul(cell, gate(2)), slope(gate(0))), mul(mul(cell, before), slope(gate(1))),
                              mul(mul(cell, gate(0)), tanh_slope(gate(2))), mul(mul(g, squashed), slope(gate(3)))},
                             1);
      update_rows(gc, n, mul(cell, gate(1)));
      update_rows(gh, n, mm(products, weight));
    } else if (l.gru()) {
      const Tensor reset = gate(0), update = gate(1), fresh = gate(2), before = before_step(states, h0, l.steps, i),
                   grad_fresh = mul(mul(g, rsub(update, 1.0)), tanh_slope(fresh)),
                   grad_reset = mul(mul(grad_fresh, gate(3)), slope(reset)),
                   grad_update = mul(mul(g, sub(before, fresh)), slope(update));
      gates = cat({grad_reset, grad_update, grad_fresh}, 1);
      products = cat({grad_reset, grad_update, mul(grad_fresh, reset)}, 1);
      copy_values(*at_step(c.outs[1], l.steps, t), *products);
      update_rows(gh, n, add(mm(products, weight), mul(g, update)));
    } else {
      const Tensor result = at_step(states, l.steps, t);
      gates = l.cell == RecurrentCell::Relu ? mul(g, gt(result, 0.0)) : mul(g, tanh_slope(result));
      update_rows(gh, n, mm(gates, weight));
    }
    copy_values(*at_step(c.outs[0], l.steps, t), *gates);
  }
  copy_values(*c.outs[2], *gh);
  if (l.lstm()) copy_values(*c.outs[3], *gc);
}

// --- gradients -------------------------------------------------------------------------------------------------------

RecurrentSteps steps_of(const grads::recurrent_layer& a) {
  const IntList sizes = a.sizes();
  const Shape gates = a.shape_of_gates();
  const bool packed = sizes.size > 0;
  return {packed ? static_cast<int64_t>(sizes.size) : gates[0], a.shape_of_h0()[0], Shape(sizes.data, sizes.size),
          a.reverse()};
}

// The state before each row of the output.
Tensor states_before(const Tensor& states, const Tensor& h0, const RecurrentSteps& steps) {
  if (!steps.packed()) {
    const Tensor first = unsqueeze(h0, 0);
    const int64_t kept = steps.count - 1;
    return reshape(steps.reverse ? cat({narrow(states, 0, 1, kept), first}) : cat({first, narrow(states, 0, 0, kept)}),
                   {steps.rows(), h0.size(1)});
  }
  const Tensor index = empty({steps.rows()}, DType::I64, staging_device(h0));
  if (!index.is_meta()) {
    auto* to = index.data<int64_t>();
    for (int64_t t = 0; t < steps.count; ++t) {
      const int64_t past = steps.reverse ? t + 1 : t - 1, begin = steps.offset(t);
      const int64_t running = past < 0 || past == steps.count ? 0 : steps.running(past);
      for (int64_t row = 0; row < steps.running(t); ++row)
        to[begin + row] = row < running ? steps.batch + steps.offset(past) + row : row;
    }
  }
  return index_select(cat({h0, states}), 0, placed(index));
}

Grads grad_layer(const GradContext& c, const Tensor& g) {
  const grads::recurrent_layer a(c);
  const auto cell = static_cast<RecurrentCell>(a.cell());
  const bool keeps = kept_of(cell) > 0, lstm = cell == RecurrentCell::Lstm, gru = cell == RecurrentCell::Gru;
  const RecurrentSteps steps = steps_of(a);
  const Tensor states = c.result(0), h0 = a.h0();
  const auto all = _recurrent_layer_backward(g, c.grad(1), lstm ? c.grad(2) : Tensor(), keeps ? c.result(4) : Tensor(),
                                             lstm ? c.result(3) : Tensor(), states, h0, lstm ? a.c0() : Tensor(),
                                             a.weight(), a.sizes(), a.cell(), a.reverse());
  grads::recurrent_layer::Result out;
  out.gates = all[0];
  out.h0 = all[2];
  if (lstm) out.c0 = all[3];
  const int64_t columns = a.shape_of_weight()[0];
  const Tensor products = reshape(gru ? all[1] : all[0], {steps.rows(), columns});
  if (a.needs_weight()) out.weight = mm(transpose(products, 0, 1), states_before(states, h0, steps));
  if (a.has_bias() && a.needs_bias()) out.bias = sum(products, {0});
  return out;
}

// The layer composed of other ops, whose gradients can be differentiated again.
Grads graph_grads_of_layer(const GradContext& c, const Tensor& g) {
  const grads::recurrent_layer a(c);
  const auto cell = static_cast<RecurrentCell>(a.cell());
  const bool lstm = cell == RecurrentCell::Lstm;
  const Tensor bias = a.has_bias() ? a.bias() : Tensor();
  const RecurrentResult r =
    compose_recurrent(cell, a.gates(), {a.h0(), lstm ? a.c0() : Tensor()}, a.weight(), bias, {}, steps_of(a));
  std::vector<Tensor> ends{r.output, r.h}, seeds{g, c.grad_or_zeros(1)}, inputs;
  if (lstm) {
    ends.push_back(r.c);
    seeds.push_back(c.grad_or_zeros(2));
  }
  grads::recurrent_layer::Result out;
  std::vector<Tensor*> wanted;
  const auto want = [&](bool needed, const Tensor& input, Tensor& gradient) {
    if (!needed) return;
    inputs.push_back(input);
    wanted.push_back(&gradient);
  };
  want(a.needs_gates(), a.gates(), out.gates);
  want(a.needs_h0(), a.h0(), out.h0);
  if (lstm) want(a.needs_c0(), a.c0(), out.c0);
  want(a.needs_weight(), a.weight(), out.weight);
  if (bias) want(a.needs_bias(), bias, out.bias);
  const std::vector<Tensor> all = autograd::grad(ends, inputs, seeds, true, true, true);
  for (size_t k = 0; k < all.size(); ++k) *wanted[k] = all[k];
  return out;
}
}  // namespace

STRATA_OP(recurrent_layer,
          "_recurrent_layer(Tensor gates, Tensor h0, Tensor? c0, Tensor weight, Tensor? bias, int[] sizes, int cell, "
          "bool reverse, bool? keep=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
  .keeps_for_grad("keep")
  .doc(
    "One layer in one direction; cell is 0 (tanh), 1 (relu), 2 (LSTM) or 3 (GRU). gates is the input's part with its "
    "biases: [steps, batch, gates * hidden], or [rows, gates * hidden] if `sizes` has the number of sequences at each "
    "step. bias is added to the products with the state. Returns all states, the last states and cells, and, with "
    "`keep` for the gradient, all cells and activated gates.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::recurrent_layer& c) {
    const Layer l = layer_of(c);
    const bool keep = *c.keep();
    const int64_t state[] = {l.steps.batch, l.hidden}, none[] = {0};
    const std::vector<int64_t> all = l.shape(l.hidden), kept = l.shape(kept_of(l.cell) * l.hidden);
    for (uint32_t o = 0; o < 5; ++o) c.out(o)->dtype = c.gates().dtype;
    c.out()->set_shape(all);
    c.out(1)->set_shape(state);
    c.out(2)->set_shape(l.lstm() ? Shape(state) : Shape(none));
    c.out(3)->set_shape(keep && l.lstm() ? Shape(all) : Shape(none));
    c.out(4)->set_shape(keep && kept_of(l.cell) ? Shape(kept) : Shape(none));
  })
  .kernel("reference", run_layer_by_steps)
  .planned(Backend::Cuda, "persistent", plan_layer, run_layer_in_one)
  .cuda("steps", run_layer_by_steps)
  .saves({"gates", "h0", "c0", "weight", "bias"})
  .saves_result({0, 3, 4})
  .no_grad_outputs({3, 4})
  .grad(grad_layer)
  .grad_for_graph(graph_grads_of_layer)
  .samples({"f(3,2,5), f(2,5), None, f(5,5), None, [], 0, False", "f(3,2,5), f(2,5), None, f(5,5), f(5), [], 1, True",
            "f(6,20), f(3,5), f(3,5), f(20,5), None, [3,2,1], 2, True",
            "f(6,15), f(3,5), None, f(15,5), f(15), [3,2,1], 3, False",
            "f(2,3,15), f(3,5), None, f(15,5), f(15), [], 3, True"})
  .error("f(6,15), f(3,5), None, f(15,5), f(15), [3,2,2], 3, False", ErrorKind::Runtime, "add up to 7")
  .error("f(6,15), f(3,5), None, f(15,5), f(15), [1,2,3], 3, False", ErrorKind::Runtime, "must be positive, fall")
  .error("f(2,3,15), f(3,5), None, f(15,5), f(15), [], 7, False", ErrorKind::Value, "cell is 7");

STRATA_OP(recurrent_layer_backward,
          "_recurrent_layer_backward(Tensor grad, Tensor? grad_last, Tensor? grad_cell, Tensor? kept, Tensor? cells, "
          "Tensor states, Tensor h0, Tensor? c0, Tensor weight, int[] sizes, int cell, bool reverse) -> (Tensor, "
          "Tensor, Tensor, Tensor)")
  .doc(
    "Gradients of _recurrent_layer: of the gates, of the products with the state if they differ (GRU), of the first "
    "state and of the first cell.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::recurrent_layer_backward& c) {
    const Layer l = layer_of(c);
    const DType type = c.grad().dtype;
    const int64_t state[] = {l.steps.batch, l.hidden}, none[] = {0};
    const std::vector<int64_t> gates = l.shape(l.gates * l.hidden), all = l.shape(l.hidden),
                               kept = l.shape(kept_of(l.cell) * l.hidden);
    expect_recurrent(c.grad(), "a gradient", all, type);
    expect_recurrent(c.states(), "states", all, type);
    STRATA_CHECK(c.has_kept() == (kept_of(l.cell) > 0) && c.has_cells() == l.lstm() && c.has_c0() == l.lstm(), Runtime,
                 "recurrent layer: the gradient needs the activated gates of an LSTM or GRU, and the cells of an LSTM");
    if (c.has_kept()) expect_recurrent(*c.kept(), "activated gates", kept, type);
    if (c.has_cells()) expect_recurrent(*c.cells(), "cells", all, type);
    for (const TensorImpl* t : {c.c0(), c.grad_last(), c.grad_cell()})
      if (t) expect_recurrent(*t, "a state", state, type);
    for (uint32_t o = 0; o < 4; ++o) c.out(o)->dtype = type;
    c.out()->set_shape(gates);
    c.out(1)->set_shape(l.gru() ? Shape(gates) : Shape(none));
    c.out(2)->set_shape(state);
    c.out(3)->set_shape(l.lstm() ? Shape(state) : Shape(none));
  })
  .kernel("reference", run_layer_backward_by_steps)
  .planned(Backend::Cuda, "persistent", plan_layer_backward, run_layer_backward_in_one)
  .cuda("steps", run_layer_backward_by_steps)
  .samples({"f(3,2,5), None, None, None, None, f(3,2,5), f(2,5), None, f(5,5), [], 0, False",
            "f(6,5), f(3,5), f(3,5), z(6,20), f(6,5), f(6,5), f(3,5), f(3,5), f(20,5), [3,2,1], 2, True",
            "f(6,5), f(3,5), None, z(6,20), None, f(6,5), f(3,5), None, f(15,5), [3,2,1], 3, False"});

}  // namespace strata
