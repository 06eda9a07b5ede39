// The real driver, opened at run time. No CUDA library is linked, and none is opened before a device is used.
#include <fmt/core.h>

#include "base/library.h"
#include "cuda/driver/wrap.h"

namespace strata::cuda::driver {

namespace {

constexpr int kOldest = 12000;  // CUDA 12.0: the first with all entries of the table

struct Opened {
  Table table;
  bool usable = false;
  std::string why;
};

Library open_library() {
  // First the loader's search path, then folders of WSL and distributions that are not in it.
  return Library({.name = "the CUDA driver",
                  .files = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                            "/usr/lib64/libcuda.so.1", "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
                            "/run/opengl-driver/lib/libcuda.so.1"},
                  .advice = "install NVIDIA's driver, or use device 'vgpu'"});
}

Opened open() {
  Opened out;
  const Library library = open_library();
  if (!library) {
    out.why = library.why();
    return out;
  }
  const char* missing = nullptr;
#define STRATA_DRIVER_LOAD(name, symbol, parameters)               \
  out.table.name = library.find<decltype(out.table.name)>(symbol); \
  if (!out.table.name && !missing) missing = symbol;
  STRATA_DRIVER_ENTRIES(STRATA_DRIVER_LOAD)
#undef STRATA_DRIVER_LOAD
  int version = 0;
  if (out.table.cuDriverGetVersion) out.table.cuDriverGetVersion(&version);
  if (missing || version < kOldest) {
    out.why = fmt::format("the CUDA driver has version {}.{}{}; 12.0 or newer is required: update NVIDIA's driver",
                          version / 1000, version % 1000 / 10, missing ? fmt::format(" and has no {}", missing) : "");
    return out;
  }
  if (const CUresult r = out.table.cuInit(0); r != kSuccess) {
    const char* name = nullptr;
    out.table.cuGetErrorName(r, &name);
    out.why = fmt::format("the CUDA driver {}.{} does not start: {} ({}); nvidia-smi shows whether it sees a GPU",
                          version / 1000, version % 1000 / 10, name ? name : "unknown error", r);
    return out;
  }
  int count = 0;
  if (out.table.cuDeviceGetCount(&count) != kSuccess || count == 0) {
    out.why = "the CUDA driver works but sees no GPU; CUDA_VISIBLE_DEVICES may hide it";
    return out;
  }
  out.usable = true;
  return out;
}

// Never closed: the driver has its own threads, which still run its code when the process ends.
const Opened& opened() {
  static const Opened* const once = new Opened(open());
  return *once;
}

}  // namespace

const Table* libcuda() { return opened().usable ? &traced_libcuda(opened().table) : nullptr; }
const std::string& why_not() { return opened().why; }

}  // namespace strata::cuda::driver
