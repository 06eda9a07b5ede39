#include "cuda/runtime/address_range.h"

#include "base/error.h"

namespace strata::cuda {

AddressRange::AddressRange(Gpu& gpu, size_t bytes) : gpu_(gpu), bytes_(bytes), mapped_(bytes / kChunk) {
  int supported = 0;
  gpu.check(gpu.table().cuDeviceGetAttribute(&supported, driver::kVirtualMemory, gpu.handle), "tell its limits");
  STRATA_CHECK(
    supported, Runtime,
    "{} has no virtual memory management, which expandable segments need; leave expandable_segments:True out of "
    "STRATA_CUDA_ALLOC_CONF",
    to_string(gpu.device()));
  gpu.check(gpu.table().cuMemAddressReserve(&address_, bytes, kChunk, 0, 0), "reserve addresses");
}

AddressRange::~AddressRange() {
  if (!gpu_.enter()) return;
  give_back(address_, address_ + bytes_);
  gpu_.table().cuMemAddressFree(address_, bytes_);
}

driver::CUresult AddressRange::map_chunk(uint64_t address) {
  if (mapped_[chunk(address)]) return driver::kSuccess;  // unmapping it failed before
  const driver::Table& t = gpu_.table();
  driver::CUmemAllocationProp prop{};
  prop.type = driver::kAllocationPinned;
  prop.location = {driver::kLocationDevice, gpu_.handle};
  driver::CUmemGenericAllocationHandle memory = 0;
  if (const driver::CUresult r = t.cuMemCreate(&memory, kChunk, &prop, 0)) return r;
  const driver::CUresult r = t.cuMemMap(address, kChunk, 0, memory, 0);
  t.cuMemRelease(memory);  // it is freed when it is unmapped
  if (r == driver::kSuccess) mapped_[chunk(address)] = true;
  return r;
}

bool AddressRange::map(uint64_t address, size_t bytes) {
  const uint64_t end = address + bytes;
  driver::CUresult r = driver::kSuccess;
  if (constexpr size_t kMany = 32 * kChunk; bytes > kMany) {  // check first whether enough memory is free
    size_t free = 0, total = 0;
    gpu_.check(gpu_.table().cuMemGetInfo(&free, &total), "tell its memory");
    if (free < bytes) return false;
  }
  for (uint64_t at = address; at < end && r == driver::kSuccess; at += kChunk) r = map_chunk(at);
  if (r == driver::kSuccess) {
    const driver::CUmemAccessDesc access{{driver::kLocationDevice, gpu_.handle}, driver::kAccessReadWrite};
    r = gpu_.table().cuMemSetAccess(address, bytes, &access, 1);
  }
  if (r == driver::kSuccess) return true;
  give_back(address, end);
  if (r != driver::kOutOfMemory) gpu_.refuse(r, "map memory");
  return false;
}

driver::CUresult AddressRange::unmap(uint64_t address, size_t bytes, size_t& done) {
  for (done = 0; done < bytes; done += kChunk) {  // a mapping is unmapped as a whole
    if (const driver::CUresult r = gpu_.table().cuMemUnmap(address + done, kChunk)) return r;
    mapped_[chunk(address + done)] = false;
  }
  return driver::kSuccess;
}

void AddressRange::give_back(uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at += kChunk)
    if (mapped_[chunk(at)] && gpu_.table().cuMemUnmap(at, kChunk) == driver::kSuccess) mapped_[chunk(at)] = false;
}

}  // namespace strata::cuda
