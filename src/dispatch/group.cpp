#include "dispatch/group.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/trace.h"
#include "cpu/pointwise/tiles.h"
#include "cuda/pointwise/pointwise.h"
#include "dispatch/lone_call.h"
#include "dispatch/memory.h"
#include "dispatch/source_line.h"
#include "record/formula.h"

namespace strata {
namespace {

constexpr size_t kMaxSteps = 64, kMaxTensors = 32, kMaxNumbers = cuda::kMostFusedNumbers;  // of a group
constexpr int64_t kMostAligned = 8;  // rows of a tile, for steps that need tiles to begin at certain elements
constexpr int64_t kMostAlignedElements = 1 << 15;  // so that such a tile stays in the cache

// Whether rows are short enough for the cache, and enough for all threads.
bool suits_tiles(const RowOp& op) {
  constexpr int64_t kLongest = 1 << 17, kShort = 4096, kFew = 8;
  return op.row <= kShort || (op.row <= kLongest && checked_numel(op.shape) >= kFew * op.row);
}

void fill_with_nans(const TensorImpl& t) {
  if (t.device.type == DeviceType::Cpu) std::memset(t.data, 0xff, t.storage->requested);
  else if (is_floating(t.dtype)) cuda::fill(t, NAN);
}

}  // namespace

std::atomic<bool> fills_promised{false};
thread_local constinit Group* Group::computing = nullptr;

// --- the shape of a group ---------------------------------------------------------------------------------------------
int64_t Group::elements() const { return checked_numel(Shape(program_.shape.data(), program_.shape.size())); }
bool Group::same_shape(const TensorImpl& t) const {
  return std::equal(program_.shape.begin(), program_.shape.end(), t.shape, t.shape + t.ndim);
}
// Whether a tensor with one value per row repeats it for the elements of the row when it is broadcast to the shape.
bool Group::repeats_for_rows(const TensorImpl& t) const {
  const std::vector<int64_t>& shape = program_.shape;
  int64_t inside = program_.row, stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    const int own = static_cast<int>(d) - static_cast<int>(shape.size()) + t.ndim;
    const int64_t size = own < 0 ? 1 : t.shape[own];
    if (inside > 1) {
      inside /= shape[d];
      if (size != 1 && t.strides[own] != 0) return false;
      continue;
    }
    if (size != shape[d] || (size != 1 && t.strides[own] != stride)) return false;
    stride *= size;
  }
  return t.ndim <= static_cast<int>(shape.size());
}

bool Group::is_own(const TensorImpl& t) const { return promiser_of(*t.storage) == this; }

// The step whose result this tensor is, if any, as an operand of which a block holds `extent`.
std::optional<size_t> Group::step_of(const TensorImpl& t, RowExtent extent, int64_t width) const {
  for (size_t i = steps_.size(); i-- > 0;) {
    if (steps_[i].memory != t.storage.get()) continue;
    const FusedStep& s = program_.steps[i];
    if (t.data != s.to || t.dtype != s.type || s.part.extent == RowExtent::Whole) return std::nullopt;
    bool is = false;
    if (s.part.extent == RowExtent::Elements) is = extent == RowExtent::Elements && t.contiguous && same_shape(t);
    else if (extent == RowExtent::Rows)
      is = t.contiguous && s.part.width == width && t.numel * program_.row == elements() * width;
    else is = s.part.width == 1 && repeats_for_rows(t);
    return is ? std::optional(i) : std::nullopt;
  }
  return std::nullopt;
}

bool Group::room_for(size_t steps, size_t inputs, size_t numbers) const {
  return steps_.size() + steps <= kMaxSteps && program_.tensors.size() + inputs <= kMaxTensors &&
         numbers_ + numbers <= kMaxNumbers;
}

void Group::begin(const TensorImpl& out, DType compute, Shape shape) {
  program_.compute = compute;
  program_.device = out.device;
  program_.row = 1;
  program_.shape.assign(shape.begin(), shape.end());
  align_ = 1;
  together_ = 1;
  unit_ = 0;
  threads_ = 0;
  if (out.device.type != DeviceType::Cpu) stream_.emplace(cuda::stream_of(out.device));
}

