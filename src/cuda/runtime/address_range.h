// A reserved address range of a device, into which memory is mapped in chunks. Used by expandable segments.
#pragma once
#include <vector>

#include "cuda/runtime/runtime.h"

namespace strata::cuda {

class AddressRange {
 public:
  static constexpr size_t kChunk = size_t{2} << 20;

  AddressRange(Gpu& gpu, size_t bytes);  // a multiple of kChunk; throws if the device does not support it
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  uint64_t address() const { return address_; }
  size_t bytes() const { return bytes_; }
  // Maps memory to whole unmapped chunks. False: the device has no more, and nothing changed.
  bool map(uint64_t address, size_t bytes);
  // Unmaps chunk by chunk until one fails; `done` is the number of bytes unmapped. The memory must no longer be in use:
  // the driver does not wait.
  driver::CUresult unmap(uint64_t address, size_t bytes, size_t& done);

 private:
  size_t chunk(uint64_t address) const { return (address - address_) / kChunk; }
  driver::CUresult map_chunk(uint64_t address);
  void give_back(uint64_t from, uint64_t to);  // unmaps what is mapped there; ignores errors
  Gpu& gpu_;
  driver::CUdeviceptr address_ = 0;
  size_t bytes_;
  std::vector<bool> mapped_;  // by chunk
};

}  // namespace strata::cuda
