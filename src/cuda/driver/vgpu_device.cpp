// Virtual devices: initialization, attributes, primary contexts, errors.
#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "cuda/driver/vgpu_state.h"
#include "cuda/driver/wrap.h"

namespace strata::cuda::driver {

namespace virtual_gpu {

namespace {
thread_local int this_device = -1;
thread_local std::string last_message, this_label;

bool known(CUdevice d) { return d >= 0 && static_cast<size_t>(d) < state().devices.size(); }

CUresult attribute(const vgpu::Profile& p, int which, int& v) {
  switch (which) {
    case kMaxThreadsPerBlock:
    case kMaxBlockDimX:
    case kMaxBlockDimY: v = 1024; break;
    case kMaxBlockDimZ: v = 64; break;
    case kMaxGridDimX: v = INT32_MAX; break;
    case kMaxGridDimY:
    case kMaxGridDimZ: v = 65535; break;
    case kSharedPerBlock: v = p.shared_per_block; break;
    case kWarpSize: v = 32; break;
    case kRegistersPerBlock:
    case kRegistersPerMultiprocessor: v = p.registers_per_sm; break;
    case kClockRate: v = p.clock_khz; break;
    case kMultiprocessors: v = p.multiprocessors; break;
    case kL2Bytes: v = p.l2_bytes; break;
    case kThreadsPerMultiprocessor: v = p.threads_per_sm; break;
    case kMajor: v = p.major; break;
    case kMinor: v = p.minor; break;
    case kSharedPerMultiprocessor: v = p.shared_per_sm; break;
    case kSharedOptin: v = p.shared_optin; break;
    case kBlocksPerMultiprocessor: v = p.blocks_per_sm; break;
    case kMapsHostMemory:
    case kConcurrentKernels:
    case kUnifiedAddressing:
    case kCooperativeLaunch:
    case kVirtualMemory:
    case kMemoryPools: v = 1; break;
    case kClusterLaunch: v = p.major >= 9; break;
    default: return say(kInvalidValue, fmt::format("device attribute {} is not supported by the virtual GPU", which));
  }
  return kSuccess;
}

struct ErrorText {
  CUresult code;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
  {kSuccess, "CUDA_SUCCESS", "no error"},
  {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
  {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
  {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
  {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
  {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
  {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
  {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
  {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
  {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
  {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
  {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
  {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
  {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
  {kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
  {kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
  {kPeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
  {kPeerAccessNotEnabled, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
  {kAssert, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
  {kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
   "part or all of the requested memory range is already mapped"},
  {kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
   "pointer does not correspond to a registered memory region"},
  {kIllegalInstruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
  {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
  {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
  {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
  {kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
   "operation not permitted when stream is capturing"},
  {kStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
   "operation failed due to a previous error during capture"},
  {kStreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
   "capture was not ended in the same stream as it began"},
  {kGraphExecUpdateFailure, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
   "the graph update was not performed because it included changes which violated constraints"},
  {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
CUresult error_text(CUresult code, const char** out, const char* ErrorText::*field) {
  if (!out) return kInvalidValue;
  for (const auto& e : kErrors)
    if (e.code == code) {
      *out = e.*field;
      return kSuccess;
    }
  *out = nullptr;
  return kInvalidValue;
}

std::unique_ptr<vgpu::Memory> make_memory(uint64_t bytes) {
  constexpr uint64_t kGap = 256;
  auto memory = std::make_unique<vgpu::Memory>(bytes, state().checks & vgpu::kCheckMemory ? kGap : 0);
  if (state().checks & vgpu::kCheckInit) memory->track();
  return memory;
}

CUresult reset(int d) {
  State& s = state();
  Device& device = *s.devices[static_cast<size_t>(d)];
  device.default_stream.queue.clear();
  std::erase_if(s.streams, [&](const auto& e) { return e.second->device == d; });
  std::erase_if(s.events, [&](const auto& e) { return e.second->device == d; });
  for (const auto& [handle, m] : s.modules)
    if (m->device == d)
      for (const auto& [name, f] : m->functions) s.functions.erase(f);
  std::erase_if(s.modules, [&](const auto& e) { return e.second->device == d; });
  std::erase_if(s.pinned, [&](const auto& e) { return e.second == d; });
  std::erase_if(s.physical, [&](const auto& e) { return e.second.first == d; });
  std::erase_if(s.pooled, [&](const auto& e) { return device.memory->own(e.first); });
  for (const auto& [handle, pool] : s.pools)
    if (pool->device == d) pool->used = 0;
  const uint64_t bytes = device.memory->capacity();
  for (const auto& other : s.devices) other->memory->remove_peer(device.memory.get());
  device.memory.reset();
  device.memory = make_memory(bytes);
  device.dead = kSuccess;
  device.why_dead.clear();
  return kSuccess;
}

}  // namespace

// Contexts are numbers too: the ordinal plus one.
CUcontext context_of(int ordinal) { return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(ordinal + 1)); }
const std::string& label() { return this_label; }

State& state() {
  static State* const one = new State;  // never destroyed: kernels of other static objects may still use it
  return *one;
}
namespace {
int opened = 0;  // nesting depth of running entries
void open_memory(bool open) {
  if (!(state().checks & vgpu::kCheckHost)) return;
  for (const auto& d : state().devices) d->memory->open_to_host(open);
}
}  // namespace
MemoryOpen::MemoryOpen() {
  if (opened++ == 0) open_memory(true);
}
MemoryOpen::~MemoryOpen() {
  if (--opened == 0) open_memory(false);
}

std::recursive_mutex& lock() {
  static auto* const one = new std::recursive_mutex;
  return *one;
}
CUresult say(CUresult code, std::string message) {
  last_message = std::move(message);
  return code;
}
int current_ordinal() { return this_device; }

CUresult current(Device*& device) {
  if (!state().initialised) return say(kNotInitialized, "cuInit was not called");
  if (!known(this_device)) return say(kInvalidContext, "no context is current in this thread; call cuCtxSetCurrent");
  device = state().devices[static_cast<size_t>(this_device)].get();
  return device->dead == kSuccess ? kSuccess : say(device->dead, device->why_dead);
}

CUresult code_of(const std::exception& e) {
  if (const auto* f = dynamic_cast<const vgpu::Fault*>(&e)) return f->code();
  if (const auto* s = dynamic_cast<const Error*>(&e)) {
    switch (s->kind()) {
      case ErrorKind::Value: return kInvalidValue;
      case ErrorKind::OutOfMemory: return kOutOfMemory;
      case ErrorKind::NotImplemented: return kNotSupported;
      default: return kUnknown;
    }
  }
  return dynamic_cast<const std::bad_alloc*>(&e) ? kOutOfMemory : kUnknown;
}

void add_devices(Table& t) {
  t.cuInit = [](unsigned flags) -> CUresult {
    return guarded([&] {
      if (flags) return say(kInvalidValue, "cuInit takes 0");
      state().initialised = true;
      return kSuccess + 0;
    });
  };
  t.cuDriverGetVersion = [](int* v) -> CUresult {
    if (!v) return kInvalidValue;
    *v = 12040;
    return kSuccess;
  };
  t.cuGetErrorName = [](CUresult e, const char** out) -> CUresult { return error_text(e, out, &ErrorText::name); };
  t.cuGetErrorString = [](CUresult e, const char** out) -> CUresult { return error_text(e, out, &ErrorText::text); };
  t.cuDeviceGetCount = [](int* n) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!n) return kInvalidValue;
      if (!state().initialised) return say(kNotInitialized, "cuInit was not called");
      *n = static_cast<int>(state().devices.size());
      return kSuccess;
    });
  };
  t.cuDeviceGet = [](CUdevice* d, int ordinal) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!d) return kInvalidValue;
      if (!state().initialised) return say(kNotInitialized, "cuInit was not called");
      if (!known(ordinal)) return say(kInvalidDevice, fmt::format("device {} of {}", ordinal, state().devices.size()));
      *d = ordinal;
      return kSuccess;
    });
  };
  t.cuDeviceGetName = [](char* name, int length, CUdevice d) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!name || length < 1) return kInvalidValue;
      if (!known(d)) return kInvalidDevice;
      std::snprintf(name, static_cast<size_t>(length), "Strata virtual GPU (%s)",
                    state().devices[static_cast<size_t>(d)]->profile.name.c_str());
      return kSuccess;
    });
  };
  t.cuDeviceTotalMem = [](size_t* bytes, CUdevice d) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!bytes) return kInvalidValue;
      if (!known(d)) return kInvalidDevice;
      *bytes = state().devices[static_cast<size_t>(d)]->memory->capacity();
      return kSuccess;
    });
  };
  t.cuDeviceGetAttribute = [](int* v, int which, CUdevice d) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!v) return kInvalidValue;
      return known(d) ? attribute(state().devices[static_cast<size_t>(d)]->profile, which, *v) : kInvalidDevice;
    });
  };
  t.cuDeviceCanAccessPeer = [](int* can, CUdevice d, CUdevice peer) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!can) return kInvalidValue;
      if (!known(d) || !known(peer)) return kInvalidDevice;
      *can = d != peer;
      return kSuccess;
    });
  };
  t.cuDevicePrimaryCtxRetain = [](CUcontext* c, CUdevice d) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!c) return kInvalidValue;
      if (!state().initialised) return say(kNotInitialized, "cuInit was not called");
      if (!known(d)) return kInvalidDevice;
      ++state().devices[static_cast<size_t>(d)]->retained;
      *c = context_of(d);
      return kSuccess;
    });
  };
  t.cuDevicePrimaryCtxRelease = [](CUdevice d) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!known(d)) return kInvalidDevice;
      int& retained = state().devices[static_cast<size_t>(d)]->retained;
      if (retained == 0) return say(kInvalidContext, "the primary context was released more often than retained");
      return --retained == 0 ? reset(d) : kSuccess;
    });
  };
  t.cuDevicePrimaryCtxReset = [](CUdevice d) -> CUresult {
    return guarded([&]() -> CUresult { return known(d) ? reset(d) : kInvalidDevice; });
  };
  t.cuDevicePrimaryCtxGetState = [](CUdevice d, unsigned* flags, int* active) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!flags || !active) return kInvalidValue;
      if (!known(d)) return kInvalidDevice;
      *flags = 0;
      *active = state().devices[static_cast<size_t>(d)]->retained > 0;
      return kSuccess;
    });
  };
  t.cuCtxSetCurrent = [](CUcontext c) -> CUresult {
    return guarded([&]() -> CUresult {
      const int d = static_cast<int>(reinterpret_cast<uintptr_t>(c)) - 1;
      if (c && (!known(d) || state().devices[static_cast<size_t>(d)]->retained == 0))
        return say(kInvalidContext, "this context is not retained");
      this_device = d;
      return kSuccess;
    });
  };
  t.cuCtxGetCurrent = [](CUcontext* c) -> CUresult {
    if (!c) return kInvalidValue;
    *c = context_of(this_device);
    return kSuccess;
  };
  t.cuCtxGetDevice = [](CUdevice* d) -> CUresult {
    if (!d) return kInvalidValue;
    if (this_device < 0) return kInvalidContext;
    *d = this_device;
    return kSuccess;
  };
  t.cuCtxSynchronize = []() -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      return drain(*d, nullptr);
    });
  };
  t.cuCtxGetStreamPriorityRange = [](int* least, int* greatest) -> CUresult {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return kSuccess;
  };
}

}  // namespace virtual_gpu

