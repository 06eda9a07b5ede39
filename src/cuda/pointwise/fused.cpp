#include "cuda/pointwise/fused.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/custom/compile.h"
#include "cuda/pointwise/fused_source.h"
#include "cuda/pointwise/pointwise.h"

namespace strata::cuda {
namespace {

constexpr uint32_t kThreads = 256;  // of fused.cuh
std::atomic<bool> makes_kernels{true};

// The strided tensors of a program: dimensions that are adjacent in all of them are merged.
struct Strides {
  std::vector<int64_t> size;               // the fastest dimension first
  std::vector<std::vector<int64_t>> step;  // of each tensor, in elements
};

Strides strides_of(const FusedProgram& p, const FusedLayout& layout) {
  std::vector<const TensorImpl*> tensors;
  for (size_t i = 0; i < p.tensors.size(); ++i)
    if (layout.access[i] == FusedAccess::Strided) tensors.push_back(&*p.tensors[i]);
  Strides out;
  out.step.resize(tensors.size());
  const auto dims = static_cast<int>(p.shape.size());
  for (int d = dims; d-- > 0;) {
    const int64_t size = p.shape[static_cast<size_t>(d)];
    if (size == 1) continue;
    const auto step_of = [&](const TensorImpl& t) {
      const int own = d - (dims - t.ndim);
      return own < 0 || t.shape[own] == 1 ? 0 : t.strides[own];
    };
    bool merges = !out.size.empty();
    for (size_t k = 0; k < tensors.size() && merges; ++k)
      merges = step_of(*tensors[k]) == out.step[k].back() * out.size.back();
    if (merges) {
      out.size.back() *= size;
      continue;
    }
    out.size.push_back(size);
    for (size_t k = 0; k < tensors.size(); ++k) out.step[k].push_back(step_of(*tensors[k]));
  }
  return out;
}

// Why a kernel cannot address the strided tensors; null: it can.
const char* unfit(const Strides& s) {
  if (s.size.size() > kAxesMost) return "too many dimensions";
  for (const auto& step : s.step) {
    int64_t reach = 0;
    for (size_t d = 0; d < step.size(); ++d) reach += (s.size[d] - 1) * std::abs(step[d]);
    if (reach > INT32_MAX) return "a strided tensor spans more than 2^31 elements";
  }
  return nullptr;
}

// --- kernels -----------------------------------------------------------------------------------------------------------------
struct Compiled {
  std::optional<Function> kernel;
  std::string source, error;  // why there is no kernel
};

// What the source depends on, and the device's architecture.
std::string key_of(const FusedProgram& p, const FusedLayout& layout, const Gpu& gpu) {
  std::string key;
  const auto add = [&]<class... T>(T... values) {
    (key.append(reinterpret_cast<const char*>(&values), sizeof(T)), ...);
  };
  add(p.device.type, gpu.properties.major, gpu.properties.minor, p.compute, layout.dims, layout.items, layout.vectors);
  for (size_t i = 0; i < p.tensors.size(); ++i) add(p.tensors[i].dtype(), layout.access[i]);
  for (const FusedStep& s : p.steps) {
    add(reinterpret_cast<uintptr_t>(s.formula), s.type, s.to != nullptr);
    for (int k = 0; k < s.formula->inputs; ++k) add(s.from[k].kind, s.from[k].index);
  }
  return key;
}

const Compiled& compiled_for(const FusedProgram& p, const FusedLayout& layout, const Gpu& gpu) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::unique_ptr<Compiled>>;  // never destroyed: threads may end later
  const std::string key = key_of(p, layout, gpu);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known->find(key); found != known->end()) return *found->second;
  }
  auto made = std::make_unique<Compiled>();
  try {
    made->source = fused_source(p, layout);
    const Module module =
      compile(made->source, p.device, {.name = "fused.cu", .options = {"-std=c++20", "-fmad=false"}, .instances = {}});
    made->kernel.emplace(std::make_shared<const Code>("fused", module.ptx()), "fused");
  } catch (const Error& e) {  // no compiler, or one that refuses the source; not retried
    made->error = e.what();
  }
  const std::lock_guard lock(mutex);
  return *known->emplace(key, std::move(made)).first->second;  // the first of two threads wins
}

