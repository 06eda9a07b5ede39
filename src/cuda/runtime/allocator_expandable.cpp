// Expandable segments: a stream's blocks are adjacent in one large address range, into which memory is mapped on
// demand. Sizes that grow from step to step then share memory that fixed-size segments would fragment.
#include <cstdlib>
#include <mutex>

#include "base/error.h"
#include "cuda/runtime/allocator.h"

namespace strata::cuda {
namespace {

constexpr size_t kChunk = AddressRange::kChunk;
uint64_t up(uint64_t n) { return (n + kChunk - 1) / kChunk * kChunk; }
uint64_t down(uint64_t n) { return n / kChunk * kChunk; }
}  // namespace

std::atomic<bool> Allocator::expandable{false};

void Allocator::configure(const std::string& settings) {
  bool wanted = expandable;
  for (size_t at = 0; at < settings.size();) {
    const size_t end = std::min(settings.find(',', at), settings.size()), colon = settings.find(':', at);
    const std::string key = settings.substr(at, std::min(colon, end) - at);
    const std::string value = colon < end ? settings.substr(colon + 1, end - colon - 1) : "";
    STRATA_CHECK(key == "expandable_segments", Value,
                 "STRATA_CUDA_ALLOC_CONF: '{}' is not an allocator setting; the only one is 'expandable_segments'",
                 key);
    STRATA_CHECK(value == "True" || value == "False", Value,
                 "STRATA_CUDA_ALLOC_CONF: expandable_segments must be True or False, found '{}'", value);
    wanted = value == "True";
    at = end + 1;
  }
  expandable = wanted;
}

Allocator::Allocator(Gpu& gpu) : gpu_(gpu) {
  static std::once_flag once;
  std::call_once(once, [] {
    if (const char* settings = std::getenv("STRATA_CUDA_ALLOC_CONF")) configure(settings);
  });
}

Allocator::Block* Allocator::expand(size_t size, bool small, driver::CUstream stream, uint64_t pool) {
  const auto grow_in = [&](const Segment& s, bool& fits) -> Block* {
    for (Block* b = s.first; b; b = b->after) {
      const size_t before = b->before && b->before->free ? b->before->size : 0;
      if (!b->unmapped || before + b->size < size) continue;
      fits = true;
      return map_at(*s.range, b, up(size - before));
    }
    return nullptr;
  };
  bool fits = false;
  for (const auto& [address, s] : segments_)
    if (s.range && s.first->stream == stream && s.first->pool == pool && s.first->small == small) {
      Block* b = grow_in(s, fits);
      if (fits) return b;
    }
  // Addresses for all memory of the device, and some for holes.
  const size_t bytes = std::max(up(size), up(gpu_.properties.total_memory + gpu_.properties.total_memory / 8));
  auto range = std::make_unique<AddressRange>(gpu_, bytes);
  const uint64_t address = range->address();
  auto* first =
    new Block{.owner = this, .address = address, .size = bytes, .stream = stream, .pool = pool, .small = small};
  first->unmapped = true;
  Segment& s = segments_[address] = {bytes, first, std::move(range)};
  ++stats_.segments;
  return grow_in(s, fits);
}

// Maps memory to the first bytes of an unmapped block; the resulting block is merged with a free neighbour before it.
Allocator::Block* Allocator::map_at(AddressRange& range, Block* b, size_t bytes) {
  if ((stats_.limit && stats_.reserved + bytes > stats_.limit) || !range.map(b->address, bytes)) return nullptr;
  if (b->size > bytes) split(b, bytes)->unmapped = true;
  b->unmapped = false;
  count_reserved(bytes);
  Block* previous = b->before;
  if (!previous || !previous->free) return b;
  pools_[previous->small].erase(previous);
  previous->free = false;
  absorb(previous, b);
  return previous;
}

// Unmaps whole chunks of free blocks.
void Allocator::unmap_free(AddressRange& range, Block* first) {
  for (Block* b = first; b; b = b->after) {
    const uint64_t begin = up(b->address), end = down(b->address + b->size);
    if (!b->free || begin >= end) continue;
    size_t done = 0;
    const driver::CUresult r = range.unmap(begin, end - begin, done);
    stats_.reserved -= done;
    if (done) {
      pools_[b->small].erase(b);
      Block* gone = b;
      if (begin > b->address) {
        gone = split(b, begin - b->address);
        pools_[b->small].insert(b);
      } else {
        b->free = false;
      }
      if (gone->size > done) {
        Block* rest = split(gone, done);
        rest->free = true;
        pools_[rest->small].insert(rest);
      }
      gone->unmapped = true;
      if (gone->after && gone->after->unmapped) absorb(gone, gone->after);
      if (gone->before && gone->before->unmapped) {
        b = gone->before;
        absorb(b, gone);
      } else b = gone;
    }
    gpu_.check(r, "unmap memory");
  }
}

}  // namespace strata::cuda
