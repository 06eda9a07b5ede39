// Modules from PTX, functions, occupancy and launches.
#include <fmt/core.h>

#include <cstring>

#include "base/error.h"
#include "cuda/driver/vgpu_state.h"
#include "cuda/vgpu/ptx/module.h"
#include "cuda/vgpu/tensor_map.h"

namespace strata::cuda::driver::virtual_gpu {

namespace {

std::pair<char*, size_t> log_of(unsigned count, const int* options, void** values) {
  std::pair<char*, size_t> log{};
  for (unsigned k = 0; k < count; ++k) {
    if (options[k] == kJitErrorLog) log.first = static_cast<char*>(values[k]);
    if (options[k] == kJitErrorLogBytes) log.second = reinterpret_cast<size_t>(values[k]);
  }
  return log;
}
void write_log(const std::pair<char*, size_t>& log, const char* text) {
  if (log.first && log.second) std::snprintf(log.first, log.second, "%s", text);
}

CUresult load(CUmodule* out, const void* image, unsigned count, const int* options, void** values) {
  Device* d = nullptr;
  if (const CUresult r = current(d)) return r;
  if (!out || !image || (count && (!options || !values))) return kInvalidValue;
  const auto* text = static_cast<const char*>(image);
  if (text[0] == '\x7f' ||
      static_cast<unsigned char>(text[0]) == 0x50)  // ELF; a fatbin begins with 0x50 0xed 0x55 0xba
    return say(kNoBinaryForGpu, "the virtual GPU runs PTX text; this image is compiled for a GPU");
  auto m = std::make_unique<LoadedModule>();
  m->device = current_ordinal();
  try {
    m->module = std::make_shared<vgpu::Module>(text, *d->memory);
  } catch (const Error& e) {
    write_log(log_of(count, options, values), e.what());
    return say(e.kind() == ErrorKind::OutOfMemory ? kOutOfMemory : kInvalidPtx, e.what());
  }
  const auto handle = state().fresh<CUmodule>();
  state().modules[handle] = std::move(m);
  *out = handle;
  return kSuccess;
}

// Like a JIT compiler: rejects invalid PTX. The virtual GPU's machine code is PTX.
CUresult link(CUlinkState link, int type, const void* data, size_t bytes) {
  const auto found = state().links.find(link);
  if (found == state().links.end()) return say(kInvalidHandle, "no such linker");
  if (!data || bytes == 0) return kInvalidValue;
  if (type != kJitInputPtx || !found->second.text.empty())
    return say(kNotSupported, "the virtual GPU links one piece of PTX");
  std::string text(static_cast<const char*>(data), bytes);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  try {
    vgpu::ptx::parse(text);
  } catch (const Error& e) {
    write_log(found->second.log, e.what());
    return say(kInvalidPtx, e.what());
  }
  found->second.text = std::move(text);
  return kSuccess;
}

Function* function_of(CUfunction f) {
  const auto found = state().functions.find(f);
  return found == state().functions.end() ? nullptr : found->second.get();
}

CUresult launch(CUfunction handle, vgpu::Launch l, CUstream stream, void** params, bool cooperative) {
  Device* d = nullptr;
  if (const CUresult r = current(d)) return r;
  const Function* f = function_of(handle);
  Stream* s = find_stream(stream, *d);
  if (!f || f->device != current_ordinal()) return say(kInvalidHandle, "no such function on this device");
  if (!s) return say(kInvalidHandle, "no such stream on this device");
  const vgpu::Program& p = *f->program;
  const uint64_t threads = l.block.count();
  if (threads == 0 || l.grid.count() == 0 || threads > 1024 || l.block.x > 1024 || l.block.y > 1024 || l.block.z > 64 ||
      l.grid.x > INT32_MAX || l.grid.y > 65535 || l.grid.z > 65535)
    return say(kInvalidValue, fmt::format("launch of '{}': grid ({},{},{}) of blocks ({},{},{})", p.name, l.grid.x,
                                          l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z));
  if (threads > p.max_threads)
    return say(kInvalidValue, fmt::format("launch of '{}': {} threads per block, the kernel allows {}", p.name, threads,
                                          p.max_threads));
  // As on a GPU: shared memory above the default limit must be requested with cuFuncSetAttribute.
  const int allowed = std::max(f->max_dynamic_shared, d->profile.shared_per_block - static_cast<int>(p.shared_bytes));
  if (l.dynamic_shared > static_cast<uint32_t>(std::max(allowed, 0)))
    return say(
      kInvalidValue,
      fmt::format(
        "launch of '{}': {} bytes of dynamic shared memory, {} are allowed; cuFuncSetAttribute raises it up to {}",
        p.name, l.dynamic_shared, allowed, d->profile.shared_optin - static_cast<int>(p.shared_bytes)));
  if (l.cluster.count() > 1 && d->profile.major < 9)
    return say(kNotSupported, fmt::format("launch of '{}': clusters need compute capability 9.0, this device has {}.{}",
                                          p.name, d->profile.major, d->profile.minor));
  const auto fits =
    vgpu::occupancy(d->profile, static_cast<uint32_t>(threads), p.registers, p.shared_bytes + l.dynamic_shared);
  if (fits.blocks == 0)
    return say(kLaunchOutOfResources,
               fmt::format("launch of '{}': not even one block fits, because of its {}", p.name, fits.limiter));
  if (cooperative &&
      l.grid.count() > static_cast<uint64_t>(fits.blocks) * static_cast<uint64_t>(d->profile.multiprocessors))
    return say(kLaunchOutOfResources, fmt::format("cooperative launch of '{}': {} blocks, {} fit at once", p.name,
                                                  l.grid.count(), fits.blocks * d->profile.multiprocessors));
  l.cooperative = cooperative;
  l.checks = state().checks;
  l.model_cache = state().options.model_cache;
  l.instruction_limit = state().limit;
  l.label = label();
  std::vector<std::vector<uint8_t>> args;
  for (size_t k = 0; k < p.params.size(); ++k) {  // read now: the caller's values may change before the launch runs
    if (!params || !params[k])
      return say(kInvalidValue, fmt::format("launch of '{}': argument {} is missing", p.name, k));
    const auto* at = static_cast<const uint8_t*>(params[k]);
    args.emplace_back(at, at + p.params[k].bytes);
  }
  if (s->capture) s->capture->modules.emplace_back(state().modules[f->module]->module);
  return enqueue(*d, *s,
                 [d, l, program = &p, args = std::move(args)] {
                   std::vector<const void*> pointers;
                   for (const auto& a : args) pointers.push_back(a.data());
                   auto& counters = state().counters;
                   counters.push_back(vgpu::run(*program, d->profile, *d->memory, l, pointers.data()));
                   if (counters.size() > kMostCounters) counters.pop_front();
                 },
                 nullptr, {kNodeKernel, handle, l});
}

}  // namespace

void add_modules(Table& t) {
  t.cuModuleLoadData = [](CUmodule* m, const void* image) -> CUresult {
    return guarded([&] { return load(m, image, 0, nullptr, nullptr); });
  };
  t.cuModuleLoadDataEx = [](CUmodule* m, const void* image, unsigned n, int* options, void** values) -> CUresult {
    return guarded([&] { return load(m, image, n, options, values); });
  };
  t.cuLinkCreate = [](unsigned count, int* options, void** values, CUlinkState* out) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      if (!out || (count && (!options || !values))) return kInvalidValue;
      *out = state().fresh<CUlinkState>();
      state().links[*out] = {{}, log_of(count, options, values)};
      return kSuccess;
    });
  };
  t.cuLinkAddData = [](CUlinkState s, int type, void* data, size_t bytes, const char*, unsigned, int*,
                       void**) -> CUresult { return guarded([&] { return link(s, type, data, bytes); }); };
  t.cuLinkComplete = [](CUlinkState s, void** cubin, size_t* bytes) -> CUresult {
    return guarded([&]() -> CUresult {
      const auto found = state().links.find(s);
      if (!cubin || !bytes) return kInvalidValue;
      if (found == state().links.end()) return say(kInvalidHandle, "no such linker");
      *cubin = found->second.text.data();
      *bytes = found->second.text.size() + 1;
      return kSuccess;
    });
  };
  t.cuLinkDestroy = [](CUlinkState s) -> CUresult {
    return guarded(
      [&]() -> CUresult { return state().links.erase(s) ? kSuccess : say(kInvalidHandle, "no such linker"); });
  };
  t.cuModuleUnload = [](CUmodule m) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      const auto found = state().modules.find(m);
      if (found == state().modules.end()) return say(kInvalidHandle, "no such module");
      const CUresult r = drain(*d, nullptr);  // its kernels may be queued
      for (const auto& [name, f] : found->second->functions) state().functions.erase(f);
      state().modules.erase(found);
      return r;
    });
  };
  t.cuModuleGetFunction = [](CUfunction* out, CUmodule m, const char* name) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      const auto found = state().modules.find(m);
      if (!out || !name) return kInvalidValue;
      if (found == state().modules.end()) return say(kInvalidHandle, "no such module");
      LoadedModule& module = *found->second;
      const auto known = module.functions.find(name);
      if (known != module.functions.end()) {
        *out = known->second;
        return kSuccess;
      }
      const vgpu::Program* p = module.module->kernel(name);
      if (!p) return say(kNotFound, fmt::format("the module has no kernel '{}'", name));
      *out = module.functions[name] = state().fresh<CUfunction>();
      state().functions[*out] = std::make_unique<Function>(Function{module.device, m, p, 0});
      return kSuccess;
    });
  };
  t.cuModuleGetGlobal = [](CUdeviceptr* address, size_t* bytes, CUmodule m, const char* name) -> CUresult {
    return guarded([&]() -> CUresult {
      const auto found = state().modules.find(m);
      if (!name) return kInvalidValue;
      if (found == state().modules.end()) return say(kInvalidHandle, "no such module");
      const auto* v = found->second->module->variable(name);
      if (!v) return say(kNotFound, fmt::format("the module has no variable '{}'", name));
      if (address) *address = v->address;
      if (bytes) *bytes = v->bytes;
      return kSuccess;
    });
  };
  t.cuFuncGetAttribute = [](int* v, int which, CUfunction handle) -> CUresult {
    return guarded([&]() -> CUresult {
      const Function* f = function_of(handle);
      if (!f) return say(kInvalidHandle, "no such function");
      if (!v) return kInvalidValue;
      const vgpu::Program& p = *f->program;
      switch (which) {
        case kFunctionMaxThreads: *v = static_cast<int>(p.max_threads); return kSuccess;
        case kFunctionShared: *v = static_cast<int>(p.shared_bytes); return kSuccess;
        case kFunctionConst: *v = 0; return kSuccess;
        case kFunctionLocal: *v = static_cast<int>(p.local_bytes); return kSuccess;
        case kFunctionRegisters: *v = static_cast<int>(p.registers); return kSuccess;
        case kFunctionPtxVersion:
        case kFunctionBinaryVersion:
          *v = state().devices[static_cast<size_t>(f->device)]->profile.major * 10;
          return kSuccess;
        case kFunctionMaxDynamicShared: *v = f->max_dynamic_shared; return kSuccess;
        default:
          return say(kInvalidValue, fmt::format("function attribute {} is not supported by the virtual GPU", which));
      }
    });
  };
  t.cuFuncSetAttribute = [](CUfunction handle, int which, int value) -> CUresult {
    return guarded([&]() -> CUresult {
      auto* f = const_cast<Function*>(function_of(handle));
      if (!f) return say(kInvalidHandle, "no such function");
      if (which != kFunctionMaxDynamicShared) return kSuccess;  // preferences, ignored
      const auto& profile = state().devices[static_cast<size_t>(f->device)]->profile;
      const int most = profile.shared_optin - static_cast<int>(f->program->shared_bytes);
      if (value < 0 || value > most)
        return say(kInvalidValue, fmt::format("{} bytes of dynamic shared memory, at most {}", value, most));
      f->max_dynamic_shared = value;
      return kSuccess;
    });
  };
  t.cuOccupancyMaxActiveBlocksPerMultiprocessor = [](int* blocks, CUfunction handle, int threads,
                                                     size_t shared) -> CUresult {
    return guarded([&]() -> CUresult {
      const Function* f = function_of(handle);
      if (!f) return say(kInvalidHandle, "no such function");
      if (!blocks || threads <= 0 || shared > (1u << 30)) return kInvalidValue;
      *blocks =
        vgpu::occupancy(state().devices[static_cast<size_t>(f->device)]->profile, static_cast<uint32_t>(threads),
                        f->program->registers, f->program->shared_bytes + static_cast<uint32_t>(shared))
          .blocks;
      return kSuccess;
    });
  };
  t.cuLaunchKernel = [](CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void** params, void** extra) -> CUresult {
    return guarded([&]() -> CUresult {
      if (extra) return say(kNotSupported, "arguments in one buffer ('extra') are not supported by the virtual GPU");
      return launch(f, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, params, false);
    });
  };
  t.cuLaunchKernelEx = [](const CUlaunchConfig* c, CUfunction f, void** params, void** extra) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!c || (c->numAttrs && !c->attrs)) return kInvalidValue;
      if (extra) return say(kNotSupported, "arguments in one buffer ('extra') are not supported by the virtual GPU");
      bool cooperative = false;
      vgpu::Dim3 cluster{0, 0, 0};
      for (unsigned k = 0; k < c->numAttrs; ++k) {
        const CUlaunchAttribute& a = c->attrs[k];
        if (a.id == kLaunchCooperative) cooperative = a.cooperative != 0;
        else if (a.id == kLaunchCluster) cluster = {a.cluster.x, a.cluster.y, a.cluster.z};
        else if (a.id != kLaunchIgnore && a.id != kLaunchPriority)
          return say(kNotSupported, fmt::format("launch attribute {} is not supported by the virtual GPU", a.id));
      }
      vgpu::Launch l{
        {c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes};
      l.cluster = cluster;
      return launch(f, l, c->hStream, params, cooperative);
    });
  };
  t.cuTensorMapEncodeTiled = [](CUtensorMap* map, int type, unsigned rank, void* address,
                                const unsigned long long* sizes, const unsigned long long* strides, const unsigned* box,
                                const unsigned* steps, int interleave, int swizzle, int, int fill) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!map) return kInvalidValue;
      vgpu::TensorMap made;
      bool supported = true;
      const std::string why = vgpu::encode(
        {type, rank, reinterpret_cast<uint64_t>(address), sizes, strides, box, steps, interleave, swizzle, fill}, made,
        supported);
      if (!why.empty()) return say(supported ? kInvalidValue : kNotSupported, "cuTensorMapEncodeTiled: " + why);
      static_assert(sizeof made == sizeof *map);
      std::memcpy(map, &made, sizeof made);
      return kSuccess;
    });
  };
  t.cuLaunchCooperativeKernel = [](CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void** params) -> CUresult {
    return guarded([&] { return launch(f, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, params, true); });
  };
}

}  // namespace strata::cuda::driver::virtual_gpu