void set_vgpu_label(const char* label) { virtual_gpu::this_label = label ? label : ""; }
const std::string& vgpu_message() { return virtual_gpu::last_message; }

const Table& open_vgpu(const VgpuOptions& options) {
  const std::lock_guard<std::recursive_mutex> hold(virtual_gpu::lock());
  STRATA_CHECK(!options.profiles.empty(), Value, "vgpu: at least one device profile is needed");
  const char *limit = std::getenv("STRATA_VGPU_LIMIT"), *wanted = std::getenv("STRATA_VGPU_CHECK");
  uint32_t checks = vgpu::checks_named(!options.checks.empty() ? options.checks : wanted ? wanted : "");
  if (options.check_memory) checks |= vgpu::kCheckMemory;
  uint64_t instructions = options.instruction_limit ? options.instruction_limit : vgpu::kDefaultLimit;
  if (!options.instruction_limit && limit) {
    const auto [end, error] = std::from_chars(limit, limit + std::strlen(limit), instructions);
    STRATA_CHECK(error == std::errc() && *end == 0, Value,
                 "STRATA_VGPU_LIMIT is '{}'; expected an integer number of warp instructions, 0 for no limit", limit);
  }
  std::vector<std::unique_ptr<virtual_gpu::Device>> devices;
  virtual_gpu::state().checks = checks;
  virtual_gpu::state().limit = instructions;
  for (const auto& name : options.profiles) {
    auto d = std::make_unique<virtual_gpu::Device>();
    d->profile = vgpu::profile_of(name);
    d->memory = virtual_gpu::make_memory(options.memory ? options.memory : d->profile.memory);
    d->default_stream.device = static_cast<int>(devices.size());
    devices.push_back(std::move(d));
  }
  virtual_gpu::State& s = virtual_gpu::state();
  s.modules.clear();  // free their variables before the memory goes
  const uint64_t handles = s.handles;
  s.functions.clear();
  s.streams.clear();
  s.events.clear();
  s.links.clear();
  s.graphs.clear();
  s.execs.clear();
  s.pinned.clear();
  s.pools.clear();
  s.pooled.clear();
  s.physical.clear();
  s.counters.clear();
  s.devices = std::move(devices);
  s.options = options;
  s.order.seed(options.seed);
  s.handles = handles;
  s.initialised = false;
  for (const auto& d : s.devices) {
    d->default_pool = d->pool = s.fresh<CUmemoryPool>();
    s.pools[d->pool] = std::make_unique<virtual_gpu::Pool>(virtual_gpu::Pool{d->default_stream.device});
  }
  virtual_gpu::this_device = -1;
  static const Table table = [] {
    Table t;
    virtual_gpu::add_devices(t);
    virtual_gpu::add_modules(t);
    virtual_gpu::add_queues(t);
    virtual_gpu::add_memory(t);
    virtual_gpu::add_graphs(t);
    virtual_gpu::add_virtual_memory(t);
    virtual_gpu::add_pools(t);
    return t;
  }();
  return traced_vgpu(table);
}

std::vector<vgpu::Counters> take_vgpu_counters() {
  const std::lock_guard<std::recursive_mutex> hold(virtual_gpu::lock());
  const auto all = std::exchange(virtual_gpu::state().counters, {});
  return {all.begin(), all.end()};
}

}  // namespace strata::cuda::driver
