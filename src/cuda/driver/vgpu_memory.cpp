// Memory of virtual devices: allocation, pinned host memory, copies and fills as work in streams.
#include <fmt/core.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "cuda/driver/vgpu_state.h"

namespace strata::cuda::driver::virtual_gpu {

namespace {

CUresult inside(const Device& d, CUdeviceptr at, size_t bytes) {
  if (bytes == 0 || d.memory->valid(at, bytes)) return kSuccess;
  return say(kInvalidValue, fmt::format("{} bytes at 0x{:x} are not inside one allocation of device {}", bytes, at,
                                        d.default_stream.device));
}

// Calls f with the device and the stream, once both are valid.
template <class F> CUresult with(CUstream stream, const F& f) {
  return guarded([&]() -> CUresult {
    Device* d = nullptr;
    if (const CUresult r = current(d)) return r;
    Stream* s = find_stream(stream, *d);
    return s ? f(*d, *s) : say(kInvalidHandle, "no such stream on this device");
  });
}

// Pinned memory outside of the device's range, which the host check protects.
CUresult allocate_apart(void** out, size_t bytes) {
  Device* d = nullptr;
  if (const CUresult r = current(d)) return r;
  if (bytes == 0) return kInvalidValue;
  void* at = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!at) return kOutOfMemory;
  d->memory->add_host(reinterpret_cast<uint64_t>(at), bytes);
  state().pinned[reinterpret_cast<uint64_t>(at)] = current_ordinal();
  *out = at;
  return kSuccess;
}

bool pinned(const Device& d, const void* at, size_t bytes) {
  return d.memory->valid(reinterpret_cast<uint64_t>(at), bytes);
}

// Pageable memory is read before the call returns, as the driver does; pinned memory when the copy runs.
CUresult copy_in(Device& d, Stream& s, CUdeviceptr to, const void* from, size_t bytes) {
  if (const CUresult r = inside(d, to, bytes)) return r;
  if (bytes == 0) return kSuccess;
  if (!from) return kInvalidValue;
  auto* target = reinterpret_cast<void*>(to);
  if (pinned(d, from, bytes))
    return enqueue(d, s, [=, &d] {
      std::memcpy(target, from, bytes);
      d.memory->copy_written(to, reinterpret_cast<uint64_t>(from), bytes);
    });
  const auto* begin = static_cast<const uint8_t*>(from);
  return enqueue(d, s, [target, &d, data = std::vector<uint8_t>(begin, begin + bytes)] {
    std::memcpy(target, data.data(), data.size());
    d.memory->mark_written(reinterpret_cast<uint64_t>(target), data.size());
  });
}

CUresult copy_out(Device& d, Stream& s, void* to, CUdeviceptr from, size_t bytes) {
  if (const CUresult r = inside(d, from, bytes)) return r;
  if (bytes == 0) return kSuccess;
  if (!to) return kInvalidValue;
  const bool waits = !pinned(d, to, bytes) && !s.capture;  // for pageable memory the driver waits
  const CUresult r = enqueue(d, s, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  return r || !waits ? r : drain(d, &s);
}

struct Side {
  uint8_t* at = nullptr;
  size_t pitch = 0;
  bool device = false;
};
CUresult side(const Device& d, int type, void* host, CUdeviceptr device, size_t x, size_t y, size_t pitch, size_t width,
              size_t height, Side& out) {
  if (type != kHost && type != kDevice && type != kUnified)
    return say(kNotSupported, "copies of arrays are not supported by the virtual GPU");
  out.device = type != kHost;
  out.pitch = pitch ? pitch : width;
  if (x > out.pitch || width > out.pitch - x)
    return say(kInvalidValue, fmt::format("rows of {} bytes do not fit a pitch of {}", x + width, out.pitch));
  constexpr size_t kMost = size_t{1} << 46;
  if (y > kMost || height > kMost || out.pitch > kMost / (y + height + 1))
    return say(kInvalidValue, "the copy is too large");
  auto* base = out.device ? reinterpret_cast<uint8_t*>(device) : static_cast<uint8_t*>(host);
  if (!base) return kInvalidValue;
  out.at = base + y * out.pitch + x;
  return out.device ? inside(d, reinterpret_cast<CUdeviceptr>(out.at), (height - 1) * out.pitch + width) : kSuccess;
}

CUresult copy_2d(Device& d, Stream& s, const CUDA_MEMCPY2D& c) {
  const size_t width = c.WidthInBytes, height = c.Height;
  if (width == 0 || height == 0) return kSuccess;
  Side from, to;
  if (const CUresult r = side(d, c.srcMemoryType, const_cast<void*>(c.srcHost), c.srcDevice, c.srcXInBytes, c.srcY,
                              c.srcPitch, width, height, from))
    return r;
  if (const CUresult r =
        side(d, c.dstMemoryType, c.dstHost, c.dstDevice, c.dstXInBytes, c.dstY, c.dstPitch, width, height, to))
    return r;
  const bool waits =
    !s.capture && ((!from.device && !pinned(d, from.at, width)) || (!to.device && !pinned(d, to.at, width)));
  const CUresult r = enqueue(d, s, [=, &d] {
    for (size_t row = 0; row < height; ++row) {
      std::memcpy(to.at + row * to.pitch, from.at + row * from.pitch, width);
      d.memory->copy_written(reinterpret_cast<uint64_t>(to.at + row * to.pitch),
                             reinterpret_cast<uint64_t>(from.at + row * from.pitch), width);
    }
  });
  return r || !waits ? r : drain(d, &s);
}

void add_copies(Table& t) {
  t.cuMemcpyHtoD = [](CUdeviceptr to, const void* from, size_t bytes) -> CUresult {
    return with(nullptr, [&](Device& d, Stream& s) {
      const CUresult r = copy_in(d, s, to, from, bytes);
      return r ? r : drain(d, &s);
    });
  };
  t.cuMemcpyDtoH = [](void* to, CUdeviceptr from, size_t bytes) -> CUresult {
    return with(nullptr, [&](Device& d, Stream& s) {
      const CUresult r = copy_out(d, s, to, from, bytes);
      return r ? r : drain(d, &s);
    });
  };
  t.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t bytes, CUstream stream) -> CUresult {
    return with(stream, [&](Device& d, Stream& s) { return copy_in(d, s, to, from, bytes); });
  };
  t.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t bytes, CUstream stream) -> CUresult {
    return with(stream, [&](Device& d, Stream& s) { return copy_out(d, s, to, from, bytes); });
  };
  t.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) -> CUresult {
    return with(stream, [&](Device& d, Stream& s) -> CUresult {
      if (const CUresult r = inside(d, to, bytes)) return r;
      if (const CUresult r = inside(d, from, bytes)) return r;
      return enqueue(d, s, [=, &d] {
        std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
        d.memory->copy_written(to, from, bytes);
      });
    });
  };
  t.cuMemcpy2DAsync = [](const CUDA_MEMCPY2D* c, CUstream stream) -> CUresult {
    return with(stream, [&](Device& d, Stream& s) -> CUresult { return c ? copy_2d(d, s, *c) : kInvalidValue; });
  };
  t.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value, size_t n, CUstream stream) -> CUresult {
    return with(stream, [&](Device& d, Stream& s) -> CUresult {
      if (const CUresult r = inside(d, to, n)) return r;
      return enqueue(d, s,
                     [=, &d] {
                       std::memset(reinterpret_cast<void*>(to), value, n);
                       d.memory->mark_written(to, n);
                     },
                     nullptr, {kNodeMemset});
    });
  };
  t.cuMemsetD32Async = [](CUdeviceptr to, unsigned value, size_t n, CUstream stream) -> CUresult {
    return with(stream, [&](Device& d, Stream& s) -> CUresult {
      if (n > SIZE_MAX / 4 || to % 4) return say(kInvalidValue, "the address of words must be a multiple of 4");
      if (const CUresult r = inside(d, to, 4 * n)) return r;
      return enqueue(d, s,
                     [=, &d] {
                       std::fill_n(reinterpret_cast<unsigned*>(to), n, value);
                       d.memory->mark_written(to, 4 * n);
                     },
                     nullptr, {kNodeMemset});
    });
  };
}

}  // namespace

