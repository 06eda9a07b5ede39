// A whole LSTM layer as one op: the product with the state and the gates of all steps in one kernel.
#include "strata/args/nn/lstm_layer.h"
#include "autograd/autograd.h"
#include "cpu/nn/lstm.h"
#include "cpu/packed.h"
#include "cpu/staging.h"
#include "cuda/nn/recurrent.h"
#include "ops/device_inputs.h"
#include "ops/nn/recurrent.h"
#include "ops/transfer.h"

namespace strata {
namespace {
using cpu::Lstm;

Lstm sizes_of(const TensorImpl& gates, const TensorImpl& c0, const TensorImpl& weight, bool reverse) {
  STRATA_CHECK(gates.ndim == 3 && gates.shape[0] > 0 && weight.ndim == 2, Runtime,
               "lstm: expected gates of one or more steps [steps, batch, 4 * hidden] and a weight [4 * hidden, "
               "hidden], got {} and {}",
               to_string(gates.sizes()), to_string(weight.sizes()));
  const Lstm s{gates.shape[0], gates.shape[1], weight.shape[1], reverse};
  const int64_t wide[] = {s.steps, s.batch, 4 * s.hidden}, state[] = {s.batch, s.hidden},
                square[] = {4 * s.hidden, s.hidden};
  expect_recurrent(gates, "gates", wide, gates.dtype);
  expect_recurrent(c0, "a state", state, gates.dtype);
  expect_recurrent(weight, "a weight", square, gates.dtype);
  return s;
}

template <class Run> void run_lstm_forward(const Call& c, Run run) {
  const args::lstm_layer a(c);
  const Lstm s = sizes_of(a.gates(), a.c0(), a.weight(), a.reverse());
  const bool keep = *a.keep();
  cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> gates(a.gates()), h0(a.h0()), c0(a.c0()), weight(a.weight());
    const cpu::Out<T> output(c.outs[0]), last(c.outs[1]), cells(c.outs[2]), activations(c.outs[3]);
    if (s.steps && s.batch && s.hidden)
      run(s, cpu::LstmForward<T>{gates, h0, c0, weight, nullptr, output, last, keep ? cells.get() : nullptr,
                                 keep ? activations.get() : nullptr});
    output.finish();
    last.finish();
    cells.finish();
    activations.finish();
  });
}
template <class Run> void run_lstm_backward(const Call& c, Run run) {
  const args::lstm_layer_backward a(c);
  const Lstm s = sizes_of(a.activations(), a.c0(), a.weight(), a.reverse());
  cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
    const cpu::In<T> grad(a.grad()), activations(a.activations()), cells(a.cells()), c0(a.c0()), weight(a.weight());
    const Tensor grad_c = a.has_grad_c() ? cpu::staged(*a.grad_c(), dtype_of<T>) : Tensor();
    const cpu::Out<T> gates(c.outs[0]), h0(c.outs[1]), first(c.outs[2]);
    if (s.steps && s.batch && s.hidden)
      run(s, cpu::LstmBackward<T>{grad, grad_c ? grad_c.template data<T>() : nullptr, activations, cells, c0, weight,
                                  gates, h0, first});
    gates.finish();
    h0.finish();
    first.finish();
  });
}

