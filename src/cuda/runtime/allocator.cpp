#include "cuda/runtime/allocator.h"

#include "base/trace_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/trace.h"
#include "record/op.h"

namespace strata::cuda {
namespace {

constexpr size_t kUnit = 512;               // block sizes are multiples of it
constexpr size_t kSmall = size_t{1} << 20;  // blocks up to this size have separate segments
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kMiddle = size_t{10} << 20;  // larger ones get a segment of their size
constexpr size_t kMiddleSegment = size_t{20} << 20;
constexpr size_t kSegmentUnit = size_t{2} << 20;

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }
size_t segment_size(size_t size) {
  return size <= kSmall ? kSmallSegment : size < kMiddle ? kMiddleSegment : round_up(size, kSegmentUnit);
}
}  // namespace

std::atomic<bool> Allocator::history{false};

bool Allocator::BySize::operator()(const Block* a, const Block* b) const {
  return std::tie(a->pool, a->stream, a->size, a->address) < std::tie(b->pool, b->stream, b->size, b->address);
}

Ref<Storage> Allocator::allocate(size_t bytes, driver::CUstream stream) {
  tracing::Span span(tracing::Layer::Runtime, "allocate");
  if (span.active()) [[unlikely]] {
    span.fact(tracing::key::bytes, static_cast<int64_t>(bytes));
    span.fact(tracing::key::device, static_cast<int64_t>(gpu_.device().index));  // the CPU's memory has none
  }
  gpu_.activate();
  std::unique_ptr<const std::string> line;
  if (history.load(std::memory_order_relaxed)) [[unlikely]]
    if (auto* where = program_line.load()) line = std::make_unique<const std::string>(where());
  std::lock_guard lock(mutex_);
  const uint64_t pool = capturing_ && stream == capturing_stream_ ? capturing_ : 0;
  if (!pending_.empty() && !capturing_) poll(false);
  STRATA_CHECK(bytes < size_t{1} << 48, OutOfMemory, "{}: {} bytes are more than any device has",
               to_string(gpu_.device()), bytes);
  const size_t size = std::max(kUnit, round_up(bytes, kUnit));
  const bool small = size <= kSmall;
  Block* b = small && pool == 0 ? from_hand(size, stream) : nullptr;
  if (!b) b = take(size, small, stream, pool);
  if (!b && hand_count_ > 0) {
    empty_hand();
    b = take(size, small, stream, pool);
  }
  if (span.active()) [[unlikely]]
    span.fact(tracing::key::pool_hit, b != nullptr);
  if (!b) b = grow(size, small, stream, pool);
  if (!b && !capturing_) {  // memory cached for other sizes and streams may be enough
    ++stats_.retries;
    poll(true);
    drop_free_segments();
    b = grow(size, small, stream, pool);
  }
  if (!b) out_of_memory(bytes);
  // The rest of the block stays free: always for small blocks, for large ones if it is worth it.
  if (b->size - size >= (small || expandable ? kUnit : kSmall + kUnit)) {
    Block* rest = split(b, size);
    rest->free = true;
    pools_[small].insert(rest);
  }
  if (span.active()) [[unlikely]]
    span.fact(tracing::key::address, static_cast<int64_t>(b->address));
  b->requested = bytes;
  b->free = false;
  b->op = thread_state.op ? &thread_state.op->name : nullptr;
  b->line = std::move(line);
  stats_.allocated += bytes;
  stats_.active += b->size;
  ++stats_.allocations;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return adopt_memory(reinterpret_cast<void*>(b->address), bytes, release, b);
}

Allocator::Block* Allocator::take(size_t size, bool small, driver::CUstream stream, uint64_t pool) {
  Block wanted{};
  wanted.size = size;
  wanted.stream = stream;
  wanted.pool = pool;
  const auto found = pools_[small].lower_bound(&wanted);
  if (found == pools_[small].end() || (*found)->stream != stream || (*found)->pool != pool) return nullptr;
  // A large block is not split for a much smaller one.
  if (!small && !expandable && size < kMiddle && (*found)->size >= size + kMiddleSegment) return nullptr;
  Block* b = *found;
  pools_[small].erase(found);
  return b;
}

