#include "dispatch/deferred.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>

#include "base/trace.h"
#include "cpu/pointwise/tiles.h"
#include "cuda/pointwise/fused.h"
#include "cuda/pointwise/pointwise.h"
#include "record/formula.h"

namespace strata {
namespace {

constexpr size_t kMaxSteps = 64, kMaxTensors = 32, kMaxNumbers = cuda::kMostFusedNumbers;  // of a group
std::atomic<int64_t> least_deferred{16384};  // fewer elements stay in the L1 cache without fusion
std::atomic<bool> fills_promised{false};

// The deferred ops of one thread. Other threads may need a value, or drop a result: hence the lock.
class Group final : public Promiser {
 public:
  std::vector<FusedGroup>* report = nullptr;

  // A result without memory gets some; one that has memory is written to, after all steps so far.
  void add(const Call& c, const Formula& f, DType common) {
    const std::lock_guard lock(mutex_);
    const Scoped inside(computing, this);
    const TensorImpl& out = *c.out();
    const bool overwrites = out.storage.get();
    const DType compute = dispatch_compute(common, []<class T>() { return dtype_of<T>; });
    if (!steps_.empty() && (compute != program_.compute || out.device != program_.device || !same_shape(out)))
      compute_all(c.op.name.c_str());
    if (steps_.size() == kMaxSteps || program_.tensors.size() + f.inputs > kMaxTensors ||
        numbers_ + f.inputs + f.members > kMaxNumbers)
      compute_all("a full group");
    if (steps_.empty()) {
      program_.compute = compute;
      program_.device = out.device;
      if (out.device.type != DeviceType::Cpu) stream_.emplace(cuda::stream_of(out.device));
      program_.shape.assign(out.shape, out.shape + out.ndim);
    }
    FusedStep step;
    step.formula = &f;
    step.type = out.dtype;
    for (int k = 0; k < f.inputs; ++k)
      if (c.args.is_tensor(k) && promiser_of(*c.args.tensor(k).storage) == this && !step_of(c.args.tensor(k)))
        compute_all(c.op.name.c_str());  // another view of a result is no operand of a tile
    if (overwrites) prepare_to_overwrite(out, c.op.name.c_str());
    dispatch_compute(common, [&]<class T>() {
      T members[kMaxMembers];
      read_members(f, c.args, members);
      for (int k = 0; k < f.members; ++k) std::memcpy(&step.members[k], &members[k], sizeof(T));
      numbers_ += f.members;
      for (int k = 0; k < f.inputs; ++k) {
        const Value& v = c.args[k];
        if (v.tag == Tag::Tensor && v.tensor->device == out.device) {
          step.from[k] = operand_of(*v.tensor);
          continue;
        }
        const T number = v.tag == Tag::Tensor ? host_number<T>(*v.tensor) : number_operand<T>(f, v, k, common);
        ++numbers_;
        std::memcpy(&step.from[k].number, &number, sizeof number);
      }
    });
    if (!overwrites) {
      Scoped running(thread_state.op, &c.op);  // the allocator of a device records the op
      c.outs[0]->allocate();
      if (fills_promised.load(std::memory_order_relaxed)) fill_with_nans(out);
    }
    for (Step& s : steps_)  // this result replaces an earlier one, which later steps do not read
      if (s.memory == out.storage.get()) s.memory = nullptr;
    step.to = out.data;
    program_.steps.push_back(step);
    steps_.push_back({&c.op, out.storage.get(), static_cast<int64_t>(size_of(out.dtype))});
    set_promiser(*out.storage, this);
  }

  void keep(const char* why) override {
    if (computing == this) return;  // allocators and streams of devices ask for values before they wait
    const std::lock_guard lock(mutex_);
    compute_all(why);
  }
  void before_launch(const char* kernel) override;
  void drop(const Storage& storage) override {
    const std::lock_guard lock(mutex_);
    for (Step& s : steps_)
      if (s.memory == &storage) s.memory = nullptr;
  }

