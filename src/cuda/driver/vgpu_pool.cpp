// Memory pools, which only count, and access to memory of other devices.
#include <fmt/core.h>

#include <cstring>

#include "base/error.h"
#include "cuda/driver/vgpu_state.h"

namespace strata::cuda::driver::virtual_gpu {

namespace {

Pool* pool_of(CUmemoryPool handle) {
  const auto p = state().pools.find(handle);
  return p == state().pools.end() ? nullptr : p->second.get();
}

Device* device_of(CUdevice d) {
  return d >= 0 && static_cast<size_t>(d) < state().devices.size() ? state().devices[static_cast<size_t>(d)].get()
                                                                   : nullptr;
}
Device* device_of(CUcontext c) {
  return c ? device_of(static_cast<CUdevice>(reinterpret_cast<uintptr_t>(c)) - 1) : nullptr;
}

CUresult attribute(Pool& p, int which, void* value, bool set) {
  if (!value) return kInvalidValue;
  if (which >= kPoolReuseEvents && which <= kPoolReuseInternal) {
    int& field = p.reuse[which - kPoolReuseEvents];
    if (set) std::memcpy(&field, value, sizeof field);
    else std::memcpy(value, &field, sizeof field);
    return kSuccess;
  }
  uint64_t* field = which == kPoolReleaseThreshold                         ? &p.threshold
                    : which == kPoolUsed || which == kPoolReserved         ? &p.used
                    : which == kPoolUsedHigh || which == kPoolReservedHigh ? &p.used_high
                                                                           : nullptr;
  if (!field) return say(kInvalidValue, fmt::format("a memory pool has no attribute {}", which));
  if (!set) {
    std::memcpy(value, field, sizeof *field);
    return kSuccess;
  }
  uint64_t wanted = 0;
  std::memcpy(&wanted, value, sizeof wanted);
  if (which == kPoolReleaseThreshold) p.threshold = wanted;
  // a high-water mark can be reset, nothing else can be set
  else if (field == &p.used_high && wanted == 0) p.used_high = p.used;
  else return say(kInvalidValue, fmt::format("attribute {} of a memory pool cannot be set to {}", which, wanted));
  return kSuccess;
}

}  // namespace

CUresult allocate_from(CUmemoryPool handle, CUdeviceptr* out, size_t bytes) {
  Pool* p = pool_of(handle);
  if (!p || p->device != current_ordinal()) return say(kInvalidValue, "no such memory pool on this device");
  if (p->most && (bytes > p->most || p->used > p->most - bytes))
    return say(kOutOfMemory, fmt::format("{} bytes requested, {} of the pool's {} in use", bytes, p->used, p->most));
  if (const CUresult r = allocate(out, bytes)) return r;
  state().pooled[*out] = handle;
  p->used += bytes;
  p->used_high = std::max(p->used_high, p->used);
  return kSuccess;
}

void returned(CUdeviceptr at) {
  const auto entry = state().pooled.find(at);
  if (entry == state().pooled.end()) return;
  Pool* p = pool_of(entry->second);
  state().pooled.erase(entry);
  if (!p) return;
  const auto block = state().devices[static_cast<size_t>(p->device)]->memory->find(at);
  p->used -= block ? std::min(block->bytes, p->used) : 0;
}

void add_pools(Table& t) {
  t.cuDeviceGetDefaultMemPool = [](CUmemoryPool* out, CUdevice d) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!out) return kInvalidValue;
      Device* device = device_of(d);
      if (!device) return kInvalidDevice;
      *out = device->default_pool;
      return kSuccess;
    });
  };
  t.cuDeviceGetMemPool = [](CUmemoryPool* out, CUdevice d) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!out) return kInvalidValue;
      Device* device = device_of(d);
      if (!device) return kInvalidDevice;
      *out = device->pool;
      return kSuccess;
    });
  };
  t.cuDeviceSetMemPool = [](CUdevice d, CUmemoryPool pool) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* device = device_of(d);
      const Pool* p = pool_of(pool);
      if (!device) return kInvalidDevice;
      if (!p || p->device != d) return say(kInvalidValue, "no such memory pool on this device");
      device->pool = pool;
      return kSuccess;
    });
  };
  t.cuMemPoolCreate = [](CUmemoryPool* out, const CUmemPoolProps* props) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!out || !props) return kInvalidValue;
      if (props->allocType != kAllocationPinned || props->location.type != kLocationDevice ||
          !device_of(props->location.id))
        return say(kInvalidValue, "a memory pool needs pinned memory of a device that exists");
      *out = state().fresh<CUmemoryPool>();
      auto p = std::make_unique<Pool>();
      p->device = props->location.id;
      p->most = props->maxSize;
      state().pools[*out] = std::move(p);
      return kSuccess;
    });
  };
  t.cuMemPoolDestroy = [](CUmemoryPool pool) -> CUresult {
    return guarded([&]() -> CUresult {
      const Pool* p = pool_of(pool);
      if (!p) return say(kInvalidValue, "no such memory pool");
      Device& d = *state().devices[static_cast<size_t>(p->device)];
      if (pool == d.default_pool) return say(kInvalidValue, "the default pool of a device cannot be destroyed");
      if (d.pool == pool) d.pool = d.default_pool;
      state().pools.erase(pool);  // its allocations live until they are freed
      return kSuccess;
    });
  };
  t.cuMemPoolSetAttribute = [](CUmemoryPool pool, int which, void* value) -> CUresult {
    return guarded([&]() -> CUresult {
      Pool* p = pool_of(pool);
      return p ? attribute(*p, which, value, true) : say(kInvalidValue, "no such memory pool");
    });
  };
  t.cuMemPoolGetAttribute = [](CUmemoryPool pool, int which, void* value) -> CUresult {
    return guarded([&]() -> CUresult {
      Pool* p = pool_of(pool);
      return p ? attribute(*p, which, value, false) : say(kInvalidValue, "no such memory pool");
    });
  };
  t.cuMemPoolTrimTo = [](CUmemoryPool pool, size_t) -> CUresult {  // nothing is cached
    return guarded([&]() -> CUresult { return pool_of(pool) ? kSuccess : say(kInvalidValue, "no such memory pool"); });
  };
  t.cuMemAllocFromPoolAsync = [](CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      const Stream* s = find_stream(stream, *d);
      if (!s) return say(kInvalidHandle, "no such stream on this device");
      if (s->capture) return say(kNotSupported, "allocations in a captured graph are not supported by the virtual GPU");
      return allocate_from(pool, out, bytes);
    });
  };
  t.cuCtxEnablePeerAccess = [](CUcontext peer, unsigned flags) -> CUresult {
    return guarded([&]() -> CUresult {
      Device *d = nullptr, *other = device_of(peer);
      if (const CUresult r = current(d)) return r;
      if (!other || other == d || flags) return say(kInvalidValue, "peer access needs the context of another device");
      if (d->memory->has_peer(other->memory.get()))
        return say(kPeerAccessAlreadyEnabled, "access to this peer is already enabled");
      d->memory->add_peer(other->memory.get());
      return kSuccess;
    });
  };
  t.cuCtxDisablePeerAccess = [](CUcontext peer) -> CUresult {
    return guarded([&]() -> CUresult {
      Device *d = nullptr, *other = device_of(peer);
      if (const CUresult r = current(d)) return r;
      if (!other || !d->memory->has_peer(other->memory.get()))
        return say(kPeerAccessNotEnabled, "access to this peer is not enabled");
      const CUresult r = drain(*d, nullptr);
      d->memory->remove_peer(other->memory.get());
      return r;
    });
  };
  t.cuMemcpyPeerAsync = [](CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) -> CUresult {
    return guarded([&]() -> CUresult {
      Device *d = nullptr, *a = device_of(to_context), *b = device_of(from_context);
      if (const CUresult r = current(d)) return r;
      Stream* s = find_stream(stream, *d);
      if (!s) return say(kInvalidHandle, "no such stream on this device");
      if (!a || !b) return say(kInvalidContext, "both contexts must be of devices that exist");
      if (bytes == 0) return kSuccess;
      if (!a->memory->valid(to, bytes) || !b->memory->valid(from, bytes))
        return say(
          kInvalidValue,
          fmt::format("{} bytes from 0x{:x} to 0x{:x} are not inside allocations of their devices", bytes, from, to));
      return enqueue(*d, *s, [=] {
        std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
        a->memory->mark_written(to, bytes);
      });
    });
  };
}

}  // namespace strata::cuda::driver::virtual_gpu
