#include "dispatch/autocast.h"

#include <fmt/core.h>

#include <deque>
#include <unordered_map>

#include "autograd/autograd.h"
#include "cuda/runtime/graph.h"
#include "dispatch/choose.h"

namespace strata::autocast {
namespace {

constexpr size_t kTypes = 3;  // cpu, cuda, vgpu: the first of DeviceType

struct CachedCast {
  Tensor source;  // keeps the key valid
  Tensor cast;
  const void* data;
  uint32_t version;
};

struct State {
  std::array<DType, kTypes> dtypes = {DType::BF16, DType::F16, DType::F16};
  bool cache_enabled = true;
  int nesting = 0;
  std::unordered_map<const TensorImpl*, CachedCast> cache;
};
thread_local State state;

uint8_t bit_of(DeviceType type) { return static_cast<uint8_t>(1u << static_cast<unsigned>(type)); }

DType& dtype_of(DeviceType type) {
  STRATA_CHECK(is_available(type), Runtime,
               "autocast: device type '{}' is not supported; expected 'cpu', 'cuda' or 'vgpu'",
               to_string(Device{type}));
  return state.dtypes[static_cast<size_t>(type)];
}

bool is_eligible(const Tensor& t, DeviceType type) {
  return t && t.device().type == type && is_floating(t.dtype()) && t.dtype() != DType::F64;
}

template <class F> void for_each_tensor(const Args& args, F f) {
  for (const Value& v : args) {
    if (v.tag == Tag::Tensor) f(Ref<TensorImpl>::share(v.tensor));
    if (v.tag != Tag::Tensors) continue;
    for (const Tensor& t : v.tensor_list())
      if (t) f(t);
  }
}

// The device type whose policy applies: of the types in use for which autocast is on, a device before the CPU, whose
// tensors may be numbers.
std::optional<DeviceType> type_of_call(const Args& args) {
  uint8_t seen = 0;
  for_each_tensor(args, [&](const Tensor& t) {
    if (is_available(t.device().type)) seen |= bit_of(t.device().type);
  });
  seen &= thread_state.autocast;
  if (!seen) return std::nullopt;
  if (seen & bit_of(DeviceType::Cuda)) return DeviceType::Cuda;
  return seen & bit_of(DeviceType::Vgpu) ? DeviceType::Vgpu : DeviceType::Cpu;
}

Tensor convert(const Tensor& t, DType dtype) {
  static const OpRecord& to = find_op("to", "dtype");
  const Off off;
  Args args = to.defaults;
  args[0] = Value(t);
  args[1] = Value(dtype);
  return call(to, args);
}

// Whether a cast of this tensor may be kept: PyTorch's rule, casts of float32 parameters to the dtype of the scope. Not
// while a graph is captured: its casts run in each replay, and casts from before would not follow their parameters.
bool may_cache(const TensorImpl& t, DType dtype, DeviceType type) {
  if (type != DeviceType::Cpu && cuda::is_capturing(t.device)) return false;
  return state.cache_enabled && state.nesting > 0 && dtype == state.dtypes[static_cast<size_t>(type)] &&
         t.dtype == DType::F32 && t.requires_grad && !t.history && !t.base;
}

// Whether the cast still has the values of its source, and is of use in the modes of this thread: a cast made without
// recording carries no gradient, and one made in inference mode is not seen outside of it.
bool is_current(const CachedCast& entry, const TensorImpl& source, DType dtype) {
  return entry.cast && entry.cast.dtype() == dtype && entry.version == source.version() && entry.data == source.data &&
         (!thread_state.grad_mode || entry.cast.requires_grad()) &&
         (!entry.cast->inference || thread_state.inference_mode);
}

Tensor cached_cast(const Tensor& t, DType dtype, DeviceType type) {
  if (!is_eligible(t, type) || t.dtype() == dtype) return t;
  if (!may_cache(*t, dtype, type)) return convert(t, dtype);
  CachedCast& entry = state.cache[t.get()];
  if (!is_current(entry, *t, dtype)) entry = {t, convert(t, dtype), t->data, t->version()};
  return entry.cast;
}

// The arguments with all eligible tensors cast; owns the casts.
class CastArgs {
 public:
  CastArgs(const Args& args, DType dtype, DeviceType type) : args_(args) {
    for (uint32_t i = 0; i < args.size; ++i) {
      if (args.is_tensor(i)) args_[i] = Value(tensors_.emplace_back(cached_cast(args.share(i), dtype, type)));
      if (args[i].tag != Tag::Tensors) continue;
      std::vector<Tensor>& list = lists_.emplace_back();
      for (const Tensor& t : args[i].tensor_list()) list.push_back(cached_cast(t, dtype, type));
      args_[i] = Value(TensorList(list));
    }
  }
  const Args& view() const { return args_; }