// On devices, in float32: all steps in one kernel.
cuda::RecurrentSizes device_sizes(const Lstm& s) {
  return {RecurrentCell::Lstm, s.steps, s.batch, s.hidden, s.reverse, {}};
}
const char* plan_persistent(const Call& c, Plan& plan) {
  const args::lstm_layer a(c);
  if (compute_type(a.gates().dtype) != DType::F32) return "it computes in float32 only";
  return cuda::plan_recurrent(device_sizes(sizes_of(a.gates(), a.c0(), a.weight(), a.reverse())), false,
                              a.gates().device, plan);
}
const char* plan_persistent_backward(const Call& c, Plan& plan) {
  const args::lstm_layer_backward a(c);
  if (compute_type(a.activations().dtype) != DType::F32) return "it computes in float32 only";
  return cuda::plan_recurrent(device_sizes(sizes_of(a.activations(), a.c0(), a.weight(), a.reverse())), true,
                              a.activations().device, plan);
}
void run_persistent(const Call& c, const Plan& plan) {
  const args::lstm_layer a(c);
  const DType type = DType::F32;
  const Tensor gates = dense(a.share_gates(), type), weight = dense(a.share_weight(), type),
               h0 = dense(a.share_h0(), type), c0 = dense(a.share_c0(), type);
  RecurrentOuts out(c);
  cuda::RecurrentForward f{
    .sizes = device_sizes(sizes_of(a.gates(), a.c0(), a.weight(), a.reverse())),
    .gates = *gates,
    .h0 = *h0,
    .weight = *weight,
    .output = out[0],
    .bias = nullptr,
    .c0 = c0.get(),
    .last = nullptr,
    .last_cell = &out[1],
    .cells = nullptr,
    .kept = nullptr,
  };
  if (*a.keep()) {
    f.cells = &out[2];
    f.kept = &out[3];
  }
  cuda::run_recurrent(f, c, plan);
  out.convert();
}
void run_persistent_backward(const Call& c, const Plan& plan) {
  const args::lstm_layer_backward a(c);
  const DType type = DType::F32;
  const Tensor grad = dense(a.share_grad(), type), grad_c = dense(a.share_grad_c(), type),
               activations = dense(a.share_activations(), type), cells = dense(a.share_cells(), type),
               c0 = dense(a.share_c0(), type), weight = dense(a.share_weight(), type);
  RecurrentOuts out(c);
  cuda::run_recurrent_backward(
    {
      .sizes = device_sizes(sizes_of(a.activations(), a.c0(), a.weight(), a.reverse())),
      .grad = *grad,
      .weight = *weight,
      .before = *c0,
      .grad_gates = out[0],
      .grad_h0 = out[1],
      .grad_last = nullptr,
      .grad_cell = grad_c.get(),
      .states = nullptr,
      .cells = cells.get(),
      .kept = activations.get(),
      .grad_products = nullptr,
      .grad_c0 = &out[2],
    },
    c, plan);
  out.convert();
}

// On devices: a product and a few pointwise ops per step, in the compute type.
void forward_on_device(const Call& c) {
  const args::lstm_layer a(c);
  const Lstm s = sizes_of(a.gates(), a.c0(), a.weight(), a.reverse());
  const DType type = compute_type(c.out().dtype());
  const Tensor gates = dense(a.share_gates(), type), weight = transpose(dense(a.share_weight(), type), 0, 1);
  const bool keep = *a.keep();
  const auto put = [&](uint32_t o, int64_t t, const Tensor& value) { copy_values(*select(c.outs[o], 0, t), *value); };
  Tensor h = dense(a.share_h0(), type), cell = dense(a.share_c0(), type);
  for (int64_t i = 0; i < s.steps; ++i) {
    const int64_t t = s.step_at(i);
    const Tensor all = add(select(gates, 0, t), mm(h, weight));
    const auto part = [&](int64_t k) { return narrow(all, 1, k * s.hidden, s.hidden); };
    const Tensor in = sigmoid(part(0)), forget = sigmoid(part(1)), next = tanh(part(2)), out = sigmoid(part(3));
    cell = add(mul(forget, cell), mul(in, next));
    h = mul(out, tanh(cell));
    put(0, t, h);
    if (keep) {
      put(2, t, cell);
      put(3, t, cat({in, forget, next, out}, 1));
    }
  }
  copy_values(*c.outs[1], *cell);
}
void lstm_backward_on_device(const Call& c) {  // grad, grad_c, activations, cells, c0, weight
  const args::lstm_layer_backward a(c);
  const Lstm s = sizes_of(a.activations(), a.c0(), a.weight(), a.reverse());
  const DType type = compute_type(c.out().dtype());
  const Tensor grad = dense(a.share_grad(), type), activations = dense(a.share_activations(), type),
               cells = dense(a.share_cells(), type), weight = dense(a.share_weight(), type),
               c0 = dense(a.share_c0(), type);
  Tensor gh, gc = dense(a.share_grad_c(), type);
  const auto slope = [](const Tensor& sigmoid) { return mul(sigmoid, rsub(sigmoid, 1.0)); };
  for (int64_t i = s.steps; i-- > 0;) {
    const int64_t t = s.step_at(i);
    const auto gate = [&](int64_t k) { return narrow(select(activations, 0, t), 1, k * s.hidden, s.hidden); };
    const Tensor before = i ? select(cells, 0, s.step_at(i - 1)) : c0, squashed = tanh(select(cells, 0, t));
    const Tensor g = gh ? add(select(grad, 0, t), gh) : select(grad, 0, t);
    const Tensor through = mul(mul(g, gate(3)), rsub(square(squashed), 1.0));
    gc = gc ? add(gc, through) : through;
    const Tensor gates = cat({mul(mul(gc, gate(2)), slope(gate(0))), mul(mul(gc, before), slope(gate(1))),
                              mul(mul(gc, gate(0)), rsub(square(gate(2)), 1.0)), mul(mul(g, squashed), slope(gate(3)))},
                             1);
    copy_values(*select(c.outs[0], 0, t), *gates);
    gh = mm(gates, weight);
    gc = mul(gc, gate(1));
  }
  copy_values(*c.outs[1], *gh);
  copy_values(*c.outs[2], *gc);
}

