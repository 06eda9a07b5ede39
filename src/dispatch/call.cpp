// One pipeline for all ops and both languages: trace, infer, allocate, choose, run, record.
#include <fmt/core.h>

#include <bit>
#include <cmath>

#include "autograd/autograd.h"
#include "autograd/watch.h"
#include "base/trace.h"
#include "dispatch/autocast.h"
#include "dispatch/choose.h"
#include "dispatch/complex.h"
#include "dispatch/deferred.h"
#include "dispatch/devices.h"
#include "dispatch/memory.h"
#include "dispatch/observer.h"
#include "record/formula.h"
#include "record/op.h"
#include "record/rows.h"
#include "tensor/memory_checks.h"

namespace strata {
namespace {

int64_t bytes_of(const TensorImpl& t) { return t.numel * static_cast<int64_t>(size_of(t.dtype)); }

// Facts of a kernel: its source and results, and the bytes that it reads and writes at least.
[[gnu::cold]] void describe(const Call& c, const Kernel& k, tracing::Span& span) {
  int64_t bytes = 0;
  for (uint32_t o = 0; o < c.op.outputs; ++o) {
    if (!c.outs[o]) continue;
    span.tensor(tracing::key::output, info_of(c.outs[o].dtype()).name, c.outs[o].shape());
    bytes += bytes_of(*c.outs[o]);
  }
  for (const Value& v : c.args)
    if (v.tag == Tag::Tensor) bytes += bytes_of(*v.tensor);
  span.fact(tracing::key::bytes, bytes);
  span.text(tracing::key::source, name_of(k.source));
}

// Facts of an op: its tensors.
[[gnu::cold]] void describe(const Args& args, tracing::Span& span) {
  for (const Value& v : args)
    if (v.tag == Tag::Tensor) span.tensor(tracing::key::input, info_of(v.tensor->dtype).name, v.tensor->sizes());
}

#ifndef NDEBUG
// Reports a kernel that wrote past the end of a tensor at once, not where the damage shows.
void check_bounds(const Call& c, const Kernel& k) {
  const auto check = [&](const TensorImpl* t, const char* what) {
    if (t && t->storage && t->device.type == DeviceType::Cpu && wrote_past_the_end(*t->storage))
      fail(ErrorKind::Internal, fmt::format("kernel {} of {} wrote past the end of {}", k.name, c.op.schema, what));
  };
  for (uint32_t o = 0; o < c.op.outputs; ++o) check(c.outs[o].get(), "its result");
  for (const Value& v : c.args)
    if (v.tag == Tag::Tensor) check(v.tensor, "an argument");
}
#endif

[[gnu::always_inline]] inline void run_traced(const Kernel& k, const Call& c, const Plan* plan) {
  tracing::Span span(tracing::Layer::Kernel, k.name);
  if (span.active()) [[unlikely]]
    describe(c, k, span);
  if (plan) run(k, c, *plan);
  else k.run(c);
#ifndef NDEBUG
  check_bounds(c, k);
#endif
}
[[gnu::noinline]] void choose_and_run(const Kernels& kernels, const Call& c, size_t rejected) {
  Plan plan;
  const Kernel& k = choose(kernels, c, plan, rejected);
  run_traced(k, c, &plan);
}
[[gnu::always_inline]] inline void run_on(const Kernels& kernels, const Call& c) {
  const Kernel& first = kernels.front();
  if (!first.run || is_watched(c)) [[unlikely]]
    return choose_and_run(kernels, c, 0);
  if (first.when && first.when(c)) return choose_and_run(kernels, c, 1);
  run_traced(first, c, nullptr);  // the usual case needs no plan
}

// Runs a device kernel, even if the CPU's reference is requested.
void run_on_device(const Call& c, Device device) {
  if (device.type == DeviceType::Meta) return run_on_meta(c);
  const Kernels& kernels = c.op.kernels(backend_of(device));
  if (kernels.empty()) refuse_device(c.op, device);
  const Scoped running(thread_state.op, &c.op);
  const OnDeviceOf there(device);
  if (!c.op.formulas && !c.op.complex_kernels && has_complex(c.args)) [[unlikely]]
    return run_by_parts(c, [](const Call& part) { run_on(part.op.kernels(Backend::Cuda), part); });
  run_on(kernels, c);
}

[[gnu::always_inline]] inline void run_here(const Call& c) {
  const Kernels& kernels = c.op.kernels(Backend::Cpu);
  if (c.op.by_parts && has_complex(c.args)) [[unlikely]]
    return run_by_parts(c, [](const Call& part) {
      if (thread_state.reference_only) part.op.kernels(Backend::Cpu).back().run(part);
      else run_on(part.op.kernels(Backend::Cpu), part);
    });
  if (thread_state.reference_only) [[unlikely]]
    return kernels.back().run(c);
  run_on(kernels, c);
}

// Used once devices are in use. Out of line: inlining it would cost registers in the CPU path.
[[gnu::noinline, gnu::cold]] void run_somewhere(const Call& c) {
  if (const Device device = device_of_run(c); device.type != DeviceType::Cpu) return run_on_device(c, device);
  const OnDeviceOf here{Device{}};  // a kernel made of ops stays on the CPU, whatever the default device is
  run_here(c);
}

// A 0-dimensional integer does not widen the dtype of a tensor with dimensions. Where it does not fit that dtype, it wraps
// before the op computes with it, as in PyTorch; so do plain numbers (number_operand).
bool has_to_wrap(const Call& c) {
  for (uint32_t i = 0; i < c.args.size; ++i)
    if (c.args.is_tensor(i) && c.args.tensor(i).ndim == 0) {
      const DType type = c.args.tensor(i).dtype;
      if (is_integral(type) && type != c.out()->dtype) return true;
    }
  return false;
}
inline bool may_have_to_wrap(const Call& c) { return c.op.formulas && !is_floating(c.out()->dtype) && has_to_wrap(c); }
[[gnu::cold]] Args wrapped_integers(const Call& c, std::array<Tensor, kMaxOperands>& held) {
  static const OpRecord& to = find_op("to", "dtype");
  const Formula& f = formula_of(c);
  const DType common = computed_type(f, c);
  Args args = c.args;
  if (!is_integral(common) || common == DType::Bool) return args;
  for (uint32_t k = 0; k < f.inputs; ++k) {
    if (!args.is_tensor(k) || (f.skip >> k & 1)) continue;
    const TensorImpl& t = args.tensor(k);
    if (t.ndim > 0 || t.dtype == common || size_of(t.dtype) < size_of(common)) continue;
    Args conversion = to.defaults;
    conversion[0] = args[k];
    conversion[1] = Value(common);
    held[k] = call(to, conversion);
    args[k] = Value(held[k]);
  }
  return args;
}

[[gnu::always_inline]] inline void run_somewhere_or_here(const Call& c) {
  if (devices_in_use) [[unlikely]]
    return run_somewhere(c);
  run_here(c);
}

// Inverting the sign bits of uint64 gives int64 in the same order: the kernels compare those, and the sign bits of the
// results are inverted back.
[[gnu::cold]] void run_in_signed_order(const Call& c) {
  static const OpRecord& bitwise_xor = find_op("bitwise_xor");
  const auto bits = [](const TensorImpl& t) {
    Tensor same = alias(t);
    same->dtype = DType::I64;
    return same;
  };
  Args args = c.args;
  std::vector<Tensor> held(args.size), outs(c.outs, c.outs + c.op.outputs);
  for (uint32_t i = 0; i < args.size; ++i)
    if (args.is_tensor(i) && args.tensor(i).dtype == DType::U64) {
      held[i] = call(bitwise_xor, Args(bits(args.tensor(i)), INT64_MIN));
      args[i] = Value(held[i]);
    }
  for (Tensor& out : outs)
    if (out.dtype() == DType::U64) out = bits(*out);
  run_somewhere_or_here(Call{c.op, args, outs.data()});
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    if (c.outs[o].dtype() == DType::U64) call_inplace(bitwise_xor, Args(outs[o], INT64_MIN));
}

[[gnu::noinline, gnu::cold]] void run_wrapped(const Call& c) {
  std::array<Tensor, kMaxOperands> held;
  const Args args = wrapped_integers(c, held);
  run_somewhere_or_here(Call{c.op, args, c.outs});
}

[[gnu::always_inline]] inline void run_on_values(const Call& c) {
  if (c.op.ordered_uint64 && c.args.tensor(0).dtype == DType::U64) [[unlikely]]
    return run_in_signed_order(c);
  if (may_have_to_wrap(c)) [[unlikely]]
    return run_wrapped(c);
  run_somewhere_or_here(c);
}

[[gnu::noinline, gnu::cold]] void run_after_promises(const Call& c) {
  const BeforeKernel ready(c);
  run_on_values(c);
}
}  // namespace

void run_kernel(const Call& c) {
  if (promising.load(std::memory_order_relaxed)) [[unlikely]]
    return run_after_promises(c);
  run_on_values(c);
}

namespace {

// Whether there is a NaN. Float8 has no arithmetic.
bool has_nan(const TensorImpl& t) {
  static const OpRecord &isnan = find_op("isnan"), &any = find_op("any"), &to = find_op("to", "dtype");
  if (!t.data || !is_differentiable(t.dtype) || t.device.type == DeviceType::Meta) return false;
  Tensor values = alias(t);
  if (size_of(t.dtype) == 1) {
    Args args = to.defaults;
    args[0] = Value(values);
    args[1] = Value(DType::F32);
    values = call(to, args);
  }
  return call(any, Args(call(isnan, Args(values)))).item<bool>();
}

// Ops whose results have uninitialized contents.
bool uninitialised(const OpRecord& op) { return op.name.find("empty") != std::string::npos || op.name == "resize"; }

// Blames the first op that produces a NaN from arguments without one. Creation ops are skipped: empty() shows old
// memory, full(nan) is intended.
[[gnu::cold]] void check_anomaly(const Call& c) {
  const Scoped quiet(thread_state.anomaly_mode, false);
  const autograd::NoGrad off;
  bool from_nothing = true;
  for (const Value& v : c.args) {
    if (v.tag == Tag::Float && std::isnan(v.f)) return;
    if (v.tag == Tag::Tensor && has_nan(*v.tensor)) return;  // not the first
    if (v.tag == Tag::Tensors)
      for (const Tensor& t : v.tensor_list())
        if (t && has_nan(*t)) return;
    from_nothing &= v.tag != Tag::Tensor && v.tag != Tag::Tensors;
  }
  if (from_nothing || uninitialised(c.op)) return;
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    if (c.outs[o] && has_nan(*c.outs[o]))
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
// Checks of every call, before anything reads the arguments: required tensors are defined, and written memory is
// writable. Most ops take one or two tensors and write none.
inline void check_args(const OpRecord& op, const Args& args) {
  const auto given = [&](uint32_t i) { return i < args.size && args[i].tag == Tag::Tensor; };
  const bool usual = op.needed == 0 || (op.needed == 1 && given(0)) || (op.needed == 3 && given(0) && given(1));
  if (!usual || op.written) [[unlikely]]
    check_each(op, args);
}

// A dtype argument may ask for complex results, which the op does not compute.
[[gnu::cold]] void check_asked_dtype(const Call& c, DType result) {
  for (const Value& v : c.args)
    if (v.tag == Tag::DType && v.dtype() == result && !c.op.accepts.has(result)) refuse_dtype(c.op, result);
}

// New tensor objects with dtype and shape, no memory yet.
void infer(const Call& c) {
  if (promising.load(std::memory_order_relaxed) && !c.op.formulas && !row_rule_of(c.op, Backend::Cpu)) [[unlikely]]
    need_arguments(c);  // the shape may depend on values
  for (uint32_t o = 0; o < c.op.outputs; ++o) {
    c.outs[o] = Ref<TensorImpl>::adopt(TensorImpl::make());
    c.outs[o]->numel = -1;
  }
  if (devices_in_use) [[unlikely]] {
    const Device device = device_of_call(c.op, c.args);
    for (uint32_t o = 0; o < c.op.outputs; ++o) c.outs[o]->device = device;
  }
  // Kernels compute integers in int64_t; which ones also do so for uint64 is declared. (Pointwise ops check all dtypes
  // themselves.)
  if (!c.op.formulas && c.args.size && c.args.is_tensor(0) && c.args.tensor(0).dtype == DType::U64 &&
      !c.op.accepts.has(DType::U64)) [[unlikely]]
    refuse_dtype(c.op, DType::U64);
  c.op.infer_fn(c);
  for (uint32_t o = 0; o < c.op.outputs; ++o) {
    if (c.outs[o]->numel < 0) c.outs[o]->set_contiguous_strides();  // the shape rule did not set strides
    if (is_complex(c.outs[o]->dtype)) [[unlikely]]
      check_asked_dtype(c, c.outs[o]->dtype);
  }
}

[[gnu::always_inline]] inline void allocate(const Call& c) {
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    if (!c.outs[o]->storage) c.outs[o]->allocate();
}

// The same, with a span for memory of the CPU; the allocator of devices has its own.
[[gnu::cold, gnu::noinline]] void allocate_traced(const Call& c) {
  for (uint32_t o = 0; o < c.op.outputs; ++o) {
    if (c.outs[o]->storage) continue;
    if (c.outs[o]->device.type != DeviceType::Cpu) {
      c.outs[o]->allocate();
      continue;
    }
    tracing::Span span(tracing::Layer::Runtime, "allocate");
    const size_t before = memory_stats().system_allocations;
    c.outs[o]->allocate();
    span.fact(tracing::key::bytes, bytes_of(*c.outs[o]));
    span.fact(tracing::key::pool_hit, memory_stats().system_allocations == before);
    if (c.outs[o]->storage)
      span.fact(tracing::key::address, static_cast<int64_t>(reinterpret_cast<uintptr_t>(c.outs[o]->storage->data)));
  }
}

void run_view(const OpRecord& op, const Args& args, Tensor* outs) {
  Results results{outs, nullptr};
  op.view_fn(args, results);
  const TensorImpl& from = args.tensor(0);
  TensorImpl& view = *outs[0];
  if (view.storage.get() != from.storage.get()) return;
  view.base = from.base ? from.base : Ref<TensorImpl>::share(args.v[0].tensor);
  view.rebases = view.base->rebases;
  view.origin = thread_state.inference_mode ? ViewOrigin::Inference
                : !thread_state.grad_mode   ? ViewOrigin::NoGrad
                                            : from.origin;
}

// The composite that computes this call, if there is one. Refuses complex tensors that the op does not accept; pointwise
// ops check the promoted dtype themselves, and a composite for complex tensors what it is given.
OpRecord::Compose composite_of(const OpRecord& op, const Args& args) {
  if (op.formulas || !op.takes_tensors || !has_complex(args)) [[likely]]
    return op.composite_fn;
  if (op.complex_fn) return op.complex_fn;
  check_accepts_complex(op, args);
  return op.composite_fn;
}

// New tensors of a composite are placed on the device of its inputs.
void compose(const OpRecord& op, OpRecord::Compose composite, const Args& args, Results& results) {
  if (!devices_in_use) [[likely]]
    return composite(args, results);
  if (composite == op.composite_fn && !op.kernels(Backend::Cuda).empty()) return compose_on_host(op, args, results);
  const OnDeviceOf scope(args);
  composite(args, results);
}

// A composite may end with a view of a tensor that nobody else holds: that is an ordinary result, not a view.
void forget_unreachable_bases(const OpRecord& op, const Tensor* outs) {
  for (uint32_t o = 0; o < op.outputs; ++o) {
    TensorImpl* out = outs[o].get();
    if (!out || !out->base || !autograd::has_only(*out->base, 1)) continue;
    if (out->base->rebases != out->rebases) continue;  // its history comes from the base
    out->base = {};
    out->rebases = 0;
    out->origin = ViewOrigin::Recorded;
  }
}

// Whether an argument may require a gradient; a view's requirement may come from its base.
inline bool may_want_grad(const Args& args) {
  for (const Value& v : args)
    if (v.tag == Tag::Tensors || (v.tag == Tag::Tensor && (v.tensor->requires_grad || v.tensor->base))) return true;
  return false;
}
[[gnu::always_inline]] inline bool recording(const OpRecord& op, const Args& args) {
  return thread_state.grad_mode && op.grad_fn && may_want_grad(args) && wants_grad(args);
}

// What an op is told about its gradient (OpRecord::keeps_for_grad).
Value recorded_value(const OpRecord& op, const Args& args) {
  const bool recorded = thread_state.grad_mode && wants_grad(args);
  if (op.params[op.recorded_param].type == ParamType::Bool) return Value(recorded);
  int64_t mask = 0;
  for (uint32_t i = 0; recorded && i < args.size; ++i)
    if (args.is_tensor(i) && wants_grad(Args{args[i]})) mask |= int64_t{1} << i;
  return Value(mask);
}

}  // namespace

// The number of the node that was recorded: the span of its backward step has the same.
[[gnu::cold]] static void note_node(const OpRecord& op, const Tensor* outs, tracing::Span& span) {
  for (uint32_t o = 0; o < op.outputs; ++o)
    if (outs[o] && outs[o]->history) {
      if (const Node* node = node_of(*outs[o])) span.fact(tracing::key::node, static_cast<int64_t>(node->order));
      return;
    }
}

// Without rare modes. Whether the op was computed by others: a composite.
[[gnu::always_inline]] static inline bool call_plainly(const OpRecord& op, const Args& args, Tensor* outs) {
  tracing::Span span(tracing::Layer::Op, op.name.c_str());
  if (span.active()) [[unlikely]]
    describe(args, span);
  check_args(op, args);
  if (const auto composite = composite_of(op, args)) {
    Results results{outs, nullptr};
    compose(op, composite, args, results);
    forget_unreachable_bases(op, outs);
    return true;
  }
  const Call c{op, args, outs};
  if (op.view_fn) {
    run_view(op, args, outs);
  } else {
    infer(c);
    if (!promising.load(std::memory_order_relaxed) || !defer(c)) [[likely]] {
      if (devices_in_use) [[unlikely]] {  // the allocator records the op
        Scoped running(thread_state.op, &op);
        if (span.active()) allocate_traced(c);
        else allocate(c);
      } else if (span.active()) [[unlikely]] {
        allocate_traced(c);
      } else {
        allocate(c);
      }
      run_kernel(c);
    }
    if (op.written) [[unlikely]]
      count_writes(op, args);
  }
  if (recording(op, args)) {
    record_node(op, args, outs, op.outputs);
    if (span.active()) [[unlikely]]
      note_node(op, outs, span);
  }
  return false;
}

static Args with_recorded_value(const OpRecord& op, const Args& args) {
  Args filled = args;
  filled[op.recorded_param] = recorded_value(op, args);
  return filled;
}

// Whether an observer sees the calls inside a composite instead of it.
static bool seen_inside(const Args& args) {
  using enum Observer::Inside;
  const auto inside = static_cast<Observer::Inside>(thread_state.observed);
  return thread_state.autocast || inside == Always ||
         (inside == IfRecorded && thread_state.grad_mode && wants_grad(args));
}

// In a rare mode, or of an op that is told whether it is recorded.
[[gnu::noinline]] static void call_specially(const OpRecord& op, const Args& args, Tensor* outs) {
  if (thread_state.autocast)  // before anything is recorded: casts are ops with gradients of their own
    if (autocast::call_with_casts(op, args, outs)) return;
  if (op.recorded_param && !args[op.recorded_param]) return call_specially(op, with_recorded_value(op, args), outs);
  if (thread_state.observed && !(seen_inside(args) && composite_of(op, args))) {
    ObservedCall seen(op, Form::Plain, args, nullptr);
    call_into(op, args, outs);
    return seen.done(outs, op.outputs);
  }
  if (call_plainly(op, args, outs)) return;
  if (thread_state.inference_mode && !op.view_fn)  // a view inherits the mode of its input
    for (uint32_t o = 0; o < op.outputs; ++o) outs[o]->inference = true;
  if (thread_state.anomaly_mode) check_anomaly(Call{op, args, outs});
}

void call_into(const OpRecord& op, const Args& args, Tensor* outs) {
  if (thread_state.any_rare_mode() || (op.recorded_param && !args[op.recorded_param])) [[unlikely]]
    return call_specially(op, args, outs);
  call_plainly(op, args, outs);
}

Tensor call(const OpRecord& op, const Args& args) {
  Tensor out;
  call_into(op, args, &out);
  return out;
}

std::vector<Tensor> call_list(const OpRecord& op, const Args& args) {
  if (thread_state.observed && !seen_inside(args)) [[unlikely]] {
    ObservedCall seen(op, Form::Plain, args, nullptr);
    std::vector<Tensor> list = call_list(op, args);
    seen.done(list.data(), list.size());
    return list;
  }
  tracing::Span span(tracing::Layer::Op, op.name.c_str());
  if (span.active()) [[unlikely]]
    describe(args, span);
  check_args(op, args);
  const auto composite = composite_of(op, args);
  STRATA_CHECK(composite, NotImplemented, "{}: an op that returns a list needs composite()", op.name);
  std::vector<Tensor> list;
  Results results{nullptr, &list};
  compose(op, composite, args, results);
  return list;
}

// Writes `value` into `target`, converting; both have the same shape. Not recorded.
static void store(const Tensor& value, TensorImpl& target) {
  static const OpRecord& copy = find_op("copy");
  Tensor out = Ref<TensorImpl>::share(&target);
  if (thread_state.observed) [[unlikely]] {  // inside a composite
    ObservedCall seen(copy, Form::InPlace, Args(out, value, false), nullptr);
    store(value, target);
    return seen.done(&out, 1);
  }
  need_values(target.storage.get(), "copy");
  run_kernel(Call{copy, Args(out, value, false), &out});
}

namespace {

// The arguments of an in-place call for the tape: inputs that the call overwrites, and whose values a gradient needs,
// are copied; the copies carry the histories of the originals.
class OldValues {
 public:
  Args args;
  OldValues() = default;  // nothing copied
  // `needed`: a mask of the inputs whose values are saved.
  OldValues(const Args& given, uint32_t needed) { take(given, needed); }
  void take(const Args& given, uint32_t needed) {
    args = given;
    const TensorImpl& self = given.tensor(0);
    for (uint32_t i = 0; i < given.size; ++i)
      if (given.is_tensor(i) && given.tensor(i).storage.get() == self.storage.get() && (i == 0 || needed >> i & 1))
        args[i] = Value(held_.emplace_back(old_value(given.tensor(i), needed >> i & 1)));
  }
  explicit operator bool() const { return !held_.empty(); }

