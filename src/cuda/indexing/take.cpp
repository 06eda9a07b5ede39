#include "cuda/indexing/take.h"

#include <array>
#include <deque>
#include <string>

#include "cuda/common/tensors.h"
#include "cuda/indexing/take_params.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kTakeThreads = 256;

const Function& kernel_of(const Taken& t) {
  static const std::deque<Function>& all = *[] {
    auto* list = new std::deque<Function>;
    for (int unit = 0; unit <= 4; ++unit) list->emplace_back("take", "take_" + std::to_string(unit));
    for (int unit = 0; unit <= 3; ++unit) list->emplace_back("take", "gather_" + std::to_string(unit));
    return list;
  }();
  return all[static_cast<size_t>(t.log_unit) + (t.own_index ? 5 : 0)];
}

// How many slabs of columns a gather is divided into: of one block's width, if the table exceeds the L2 cache of common
// GPUs and a slab does not.
uint32_t slabs_of(const Taken& t) {
  constexpr int64_t kCache = 32 << 20, kWidth = kTakeThreads * kTakeItems;
  const int64_t slice = t.inner.count << t.log_unit;  // bytes
  if (!t.own_index || t.inner.count % kWidth != 0 || t.inner.count == kWidth) return 0;
  return t.size * slice > kCache && t.size * (kWidth << t.log_unit) <= kCache
           ? static_cast<uint32_t>(t.inner.count / kWidth)
           : 0;
}
}  // namespace

Axes joined_axes(const TensorImpl& sizes, const TensorImpl& table, int from, int to) {
  Axes a;
  for (int d = from; d < to; ++d) {
    const int64_t size = sizes.shape[d], stride = table.strides[d];
    if (size == 1) continue;
    if (a.dims > 0 && a.stride[a.dims - 1] == size * stride) {
      a.size[a.dims - 1] *= size;
      a.stride[a.dims - 1] = stride;
      a.count *= size;
    } else a.add(size, stride);
  }
  return a;
}

bool can_take(const Taken& t) {
  return t.outer.dims <= 1 && (t.inner.dims == 0 || (t.inner.dims == 1 && t.inner.stride[0] == 1)) &&
         t.outer.count * t.n * t.inner.count <= INT32_MAX;
}

void take(const Taken& t, const TensorImpl& table, const TensorImpl& index, const TensorImpl& block) {
  TakeParams p{};
  p.table = address(table);
  p.block = address(block);
  p.index = address(index);
  p.index_type = tag(index);
  p.front = t.front;
  p.total = static_cast<uint32_t>(t.outer.count * t.n * t.inner.count);
  p.by_inner = divisor(static_cast<uint32_t>(t.inner.count));
  p.by_n = divisor(static_cast<uint32_t>(t.n));
  p.slabs = slabs_of(t);
  if (p.slabs) p.by_slabs = divisor(p.slabs);
  p.size = t.size;
  p.stride = t.stride;
  p.outer_stride = t.outer.dims ? t.outer.stride[0] : 0;
  const Stream stream = stream_of(block.device);
  p.faults = fault_sink(stream.gpu());
  stream.launch(kernel_of(t), {blocks_for(p.total, kTakeThreads * kTakeItems)}, {kTakeThreads}, 0, p);
}

}  // namespace strata::cuda
