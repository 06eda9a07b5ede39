#include "cuda/pointwise/fused_kernel.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "cuda/common/axes.h"
#include "cuda/custom/compile.h"
#include "cuda/pointwise/fused_source.h"

namespace strata::cuda {

FusedStrides fused_strides(const FusedProgram& p, const std::vector<const TensorImpl*>& tensors) {
  FusedStrides out;
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

const char* unfit(const FusedStrides& s) {
  if (s.size.size() > kAxesMost) return "too many dimensions";
  for (const auto& step : s.step) {
    int64_t reach = 0;
    for (size_t d = 0; d < step.size(); ++d) reach += (s.size[d] - 1) * std::abs(step[d]);
    if (reach > INT32_MAX) return "a strided tensor spans more than 2^31 elements";
  }
  return nullptr;
}

bool is_aligned(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % std::min<size_t>(bytes, 16) == 0;
}
bool has_vectors(const TensorImpl& t, const std::vector<int64_t>& step, int64_t items) {
  bool contiguous = step[0] == 1 && is_aligned(t.data, static_cast<size_t>(items) * size_of(t.dtype));
  for (size_t d = 1; d < step.size(); ++d) contiguous &= step[d] % items == 0;
  return contiguous;
}

void FusedParameters::add_numbers(const FusedProgram& p) {
  const size_t number_bytes = size_of(p.compute);
  size_t numbers = 0;
  for_each_number(p, [&](int64_t bits) {
    if (number_bytes == 4) add(static_cast<uint32_t>(bits));
    else add(bits);
    ++numbers;
  });
  if (numbers == 0) add(int64_t{0});
  pad_to_eight();
}
void FusedParameters::add_strides(const FusedStrides& strides) {
  for (const int64_t size : strides.size) add(divisor(static_cast<uint32_t>(size)));
  if (strides.size.empty()) add(FastDivisor{});
  for (const auto& step : strides.step)
    for (const int64_t s : step) add(static_cast<int32_t>(s));
  if (strides.step.empty()) add(int32_t{0});
  pad_to_eight();
}

const FusedKernel& fused_kernel(const FusedProgram& p, FusedKey key, const Gpu& gpu,
                                const std::function<std::string()>& source) {
  static std::mutex mutex;
  static auto* known =
    new std::map<std::string, std::unique_ptr<FusedKernel>>;  // never destroyed: threads may end later
  key.add(p.device.type, gpu.properties.major, gpu.properties.minor, p.compute);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known->find(key.text()); found != known->end()) return *found->second;
  }
  auto made = std::make_unique<FusedKernel>();
  try {
    made->source = source();
    const Module module =
      compile(made->source, p.device, {.name = "fused.cu", .options = {"-std=c++20", "-fmad=false"}, .instances = {}});
    made->kernel.emplace(std::make_shared<const Code>("fused", module.ptx()), "fused");
  } catch (const Error& e) {  // no compiler, or one that refuses the source; not retried
    made->error = e.what();
  }
  const std::lock_guard lock(mutex);
  return *known->emplace(key.text(), std::move(made)).first->second;  // the first of two threads wins
}

}  // namespace strata::cuda