Allocator::Block* Allocator::grow(size_t size, bool small, driver::CUstream stream, uint64_t pool) {
  if (expandable) return expand(size, small, stream, pool);
  const size_t bytes = segment_size(size);
  if (stats_.limit && stats_.reserved + bytes > stats_.limit) return nullptr;
  driver::CUdeviceptr address = 0;
  const driver::CUresult r = gpu_.table().cuMemAlloc(&address, bytes);
  if (r == driver::kOutOfMemory) return nullptr;
  gpu_.check(r, "allocate memory");
  auto* b = new Block{.owner = this, .address = address, .size = bytes, .stream = stream, .pool = pool, .small = small};
  segments_[address] = {bytes, b, nullptr};
  ++stats_.segments;
  count_reserved(bytes);
  return b;
}

void Allocator::count_reserved(size_t bytes) {
  stats_.reserved += bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
}

Allocator::Block* Allocator::split(Block* b, size_t size) {
  auto* rest = new Block{.owner = this,
                         .address = b->address + size,
                         .size = b->size - size,
                         .stream = b->stream,
                         .pool = b->pool,
                         .before = b,
                         .after = b->after,
                         .small = b->small};
  if (b->after) b->after->before = rest;
  b->after = rest;
  b->size = size;
  return rest;
}

void Allocator::absorb(Block* b, Block* next) {
  b->size += next->size;
  b->after = next->after;
  if (next->after) next->after->before = b;
  delete next;
}

// Runs when the last tensor is released, also during process exit: must not throw.
void Allocator::release(void* block) {
  auto* b = static_cast<Block*>(block);
  try {
    b->owner->give_back(b);
  } catch (const std::exception&) {  // the device is dead, or this is a forked process: the memory is lost anyway
  }
}

void Allocator::give_back(Block* b) {
  if (tracing::watches_memory.load(std::memory_order_relaxed)) [[unlikely]]
    tracing::note_free(reinterpret_cast<const void*>(b->address), b->requested);
  std::lock_guard lock(mutex_);
  stats_.allocated -= b->requested;
  stats_.active -= b->size;
  b->requested = 0;
  if (b->other_users.empty()) return b->small && b->pool == 0 ? keep_at_hand(b) : put_free(b);
  const driver::Table& t = gpu_.table();
  const bool usable = gpu_.enter();
  for (driver::CUstream user : b->other_users) {
    driver::CUevent event = nullptr;
    if (!usable || t.cuEventCreate(&event, driver::kEventDisableTiming) != driver::kSuccess) event = nullptr;
    else if (t.cuEventRecord(event, user) != driver::kSuccess) t.cuEventDestroy(std::exchange(event, nullptr));
    pending_.emplace_back(event, b);
    ++b->waiting;
  }
  b->other_users.clear();
}

void Allocator::keep_at_hand(Block* b) {
  if (hand_count_ == kMostAtHand) empty_hand();
  b->at_hand = true;
  b->op = nullptr;
  b->line = nullptr;
  at_hand_[hand_count_++] = b;
}
Allocator::Block* Allocator::from_hand(size_t size, driver::CUstream stream) {
  for (size_t i = hand_count_; i-- > 0;) {
    Block* b = at_hand_[i];
    if (b->size != size || b->stream != stream) continue;
    at_hand_[i] = at_hand_[--hand_count_];
    b->at_hand = false;
    return b;
  }
  return nullptr;
}
void Allocator::empty_hand() {
  while (hand_count_ > 0) {
    Block* b = at_hand_[--hand_count_];
    b->at_hand = false;
    put_free(b);
  }
}

