#include "cuda/pointwise/fused_rows.h"

#include <algorithm>
#include <bit>

#include "cuda/common/tensors.h"
#include "cuda/pointwise/fused_kernel.h"
#include "cuda/pointwise/fused_rows_source.h"
#include "cuda/pointwise/fused_steps.h"

namespace strata::cuda {
namespace {

constexpr int64_t kVector = 8, kFewestThreads = 8, kMostThreads = 1024, kBlock = 256;

// Threads of a row, for ops that take any number: 16 elements each.
int64_t usual_threads(int64_t n) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(n, 2 * kVector)))),
                             kFewestThreads, kMostThreads);
}

// Whether all rows of a tensor are the same one, dense in memory.
bool is_shared(const FusedProgram& p, const TensorImpl& t) {
  int64_t inside = p.row, stride = 1;
  for (size_t d = p.shape.size(), own = static_cast<size_t>(t.ndim); d-- > 0;) {
    const bool exists = own > 0;
    if (exists) --own;
    const int64_t size = exists ? t.shape[own] : 1;
    if (inside == 1) {
      if (size != 1 && t.strides[own] != 0) return false;
      continue;
    }
    inside /= p.shape[d];
    if (size != p.shape[d] || (size != 1 && t.strides[own] != stride)) return false;
    stride *= size;
  }
  return true;
}

RowAccess access_of(const FusedProgram& p, size_t i, int64_t count) {
  const TensorImpl& t = *p.tensors[i];
  if (t.numel == 1 || repeats_one(t)) return RowAccess::One;
  if (p.parts[i].extent == RowExtent::Rows) return RowAccess::Stat;
  if (t.contiguous && t.numel == count) return RowAccess::Flat;
  return is_shared(p, t) ? RowAccess::Shared : RowAccess::Strided;
}

bool has_aligned_vectors(const void* data, DType type) { return is_aligned(data, size_t{kVector} * size_of(type)); }

// A tensor whose rows have many vectors is staged in shared memory, if its elements have 16 bits: in registers it would leave no room
// for a second block, whose memory accesses are to overlap with the computation of the first. The bytes that it takes; 0: it is not.
size_t staged_bytes(const FusedRowLayout& layout, const TensorImpl& t, const Gpu& gpu) {
  constexpr size_t kOwn = 16384;  // of the functors
  if (layout.vectors <= kGpuRowVectors || size_of(t.dtype) != 2) return 0;
  const size_t bytes = static_cast<size_t>(layout.vectors) * static_cast<size_t>(layout.block) * kVector * 2;
  return bytes + kOwn <= static_cast<size_t>(gpu.properties.shared_per_block_optin) ? bytes : 0;
}

// 32-bit registers of a vector of an element type.
int registers_of(DType t) { return static_cast<int>(size_of(t)) * 2; }

// The registers that a thread needs, by an estimate: those of values that are read by an op on rows or after it, and the op's own.
int registers_of(const FusedProgram& p, const FusedRowLayout& layout) {
  constexpr int kOther = 24;
  const size_t n = p.steps.size();
  std::vector<size_t> last(n), last_of_tensor(p.tensors.size());
  for (size_t i = 0; i < n; ++i)
    for (int k = 0; k < p.steps[i].inputs(); ++k) {
      const FusedOperand& from = p.steps[i].from[k];
      if (from.kind == FusedOperand::Kind::Step) last[from.index] = i;
      if (from.kind == FusedOperand::Kind::Tensor) last_of_tensor[from.index] = i;
    }
  int most = 0;
  for (size_t i = 0; i < n; ++i) {
    if (p.steps[i].formula || p.steps[i].output != 0) continue;
    int held = 8 * p.steps[i].rows->gpu->arrays;
    for (size_t t = 0; t < p.tensors.size(); ++t)
      if ((layout.access[t] == RowAccess::Flat || layout.access[t] == RowAccess::Strided) && last_of_tensor[t] >= i)
        held += registers_of(p.tensors[t].dtype());
    for (size_t k = 0; k < i; ++k)
      if (p.steps[k].part.extent == RowExtent::Elements && last[k] >= i) held += registers_of(p.steps[k].type);
    most = std::max(most, held);
  }
  return kOther + layout.vectors * most;
}

// Blocks that a multiprocessor should hold at once.
int blocks_of(const FusedProgram& p, const FusedRowLayout& layout) {
  constexpr int kRegisters = 65536, kFewestThreads = 512, kMostOfAll = 1024;
  return std::clamp(kRegisters / (layout.block * registers_of(p, layout)), std::max(1, kFewestThreads / layout.block),
                    kMostOfAll / layout.block);
}

FusedKey key_of(const FusedProgram& p, const FusedRowLayout& layout) {
  FusedKey key;
  key.add('r', layout.dims, layout.vectors, layout.block, layout.blocks);
  for (size_t i = 0; i < p.tensors.size(); ++i) key.add(p.tensors[i].dtype(), layout.access[i]);
  for (const FusedStep& s : p.steps) {
    key.add(reinterpret_cast<uintptr_t>(s.formula), s.output, s.part.extent, s.type, s.to != nullptr);
    if (s.rows && s.output == 0) key.add_text(s.rows->gpu->functor);
    for (int k = 0; k < s.inputs(); ++k) key.add(s.from[k].kind, s.from[k].index);
  }
  return key;
}

}  // namespace

