// Virtual memory management: reserved addresses, created memory, mappings.
#include <fmt/core.h>

#include "base/error.h"
#include "cuda/driver/vgpu_state.h"

namespace strata::cuda::driver::virtual_gpu {

namespace {

constexpr size_t kGranule = vgpu::Memory::kGranule;

CUresult check(const CUmemAllocationProp* p) {
  if (!p) return kInvalidValue;
  if (p->type != kAllocationPinned || p->location.type != kLocationDevice || p->location.id < 0 ||
      static_cast<size_t>(p->location.id) >= state().devices.size())
    return say(kInvalidValue, "memory is created pinned, on a device that exists");
  if (p->requestedHandleTypes) return say(kNotSupported, "the virtual GPU exports no handles of memory");
  return kSuccess;
}

CUresult whole(size_t bytes) {
  return bytes && bytes % kGranule == 0
           ? kSuccess
           : say(kInvalidValue, fmt::format("{} bytes are not a multiple of the granularity, {}", bytes, kGranule));
}

}  // namespace

void add_virtual_memory(Table& t) {
  t.cuMemGetAllocationGranularity = [](size_t* bytes, const CUmemAllocationProp* prop, int) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!bytes) return kInvalidValue;
      if (const CUresult r = check(prop)) return r;
      *bytes = kGranule;
      return kSuccess;
    });
  };
  t.cuMemAddressReserve = [](CUdeviceptr* out, size_t bytes, size_t align, CUdeviceptr,
                             unsigned long long flags) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      if (!out || flags) return kInvalidValue;
      if (const CUresult r = whole(bytes)) return r;
      const uint64_t at = d->memory->reserve(bytes, align);
      if (!at) return say(kOutOfMemory, fmt::format("no {} bytes of addresses are left to reserve", bytes));
      *out = at;
      return kSuccess;
    });
  };
  t.cuMemAddressFree = [](CUdeviceptr at, size_t bytes) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      return d->memory->unreserve(at, bytes)
               ? kSuccess
               : say(kInvalidValue,
                     fmt::format("{} bytes at 0x{:x} are not reserved like this, or still mapped", bytes, at));
    });
  };
  t.cuMemCreate = [](CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* prop,
                     unsigned long long flags) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!out || flags) return kInvalidValue;
      if (const CUresult r = check(prop)) return r;
      if (const CUresult r = whole(bytes)) return r;
      Device& d = *state().devices[static_cast<size_t>(prop->location.id)];
      if (d.dead) return say(d.dead, d.why_dead);
      const uint64_t handle = d.memory->create(bytes);
      if (!handle)
        return say(kOutOfMemory, fmt::format("{} bytes requested, {} of {} in use on device {}", bytes,
                                             d.memory->used(), d.memory->capacity(), prop->location.id));
      *out = reinterpret_cast<uintptr_t>(state().fresh<void*>());
      state().physical[*out] = {prop->location.id, handle};
      return kSuccess;
    });
  };
  t.cuMemRelease = [](CUmemGenericAllocationHandle handle) -> CUresult {
    return guarded([&]() -> CUresult {
      const auto p = state().physical.find(handle);
      if (p == state().physical.end()) return say(kInvalidValue, "no such memory");
      state().devices[static_cast<size_t>(p->second.first)]->memory->destroy(p->second.second);
      state().physical.erase(p);
      return kSuccess;
    });
  };
  t.cuMemMap = [](CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      const auto p = state().physical.find(handle);
      if (p == state().physical.end()) return say(kInvalidValue, "no such memory");
      if (offset || flags) return say(kNotSupported, "the virtual GPU maps created memory as a whole");
      if (p->second.first != current_ordinal())
        return say(kNotSupported, "the virtual GPU maps memory of the current device only");
      return d->memory->map(at, bytes, p->second.second)
               ? kSuccess
               : say(kInvalidValue,
                     fmt::format("{} bytes at 0x{:x} are not reserved, mapped already, or not the size of the "
                                 "created memory",
                                 bytes, at));
    });
  };
  t.cuMemUnmap = [](CUdeviceptr at, size_t bytes) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      const CUresult r = drain(*d, nullptr);  // queued work may use it
      if (!d->memory->unmap(at, bytes))
        return say(kInvalidValue, fmt::format("{} bytes at 0x{:x} are not a whole number of mappings", bytes, at));
      return r;
    });
  };
  t.cuMemSetAccess = [](CUdeviceptr at, size_t bytes, const CUmemAccessDesc* desc, size_t count) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      if (!desc || count == 0) return kInvalidValue;
      for (size_t k = 0; k < count; ++k) {
        if (desc[k].location.type != kLocationDevice || desc[k].location.id != current_ordinal())
          return say(kNotSupported, "the virtual GPU gives access to the current device only");
        if (desc[k].flags == kAccessRead)
          return say(kNotSupported, "the virtual GPU does not support read-only memory");
        if (!d->memory->set_access(at, bytes, desc[k].flags == kAccessReadWrite))
          return say(kInvalidValue, fmt::format("{} bytes at 0x{:x} are not a whole number of mappings", bytes, at));
      }
      return kSuccess;
    });
  };
}

}  // namespace strata::cuda::driver::virtual_gpu