// The layer composed of other ops, whose gradients can be differentiated again.
Grads lstm_graph_grads(const GradContext& c, const Tensor& g) {
  const grads::lstm_layer a(c);
  const Tensor gates = a.gates(), weight = a.weight();
  const RecurrentSteps steps(gates.size(0), gates.size(1), {}, a.reverse());
  const RecurrentResult r = compose_recurrent(RecurrentCell::Lstm, gates, {a.h0(), a.c0()}, weight, {}, {}, steps);
  const Tensor ends[] = {r.output, r.c}, seeds[] = {g, c.grad_or_zeros(1)};
  std::vector<Tensor> inputs;
  if (a.needs_gates()) inputs.push_back(gates);
  if (a.needs_h0()) inputs.push_back(a.h0());
  if (a.needs_c0()) inputs.push_back(a.c0());
  if (a.needs_weight()) inputs.push_back(weight);
  const std::vector<Tensor> all = autograd::grad(ends, inputs, seeds, true, true, true);
  grads::lstm_layer::Result out;
  size_t k = 0;
  if (a.needs_gates()) out.gates = all[k++];
  if (a.needs_h0()) out.h0 = all[k++];
  if (a.needs_c0()) out.c0 = all[k++];
  if (a.needs_weight()) out.weight = all[k++];
  return out;
}

Grads grad_lstm(const GradContext& c, const Tensor& g) {
  const grads::lstm_layer a(c);
  grads::lstm_layer::Result out;
  const bool reverse = a.reverse();
  const auto all = _lstm_layer_backward(g, c.grad(1), c.result(3), c.result(2), a.c0(), a.weight(), reverse);
  out.gates = all[0];
  out.h0 = all[1];
  out.c0 = all[2];
  if (a.needs_weight()) {
    const Tensor h = c.result(0), first = unsqueeze(a.h0(), 0);
    const int64_t steps = h.size(0), hidden = h.size(2), rows = steps * h.size(1);
    const Tensor before = reverse ? cat({narrow(h, 0, 1, steps - 1), first}) : cat({first, narrow(h, 0, 0, steps - 1)});
    out.weight = mm(transpose(reshape(all[0], {rows, 4 * hidden}), 0, 1), reshape(before, {rows, hidden}));
  }
  return out;
}
}  // namespace