// --- one launch --------------------------------------------------------------------------------------------------------------
// The bytes of Params in fused.cuh.
class Parameters {
 public:
  void add_address(const void* p) { add(p); }
  void add(auto value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void pad_to_eight() { bytes_.resize((bytes_.size() + 7) / 8 * 8); }
  void* data() { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

bool is_aligned(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % std::min<size_t>(bytes, 16) == 0;
}

void launch(const FusedProgram& p, const FusedLayout& layout, const Strides& strides, const Function& kernel,
            const Stream& stream, int64_t first, int64_t count) {
  Parameters params;
  const auto items = static_cast<size_t>(layout.items);
  bool vectors = strides.size.empty() || strides.size[0] % layout.items == 0;
  uint32_t vector_rows = 0;
  size_t strided = 0;
  for (size_t i = 0; i < p.tensors.size(); ++i) {
    const TensorImpl& t = *p.tensors[i];
    const size_t bytes = size_of(t.dtype);
    const std::byte* data = t.data;
    if (layout.access[i] == FusedAccess::Flat) {
      data += first * static_cast<int64_t>(bytes);
      vectors &= is_aligned(data, items * bytes);
    } else if (layout.access[i] == FusedAccess::Strided) {
      const auto& step = strides.step[strided];
      bool contiguous = step[0] == 1 && is_aligned(data, items * bytes);
      for (size_t d = 1; d < step.size(); ++d) contiguous &= step[d] % layout.items == 0;
      vector_rows |= uint32_t{contiguous} << strided++;
    }
    params.add_address(data);
  }
  if (p.tensors.empty()) params.add_address(nullptr);
  for (const FusedStep& s : p.steps) {
    if (!s.to) continue;
    const std::byte* to = s.to + first * static_cast<int64_t>(size_of(s.type));
    vectors &= is_aligned(to, items * size_of(s.type));
    params.add_address(to);
  }
  const size_t number_bytes = size_of(p.compute);
  size_t numbers = 0;
  for_each_number(p, [&](int64_t bits) {
    if (number_bytes == 4) params.add(static_cast<uint32_t>(bits));
    else params.add(bits);
    ++numbers;
  });
  if (numbers == 0) params.add(int64_t{0});
  params.pad_to_eight();
  params.add(static_cast<uint32_t>(count));
  params.add(uint32_t{vectors});
  params.add(vector_rows);
  params.add(uint32_t{0});
  for (const int64_t size : strides.size) params.add(divisor(static_cast<uint32_t>(size)));
  if (strides.size.empty()) params.add(FastDivisor{});
  for (const auto& step : strides.step)
    for (const int64_t s : step) params.add(static_cast<int32_t>(s));
  if (strides.step.empty()) params.add(int32_t{0});
  params.pad_to_eight();
  void* pointers[] = {params.data(), nullptr};
  stream.launch_with(kernel, {blocks_for(count, int64_t{kThreads} * layout.items * layout.vectors)}, {kThreads}, 0,
                     pointers);
}

// --- without a kernel of its own -----------------------------------------------------------------------------------------------
// Makes a stream the current one of this thread, for launchers that use that one.
class InStream {
 public:
  explicit InStream(const Stream& s) : outer_(Stream::current(s.gpu())) { Stream::swap_current(s); }
  ~InStream() { Stream::swap_current(outer_); }
  InStream(const InStream&) = delete;
  InStream& operator=(const InStream&) = delete;

 private:
  Stream outer_;
};

void run_steps(const FusedProgram& p, const Stream& stream) {
  const InStream there(stream);
  std::vector<Tensor> results(p.steps.size());
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const FusedStep& s = p.steps[i];
    Tensor& out = results[i];
    out = Tensor(Ref<TensorImpl>::adopt(TensorImpl::make()));
    out->set_shape(Shape(p.shape.data(), p.shape.size()));
    out->set_contiguous_strides();
    out->dtype = s.type;
    out->device = p.device;
    if (s.to) out->data = s.to;  // somebody else owns the memory
    else out->allocate();
    FormulaOperands operands{};
    for (int k = 0; k < s.formula->inputs; ++k) {
      const FusedOperand& from = s.from[k];
      if (from.kind == FusedOperand::Kind::Number) operands.number[k] = static_cast<uint64_t>(from.number);
      else operands.tensor[k] = from.kind == FusedOperand::Kind::Step ? &*results[from.index] : &*p.tensors[from.index];
    }
    for (int k = 0; k < s.formula->members; ++k) operands.members[k] = static_cast<uint64_t>(s.members[k]);
    run_formula(*s.formula, p.compute, operands, *out);
  }
}

}  // namespace

bool set_fused_kernels(bool on) { return makes_kernels.exchange(on, std::memory_order_relaxed); }

void run_fused(const FusedProgram& p, const Stream& stream, FusedRun* report) {
  const auto step_by_step = [&](const std::string& why) {
    if (report) report->how = "op by op: " + why;
    run_steps(p, stream);
  };
  if (p.steps.size() == 1) return step_by_step("a single op");
  if (!makes_kernels.load(std::memory_order_relaxed)) return step_by_step("kernels are switched off");
  FusedLayout layout;
  int64_t count = 1;
  for (const int64_t size : p.shape) count *= size;
  for (const Tensor& t : p.tensors)
    layout.access.push_back(t.numel() == 1 || repeats_one(*t)     ? FusedAccess::One
                            : t->contiguous && t.numel() == count ? FusedAccess::Flat
                                                                  : FusedAccess::Strided);
  const Strides strides = layout.strided() ? strides_of(p, layout) : Strides{};
  if (const char* reason = unfit(strides)) return step_by_step(reason);
  constexpr int64_t kMostOfALaunch = 1 << 30;
  if (layout.strided() && count > kMostOfALaunch) return step_by_step("strided tensors of more than 2^30 elements");
  layout.dims = static_cast<int>(strides.size.size());
  choose_vectors(p, layout);
  const Compiled& compiled = compiled_for(p, layout, stream.gpu());
  if (!compiled.kernel) return step_by_step(compiled.error);
  if (report) *report = {"one kernel", compiled.source};
  for (int64_t first = 0; first < count; first += kMostOfALaunch)
    launch(p, layout, strides, *compiled.kernel, stream, first, std::min(kMostOfALaunch, count - first));
}

}  // namespace strata::cuda
