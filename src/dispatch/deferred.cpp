#include "dispatch/deferred.h"

#include <mutex>

#include "cpu/pointwise/tiles.h"
#include "dispatch/choose.h"
#include "dispatch/group.h"
#include "record/formula.h"

namespace strata {
namespace {

std::atomic<int64_t> least_elements{16384};  // fewer elements stay in the L1 cache without fusion

struct ThreadDeferral {
  int depth = 0;      // of nested Deferrals
  int in_kernel = 0;  // kernels made of ops read their results directly
  Group* group = nullptr;
};
STRATA_THREAD_LOCAL_DECL thread_local constinit ThreadDeferral mine;

// Groups are never destroyed; that of a thread that has ended serves another.
class Groups {
 public:
  Group* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return new Group;
    Group* g = free_.back();
    free_.pop_back();
    return g;
  }
  void give(Group* g) {
    const std::lock_guard lock(mutex_);
    free_.push_back(g);
  }

 private:
  std::mutex mutex_;
  std::vector<Group*> free_;
};
Groups& groups() {
  static auto* all = new Groups;  // never destroyed: threads may end later
  return *all;
}

// Whether somebody outside may write to the memory without telling dispatch.
bool is_exposed(const TensorImpl& t) {
  const Storage& s = *t.storage;
  return s.shared || (t.device.type == DeviceType::Cpu && s.external && !s.read_only);
}

}  // namespace

Deferral::Deferral(std::vector<FusedGroup>* report) : report_before_(nullptr) {
  if (mine.depth++ == 0) {
    mine.group = groups().take();
    own_promiser = mine.group;
    promising.fetch_add(1, std::memory_order_relaxed);
  }
  report_before_ = mine.group->report;
  if (report) mine.group->report = report;
}
void Deferral::finish() { mine.group->keep("return"); }
Deferral::~Deferral() {
  bool done = true;
  try {
    finish();
  } catch (...) {  // no memory: whoever reads a value later tries again
    done = false;
  }
  mine.group->report = report_before_;
  if (--mine.depth > 0) return;
  own_promiser = nullptr;
  Group* const group = std::exchange(mine.group, nullptr);
  if (!done) return;  // its promises stay: `promising` still counts them
  promising.fetch_sub(1, std::memory_order_relaxed);
  groups().give(group);
}

int64_t least_deferred() { return least_elements.load(std::memory_order_relaxed); }
int64_t set_least_deferred(int64_t elements) { return least_elements.exchange(elements, std::memory_order_relaxed); }

// Composites and custom kernels launch outside of dispatch.
void Group::before_launch(const char* kernel) {
  if (mine.in_kernel == 0) keep(kernel);
}

Unseen::Unseen() : state_(thread_state), reader_(std::exchange(own_read_observer, nullptr)) {
  thread_state = {};
  thread_state.reference_only = state_.reference_only;
  ++mine.in_kernel;
}
Unseen::~Unseen() {
  --mine.in_kernel;
  thread_state = state_;
  own_read_observer = reader_;
}

void fill_promised(bool on) { fills_promised.store(on, std::memory_order_relaxed); }

namespace {
bool fuses_now() {
  static const bool off = compile_mode() == CompileMode::Off;
  return mine.depth && !off && !mine.in_kernel && !thread_state.reference_only && !thread_state.explain &&
         !thread_state.anomaly_mode && !thread_state.tuning;
}
// Values of other threads, before the group is locked: two threads may need each other's.
void need_of_others(const TensorImpl& t, const OpRecord& op) {
  if (Promiser* other = promiser_of(*t.storage); other && other != mine.group) other->keep(op.name.c_str());
}

bool defer_rows(const Call& c) {
  if (!row_rule_of(c.op, Backend::Cpu)) return false;  // an op without one has none for GPUs either
  const Device device = c.out()->device;
  const bool on_cpu = device.type == DeviceType::Cpu;
  if (device.type == DeviceType::Meta || (!on_cpu && mine.group->place == 0)) return false;
  const RowRule* const rule = row_rule_of(c.op, backend_of(device));
  if (!rule) return false;
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    if (c.outs[o]->storage || c.outs[o]->device != device || !c.outs[o]->contiguous) return false;
  for (const Value& v : c.args) {
    if (v.tag == Tag::Tensors) return false;
    if (v.tag != Tag::Tensor) continue;
    const TensorImpl& t = *v.tensor;
    if (!t.storage || is_exposed(t) || is_complex(t.dtype) || t.device != device) return false;
    need_of_others(t, c.op);
  }
  std::optional<RowOp> op = mine.group->describe(c, *rule);
  if (!op || (on_cpu && checked_numel(op->shape) < least_elements.load(std::memory_order_relaxed))) return false;
  return mine.group->add(c, std::move(*op), rule->whole);
}
}  // namespace

static bool defer_pointwise(const Call& c) {
  const TensorImpl& out = *c.out();
  const bool on_cpu = out.device.type == DeviceType::Cpu;
  if (out.device.type == DeviceType::Meta || !out.contiguous || out.numel == 0 || (out.storage && is_exposed(out)) ||
      (!on_cpu && mine.group->place == 0))
    return false;
  const Formula& f = formula_of(c);
  const DType common = computed_type(f, c);
  // Integers that wrap, unsigned order and divisors that must be checked are left to the kernels.
  if (!is_floating(common) || size_of(common) == 1) return false;
  const bool compiled = dispatch_compute(common, [&]<class T>() { return cpu::tile_loop<T>(f) != nullptr; });
  if (!compiled) return false;
  for (int k = 0; k < f.inputs; ++k) {
    if (!c.args.is_tensor(k)) continue;
    const TensorImpl& t = c.args.tensor(k);
    if (!t.storage || is_exposed(t) || is_complex(t.dtype)) return false;
    if (t.device != out.device && t.device.type != DeviceType::Cpu) return false;
    if (!on_cpu && is_floating(t.dtype) && size_of(t.dtype) == 1) return false;
    need_of_others(t, c.op);
  }
  if (on_cpu && out.numel < least_elements.load(std::memory_order_relaxed) && !mine.group->reads_rows(c, f, common))
    return false;
  mine.group->add(c, f, common);
  return true;
}

bool defer(const Call& c) {
  if (!fuses_now()) return false;
  if (!checks_compiled()) [[likely]]
    return c.op.formulas ? defer_pointwise(c) : defer_rows(c);
  DrawsOf draws(c.args);
  if (!(c.op.formulas ? defer_pointwise(c) : defer_rows(c))) return false;
  mine.group->check(c, draws);
  return true;
}

void need_arguments(const Call& c) {
  const auto need = [&](const TensorImpl& t) {
    if (!t.storage) return;
    if (Promiser* promiser = promiser_of(*t.storage)) promiser->keep(c.op.name.c_str());
  };
  for (const Value& v : c.args) {
    if (v.tag == Tag::Tensor) need(*v.tensor);
    if (v.tag == Tag::Tensors)
      for (const Tensor& t : v.tensor_list())
        if (t) need(*t);
  }
}

BeforeKernel::BeforeKernel(const Call& c) {
  if (mine.group && c.op.written)
    mine.group->keep(c.op.name.c_str());  // deferred ops may read what the kernel overwrites
  need_arguments(c);
  ++mine.in_kernel;
}
BeforeKernel::~BeforeKernel() { --mine.in_kernel; }

}  // namespace strata