 private:
  using Kind = FusedOperand::Kind;
  struct Step {
    const OpRecord* op;
    Storage* memory;  // of the result; null: dropped
    int64_t item;     // bytes per element
  };

  static std::span<const FusedOperand> operands_of(const FusedStep& s) { return {s.from, s.formula->inputs}; }
  bool same_shape(const TensorImpl& t) const {
    return std::equal(program_.shape.begin(), program_.shape.end(), t.shape, t.shape + t.ndim);
  }
  // The step whose result this tensor is, if any.
  std::optional<size_t> step_of(const TensorImpl& t) const {
    for (size_t i = steps_.size(); i-- > 0;) {
      if (steps_[i].memory != t.storage.get()) continue;
      const FusedStep& s = program_.steps[i];
      if (t.data == s.to && t.contiguous && same_shape(t) && t.dtype == s.type) return i;
      return std::nullopt;
    }
    return std::nullopt;
  }
  static void fill_with_nans(const TensorImpl& t) {
    if (t.device.type == DeviceType::Cpu) std::memset(t.data, 0xff, t.storage->requested);
    else if (is_floating(t.dtype)) cuda::fill(t, NAN);
  }
  // Memory that is written in place must be read and written by the same elements of a tile, and by no other view.
  void prepare_to_overwrite(const TensorImpl& out, const char* op) {
    Promiser* const promiser = promiser_of(*out.storage);
    bool apart = promiser && (promiser != this || !step_of(out));
    for (const Tensor& t : program_.tensors) apart |= t->storage.get() == out.storage.get() && !same_view(*t, out);
    if (!apart) return;
    if (promiser && promiser != this) promiser->keep(op);
    compute_all(op);
  }
  FusedOperand operand_of(const TensorImpl& t) {
    if (promiser_of(*t.storage) == this) return {Kind::Step, step_of(t).value(), 0};
    std::vector<Tensor>& known = program_.tensors;
    for (size_t i = 0; i < known.size(); ++i)
      if (same_view(*known[i], t)) return {Kind::Tensor, i, 0};
    known.push_back(alias(t));  // a copy: the tensor itself may get other memory before this group is computed
    return {Kind::Tensor, known.size() - 1, 0};
  }
  static bool same_view(const TensorImpl& a, const TensorImpl& b) {
    return a.data == b.data && a.dtype == b.dtype && a.same_shape(b) &&
           std::equal(a.strides, a.strides + a.ndim, b.strides);
  }

  void compute_all(const char* why) {
    if (steps_.empty()) return;
    FusedProgram program = needed_steps();
    cuda::FusedRun run{.how = "tiles", .source = {}};
    if (!program.steps.empty()) {
      tracing::Span span(tracing::Layer::Kernel, "fused");
      if (span.active()) span.detail(names());
      Scoped now(computing, this);
      if (program.device.type == DeviceType::Cpu) cpu::run_tiles(program);
      else cuda::run_fused(program, *stream_, report ? &run : nullptr);
    }
    if (report) report->push_back(described(program, run, why));
    for (const Step& s : steps_)
      if (s.memory) set_promiser(*s.memory, nullptr);
    steps_.clear();
    program_.steps.clear();
    program_.tensors.clear();
    numbers_ = 0;
  }

