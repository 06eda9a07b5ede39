// Device memory: cached in blocks that are split and merged, ordered by streams.
//
// Freed memory may be reused at once by tensors of the same stream, since the stream's work runs in order. Memory that
// other streams use (record_stream) waits for them.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda/runtime/address_range.h"
#include "tensor/allocator.h"

namespace strata::cuda {

struct DeviceMemoryStats {
  size_t allocated = 0, reserved = 0, active = 0;  // requested; taken from the driver; in use, rounded up to blocks
  size_t peak_allocated = 0, peak_reserved = 0;
  size_t allocations = 0, segments = 0, retries = 0, failures = 0;  // counts
  size_t limit = 0;                                                 // of reserved bytes; 0: none
};

class STRATA_API Allocator {
 public:
  explicit Allocator(Gpu& gpu);
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator();

  struct Block {
    Allocator* owner;
    uint64_t address;
    size_t size, requested = 0;
    driver::CUstream stream;
    uint64_t pool = 0;                          // the graph it belongs to; 0: none
    Block *before = nullptr, *after = nullptr;  // neighbours in the same segment
    bool free = false, small = false;
    bool at_hand = false;             // freed, and not merged with its neighbours yet
    bool unmapped = false;            // addresses of an expandable segment without memory: neither free nor used
    const std::string* op = nullptr;  // the name of the op that allocated it; null: none, or it is free
    std::unique_ptr<const std::string> line = {};  // of the program, while history is on
    std::set<driver::CUstream> other_users = {};   // streams besides its own
    int waiting = 0;                               // pending events of these streams
  };

  Ref<Storage> allocate(size_t bytes, driver::CUstream stream);
  void record_stream(Storage& storage, driver::CUstream stream);
  // Between the two, allocations of this stream come from a separate pool, which release_pool() returns to the general
  // pools.
  void begin_pool(uint64_t pool, driver::CUstream stream);
  void end_pool();
  void release_pool(uint64_t pool);
  void empty_cache();
  DeviceMemoryStats stats() const;
  void reset_peak();
  void set_limit(size_t bytes);
  // "expandable_segments:True", from STRATA_CUDA_ALLOC_CONF when the first device is opened; applies to new segments of
  // all devices. Throws Value for unknown settings.
  static void configure(const std::string& settings);
  struct BlockInfo {
    uint64_t address, segment;
    size_t size, requested;
    bool free, expandable;
    std::string op, line;
  };
  std::vector<BlockInfo> snapshot() const;  // all blocks, segment by segment
  // Whether each block stores the program line that allocated it, for the snapshot and the out-of-memory error. While
  // off, an allocation costs one more relaxed load.
  static std::atomic<bool> history;
  static std::atomic<bool> expandable;
  bool capturing() const { return capturing_ != 0; }  // a graph is recording allocations of its stream

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };
  using Pool = std::set<Block*, BySize>;
  static void release(void* block);
  void give_back(Block* b);
  void put_free(Block* b);  // merges it with its neighbours
  void keep_at_hand(Block* b);
  Block* from_hand(size_t size, driver::CUstream stream);
  void empty_hand();
  Block* take(size_t size, bool small, driver::CUstream stream, uint64_t pool);
  Block* grow(size_t size, bool small, driver::CUstream stream, uint64_t pool);
  Block* expand(size_t size, bool small, driver::CUstream stream, uint64_t pool);  // the same in an expandable segment
  Block* map_at(AddressRange& range, Block* unmapped, size_t bytes);
  void unmap_free(AddressRange& range, Block* first);
  void count_reserved(size_t bytes);
  Block* split(Block* b, size_t size);        // splits it after `size` bytes; returns the rest, uninitialized
  static void absorb(Block* b, Block* next);  // merges the next block into b
  void poll(bool wait);
  void drop_free_segments();
  [[noreturn]] void out_of_memory(size_t bytes);

  Gpu& gpu_;
  mutable std::mutex mutex_;
  Pool pools_[2];  // large and small blocks
  // Recently freed small blocks, the last one last: most programs allocate the same sizes repeatedly.
  static constexpr size_t kMostAtHand = 16;
  std::array<Block*, kMostAtHand> at_hand_;
  size_t hand_count_ = 0;
  struct Segment {
    size_t bytes;  // of address space
    Block* first;
    std::unique_ptr<AddressRange> range;  // null: one fixed allocation
  };
  std::map<uint64_t, Segment> segments_;                     // by address
  std::vector<std::pair<driver::CUevent, Block*>> pending_;  // no event: wait for the whole device
  uint64_t capturing_ = 0;                                   // pool of the graph being captured, and its stream
  driver::CUstream capturing_stream_ = nullptr;
  DeviceMemoryStats stats_;
};

}  // namespace strata::cuda