STRATA_OP(lstm_layer,
          "_lstm_layer(Tensor gates, Tensor h0, Tensor c0, Tensor weight, bool reverse, bool? keep=None) -> "
          "(Tensor, Tensor, Tensor, Tensor)")
  .keeps_for_grad("keep")
  .doc(
    "One layer in one direction. gates [steps, batch, 4 * hidden] is the input's part with all biases. Returns the "
    "states of all steps, the last cell and, with `keep` for the gradient, all cells and activated gates.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::lstm_layer& c) {
    const TensorImpl &gates = c.gates(), &h0 = c.h0(), &c0 = c.c0();
    const Lstm s = sizes_of(gates, c0, c.weight(), c.reverse());
    const int64_t state[] = {s.batch, s.hidden}, all[] = {s.steps, s.batch, s.hidden}, none[] = {0};
    expect_recurrent(h0, "a state", state, gates.dtype);
    const bool keep = *c.keep();
    for (uint32_t o = 0; o < 4; ++o) c.out(o)->dtype = gates.dtype;
    c.out()->set_shape(all);
    c.out(1)->set_shape(state);
    c.out(2)->set_shape(keep ? Shape(all) : Shape(none));
    c.out(3)->set_shape(keep ? gates.sizes() : Shape(none));
  })
  .kernel("simd",
          [](const args::lstm_layer& c) {
            run_lstm_forward(c, [&]<class T>(const Lstm& s, cpu::LstmForward<T> p) {
              const cpu::FormKey key = {static_cast<int64_t>(cpu::Form::LstmGates), s.hidden,
                                        static_cast<int64_t>(c.out().dtype())};
              Ref<Storage> packed;
              if (const TensorImpl& weight = c.weight(); weight.contiguous)
                packed = cpu::form_if_kept(weight, key, cpu::lstm_packed_bytes<T>(s), [&](std::byte* to) {
                  cpu::lstm_pack(s, p.weight, reinterpret_cast<T*>(to));
                });
              if (packed) p.packed = reinterpret_cast<const T*>(packed->data);
              cpu::lstm_forward(s, p);
            });
          })
  .kernel("reference",
          [](const Call& c) {
            run_lstm_forward(
              c, []<class T>(const Lstm& s, const cpu::LstmForward<T>& p) { cpu::lstm_forward_reference(s, p); });
          })
  .planned(Backend::Cuda, "persistent", plan_persistent, run_persistent)
  .cuda("steps", forward_on_device)
  .saves({"gates", "h0", "c0", "weight"})
  .saves_result({0, 2, 3})
  .no_grad_outputs({2, 3})
  .grad(grad_lstm)
  .grad_for_graph(lstm_graph_grads)
  .samples({"f(3,2,20), f(2,5), f(2,5), f(20,5), False, True", "f(2,3,8), f(3,2), f(3,2), f(8,2), True, True",
            "f(2,13,144), f(13,36), f(13,36), f(144,36), False, True", "f(2,0,8), f(0,2), f(0,2), f(8,2), False, True"})
  .error("f(3,2,20), f(2,5), f(2,4), f(20,5), False, True", ErrorKind::Runtime, "expected a state of shape [2, 5]")
  .error("f(3,2,16), f(2,5), f(2,5), f(20,5), False, True", ErrorKind::Runtime, "expected gates of shape [3, 2, 20]");

STRATA_OP(
  lstm_layer_backward,
  "_lstm_layer_backward(Tensor grad, Tensor? grad_c, Tensor activations, Tensor cells, Tensor c0, Tensor weight, "
  "bool reverse) -> (Tensor, Tensor, Tensor)")
  .doc("The gradients of the gates and of both first states of _lstm_layer.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::lstm_layer_backward& c) {
    const TensorImpl &activations = c.activations(), &c0 = c.c0();
    const Lstm s = sizes_of(activations, c0, c.weight(), c.reverse());
    const int64_t all[] = {s.steps, s.batch, s.hidden}, state[] = {s.batch, s.hidden};
    expect_recurrent(c.grad(), "a gradient", all, activations.dtype);
    expect_recurrent(c.cells(), "cells", all, activations.dtype);
    if (c.has_grad_c()) expect_recurrent(*c.grad_c(), "a gradient", state, activations.dtype);
    for (uint32_t o = 0; o < 3; ++o) c.out(o)->dtype = activations.dtype;
    c.out()->set_shape(activations.sizes());
    c.out(1)->set_shape(state);
    c.out(2)->set_shape(state);
  })
  .kernel("simd",
          [](const Call& c) {
            run_lstm_backward(c,
                              []<class T>(const Lstm& s, const cpu::LstmBackward<T>& p) { cpu::lstm_backward(s, p); });
          })
  .kernel("reference",
          [](const Call& c) {
            run_lstm_backward(
              c, []<class T>(const Lstm& s, const cpu::LstmBackward<T>& p) { cpu::lstm_backward_reference(s, p); });
          })
  .planned(Backend::Cuda, "persistent", plan_persistent_backward, run_persistent_backward)
  .cuda("steps", lstm_backward_on_device)
  .samples({"f(3,2,5), f(2,5), z(3,2,20), f(3,2,5), f(2,5), f(20,5), False",
            "f(2,13,36), None, z(2,13,144), f(2,13,36), f(13,36), f(144,36), True"});

}  // namespace strata