 private:
  Args args_;
  std::deque<Tensor> tensors_;
  std::deque<std::vector<Tensor>> lists_;
};

// The widest dtype of the eligible tensors, at least the dtype of the scope.
DType widest(const OpRecord& op, const Args& args, DeviceType type) {
  const DType lower = dtype_of(type);
  DType found = lower;
  for_each_tensor(args, [&](const Tensor& t) {
    if (!is_eligible(t, type) || t.dtype() == found || found == DType::F32) return;
    STRATA_CHECK(t.dtype() == DType::F32, Runtime,
                 "{}: autocast to {} found an argument of dtype {}; expected {} or float32. Convert it with .to().",
                 op.name, name_of(lower), name_of(t.dtype()), name_of(lower));
    found = DType::F32;
  });
  return found;
}

// PyTorch's rule for softmax, sum, ...: a dtype that the user gives is kept; otherwise the result is float32, computed
// from the input as it is.
Args with_float32_result(const OpRecord& op, const Args& args, DeviceType type) {
  Args changed = args;
  if (!is_eligible(args.share(0), type)) return changed;
  for (uint32_t i = 0; i < args.size; ++i)
    if (op.params[i].type == ParamType::DType && !args[i]) changed[i] = Value(DType::F32);
  return changed;
}

[[noreturn]] void refuse(const OpRecord& op) {
  fail(ErrorKind::Runtime,
       fmt::format("{} and nn.BCELoss are unsafe to autocast.\n"
                   "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
                   "In this case, combine the two layers using nn.functional.binary_cross_entropy_with_logits\n"
                   "or nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
                   "safe to autocast.",
                   op.name));
}

Autocast policy_of(const OpRecord& op, std::optional<DeviceType> type) {
  return type ? op.autocast_policy[static_cast<size_t>(backend_of(Device{*type}))] : Autocast::None;
}

}  // namespace

bool is_available(DeviceType type) { return static_cast<size_t>(type) < kTypes; }

bool is_autocast_enabled(DeviceType type) {
  dtype_of(type);
  return thread_state.autocast & bit_of(type);
}

void set_autocast_enabled(DeviceType type, bool enabled) {
  dtype_of(type);
  if (enabled) thread_state.autocast |= bit_of(type);
  else thread_state.autocast &= static_cast<uint8_t>(~bit_of(type));
}

DType get_autocast_dtype(DeviceType type) { return dtype_of(type); }
void set_autocast_dtype(DeviceType type, DType dtype) {
  STRATA_CHECK(is_floating(dtype), Type, "set_autocast_dtype: expected a floating-point dtype, found {}",
               name_of(dtype));
  dtype_of(type) = dtype;
}
bool is_autocast_cache_enabled() { return state.cache_enabled; }
void set_autocast_cache_enabled(bool enabled) { state.cache_enabled = enabled; }
void clear_cache() { state.cache.clear(); }
int increment_nesting() { return ++state.nesting; }
int decrement_nesting() { return --state.nesting; }

Scope::Scope(DeviceType type, std::optional<DType> dtype, bool enabled, std::optional<bool> cache_enabled)
    : type_(type),
      enabled_before_(is_autocast_enabled(type)),
      cache_before_(is_autocast_cache_enabled()),
      dtype_before_(get_autocast_dtype(type)) {
  const DType lower = dtype.value_or(dtype_before_);
  STRATA_CHECK(!enabled || lower == DType::BF16 || lower == DType::F16, Runtime,
               "autocast: found dtype {}; expected bfloat16 or float16", name_of(lower));
  set_autocast_enabled(type, enabled);
  set_autocast_dtype(type, lower);
  set_autocast_cache_enabled(cache_enabled.value_or(cache_before_));
  increment_nesting();
}

Scope::~Scope() {
  if (decrement_nesting() == 0) clear_cache();
  set_autocast_enabled(type_, enabled_before_);
  set_autocast_dtype(type_, dtype_before_);
  set_autocast_cache_enabled(cache_before_);
}

// The casts of a call, as a span.
static CastArgs traced_cast(const OpRecord& op, const Args& args, DType dtype, DeviceType type) {
  tracing::Span span(tracing::Layer::Dispatch, "autocast");
  if (span.active()) [[unlikely]]
    span.copied(tracing::key::detail, fmt::format("{} in {}", op.name, info_of(dtype).name));
  return {args, dtype, type};
}

bool call_with_casts(const OpRecord& op, const Args& args, Tensor* outs) {
  const std::optional<DeviceType> type = type_of_call(args);
  const Autocast policy = policy_of(op, type);
  switch (policy) {
    case Autocast::None: {
      if (op.composite_fn) return false;
      const Off off;
      call_into(op, args, outs);
      return true;
    }
    case Autocast::Float32Result: {
      const Off off;
      call_into(op, with_float32_result(op, args, *type), outs);
      return true;
    }
    case Autocast::Refuse: refuse(op);
    case Autocast::Lower:
    case Autocast::Float32:
    case Autocast::Promote: break;
  }
  const DType dtype = policy == Autocast::Lower     ? dtype_of(*type)
                      : policy == Autocast::Float32 ? DType::F32
                                                    : widest(op, args, *type);
  const CastArgs cast = traced_cast(op, args, dtype, *type);
  const Off off;
  call_into(op, cast.view(), outs);
  return true;
}

}  // namespace strata::autocast
