// Device memory: cached in blocks that are split and joined, in the order of streams.
//
// Freed memory may be given to new tensors of the same stream at once, since the stream's work runs in order. Memory that
// other streams were seen to use (record_stream) waits for them.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda/runtime/runtime.h"
#include "tensor/allocator.h"

namespace strata::cuda {

struct DeviceMemoryStats {
  size_t allocated = 0, reserved = 0, active = 0;  // asked for; taken from the driver; in use, rounded up to blocks
  size_t peak_allocated = 0, peak_reserved = 0;
  size_t allocations = 0, segments = 0, retries = 0, failures = 0;  // times
  size_t limit = 0;                                                 // of reserved bytes; 0: none
};

class STRATA_API Allocator {
 public:
  explicit Allocator(Gpu& gpu) : gpu_(gpu) {}
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
    const std::string* op;                    // the name of the op that asked for it; null: none did, or it is free
    std::unique_ptr<const std::string> line;  // of the program, while history is kept
    std::set<driver::CUstream> other_users;   // streams beside its own
    int waiting = 0;                          // events of theirs that have not come
  };

  Ref<Storage> allocate(size_t bytes, driver::CUstream stream);
  void record_stream(Storage& storage, driver::CUstream stream);
  // Between the two, what this stream asks for comes from a pool of its own, which release_pool() gives to everybody.
  void begin_pool(uint64_t pool, driver::CUstream stream);
  void end_pool();
  void release_pool(uint64_t pool);
  void empty_cache();
  DeviceMemoryStats stats() const;
  void reset_peak();
  void set_limit(size_t bytes);
  struct BlockInfo {
    uint64_t address, segment;
    size_t size, requested;
    bool free;
    std::string op, line;
  };
  std::vector<BlockInfo> snapshot() const;  // every block, segment by segment
  // Says which line of the program asks for memory, for the snapshot and the error when there is none. Null: nobody keeps
  // history, and an allocation costs one relaxed load more.
  static std::atomic<std::string (*)()> history;
  bool capturing() const { return capturing_ != 0; }  // a graph records what its stream is given

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };
  using Pool = std::set<Block*, BySize>;
  static void release(void* block);
  void give_back(Block* b);
  void put_free(Block* b);  // joins it with its neighbours
  Block* take(size_t size, bool small, driver::CUstream stream, uint64_t pool);
  Block* grow(size_t size, bool small, driver::CUstream stream, uint64_t pool);
  void poll(bool wait);
  void drop_free_segments();
  [[noreturn]] void out_of_memory(size_t bytes);

  Gpu& gpu_;
  mutable std::mutex mutex_;
  Pool pools_[2];                                            // large and small blocks
  std::map<uint64_t, std::pair<size_t, Block*>> segments_;   // by address: bytes and the first block
  std::vector<std::pair<driver::CUevent, Block*>> pending_;  // no event: the device as a whole must finish
  uint64_t capturing_ = 0;                                   // pool of the graph that is being captured, and its stream
  driver::CUstream capturing_stream_ = nullptr;
  DeviceMemoryStats stats_;
};

}  // namespace strata::cuda
