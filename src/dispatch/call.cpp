// One pipeline for all ops and both languages: trace, infer, allocate, choose, run, record.
#include <bit>

#include "autograd/autograd.h"
#include "base/trace.h"
#include "dispatch/devices.h"
#include "dispatch/memory.h"
#include "record/op.h"

namespace strata {
namespace {

[[gnu::cold]] void note(const OpRecord& op, const Kernel& k, const char* reason) {
  thread_state.explain->lines.push_back({&op, &k, reason});
}

[[noreturn, gnu::cold]] void no_kernel(const Call& c, const std::vector<Kernel>& kernels) {
  std::string what = fmt::format("{}: no kernel fits these arguments", c.op.name);
  for (const Kernel& k : kernels) what += fmt::format("\n  {}: {}", k.name, k.when ? k.when(c) : "ready");
  fail(ErrorKind::NotImplemented, what);
}

const Kernel& choose_from(const std::vector<Kernel>& kernels, const Call& c) {
  for (const Kernel& k : kernels) {
    const char* reason = k.when ? k.when(c) : nullptr;
    if (thread_state.explain) [[unlikely]]
      note(c.op, k, reason);
    if (!reason) return k;
  }
  no_kernel(c, kernels);
}

const Kernel& choose(const Call& c) {
  if (thread_state.reference_only) [[unlikely]]
    return c.op.kernels.back();
  return choose_from(c.op.kernels, c);
}

[[gnu::cold]] std::string describe(const Call& c) {
  std::string s = "->";
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    s += fmt::format(" {}{}", name_of(c.outs[o].dtype()), to_string(c.outs[o].shape()));
  return s;
}

// On a device: its kernels, also where the CPU's reference is asked for.
void run_on_device(const Call& c, Device device) {
  if (c.op.cuda_kernels.empty()) refuse_device(c.op, device);
  const Kernel& k = choose_from(c.op.cuda_kernels, c);
  trace::Span span(trace::Layer::Kernel, k.name);
  if (span.active()) [[unlikely]]
    span.detail(describe(c));
  Scoped running(thread_state.op, &c.op);
  k.run(c);
}

void run_kernel(const Call& c) {
  if (devices_in_use) [[unlikely]]
    if (const Device device = device_of_run(c); device.type != DeviceType::Cpu) return run_on_device(c, device);
  const Kernel& k = choose(c);
  trace::Span span(trace::Layer::Kernel, k.name);
  if (span.active()) [[unlikely]]
    span.detail(describe(c));
  k.run(c);
}

[[gnu::cold]] void check_anomaly(const Call& c) {
  static const OpRecord &isnan = find_op("isnan"), &any = find_op("any");
  if (&c.op == &isnan || &c.op == &any) return;
  const auto bad = [&](const TensorImpl* t) {
    return t && t->data && is_floating(t->dtype) &&
           call(any, Args(call(isnan, Args(Value(const_cast<TensorImpl*>(t)))))).item<bool>();
  };
  for (const Value& v : c.args)
    if (v.tag == Tag::Tensor && bad(v.tensor)) return;  // not the first
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    if (bad(c.outs[o].get()))
      fail(ErrorKind::Runtime, fmt::format("{} returned nan values from inputs that have none.\n{}", c.op.name,
                                           autograd::current_line ? autograd::current_line() : std::string()));
}

[[noreturn, gnu::cold]] void refuse_undefined(const OpRecord& op, uint32_t i, std::optional<size_t> element) {
  const std::string where = element ? fmt::format("element {} of ", *element) : "";
  fail(ErrorKind::Type, fmt::format("{}: {}argument '{}' is an undefined tensor; expected a tensor\n  {}", op.name,
                                    where, op.params[i].name, op.schema));
}
[[gnu::noinline]] void check_each(const OpRecord& op, const Args& args) {
  for (uint32_t rest = op.needed; rest; rest &= rest - 1) {
    const auto i = static_cast<uint32_t>(std::countr_zero(rest));
    if (i >= args.size || !args[i]) refuse_undefined(op, i, std::nullopt);
    if (args[i].tag != Tag::Tensors || op.params[i].optional_items) continue;
    const TensorList list = args[i].tensor_list();
    for (size_t k = 0; k < list.size(); ++k)
      if (!list[k]) refuse_undefined(op, i, k);
  }
  if (op.written) check_written(op, args);
}
// What every call is checked for, before anything looks at the arguments: tensors that must be given are, and memory that the op
// changes may be changed. Most ops take one or two tensors and change nothing.
inline void check_args(const OpRecord& op, const Args& args) {
  const auto given = [&](uint32_t i) { return i < args.size && args[i].tag == Tag::Tensor; };
  const bool usual = op.needed == 0 || (op.needed == 1 && given(0)) || (op.needed == 3 && given(0) && given(1));
  if (!usual || op.written) [[unlikely]]
    check_each(op, args);
}

// Fresh tensor objects with dtype and shape, no memory yet.
void infer(const Call& c) {
  for (uint32_t o = 0; o < c.op.outputs; ++o) {
    c.outs[o] = Ref<TensorImpl>::adopt(TensorImpl::make());
    c.outs[o]->numel = -1;
  }
  if (devices_in_use) [[unlikely]] {
    const Device device = device_of_call(c.op, c.args);
    for (uint32_t o = 0; o < c.op.outputs; ++o) c.outs[o]->device = device;
  }
  c.op.infer_fn(c);
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    if (c.outs[o]->numel < 0) c.outs[o]->set_contiguous_strides();  // the shape rule had no opinion on the layout
}

void allocate(const Call& c) {
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    if (!c.outs[o]->storage) c.outs[o]->allocate();
}

void run_view(const OpRecord& op, const Args& args, Tensor* outs) {
  Results results{outs, nullptr};
  op.view_fn(args, results);
  TensorImpl& from = args.tensor(0);
  if (outs[0]->storage.get() != from.storage.get()) return;
  outs[0]->base = from.base ? from.base : Ref<TensorImpl>::share(&from);
  outs[0]->rebases = outs[0]->base->rebases;
}

// What a composite makes from nothing goes to the device of its tensors.
void compose(const OpRecord& op, const Args& args, Results& results) {
  if (!devices_in_use) [[likely]]
    return op.composite_fn(args, results);
  if (!op.cuda_kernels.empty()) return compose_on_host(op, args, results);
  const OnDeviceOf scope(args);
  op.composite_fn(args, results);
}

bool recording(const OpRecord& op, const Args& args) {
  return thread_state.grad_mode && op.grad_fn && wants_grad(args);
}

}  // namespace

void call_into(const OpRecord& op, const Args& args, Tensor* outs) {
  trace::Span span(trace::Layer::Op, op.name.c_str());
  check_args(op, args);
  if (op.composite_fn) {
    Results results{outs, nullptr};
    return compose(op, args, results);
  }
  const Call c{op, args, outs};
  if (op.view_fn) {
    run_view(op, args, outs);
  } else {
    infer(c);
    if (devices_in_use) [[unlikely]] {  // the allocator remembers whose memory it is
      Scoped running(thread_state.op, &op);
      allocate(c);
    } else {
      allocate(c);
    }
    run_kernel(c);
  }
  if (recording(op, args)) record_node(op, args, outs, op.outputs);
  if (thread_state.inference_mode) [[unlikely]]
    for (uint32_t o = 0; o < op.outputs; ++o) outs[o]->inference = true;
  if (thread_state.anomaly_mode) [[unlikely]]
    check_anomaly(c);
}

Tensor call(const OpRecord& op, const Args& args) {
  Tensor out;
  call_into(op, args, &out);
  return out;
}

std::vector<Tensor> call_list(const OpRecord& op, const Args& args) {
  trace::Span span(trace::Layer::Op, op.name.c_str());
  check_args(op, args);
  std::vector<Tensor> list;
  Results results{nullptr, &list};
  compose(op, args, results);
  return list;
}

// Writes `value` into `target`, converting; both have the same shape. No recording.
static void store(const Tensor& value, TensorImpl& target) {
  static const OpRecord& copy = find_op("copy");
  Tensor out = Ref<TensorImpl>::share(&target);
  run_kernel(Call{copy, Args(out, value, false), &out});
}

Tensor call_inplace(const OpRecord& op, const Args& args) {
  trace::Span span(trace::Layer::Op, op.name.c_str());
  check_args(op, args);
  STRATA_CHECK(op.outputs == 1 && !op.view_fn && args.size && args.is_tensor(0), Type,
               "{}: this op has no in-place form for these arguments", op.name);
  TensorImpl& self = args.tensor(0);
  check_writable(self, op.name.c_str());
  const bool grad_mode = thread_state.grad_mode;
  if (grad_mode && self.requires_grad) {
    STRATA_CHECK(self.history || stale_view(self), Runtime,
                 "a leaf Variable that requires grad is being used in an in-place operation ({}_); use no_grad() or "
                 "the out-of-place form",
                 op.name);
  }
  if (grad_mode && self.base && self.base->requires_grad)
    STRATA_CHECK(self.base->history, Runtime,
                 "a view of a leaf Variable that requires grad is being used in an in-place operation ({}_); use "
                 "no_grad() or the out-of-place form",
                 op.name);

  static const OpRecord& copy = find_op("copy");
  if (op.composite_fn) {
    Tensor value;
    Results results{&value, nullptr};
    compose(op, args, results);
    check_fits(value, self, op.name.c_str());
    call_inplace(copy, Args(args[0], value, false));
    return args.share(0);
  }

  // With recording on, the tape must see the old value: the gradient of an input that is about to be overwritten needs a copy.
  const bool record = recording(op, args);
  Args before = args;
  Tensor old;
  std::vector<Tensor> copies;
  if (record) {
    edge_to(self);  // renews the history of a view
    const bool saved = (op.saved_inputs & 1) &&
                       !(op.cross_saved && !(args.size > 1 && args.is_tensor(1) && args.tensor(1).requires_grad));
    old = saved ? clone_values(self) : shape_only(self);
    if (!saved) old->storage = self.storage, old->data = self.data;
    old->requires_grad = self.requires_grad, old->history = self.history, old->output = self.output;
    before[0] = Value(old);
    for (uint32_t i = 1; i < args.size; ++i)  // x.mul_(x), and views of x: their old values are needed too
      if (args.is_tensor(i) && op.saved_inputs >> i & 1 && args.tensor(i).storage.get() == self.storage.get()) {
        TensorImpl& other = args.tensor(i);
        edge_to(other);
        Tensor copy = clone_values(other);
        copy->requires_grad = other.requires_grad, copy->history = other.history, copy->output = other.output;
        before[i] = Value(copies.emplace_back(std::move(copy)));
      }
  }
  Tensor out;
  const Call plan{op, args, &out};
  infer(plan);
  check_fits(out, self, op.name.c_str());
  // Elementwise kernels may write over an input that is the very same view; anything else goes through a temporary.
  const bool direct =
    (op.broadcasts || op.updates_input) && out.dtype() == self.dtype && !overlaps_partly(args, nullptr, op.broadcasts);
  if (direct) {
    out = Ref<TensorImpl>::share(&self);
    run_kernel(Call{op, args, &out});
  } else {
    out->allocate();
    run_kernel(plan);
    store(out, self);
  }
  self.storage->bump();
  if (record) {
    Tensor value = alias(self);
    record_node(op, before, &value, 1);
    rebase(self, value);
  }
  if (thread_state.anomaly_mode) [[unlikely]]
    check_anomaly(Call{op, before, &out});
  return args.share(0);
}

void call_out(const OpRecord& op, const Args& args, Tensor* outs) {
  check_args(op, args);
  for (uint32_t o = 0; o < op.outputs; ++o)
    STRATA_CHECK(outs[o], Type, "{}(): out= number {} is an undefined tensor; expected a tensor", op.name, o);
  bool recorded = thread_state.grad_mode && wants_grad(args);
  for (uint32_t o = 0; o < op.outputs; ++o) recorded |= thread_state.grad_mode && outs[o] && outs[o].requires_grad();
  STRATA_CHECK(!recorded, Runtime,
               "{}(): functions with out=... arguments don't support automatic differentiation, but one of the "
               "arguments requires grad",
               op.name);
  std::vector<Tensor> values(op.outputs);
  const bool plain = !op.composite_fn && !op.view_fn && op.outputs == 1;
  if (plain && op.broadcasts) {
    const Call plan{op, args, values.data()};
    infer(plan);
    const TensorImpl &want = *values[0], &given = *outs[0];
    if (want.same_shape(given) && want.dtype == given.dtype && given.storage && !overlaps_partly(args, &given)) {
      check_writable(*outs[0], op.name.c_str());
      run_kernel(Call{op, args, outs});
      return outs[0]->storage->bump();
    }
  }
  call_into(op, args, values.data());
  for (uint32_t o = 0; o < op.outputs; ++o) {
    TensorImpl& given = *outs[o];
    check_cast(values[o].dtype(), given.dtype, op.name.c_str());
    if (!values[o]->same_shape(given)) resize_for(given, values[o].shape());
    check_writable(given, op.name.c_str());
    store(values[o], given);
    given.storage->bump();
  }
}

}  // namespace strata