  // The steps whose results are held or used by such steps, with the tensors they read.
  FusedProgram needed_steps() const {
    const size_t n = steps_.size();
    std::vector<bool> needed(n), read(program_.tensors.size());
    for (size_t i = n; i-- > 0;) {
      if (steps_[i].memory) needed[i] = true;
      if (!needed[i]) continue;
      for (const FusedOperand& from : operands_of(program_.steps[i])) {
        if (from.kind == Kind::Step) needed[from.index] = true;
        if (from.kind == Kind::Tensor) read[from.index] = true;
      }
    }
    FusedProgram p;
    p.device = program_.device;
    p.compute = program_.compute;
    p.shape = program_.shape;
    std::vector<size_t> tensor_at(read.size()), step_at(n);
    for (size_t i = 0; i < read.size(); ++i)
      if (read[i]) {
        tensor_at[i] = p.tensors.size();
        p.tensors.push_back(program_.tensors[i]);
      }
    for (size_t i = 0; i < n; ++i) {
      if (!needed[i]) continue;
      step_at[i] = p.steps.size();
      FusedStep& s = p.steps.emplace_back(program_.steps[i]);
      if (!steps_[i].memory) s.to = nullptr;
      for (FusedOperand& from : std::span(s.from, s.formula->inputs)) {
        if (from.kind == Kind::Step) from.index = step_at[from.index];
        if (from.kind == Kind::Tensor) from.index = tensor_at[from.index];
      }
    }
    return p;
  }

  std::string names() const {
    std::string all;
    for (const Step& s : steps_) all += (all.empty() ? "" : " ") + s.op->name;
    return all;
  }
  FusedGroup described(const FusedProgram& p, const cuda::FusedRun& run, const char* why) const {
    FusedGroup g;
    g.device = to_string(p.device);
    g.how = run.how;
    g.source = run.source;
    g.shape = p.shape;
    g.ended_by = why;
    const int64_t n = checked_numel(Shape(p.shape.data(), p.shape.size()));
    const auto bytes_of = [](const Tensor& t) { return t.numel() * static_cast<int64_t>(size_of(t.dtype())); };
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& s = steps_[i];
      g.ops.push_back(s.op->name);
      g.stored += s.memory != nullptr;
      g.bytes_one_by_one += n * s.item;
      if (s.memory) g.bytes += n * s.item;
      for (const FusedOperand& from : operands_of(program_.steps[i])) {
        if (from.kind == Kind::Step) g.bytes_one_by_one += n * steps_[from.index].item;
        if (from.kind == Kind::Tensor) g.bytes_one_by_one += bytes_of(program_.tensors[from.index]);
      }
    }
    for (const Tensor& t : p.tensors) g.bytes += bytes_of(t);
    g.dropped = steps_.size() - p.steps.size();
    return g;
  }

  std::mutex mutex_;
  FusedProgram program_;
  std::vector<Step> steps_;             // of the program, in the same order
  size_t numbers_ = 0;                  // of the program, with members of formulas
  std::optional<cuda::Stream> stream_;  // of a program on a device: the current one when its first op was called
  static thread_local constinit Group* computing;
};
thread_local constinit Group* Group::computing = nullptr;

struct ThreadDeferral {
  int depth = 0;      // of nested Deferrals
  int in_kernel = 0;  // kernels made of ops read their results directly
  Group* group = nullptr;
};
STRATA_THREAD_LOCAL_DECL thread_local constinit ThreadDeferral mine;

// Composites and custom kernels launch outside of dispatch.
void Group::before_launch(const char* kernel) {
  if (mine.in_kernel == 0) keep(kernel);
}

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

int64_t set_least_deferred(int64_t elements) { return least_deferred.exchange(elements, std::memory_order_relaxed); }

void fill_promised(bool on) { fills_promised.store(on, std::memory_order_relaxed); }

bool defer(const Call& c) {
  if (!mine.depth || mine.in_kernel || !c.op.formulas) return false;
  if (thread_state.reference_only || thread_state.explain || thread_state.anomaly_mode || thread_state.tuning)
    return false;
  const TensorImpl& out = *c.out();
  const bool on_cpu = out.device.type == DeviceType::Cpu;
  if (out.device.type == DeviceType::Meta || !out.contiguous || out.numel == 0 || (out.storage && is_exposed(out)) ||
      (on_cpu ? out.numel < least_deferred.load(std::memory_order_relaxed) : mine.group->place == 0))
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
    // Values of other threads, before this group is locked: two threads may need each other's.
    if (Promiser* other = promiser_of(*t.storage); other && other != mine.group) other->keep(c.op.name.c_str());
  }
  mine.group->add(c, f, common);
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
