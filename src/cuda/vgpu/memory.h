// Device memory: one reserved range of host addresses, so that a device pointer is a host pointer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/api.h"

namespace strata::cuda::vgpu {

class STRATA_API Memory {
 public:
  // Reserved, not touched: pages are allocated when they are written. A gap after each block lets the memory check
  // detect overruns.
  explicit Memory(uint64_t bytes, uint64_t gap = 0);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint64_t allocate(uint64_t bytes, uint64_t align = 256);  // 0 if there is no room
  bool release(uint64_t address);                           // false: no such block
  struct Block {
    uint64_t begin, bytes;
  };
  std::optional<Block> find(uint64_t address) const;  // the block that holds it
  bool add_host(uint64_t address, uint64_t bytes);    // host memory that kernels may access; false: already there
  bool remove_host(uint64_t address);

  // Virtual memory management: addresses are reserved, memory is created and mapped. Sizes and addresses are multiples
  // of kGranule.
  static constexpr uint64_t kGranule = 2 << 20;
  uint64_t reserve(uint64_t bytes, uint64_t align);  // 0 if there is no room
  bool unreserve(uint64_t address, uint64_t bytes);  // false: not reserved like this, or still mapped
  uint64_t create(uint64_t bytes);                   // a handle; 0 if there is no room
  bool destroy(uint64_t handle);                     // the memory is freed once it is unmapped everywhere
  bool map(uint64_t address, uint64_t bytes,
           uint64_t handle);                     // false: not reserved, mapped already, or no such handle
  bool unmap(uint64_t address, uint64_t bytes);  // false: not a whole number of mappings
  bool set_access(uint64_t address, uint64_t bytes, bool allowed);

  void add_peer(const Memory* other) { peers_.push_back(other); }  // kernels here may access its memory
  void remove_peer(const Memory* other) { std::erase(peers_, other); }
  bool has_peer(const Memory* other) const { return std::find(peers_.begin(), peers_.end(), other) != peers_.end(); }

  // Describes an address for messages: which block, the distance to it, whether it was freed.
  std::string describe(uint64_t address) const;
  // Tracks written bytes from track() on, for blocks allocated later. All other bytes count as written.
  void track();
  bool tracks() const { return written_ != nullptr; }
  void mark_written(uint64_t address, uint64_t bytes) const;
  void copy_written(uint64_t to, uint64_t from, uint64_t bytes) const;
  int64_t first_unwritten(uint64_t address, uint64_t bytes) const;  // its index; -1: all were

  // Whether code outside of kernels and copies may dereference addresses of this memory.
  void open_to_host(bool open) const;

  uint64_t capacity() const { return end_ - begin_; }
  uint64_t used() const { return used_; }
  // Whether kernels may access [address, address + bytes): inside the range in use, or registered host memory.
  bool reachable(uint64_t address, uint64_t bytes) const {
    return (address >= begin_ && bytes <= top_ - begin_ && address - begin_ <= top_ - begin_ - bytes) ||
           (address >= virtual_begin_ && address < virtual_top_ && bytes <= virtual_top_ - address) ||
           (!host_.empty() && in_host(address, bytes)) || (!peers_.empty() && in_peer(address, bytes));
  }
  bool own(uint64_t address) const { return address - begin_ < end_ - begin_; }  // neither mapped nor registered memory
  // Whether the 256 bytes after it can be read too, whatever they hold.
  bool readable_beyond(uint64_t address) const {
    return own(address) || (address >= virtual_begin_ && address < virtual_top_ && virtual_end_ - address > 4096);
  }
  // Whether [address, address + bytes) is inside one live block: used by the memory check.
  bool valid(uint64_t address, uint64_t bytes) const;

 private:
  bool in_host(uint64_t address, uint64_t bytes) const;
  bool in_peer(uint64_t address, uint64_t bytes) const;
  bool in_mapped(uint64_t address, uint64_t bytes) const;
  void fresh(uint64_t begin, uint64_t bytes);
  void drop(uint64_t handle);
  struct Physical {
    uint64_t at = 0, bytes = 0;  // in the file
    int mapped = 0;
    bool released = false;
  };
  struct Mapping {
    uint64_t bytes = 0, handle = 0;
    bool allowed = false;
  };
  int file_ = -1;
  uint64_t file_end_ = 0;
  uint64_t virtual_begin_ = 0, virtual_end_ = 0, virtual_top_ = 0, handles_ = 0;
  std::map<uint64_t, uint64_t> reserved_;  // begin to bytes
  std::map<uint64_t, Physical> physical_;
  std::map<uint64_t, Mapping> mapped_;
  std::vector<const Memory*> peers_;
  uint8_t* written_ = nullptr;                          // one byte per byte, if tracked
  std::deque<std::pair<uint64_t, uint64_t>> released_;  // the last blocks that were freed
  uint64_t begin_ = 0, end_ = 0, top_ = 0, used_ = 0, gap_ = 0;
  std::map<uint64_t, uint64_t> blocks_, holes_,
    host_;  // begin to bytes; blocks as requested, holes in whole units of 256
};

}  // namespace strata::cuda::vgpu