std::string run_fused_rows(const FusedProgram& p, const Stream& stream, FusedRun& report) {
  int64_t threads = 0, count = 1;
  for (const int64_t size : p.shape) count *= size;
  for (const FusedStep& s : p.steps)
    if (s.rows) threads = std::max(threads, s.rows->gpu->threads);
  const int64_t n = p.row > 1 ? p.row : p.shape.back();
  if (n % kVector != 0 || n > 2 * kVector * kGpuRowVectors * kMostThreads) return "rows that are not held in registers";
  if (threads == 0) threads = usual_threads(n);
  constexpr int64_t kMostAddresses = 64;  // bits of RowParams::aligned
  if (static_cast<int64_t>(p.tensors.size()) + std::ranges::count_if(p.steps, &FusedStep::to) > kMostAddresses)
    return "too many tensors";
  FusedRowLayout layout;
  const int64_t vectors = ceil_div(n, kVector * threads);
  if (vectors > 2 * kGpuRowVectors) return "rows that are not held in registers";
  layout.vectors = static_cast<int>(vectors > kGpuRowVectors ? vectors : std::bit_ceil(static_cast<uint64_t>(vectors)));
  layout.block = static_cast<int>(std::max(threads, kBlock));
  std::vector<const TensorImpl*> strided;
  size_t staged = 0;
  for (size_t i = 0; i < p.tensors.size(); ++i) {
    layout.access.push_back(access_of(p, i, count));
    if (staged == 0 && layout.access[i] == RowAccess::Flat) {
      staged = staged_bytes(layout, *p.tensors[i], stream.gpu());
      if (staged) layout.access[i] = RowAccess::Staged;
    }
    if (layout.access[i] == RowAccess::Strided) strided.push_back(&*p.tensors[i]);
  }
  const FusedStrides strides = strided.empty() ? FusedStrides{} : fused_strides(p, strided);
  if (const char* reason = unfit(strides)) return reason;
  if (!strided.empty() && count > kMostFusedStrided) return "strided tensors of more than 2^30 elements";
  if (!strided.empty() && strides.size[0] % kVector != 0)
    return "runs of a strided tensor are not multiples of 8 elements";
  layout.strided = static_cast<int>(strided.size());
  layout.dims = static_cast<int>(strides.size.size());
  layout.blocks = blocks_of(p, layout);
  const FusedKernel& made =
    fused_kernel(p, key_of(p, layout), stream.gpu(), [&] { return fused_rows_source(p, layout); });
  if (!made.kernel) return made.error;
  report = {"one kernel", made.source};

  // RowParams of fused_rows.cuh.
  FusedParameters params;
  uint64_t aligned = 0;
  uint32_t vector_rows = 0;
  for (size_t i = 0; i < p.tensors.size(); ++i) {
    params.add_address(p.tensors[i]->data);
    aligned |= uint64_t{has_aligned_vectors(p.tensors[i]->data, p.tensors[i].dtype())} << i;
  }
  for (size_t k = 0; k < strided.size(); ++k)
    vector_rows |= uint32_t{has_vectors(*strided[k], strides.step[k], kVector)} << k;
  if (p.tensors.empty()) params.add_address(nullptr);
  size_t at = p.tensors.size();
  for (const FusedStep& s : p.steps) {
    if (!s.to || s.part.extent == RowExtent::Whole) continue;
    params.add_address(s.to);
    aligned |= uint64_t{has_aligned_vectors(s.to, s.type)} << at++;
  }
  if (at == p.tensors.size()) params.add_address(nullptr);
  params.add_numbers(p);
  for (int k = 0; k < 2; ++k) params.add(uint32_t{0});  // for pointwise kernels only
  params.add(vector_rows);
  params.add(uint32_t{0});
  params.add_strides(strides);
  size_t words = 0;
  for (const FusedStep& s : p.steps) {
    if (!s.rows || s.output != 0) continue;
    for (const uint64_t word : s.rows->gpu->words) params.add(word);
    words += s.rows->gpu->words.size();
  }
  if (words == 0) params.add(uint64_t{0});
  params.add(count / n);
  params.add(n);
  params.add(aligned);
  params.add(static_cast<int32_t>(threads));
  params.add(int32_t{0});
  void* pointers[] = {params.data(), nullptr};
  stream.launch_with(*made.kernel, {blocks_for(count / n, layout.block / threads)},
                     {static_cast<uint32_t>(layout.block)}, static_cast<uint32_t>(staged), pointers);
  const InStreamOf there(stream);
  std::byte* outs[kMaxRowOutputs];
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const auto& rows = p.steps[i].rows;
    if (!rows || !rows->finish || p.steps[i].output > 0) continue;
    std::ranges::fill(outs, nullptr);
    for (size_t k = i; k < p.steps.size() && p.steps[k].rows == rows; ++k) outs[p.steps[k].output] = p.steps[k].to;
    rows->finish(outs);
  }
  return {};
}

}  // namespace strata::cuda
