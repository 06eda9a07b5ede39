// Runs a kernel with a bug that one tool of compute-sanitizer must find: shows that the tool checks what we expect.
//
// planted_bugs PTX_FILE memcheck|racecheck|initcheck|synccheck [--device cuda|vgpu] [--mended]
//
// Uses only the driver table, so that the planted bug is the only one to find. --mended runs the same kernel without
// its bug. On vgpu the check that corresponds to the tool is on, and its message is printed. Exit status: 0 the kernel
// was launched, whatever its result; 1 wrong arguments; 2 it could not be launched; 3 no such device.
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "cuda/driver/vgpu.h"

namespace strata::cuda::driver {
namespace {

constexpr size_t kBytes = 256;  // of each buffer

struct Planted {
  const char *tool, *check, *kernel;  // check: of STRATA_VGPU_CHECK
};
constexpr Planted kPlanted[] = {{"memcheck", "memory", "write"},
                                {"racecheck", "race", "neighbour"},
                                {"initcheck", "init", "copy"},
                                {"synccheck", "sync", "divergent"}};

class Device {
 public:
  explicit Device(const Table& table) : cu(table) {
    CUcontext context = nullptr;
    check(cu.cuInit(0), "cuInit");
    check(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  }
  void load(const std::string& ptx) { check(cu.cuModuleLoadData(&module_, ptx.c_str()), "cuModuleLoadData"); }
  CUdeviceptr allocate() const {
    CUdeviceptr address = 0;
    check(cu.cuMemAlloc(&address, kBytes), "cuMemAlloc");
    return address;
  }
  void fill(CUdeviceptr address) const { check(cu.cuMemsetD8Async(address, 0, kBytes, nullptr), "cuMemsetD8Async"); }
  // The result of the kernel: the code of the launch, or of waiting for it.
  template <class... A> CUresult run(const char* kernel, unsigned threads, A... arguments) const {
    CUfunction function = nullptr;
    check(cu.cuModuleGetFunction(&function, module_, kernel), "cuModuleGetFunction");
    void* params[] = {static_cast<void*>(&arguments)..., nullptr};
    if (const CUresult r = cu.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, nullptr, params, nullptr)) return r;
    return cu.cuCtxSynchronize();
  }
  std::string name_of(CUresult code) const {
    const char* name = nullptr;
    return cu.cuGetErrorName(code, &name) == kSuccess && name ? name : std::to_string(code);
  }
  void check(CUresult code, const char* what) const {
    STRATA_CHECK(code == kSuccess, Runtime, "{}: {}", what, name_of(code));
  }

 private:
  const Table& cu;
  CUmodule module_ = nullptr;
};

CUresult run(const Device& device, std::string_view tool, bool mended) {
  const CUdeviceptr x = device.allocate();
  if (tool == "memcheck") return device.run("write", mended ? 64 : 65, x, 4u);  // nothing is allocated after x yet
  const CUdeviceptr out = device.allocate();
  if (tool == "racecheck") return device.run("neighbour", 64, out, mended ? 1u : 0u);
  if (tool == "initcheck") {
    if (mended) device.fill(x);
    return device.run("copy", 32, x, out);
  }
  return device.run("divergent", mended ? 16 : 32, out);  // 16 threads all take one branch
}

int main_of(int argc, char** argv) {
  std::string_view file, tool, where = "cuda";
  bool mended = false;
  for (int k = 1; k < argc; ++k) {
    const std::string_view word = argv[k];
    if (word == "--mended") mended = true;
    else if (word == "--device" && k + 1 < argc) where = argv[++k];
    else (file.empty() ? file : tool) = word;
  }
  const Planted* chosen = nullptr;
  for (const Planted& p : kPlanted)
    if (p.tool == tool) chosen = &p;
  if (!chosen || (where != "cuda" && where != "vgpu")) {
    std::fprintf(
      stderr, "usage: planted_bugs PTX_FILE memcheck|racecheck|initcheck|synccheck [--device cuda|vgpu] [--mended]\n");
    return 1;
  }
  const auto ptx = FileBytes::map(std::string(file));
  const Table* table = nullptr;
  if (where == "cuda") {
    table = libcuda();
    if (!table) {
      std::fprintf(stderr, "planted_bugs: %s\n", why_not().c_str());
      return 3;
    }
  } else {
    VgpuOptions options;
    options.checks = chosen->check;
    table = &open_vgpu(options);
  }
  Device device(*table);
  device.load(std::string(reinterpret_cast<const char*>(ptx->data()), ptx->size()));
  const CUresult r = run(device, tool, mended);
  std::printf("kernel '%s'%s: %s\n", chosen->kernel, mended ? ", mended" : "", device.name_of(r).c_str());
  if (r != kSuccess && where == "vgpu") std::printf("%s\n", vgpu_message().c_str());
  return 0;
}

}  // namespace
}  // namespace strata::cuda::driver

int main(int argc, char** argv) {
  try {
    return strata::cuda::driver::main_of(argc, argv);
  } catch (const strata::Error& e) {
    std::fprintf(stderr, "planted_bugs: %s\n", e.what());
    return 2;
  }
}
