#include "dispatch/memory.h"

#include <algorithm>
#include <mutex>

namespace strata {
namespace {

struct Extent {
  const std::byte *begin, *end;
};
Extent extent(const TensorImpl& t) {
  if (t.numel == 0) return {t.data, t.data};
  int64_t low = 0, high = 0;
  for (int d = 0; d < t.ndim; ++d) (t.strides[d] < 0 ? low : high) += (t.shape[d] - 1) * t.strides[d];
  const auto size = static_cast<int64_t>(size_of(t.dtype));
  return {t.data + low * size, t.data + (high + 1) * size};
}
}  // namespace

bool same_view(const TensorImpl& a, const TensorImpl& b) {
  if (a.data != b.data || a.dtype != b.dtype || !a.same_shape(b)) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

void check_writable(const TensorImpl& t, const char* op) {
  STRATA_CHECK(t.storage, Runtime, "{}: this tensor has no memory to write to", op);
  STRATA_CHECK(!t.storage->read_only, Runtime, "{}: this tensor's memory is read-only; clone() it first", op);
  if (t.contiguous) return;
  for (int d = 0; d < t.ndim; ++d)
    STRATA_CHECK(t.strides[d] != 0 || t.shape[d] <= 1, Runtime,
                 "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                 "location ({} on an expanded "
                 "tensor of shape {}). Please clone() the tensor before performing the operation.",
                 op, to_string(t.sizes()));
}

namespace {
// Calls see(tensor, written) for each tensor argument.
template <class F> void each_tensor(const OpRecord& op, const Args& args, F see) {
  for (uint32_t i = 0; i < args.size; ++i) {
    const bool written = op.written >> i & 1;
    if (args.is_tensor(i)) see(args.tensor(i), written);
    else if (args[i].tag == Tag::Tensors)
      for (const Tensor& t : args[i].tensor_list())
        if (t) see(*t, written);
  }
}

// Whether this call writes to its Tensor(a!) arguments.
bool writes(const OpRecord& op, const Args& args) {
  return op.written && (!op.writes_if || args[op.writes_if].boolean());
}

// Written memory must not overlap another argument. Only dense memory is checked: a tensor in the gaps of another one
// does not overlap it.
void check_apart(const OpRecord& op, const Args& args) {
  struct Piece {
    Extent memory;
    bool written;
  };
  std::vector<Piece> pieces;
  each_tensor(op, args, [&](const TensorImpl& t, bool written) {
    if (t.numel && t.storage && t.device.type != DeviceType::Meta && t.is_dense())
      pieces.push_back({extent(t), written});
  });
  std::ranges::sort(pieces, {}, [](const Piece& p) { return p.memory.begin; });
  const std::byte *end = nullptr, *end_of_written = nullptr;
  for (const Piece& p : pieces) {
    STRATA_CHECK(p.memory.begin >= (p.written ? end : end_of_written), Runtime,
                 "{}: an argument that is written to shares memory with another argument; clone() one of them\n  {}",
                 op.name, op.schema);
    end = std::max(end, p.memory.end);
    if (p.written) end_of_written = std::max(end_of_written, p.memory.end);
  }
}
}  // namespace

void check_written(const OpRecord& op, const Args& args) {
  if (!writes(op, args)) return;
  each_tensor(op, args, [&](const TensorImpl& t, bool written) {
    if (written) check_writable(t, op.name.c_str());
  });
  if (!op.composite_fn) check_apart(op, args);  // the ops of a composite check for themselves
}

void count_writes(const OpRecord& op, const Args& args) {
  if (!writes(op, args)) return;
  each_tensor(op, args, [](const TensorImpl& t, bool written) {
    if (written) t.count_write();
  });
}

void check_cast(DType from, DType to, const char* op) {
  const bool loses = (is_complex(from) && !is_complex(to)) || (is_floating(from) && is_integral(to)) ||
                     (from != DType::Bool && to == DType::Bool);
  STRATA_CHECK(!loses, Runtime, "{}: result type {} can't be cast to the desired output type {}", op, name_of(from),
               name_of(to));
}

void check_fits(const Tensor& value, const TensorImpl& self, const char* op) {
  STRATA_CHECK(value->same_shape(self), Runtime, "{}_: output with shape {} doesn't match the broadcast shape {}", op,
               to_string(self.sizes()), to_string(value.shape()));
  check_cast(value.dtype(), self.dtype, op);
}

bool overlaps_partly(const Args& args, const TensorImpl* target, bool same_allowed) {
  const TensorImpl& self = target ? *target : args.tensor(0);
  const Extent mine = extent(self);
  const auto overlaps = [&](const TensorImpl& t) {
    if (t.storage.get() != self.storage.get() || (same_allowed && same_view(t, self))) return false;
    const Extent theirs = extent(t);
    return mine.begin < theirs.end && theirs.begin < mine.end;
  };
  for (uint32_t i = target ? 0 : 1; i < args.size; ++i) {
    if (args.is_tensor(i) && overlaps(args.tensor(i))) return true;
    if (args[i].tag != Tag::Tensors) continue;
    for (const Tensor& t : args[i].tensor_list())
      if (t && overlaps(*t)) return true;
  }
  return false;
}

bool share_memory(const TensorImpl& a, const TensorImpl& b) {
  if (!a.storage || a.storage.get() != b.storage.get() || !a.is_dense() || !b.is_dense()) return false;
  const Extent x = extent(a), y = extent(b);
  return x.begin < y.end && y.begin < x.end;
}

void refuse_overlap(const Args& args, const TensorImpl& given, bool same_allowed, const char* op) {
  const auto see = [&](const TensorImpl& t) {
    STRATA_CHECK(!share_memory(t, given) || (same_allowed && same_view(t, given)), Runtime,
                 "{}(): unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                 "single memory location. Please clone() the tensor before performing the operation.",
                 op);
  };
  for (const Value& v : args) {
    if (v.tag == Tag::Tensor) see(*v.tensor);
    else if (v.tag == Tag::Tensors)
      for (const Tensor& t : v.tensor_list())
        if (t) see(*t);
  }
}

// Threads that share an out= tensor race for its values, but must not race for its memory. Each writes to the memory
// that the tensor had under this lock.
static std::mutex out_lock;

Tensor out_as_it_is(const TensorImpl& t) {
  const std::lock_guard lock(out_lock);
  return alias(t);
}

Tensor out_of_shape(TensorImpl& t, Shape shape) {
  const std::lock_guard lock(out_lock);
  if (std::ranges::equal(t.sizes(), shape)) return alias(t);
  STRATA_CHECK(!t.base, Runtime, "out=: a view of shape {} cannot be resized to {}", to_string(t.sizes()),
               to_string(shape));
  const size_t bytes = static_cast<size_t>(checked_numel(shape)) * size_of(t.dtype);
  const bool stays = t.storage && !t.storage->read_only && bytes <= t.storage->requested;
  if (stays) t.data = t.storage->data;
  else t.replace_storage(make_tensor(shape, t.dtype, t.device)->storage);  // may throw: then t is unchanged
  t.set_shape(shape);
  t.set_contiguous_strides();
  return alias(t);
}

Tensor clone_values(const TensorImpl& t) {
  static const OpRecord& clone = find_op("clone");
  Scoped mode(thread_state.grad_mode, false);
  return call(clone, Args(Value(const_cast<TensorImpl*>(&t)), Value()));
}

}  // namespace strata
