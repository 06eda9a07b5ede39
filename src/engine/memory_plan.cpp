#include "engine/memory_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "base/error.h"

namespace strata::engine {
namespace {

size_t rounded(size_t bytes) { return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment; }

// The gaps between blocks that are alive, by place and by size.
class Gaps {
 public:
  // The smallest gap that is large enough, else the end of the memory.
  size_t take(size_t bytes) {
    const auto found = by_size_.lower_bound({bytes, 0});
    if (found != by_size_.end()) {
      const auto [size, offset] = *found;
      remove(offset, size);
      if (size > bytes) add(offset + bytes, size - bytes);
      return offset;
    }
    size_t offset = end_;
    if (!by_offset_.empty()) {  // a gap at the end grows
      const auto [last, size] = *by_offset_.rbegin();
      if (last + size == end_) {
        offset = last;
        remove(last, size);
      }
    }
    end_ = offset + bytes;
    return offset;
  }
  void give(size_t offset, size_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      const auto [at, size] = *next;
      remove(at, size);
      bytes += size;
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto [at, size] = *std::prev(next);
      if (at + size == offset) {
        remove(at, size);
        offset = at;
        bytes += size;
      }
    }
    add(offset, bytes);
  }
  size_t end() const { return end_; }

 private:
  void add(size_t offset, size_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  void remove(size_t offset, size_t bytes) {
    by_offset_.erase(offset);
    by_size_.erase({bytes, offset});
  }
  std::map<size_t, size_t> by_offset_;
  std::set<std::pair<size_t, size_t>> by_size_;
  size_t end_ = 0;
};

// Calls start(block) and finish(block) in the order of time; a block that ends before step n is finished before one starts at n.
template <class Start, class Finish> void in_time(const std::vector<Block>& blocks, Start start, Finish finish) {
  using End = std::pair<uint32_t, size_t>;  // last step, block
  std::priority_queue<End, std::vector<End>, std::greater<>> alive;
  for (size_t i = 0; i < blocks.size(); ++i) {
    while (!alive.empty() && alive.top().first < blocks[i].first) {
      finish(alive.top().second);
      alive.pop();
    }
    start(i);
    alive.emplace(blocks[i].last, i);
  }
}

}  // namespace

size_t place(std::vector<Block>& blocks) {
  STRATA_ASSERT(std::ranges::is_sorted(blocks, {}, &Block::first));
  Gaps gaps;
  in_time(
    blocks,
    [&](size_t i) {
      if (blocks[i].bytes) blocks[i].offset = gaps.take(rounded(blocks[i].bytes));
    },
    [&](size_t i) {
      if (blocks[i].bytes) gaps.give(blocks[i].offset, rounded(blocks[i].bytes));
    });
  return gaps.end();
}

size_t least_bytes(const std::vector<Block>& blocks) {
  size_t now = 0, most = 0;
  in_time(
    blocks,
    [&](size_t i) {
      now += rounded(blocks[i].bytes);
      most = std::max(most, now);
    },
    [&](size_t i) { now -= rounded(blocks[i].bytes); });
  return most;
}

std::string fault_of(const std::vector<Block>& blocks, size_t bytes) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& a = blocks[i];
    if (a.offset + a.bytes > bytes) return fmt::format("block {} ends at {}, after {}", i, a.offset + a.bytes, bytes);
    if (a.offset % kBlockAlignment) return fmt::format("block {} starts at {}", i, a.offset);
    for (size_t k = 0; k < i; ++k) {
      const Block& b = blocks[k];
      const bool together = a.first <= b.last && b.first <= a.last;
      if (together && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes)
        return fmt::format("blocks {} and {} share bytes between steps {} and {}", k, i, std::max(a.first, b.first),
                           std::min(a.last, b.last));
    }
  }
  return {};
}

}  // namespace strata::engine
