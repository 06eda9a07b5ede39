// Device memory: one reserved range of host addresses, so that a device pointer is a host pointer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/api.h"

namespace strata::cuda::vgpu {

class STRATA_API Memory {
 public:
  explicit Memory(uint64_t bytes);  // reserved, not touched: pages come when they are written
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint64_t allocate(uint64_t bytes, uint64_t align = 256);  // 0 when there is no room
  bool release(uint64_t address);                           // false: no such block
  struct Block {
    uint64_t begin, bytes;
  };
  std::optional<Block> find(uint64_t address) const;  // the block that holds it
  bool add_host(uint64_t address, uint64_t bytes);    // host memory that kernels may reach; false: already there
  bool remove_host(uint64_t address);

  uint64_t capacity() const { return end_ - begin_; }
  uint64_t used() const { return used_; }
  // Whether kernels may touch [address, address + bytes): inside the range in use, or registered host memory.
  bool reachable(uint64_t address, uint64_t bytes) const {
    return (address >= begin_ && bytes <= top_ - begin_ && address - begin_ <= top_ - begin_ - bytes) ||
           (!host_.empty() && in_host(address, bytes));
  }
  bool own(uint64_t address) const { return address - begin_ < end_ - begin_; }  // not registered host memory
  // Whether [address, address + bytes) lies in one living block: what the memory check asks.
  bool valid(uint64_t address, uint64_t bytes) const;

 private:
  bool in_host(uint64_t address, uint64_t bytes) const;
  uint64_t begin_ = 0, end_ = 0, top_ = 0, used_ = 0;
  std::map<uint64_t, uint64_t> blocks_, holes_,
    host_;  // begin to bytes; blocks as asked for, holes in whole units of 256
};

}  // namespace strata::cuda::vgpu
