// Moves the bytes of bulk copies.
#include "cuda/vgpu/bulk.h"

#include <algorithm>
#include <cstring>

#include "cuda/vgpu/mbarrier.h"
#include "cuda/vgpu/warp.h"

namespace strata::cuda::vgpu {

namespace {

constexpr uint32_t kUnit = 16;  // bytes that a swizzle keeps together

void copy_in(BlockState& b, const BulkCopy& c) {
  if (b.checks) b.history.written(c.shared, c.bytes);
  if (c.map.rank == 0) {
    std::memcpy(b.shared + c.shared, c.from, c.bytes);
    return;
  }
  each_row(c.map, c.at, [&](uint64_t address, uint32_t first, uint32_t bytes, uint32_t offset) {
    alignas(64) uint8_t row[256 * sizeof(uint64_t)];
    std::memset(row, 0, c.map.row_bytes());
    if (bytes) std::memcpy(row + first, reinterpret_cast<const uint8_t*>(address), bytes);
    for (uint32_t k = 0; k < c.map.row_bytes(); k += kUnit)
      std::memcpy(b.shared + swizzled(c.shared + offset + k, c.map.swizzle), row + k, kUnit);
  });
}

}  // namespace

void copy_out(const BlockState& b, const BulkCopy& c) {
  if (c.map.rank == 0) {
    std::memcpy(const_cast<uint8_t*>(c.from), b.shared + c.shared, c.bytes);
    return;
  }
  each_row(c.map, c.at, [&](uint64_t address, uint32_t first, uint32_t bytes, uint32_t offset) {
    alignas(64) uint8_t row[256 * sizeof(uint64_t)];
    for (uint32_t k = 0; k < c.map.row_bytes(); k += kUnit)
      std::memcpy(row + k, b.shared + swizzled(c.shared + offset + k, c.map.swizzle), kUnit);
    if (bytes) std::memcpy(reinterpret_cast<uint8_t*>(address), row + first, bytes);
  });
}

void finish_loads(Warp& w, uint32_t barrier) {
  BlockState& b = *w.block;
  for (size_t k = 0; k < b.loads.size();) {
    if (b.loads[k].barrier != barrier) {
      ++k;
      continue;
    }
    const BulkCopy c = b.loads[k];
    b.loads.erase(b.loads.begin() + static_cast<ptrdiff_t>(k));
    copy_in(b, c);
    expect_bytes(w, b, barrier, 0, -int64_t{c.bytes});
  }
}

void finish_block(BlockState& b) {
  for (Warp& w : b.warps) {
    if (b.checks & kCheckSync && !w.stores.empty())
      fault(w, kLaunchFailed,
            "the block exits while a bulk copy reads its shared memory: cp.async.bulk.wait_group is missing",
            w.stores[0].lane);
    for (const BulkCopy& c : w.stores) copy_out(b, c);
    w.stores.clear();
  }
  if (b.checks & kCheckSync && !b.loads.empty())
    fault(b.warps[0], kLaunchFailed, "the block exits while a bulk copy writes to its shared memory", 0);
  b.loads.clear();
}

}  // namespace strata::cuda::vgpu