CUresult allocate(CUdeviceptr* out, size_t bytes) {
  Device* d = nullptr;
  if (const CUresult r = current(d)) return r;
  if (!out || bytes == 0) return kInvalidValue;
  const uint64_t at = d->memory->allocate(bytes);
  if (!at)
    return say(kOutOfMemory, fmt::format("{} bytes requested, {} of {} in use on device {}", bytes, d->memory->used(),
                                         d->memory->capacity(), d->default_stream.device));
  *out = at;
  return kSuccess;
}

void add_memory(Table& t) {
  add_copies(t);
  t.cuMemGetInfo = [](size_t* free, size_t* total) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      if (!free || !total) return kInvalidValue;
      *total = d->memory->capacity();
      *free = *total - d->memory->used();
      return kSuccess;
    });
  };
  t.cuMemAlloc = [](CUdeviceptr* out, size_t bytes) -> CUresult {
    return guarded([&] { return allocate(out, bytes); });
  };
  t.cuMemFree = [](CUdeviceptr at) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      if (at == 0) return kSuccess;
      if (state().pinned.count(at)) return say(kInvalidValue, "this is host memory: cuMemFreeHost frees it");
      const CUresult r = drain(*d, nullptr);  // the driver waits too
      returned(at);
      if (!d->memory->release(at))
        return say(kInvalidValue,
                   fmt::format("0x{:x} is not an allocation of device {}", at, d->default_stream.device));
      return r;
    });
  };
  t.cuMemAllocAsync = [](CUdeviceptr* out, size_t bytes, CUstream stream) -> CUresult {
    return with(stream, [&](Device& d, Stream& s) -> CUresult {
      if (s.capture) return say(kNotSupported, "allocations in a captured graph are not supported by the virtual GPU");
      return allocate_from(d.pool, out, bytes);
    });
  };
  t.cuMemFreeAsync = [](CUdeviceptr at, CUstream stream) -> CUresult {
    return with(stream, [&](Device& d, Stream& s) -> CUresult {
      const auto block = d.memory->find(at);
      if (!block || block->begin != at || state().pinned.count(at))
        return say(kInvalidValue, fmt::format("0x{:x} is not an allocation", at));
      return enqueue(d, s, [&d, at] {
        returned(at);
        d.memory->release(at);
      });
    });
  };
  // Pinned memory comes from the device's own range: kernels can access it, and host and device use the same address.
  t.cuMemHostAlloc = [](void** out, size_t bytes, unsigned) -> CUresult {
    return guarded([&]() -> CUresult {
      CUdeviceptr at = 0;
      if (!out) return kInvalidValue;
      if (state().checks & vgpu::kCheckHost) return allocate_apart(out, bytes);
      if (const CUresult r = allocate(&at, bytes)) return r;
      state().pinned[at] = current_ordinal();
      state().devices[static_cast<size_t>(current_ordinal())]->memory->mark_written(
        at, bytes);  // host writes are not tracked
      *out = reinterpret_cast<void*>(at);
      return kSuccess;
    });
  };
  t.cuMemFreeHost = [](void* host) -> CUresult {
    return guarded([&]() -> CUresult {
      const auto found = state().pinned.find(reinterpret_cast<uint64_t>(host));
      if (found == state().pinned.end()) return say(kInvalidValue, "this memory is not from cuMemHostAlloc");
      Device& d = *state().devices[static_cast<size_t>(found->second)];
      const CUresult r = drain(d, nullptr);
      if (!d.memory->release(found->first) && d.memory->remove_host(found->first)) std::free(host);
      state().pinned.erase(found);
      return r;
    });
  };
  t.cuMemHostRegister = [](void* host, size_t bytes, unsigned) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      if (!host || bytes == 0) return kInvalidValue;
      return d->memory->add_host(reinterpret_cast<uint64_t>(host), bytes)
               ? kSuccess
               : say(kHostMemoryAlreadyRegistered, "this memory is already registered");
    });
  };
  t.cuMemHostUnregister = [](void* host) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      const CUresult r = drain(*d, nullptr);
      return d->memory->remove_host(reinterpret_cast<uint64_t>(host))
               ? r
               : say(kHostMemoryNotRegistered, "this memory is not registered");
    });
  };
  t.cuMemHostGetDevicePointer = [](CUdeviceptr* out, void* host, unsigned) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      if (!out || !pinned(*d, host, 1)) return say(kInvalidValue, "this is neither pinned nor registered host memory");
      *out = reinterpret_cast<CUdeviceptr>(host);
      return kSuccess;
    });
  };
}

}  // namespace strata::cuda::driver::virtual_gpu