// --- pointwise ops ----------------------------------------------------------------------------------------------------
bool Group::reads_rows(const Call& c, const Formula& f, DType common) {
  const std::lock_guard lock(mutex_);
  const TensorImpl& out = *c.out();
  if (program_.row == 1 || steps_.empty() || out.numel * program_.row != elements() || !out.contiguous ||
      out.device != program_.device)
    return false;
  if (same_shape(out) || program_.compute != dispatch_compute(common, []<class T>() { return dtype_of<T>; }))
    return false;
  bool reads = false;
  for (int k = 0; k < f.inputs; ++k) {
    if (!c.args.is_tensor(k)) continue;
    const TensorImpl& t = c.args.tensor(k);
    if (is_own(t)) {
      const auto step = step_of(t, RowExtent::Rows);
      if (!step || program_.steps[*step].part.extent != RowExtent::Rows || !t.same_shape(out)) return false;
      reads = true;
    } else if (t.numel != 1 && !(t.contiguous && t.same_shape(out))) {
      return false;
    }
  }
  return reads;
}

void Group::add(const Call& c, const Formula& f, DType common) {
  const bool rows = reads_rows(c, f, common);
  const std::lock_guard lock(mutex_);
  const Scoped inside(computing, this);
  const TensorImpl& out = *c.out();
  const bool overwrites = out.storage.get();
  const RowPart part{rows ? RowExtent::Rows : RowExtent::Elements};
  const DType compute = dispatch_compute(common, []<class T>() { return dtype_of<T>; });
  if (!steps_.empty() && !rows && (compute != program_.compute || out.device != program_.device || !same_shape(out)))
    compute_all(c.op.name.c_str(), out.device != program_.device ? "it runs on another device"
                                   : same_shape(out)             ? "it computes in another type"
                                                                 : "its result has another shape");
  if (!room_for(1, f.inputs, f.inputs + f.members)) compute_all("a full group", "a group has at most 64 ops");
  FusedStep step;
  step.formula = &f;
  step.type = out.dtype;
  step.part = part;
  for (int k = 0; k < f.inputs; ++k)
    if (c.args.is_tensor(k) && is_own(c.args.tensor(k)) && !step_of(c.args.tensor(k), part.extent))
      compute_all(c.op.name.c_str(), "it reads another view of a result");  // no operand of a tile
  if (overwrites) prepare_to_overwrite(out, c.op.name.c_str());
  if (steps_.empty()) {
    begin(out, compute, out.sizes());
    step.part = {};
  }
  dispatch_compute(common, [&]<class T>() {
    T members[kMaxMembers];
    read_members(f, c.args, members);
    for (int k = 0; k < f.members; ++k) std::memcpy(&step.members[k], &members[k], sizeof(T));
    numbers_ += f.members;
    for (int k = 0; k < f.inputs; ++k) {
      const Value& v = c.args[k];
      if (v.tag == Tag::Tensor && v.tensor->device == out.device) {
        step.from[k] = operand_of(*v.tensor, step.part);
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
  }
  promise(step, c.op, out);
  if (!overwrites && fills_promised.load(std::memory_order_relaxed)) fill_with_nans(out);
}

void Group::promise(const FusedStep& step, const OpRecord& op, const TensorImpl& out) {
  for (Step& s : steps_)  // this result replaces an earlier one, which later steps do not read
    if (s.memory == out.storage.get()) s.memory = nullptr;
  program_.steps.push_back(step);
  program_.steps.back().to = out.data;
  steps_.push_back({&op, out.storage.get(), out.numel * static_cast<int64_t>(size_of(out.dtype)),
                    report ? short_program_line() : std::string()});
  set_promiser(*out.storage, this);
}

// Memory that is written in place must be read and written by the same elements of a tile, and by no other view.
void Group::prepare_to_overwrite(const TensorImpl& out, const char* op) {
  Promiser* const promiser = promiser_of(*out.storage);
  bool apart = promiser && (promiser != this || !step_of(out, RowExtent::Elements));
  for (const Tensor& t : program_.tensors) apart |= t->storage.get() == out.storage.get() && !same_view(*t, out);
  for (const Tensor& t : whole_) apart |= t->storage.get() == out.storage.get();
  apart |= !steps_.empty() && !same_shape(out);
  if (!apart) return;
  if (promiser && promiser != this) promiser->keep(op);
  compute_all(op, "it overwrites memory that the group uses otherwise");
}

FusedOperand Group::operand_of(const TensorImpl& t, RowPart part) {
  if (is_own(t)) return {Kind::Step, step_of(t, part.extent, part.width).value(), 0};
  std::vector<Tensor>& known = program_.tensors;
  for (size_t i = 0; i < known.size(); ++i)
    if (program_.parts[i].extent == part.extent && same_view(*known[i], t)) return {Kind::Tensor, i, 0};
  known.push_back(alias(t));  // a copy: the tensor itself may get other memory before this group is computed
  program_.parts.push_back(part);
  return {Kind::Tensor, known.size() - 1, 0};
}

// --- ops on rows ------------------------------------------------------------------------------------------------------
std::optional<RowOp> Group::describe(const Call& c, const RowRule& rule) {
  for (uint32_t i = 0; i < c.args.size; ++i)
    if (rule.whole >> i & 1 && c.args.is_tensor(i))
      if (Promiser* const promiser = promiser_of(*c.args.tensor(i).storage)) promiser->keep(c.op.name.c_str());
  const Scoped inside(computing, this);          // values are read, which would otherwise compute the group
  const Scoped running(thread_state.op, &c.op);  // faults of kernels name the op
  return rule.describe(c);
}

// Whether an op on rows can be computed with the steps so far.
bool Group::fits(const RowOp& op) const {
  if (op.compute != program_.compute ||
      !std::equal(program_.shape.begin(), program_.shape.end(), op.shape.begin(), op.shape.end()))
    return false;
  if (op.row != 1 && program_.row != 1 && op.row != program_.row) return false;
  if (program_.device.type != DeviceType::Cpu) return !op.gpu->threads || !threads_ || op.gpu->threads == threads_;
  if (op.unit && unit_ && op.unit != unit_) return false;
  const int64_t row = std::max(op.row, program_.row), align = std::max(op.align, align_);
  const int64_t whole = std::max({op.together, together_, align / std::gcd(align, row)});
  return row == 1 || whole == 1 || (whole <= kMostAligned && whole * row <= kMostAlignedElements);
}

// Whether a group reads or writes less than its steps so far and the op apart: on GPUs, where each value in a kernel costs registers.
bool Group::saves_bytes(const RowOp& op) const {
  return std::ranges::any_of(op.in, [&](const RowInput& in) {
    return is_own(*in.tensor) ||
           std::ranges::any_of(program_.tensors, [&](const Tensor& t) { return same_view(*t, *in.tensor); });
  });
}

bool Group::add(const Call& c, RowOp op, uint32_t whole) {
  const std::lock_guard lock(mutex_);
  const Scoped inside(computing, this);
  const size_t outputs = c.op.outputs, inputs = op.in.size();
  const bool on_cpu = c.out()->device.type == DeviceType::Cpu;
  if (on_cpu && !suits_tiles(op)) return false;
  if (op.joins &&
      (steps_.empty() || !fits(op) || !is_own(*op.in[0].tensor) || !step_of(*op.in[0].tensor, RowExtent::Elements)))
    return false;
  bool apart = !steps_.empty() && (c.out()->device != program_.device || !fits(op) || (!on_cpu && !saves_bytes(op)));
  const int64_t row_before = program_.row;
  program_.row = std::max(op.row, row_before);  // operands may be given as rows
  for (const RowInput& in : op.in)
    apart |= !steps_.empty() && is_own(*in.tensor) && !step_of(*in.tensor, in.extent, in.width);
  program_.row = row_before;
  const size_t numbers = on_cpu ? 0 : op.gpu->numbers.size();
  if (apart || !room_for(outputs, inputs, numbers)) {
    if (op.joins) return false;
    compute_all(c.op.name.c_str(), !fits(op) ? "its rows have another shape, type or number of threads"
                                   : !apart  ? "a group has at most 64 ops"
                                             : "it reads another view of a result, or saves no bytes");
  }
  for (const RowInput& in : op.in)  // values for each row are read as they are in memory
    if (in.extent == RowExtent::Rows && !is_own(*in.tensor) &&
        (!in.tensor->contiguous || in.tensor->dtype != op.compute))
      return false;
  if (steps_.empty()) begin(*c.out(), op.compute, op.shape);
  program_.row = std::max(op.row, program_.row);
  align_ = std::max(op.align, align_);
  together_ = std::max(op.together, together_);
  unit_ = std::max(op.unit, unit_);
  if (!on_cpu) {
    threads_ = std::max(op.gpu->threads, threads_);
    numbers_ += numbers;
    if (!op.alone) op.alone = lone_call(c, op);
  }
  FusedStep step;
  for (size_t k = 0; k < inputs; ++k) step.from[k] = operand_of(*op.in[k].tensor, op.in[k]);
  for (uint32_t i = 0; i < c.args.size; ++i)
    if (whole >> i & 1 && c.args.is_tensor(i)) whole_.push_back(alias(c.args.tensor(i)));
  for (const Tensor& t : op.reads)
    if (t) whole_.push_back(t);
  for (RowInput& in : op.in) in.tensor = nullptr;  // it need not live any longer
  const Scoped running(thread_state.op, &c.op);    // the allocator of a device records the op
  for (size_t o = 0; o < outputs; ++o) {
    c.outs[o]->allocate();
    if (fills_promised.load(std::memory_order_relaxed)) fill_with_nans(*c.outs[o]);
  }
  if (op.prepare) op.prepare(c);
  const auto shared = std::make_shared<const RowOp>(std::move(op));
  for (size_t o = 0; o < outputs; ++o) {
    if (shared->out[o].ready) continue;
    step.rows = shared;
    step.output = static_cast<int>(o);
    step.part = shared->out[o];
    step.type = c.outs[o].dtype();
    promise(step, c.op, *c.outs[o]);
  }
  return true;
}

// --- computing --------------------------------------------------------------------------------------------------------
void Group::keep(const char* why) {
  if (computing == this) return;  // allocators and streams of devices ask for values before they wait
  const std::lock_guard lock(mutex_);
  compute_all(why, why == std::string_view("return") ? "the function ends" : "it needs the values");
}
void Group::drop(const Storage& storage) {
  const std::lock_guard lock(mutex_);
  for (Step& s : steps_)
    if (s.memory == &storage) s.memory = nullptr;
  check_.drop(storage);
}
void Group::check(const Call& c, DrawsOf& draws) {
  const std::lock_guard lock(mutex_);
  const Scoped inside(computing, this);
  check_.add(c, draws);
}
// The first result with other bits than its op's own kernel gives, in words.
std::string Group::first_objection() {
  for (const Step& s : steps_)
    if (s.memory) apply_group_fault(*s.op, *s.memory, program_.device);
  for (const Step& s : steps_)
    if (std::string wrong = s.memory ? check_.objection(*s.memory) : ""; !wrong.empty()) return wrong;
  return {};
}

void Group::compute_all(const char* why, const char* reason) {
  if (steps_.empty()) return;
  std::string wrong;
  FusedProgram program = needed_steps();
  cuda::FusedRun run{.how = "tiles", .source = {}};
  if (!program.steps.empty()) {
    tracing::Span span(tracing::Layer::Kernel, "fused");
    if (span.active()) span.copied(tracing::key::detail, names());
    const Scoped now(computing, this);
    const Scoped<ReadObserver*> unseen(own_read_observer, nullptr);  // the program has called these ops before
    if (program.device.type == DeviceType::Cpu) cpu::run_tiles(program);
    else cuda::run_fused(program, *stream_, report ? &run : nullptr);
    if (checks_compiled()) wrong = first_objection();
  }
  if (report) report->push_back(described(program, run, why, reason));
  for (const Step& s : steps_)
    if (s.memory) set_promiser(*s.memory, nullptr);
  steps_.clear();
  program_.steps.clear();
  program_.tensors.clear();
  program_.parts.clear();
  whole_.clear();
  check_.clear();
  program_.row = 1;
  numbers_ = 0;
  if (!wrong.empty())
    fail(ErrorKind::Runtime,
         fmt::format("compile: STRATA_COMPILE=check found an op that has another result in a group than alone: {}. "
                     "The group was ended by {}",
                     wrong, why));
}

// The steps whose results are held or used by such steps, with the tensors they read.
FusedProgram Group::needed_steps() const {
  const size_t n = steps_.size();
  std::vector<bool> needed(n), read(program_.tensors.size());
  const auto first_of = [&](size_t i) {  // step of the same op that has its operands
    while (program_.steps[i].rows && i > 0 && program_.steps[i - 1].rows == program_.steps[i].rows) --i;
    return i;
  };
  for (size_t i = n; i-- > 0;) {
    if (steps_[i].memory) needed[i] = true;
    if (!needed[i]) continue;
    needed[first_of(i)] = true;
    for (const FusedOperand& from : operands_of(program_.steps[i])) {
      if (from.kind == Kind::Step) needed[from.index] = true;
      if (from.kind == Kind::Tensor) read[from.index] = true;
    }
  }
  FusedProgram p;
  p.device = program_.device;
  p.compute = program_.compute;
  p.shape = program_.shape;
  p.row = program_.row;
  std::vector<size_t> tensor_at(read.size()), step_at(n);
  for (size_t i = 0; i < read.size(); ++i)
    if (read[i]) {
      tensor_at[i] = p.tensors.size();
      p.tensors.push_back(program_.tensors[i]);
      p.parts.push_back(program_.parts[i]);
    }
  for (size_t i = 0; i < n; ++i) {
    if (!needed[first_of(i)]) continue;
    step_at[i] = p.steps.size();
    FusedStep& s = p.steps.emplace_back(program_.steps[i]);
    if (!steps_[i].memory) s.to = nullptr;
    for (FusedOperand& from : std::span(s.from, static_cast<size_t>(s.inputs()))) {
      if (from.kind == Kind::Step) from.index = step_at[from.index];
      if (from.kind == Kind::Tensor) from.index = tensor_at[from.index];
    }
  }
  return p;
}

// --- reports ----------------------------------------------------------------------------------------------------------
std::string Group::names() const {
  std::string all;
  for (size_t i = 0; i < steps_.size(); ++i)
    if (program_.steps[i].output == 0) all += (all.empty() ? "" : " ") + steps_[i].op->name;
  return all;
}

FusedGroup Group::described(const FusedProgram& p, const cuda::FusedRun& run, const char* why,
                            const char* reason) const {
  FusedGroup g;
  g.device = to_string(p.device);
  g.how = run.how;
  g.source = run.source;
  g.shape = p.shape;
  g.ended_by = why;
  g.reason = reason;
  const auto bytes_of = [](const Tensor& t) { return t.numel() * static_cast<int64_t>(size_of(t.dtype())); };
  const auto is_op = [](const FusedStep& s) { return s.output == 0; };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    if (is_op(program_.steps[i])) {
      g.ops.push_back(s.op->name);
      g.lines.push_back(s.line);
    }
    g.stored += s.memory != nullptr;
    g.bytes_one_by_one += s.bytes;
    if (s.memory) g.bytes += s.bytes;
    for (const FusedOperand& from : operands_of(program_.steps[i])) {
      if (from.kind == Kind::Step) g.bytes_one_by_one += steps_[from.index].bytes;
      if (from.kind == Kind::Tensor) g.bytes_one_by_one += bytes_of(program_.tensors[from.index]);
    }
  }
  for (const Tensor& t : p.tensors) g.bytes += bytes_of(t);
  g.dropped = g.ops.size() - static_cast<size_t>(std::ranges::count_if(p.steps, is_op));
  return g;
}

}  // namespace strata
