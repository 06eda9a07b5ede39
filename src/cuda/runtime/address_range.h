// A range of reserved addresses of a device, whose memory comes and goes in chunks: what expandable segments are made of.
#pragma once
#include <vector>

#include "cuda/runtime/runtime.h"

namespace strata::cuda {

class AddressRange {
 public:
  static constexpr size_t kChunk = size_t{2} << 20;

  AddressRange(Gpu& gpu, size_t bytes);  // a multiple of kChunk; throws where the device cannot
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  uint64_t address() const { return address_; }
  size_t bytes() const { return bytes_; }
  // Puts memory behind whole chunks that have none. False: the device has no more, and nothing has happened.
  bool map(uint64_t address, size_t bytes);
  // Takes it away, chunk after chunk, until one fails; `done` are the bytes that went. Nothing may use it any more: the
  // driver does not wait.
  driver::CUresult unmap(uint64_t address, size_t bytes, size_t& done);

 private:
  size_t chunk(uint64_t address) const { return (address - address_) / kChunk; }
  driver::CUresult map_chunk(uint64_t address);
  void give_back(uint64_t from, uint64_t to);  // what is mapped there; whatever fails, fails in silence
  Gpu& gpu_;
  driver::CUdeviceptr address_ = 0;
  size_t bytes_;
  std::vector<bool> mapped_;  // by chunk
};

}  // namespace strata::cuda