 private:
  static Tensor old_value(const TensorImpl& t, bool values) {
    Tensor old = values ? clone_values(t) : shape_only(t);
    if (values) {
      note_copy(t, *old);
    } else {
      old->storage = t.storage;
      old->data = t.data;
    }
    if (t.requires_grad &&
        !t.history) {  // a leaf whose memory the call overwrites: its gradient must not go to the copy
      static const OpRecord& clone = find_op("clone");
      record_node(clone, Args(Ref<TensorImpl>::share(const_cast<TensorImpl*>(&t)), Value()), &old, 1);
      return old;
    }
    old->requires_grad = t.requires_grad;
    old->history = t.history;
    old->output = t.output;
    return old;
  }
  std::vector<Tensor> held_;
};

// Updates the histories of views whose bases were written to. May throw, so it runs before anything is written.
void renew_views(const Args& args) {
  for (const Value& v : args) {
    if (v.tag == Tag::Tensor) edge_to(*v.tensor);
    if (v.tag != Tag::Tensors) continue;
    for (const Tensor& t : v.tensor_list())
      if (t) edge_to(*t);
  }
}

// Records an in-place write to self as computed by op, or as a constant if the op has no gradient.
void record_write(const OpRecord* op, const Args& args, TensorImpl& self) {
  static const OpRecord& fill = find_op("fill");
  Tensor value = alias(self);
  if (op) record_node(*op, args, &value, 1);
  else record_node(fill, Args(args[0], 0), &value, 1);
  rebase(self, value);
}

// The op computes a value with other ops, which replaces the value of self.
void compose_inplace(const OpRecord& op, OpRecord::Compose composite, const Args& args, bool tracked) {
  static const OpRecord& copy = find_op("copy");
  TensorImpl& self = args.tensor(0);
  Tensor value;
  Results results{&value, nullptr};
  // Any of the ops inside may save any of the inputs.
  if (tracked) compose(op, composite, OldValues(args, ~0u).args, results);
  else compose(op, composite, args, results);
  check_fits(value, self, op.name.c_str());
  if (overlaps_partly(Args(args[0], value))) value = clone_values(*value);
  store(value, self);
  self.count_write();
  if (!tracked || !is_differentiable(self.dtype)) return;
  if (value.requires_grad()) record_write(&copy, Args(shape_only(self), value, false), self);
  else if (Tensor(args.share(0)).requires_grad()) record_write(nullptr, OldValues(args, 0).args, self);
}
}  // namespace

Tensor call_inplace(const OpRecord& op, const Args& args) {
  if (thread_state.autocast) [[unlikely]] {  // the result has the dtype of its tensor, so nothing is cast
    const autocast::Off off;
    return call_inplace(op, args);
  }
  if (thread_state.observed && !(seen_inside(args) && composite_of(op, args))) [[unlikely]] {
    ObservedCall seen(op, Form::InPlace, args, nullptr);
    Tensor self = call_inplace(op, args);
    seen.done(&self, 1);
    return self;
  }
  tracing::Span span(tracing::Layer::Op, op.name.c_str());
  if (span.active()) [[unlikely]]
    describe(args, span);
  check_args(op, args);
  STRATA_CHECK(op.outputs == 1 && !op.view_fn && args.size && args.is_tensor(0), Type,
               "{}: this op has no in-place form for these arguments", op.name);
  TensorImpl& self = args.tensor(0);
  const char* name = op.name.c_str();
  check_writable(self, name);
  const bool tracked = thread_state.grad_mode && wants_grad(args);
  if (tracked || self.base || self.inference) check_inplace(self, tracked, name);
  if (tracked) renew_views(args);
  if (const auto composite = composite_of(op, args)) {
    need_values(self.storage.get(), name);
    compose_inplace(op, composite, args, tracked);
    return args.share(0);
  }

  // While recording, the tape needs the old value: an input that is about to be overwritten is copied if its gradient
  // needs it.
  const bool differentiable = tracked && is_differentiable(self.dtype);
  const bool record = differentiable && op.grad_fn,
             cut = differentiable && !op.grad_fn && args.share(0).requires_grad();
  OldValues before;
  if (record || cut) {
    need_values(self.storage.get(), name);
    uint32_t needed = op.grad_fn ? op.saved_inputs : 0;
    if (op.saved_for_second && !(args.size > 1 && args.is_tensor(1) && edge_to(args.tensor(1))))
      needed &= ~op.saved_for_second;
    before.take(args, needed);
  }
  Tensor out;
  const Call plan{op, args, &out};
  infer(plan);
  check_fits(out, self, name);
  // Elementwise kernels may write over an input that is the same view; everything else uses a temporary.
  const bool direct =
    (op.broadcasts || op.updates_input) && out.dtype() == self.dtype && !overlaps_partly(args, nullptr, op.broadcasts);
  if (direct) {
    out = Ref<TensorImpl>::share(&self);
    const Call write{op, args, &out};
    if (!promising.load(std::memory_order_relaxed) || before || !defer(write)) [[likely]] {
      need_values(self.storage.get(), name);
      run_kernel(write);
    }
  } else {
    out->allocate();
    run_kernel(plan);
    store(out, self);
  }
  self.count_write();
  if (before) record_write(record ? &op : nullptr, before.args, self);
  if (thread_state.anomaly_mode) [[unlikely]]
    check_anomaly(Call{op, before ? before.args : args, &out});
  return args.share(0);
}

void call_out(const OpRecord& op, const Args& args, Tensor* outs) {
  if (thread_state.autocast) [[unlikely]] {
    const autocast::Off off;
    return call_out(op, args, outs);
  }
  if (thread_state.observed) [[unlikely]] {
    ObservedCall seen(op, Form::Out, args, outs);
    call_out(op, args, outs);
    return seen.done(outs, op.outputs);
  }
  check_args(op, args);
  for (uint32_t o = 0; o < op.outputs; ++o)
    STRATA_CHECK(outs[o], Type, "{}(): out= number {} is an undefined tensor; expected a tensor", op.name, o);
  bool recorded = thread_state.grad_mode && wants_grad(args);
  for (uint32_t o = 0; o < op.outputs; ++o) {
    const auto wants = [](const Tensor& t) { return t.requires_grad() || (t->base && t->base->requires_grad); };
    recorded |= thread_state.grad_mode && outs[o] && wants(outs[o]);
  }
  STRATA_CHECK(!recorded, Runtime,
               "{}(): functions with out=... arguments don't support automatic differentiation, but one of the "
               "arguments requires grad",
               op.name);
  check_out(op, args, outs);
  for (uint32_t o = 0; o < op.outputs; ++o)
    if (outs[o]) check_inplace(*outs[o], false, op.name.c_str());
  for (uint32_t o = 0; o < op.outputs; ++o) need_values(outs[o]->storage.get(), op.name.c_str());
  std::vector<Tensor> values(op.outputs);
  std::optional<OnDeviceOf> there;  // an op without tensors runs on the device of its output
  if (devices_in_use && op.outputs && !op.needed) [[unlikely]]
    there.emplace(outs[0].device());
  const bool plain = !op.composite_fn && !op.view_fn && op.outputs == 1;
  if (plain && op.broadcasts) {
    const Call plan{op, args, values.data()};
    infer(plan);
    Tensor target = out_as_it_is(*outs[0]);
    const TensorImpl &want = *values[0], &given = *target;
    if (want.same_shape(given) && want.dtype == given.dtype && given.storage && !overlaps_partly(args, &given)) {
      check_writable(given, op.name.c_str());
      run_kernel(Call{op, args, &target});
      return given.count_write();
    }
  }
  call_into(op, args, values.data());
  for (uint32_t o = 0; o < op.outputs; ++o) {
    TensorImpl& given = *outs[o];
    check_out_dtype(op, values[o].dtype(), given.dtype);
    if (!values[o]->same_shape(given)) check_out_is_no_input(op, args, given);
    const Tensor target = out_of_shape(given, values[o].shape());
    check_writable(*target, op.name.c_str());
    store(values[o], *target);
    given.count_write();
  }
}

}  // namespace strata