void Allocator::put_free(Block* b) {
  b->free = true;
  b->op = nullptr;
  b->line = nullptr;
  Pool& pool = pools_[b->small];
  if (Block* next = b->after; next && next->free) {
    pool.erase(next);
    absorb(b, next);
  }
  if (Block* previous = b->before; previous && previous->free) {
    pool.erase(previous);
    absorb(previous, b);
    b = previous;
  }
  pool.insert(b);
}

// Frees blocks whose other users have finished. With `wait`, waits for all of them.
void Allocator::poll(bool wait) {
  const driver::Table& t = gpu_.table();
  driver::CUresult failed = driver::kSuccess;
  std::erase_if(pending_, [&](auto& entry) {
    auto& [event, block] = entry;
    if (failed != driver::kSuccess || (!event && !wait)) return false;
    const driver::CUresult r = !event ? t.cuCtxSynchronize()
                               : wait ? t.cuEventSynchronize(event)
                                      : t.cuEventQuery(event);
    if (r != driver::kSuccess) {
      if (r != driver::kNotReady) failed = r;
      return false;
    }
    if (event) t.cuEventDestroy(event);
    if (--block->waiting == 0) put_free(block);
    return true;
  });
  gpu_.check(failed, "wait for memory that another stream used");
}

Allocator::~Allocator() {
  const driver::Table& t = gpu_.table();
  const bool usable = gpu_.enter();
  for (const auto& [event, block] : pending_)
    if (event && usable) t.cuEventDestroy(event);
  for (const auto& [address, segment] : segments_) {
    for (const Block* b = segment.first; b;) delete std::exchange(b, b->after);
    if (usable && !segment.range) t.cuMemFree(address);
  }
}

void Allocator::drop_free_segments() {
  empty_hand();
  bool waited = false;
  for (auto it = segments_.begin(); it != segments_.end();) {
    const auto& [bytes, first, range] = it->second;
    if (range && !first->pool) {
      // cuMemFree waits for the device, cuMemUnmap does not.
      if (!std::exchange(waited, true)) gpu_.check(gpu_.table().cuCtxSynchronize(), "finish its work");
      unmap_free(*range, first);
    }
    const bool whole = !first->after && !first->pool;
    if (!(range ? whole && first->unmapped : whole && first->free)) {
      ++it;
      continue;
    }
    if (!range) {
      gpu_.check(gpu_.table().cuMemFree(it->first), "free memory");
      pools_[first->small].erase(first);
      stats_.reserved -= bytes;
    }
    --stats_.segments;
    delete first;
    it = segments_.erase(it);
  }
}

void Allocator::record_stream(Storage& storage, driver::CUstream stream) {
  if (storage.release != release) return;
  auto* b = static_cast<Block*>(storage.owner);
  std::lock_guard lock(mutex_);
  if (stream != b->stream) b->other_users.insert(stream);
}

void Allocator::begin_pool(uint64_t pool, driver::CUstream stream) {
  std::lock_guard lock(mutex_);
  STRATA_CHECK(!capturing_, Runtime, "{}: another graph is being captured", to_string(gpu_.device()));
  poll(false);
  capturing_ = pool;
  capturing_stream_ = stream;
}
void Allocator::end_pool() {
  std::lock_guard lock(mutex_);
  capturing_ = 0;
}
void Allocator::release_pool(uint64_t pool) {
  std::lock_guard lock(mutex_);
  for (const auto& [address, segment] : segments_) {
    if (segment.first->pool != pool) continue;
    for (Block* b = segment.first; b; b = b->after) {  // the order of a set must not change while iterating
      if (b->free) pools_[b->small].erase(b);
      b->pool = 0;
      if (b->free) pools_[b->small].insert(b);
    }
  }
}

void Allocator::empty_cache() {
  gpu_.activate();
  std::lock_guard lock(mutex_);
  poll(true);
  drop_free_segments();
}

DeviceMemoryStats Allocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}
void Allocator::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}
void Allocator::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  stats_.limit = bytes;
}

}  // namespace strata::cuda
