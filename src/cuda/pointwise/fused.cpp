#include "cuda/pointwise/fused.h"

#include <algorithm>
#include <atomic>

#include "cuda/common/tensors.h"
#include "cuda/pointwise/fused_kernel.h"
#include "cuda/pointwise/fused_rows.h"
#include "cuda/pointwise/fused_source.h"
#include "cuda/pointwise/fused_steps.h"

namespace strata::cuda {
namespace {

constexpr uint32_t kThreads = 256;  // of fused.cuh
std::atomic<bool> makes_kernels{true};

FusedKey key_of(const FusedProgram& p, const FusedLayout& layout) {
  FusedKey key;
  key.add(layout.dims, layout.items, layout.vectors);
  for (size_t i = 0; i < p.tensors.size(); ++i) key.add(p.tensors[i].dtype(), layout.access[i]);
  for (const FusedStep& s : p.steps) {
    key.add(reinterpret_cast<uintptr_t>(s.formula), s.type, s.to != nullptr);
    for (int k = 0; k < s.formula->inputs; ++k) key.add(s.from[k].kind, s.from[k].index);
  }
  return key;
}

void launch(const FusedProgram& p, const FusedLayout& layout, const FusedStrides& strides, const Function& kernel,
            const Stream& stream, int64_t first, int64_t count) {
  FusedParameters params;
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
      vector_rows |= uint32_t{has_vectors(t, strides.step[strided], layout.items)} << strided;
      ++strided;
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
  params.add_numbers(p);
  params.add(static_cast<uint32_t>(count));
  params.add(uint32_t{vectors});
  params.add(vector_rows);
  params.add(uint32_t{0});
  params.add_strides(strides);
  void* pointers[] = {params.data(), nullptr};
  stream.launch_with(kernel, {blocks_for(count, int64_t{kThreads} * layout.items * layout.vectors)}, {kThreads}, 0,
                     pointers);
}

}  // namespace

bool set_fused_kernels(bool on) { return makes_kernels.exchange(on, std::memory_order_relaxed); }

void run_fused(const FusedProgram& p, const Stream& stream, FusedRun* report) {
  const auto step_by_step = [&](const std::string& why) {
    if (report) report->how = "op by op: " + why;
    run_steps(p, stream);
  };
  if (std::ranges::count(p.steps, 0, &FusedStep::output) == 1) return step_by_step("a single op");
  if (!makes_kernels.load(std::memory_order_relaxed)) return step_by_step("kernels are switched off");
  if (std::ranges::any_of(p.steps, [](const FusedStep& s) { return s.rows != nullptr; })) {
    FusedRun run;
    if (const std::string reason = run_fused_rows(p, stream, run); !reason.empty()) return step_by_step(reason);
    if (report) *report = run;
    return;
  }
  FusedLayout layout;
  std::vector<const TensorImpl*> strided;
  int64_t count = 1;
  for (const int64_t size : p.shape) count *= size;
  for (const Tensor& t : p.tensors)
    layout.access.push_back(t.numel() == 1 || repeats_one(*t)     ? FusedAccess::One
                            : t->contiguous && t.numel() == count ? FusedAccess::Flat
                                                                  : FusedAccess::Strided);
  for (size_t i = 0; i < p.tensors.size(); ++i)
    if (layout.access[i] == FusedAccess::Strided) strided.push_back(&*p.tensors[i]);
  const FusedStrides strides = strided.empty() ? FusedStrides{} : fused_strides(p, strided);
  if (const char* reason = unfit(strides)) return step_by_step(reason);
  constexpr int64_t kMostOfALaunch = kMostFusedStrided;
  if (layout.strided() && count > kMostOfALaunch) return step_by_step("strided tensors of more than 2^30 elements");
  layout.dims = static_cast<int>(strides.size.size());
  choose_vectors(p, layout);
  const FusedKernel& compiled =
    fused_kernel(p, key_of(p, layout), stream.gpu(), [&] { return fused_source(p, layout); });
  if (!compiled.kernel) return step_by_step(compiled.error);
  if (report) *report = {"one kernel", compiled.source};
  for (int64_t first = 0; first < count; first += kMostOfALaunch)
    launch(p, layout, strides, *compiled.kernel, stream, first, std::min(kMostOfALaunch, count - first));
}

}  // namespace strata::cuda
