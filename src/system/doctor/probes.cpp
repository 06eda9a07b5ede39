// Probes: what programs do with a device, once each, with the result compared and the time.
#include <fmt/core.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "cuda/libs/libraries.h"
#include "cuda/libs/nvrtc.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/host_memory.h"
#include "cuda/runtime/peer.h"
#include "strata/ops.h"
#include "system/doctor/check.h"
#include "tensor/device_hooks.h"

namespace strata::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kPtx = R"(.version 6.3
.target sm_50
.address_size 64
.visible .entry strata_doctor_probe(.param .u64 out)
{
  .reg .u32 %r<2>;
  .reg .u64 %rd<4>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
)";

Tensor ramp(Device d, int64_t rows, int64_t columns) {
  // Small integers: sums of products are exact in any order.
  return to(reshape(to(remainder(arange(Scalar(rows * columns)), 7), DType::F32), {rows, columns}), d);
}

// Throws unless both have the same values; both may be on a device.
void expect_equal(const Tensor& found, const Tensor& expected) {
  STRATA_CHECK(all(eq(to(found, Device{}), to(expected, Device{}))).item<bool>(), Runtime, "the result is wrong");
}

struct Job {
  const char* name;
  std::string detail;
  std::function<void(Device)> run;
  std::function<std::string(Device)> skip = nullptr;  // why it is not run
};

void allocate(Device d) {
  const Tensor block = empty({int64_t{1} << 20}, DType::F32, d);
  device_hooks.synchronize(d);
}

void copy(Device d) {
  const Tensor here = ramp(Device{}, 512, 512);
  expect_equal(to(here, d), here);
}

void pinned_copy(Device d) {
  cuda::Gpu& gpu = cuda::Runtime::gpu(d);
  const size_t bytes = size_t{1} << 20;
  const Ref<Storage> host = cuda::HostMemory::of(d.type).allocate(gpu, bytes);
  std::memset(host->data, 7, bytes);
  const Tensor there = empty({static_cast<int64_t>(bytes)}, DType::U8, d);
  device_hooks.copy(there.bytes(), d, host->data, Device{}, bytes, false);
  device_hooks.synchronize(d);
  expect_equal(there, full({static_cast<int64_t>(bytes)}, 7, DType::U8));
}

void launch(Device d) {
  const Tensor x = ramp(d, 64, 64);
  expect_equal(add(x, x), mul(ramp(Device{}, 64, 64), 2));
}

void compile(Device d) {
  cuda::Gpu& gpu = cuda::Runtime::gpu(d);
  gpu.activate();
  const Tensor out = zeros({32}, DType::I32, d);
  const cuda::driver::Table& t = gpu.table();
  cuda::driver::CUmodule module = nullptr;
  gpu.check(t.cuModuleLoadData(&module, kPtx), "compile PTX");
  struct Unload {
    const cuda::driver::Table& table;
    cuda::driver::CUmodule module;
    ~Unload() { table.cuModuleUnload(module); }
  } const unload{t, module};
  cuda::driver::CUfunction function = nullptr;
  gpu.check(t.cuModuleGetFunction(&function, module, "strata_doctor_probe"), "find the compiled kernel");
  void* address = out.bytes();
  void* parameters[] = {&address, nullptr};
  const cuda::Stream stream = cuda::stream_of(d);
  gpu.check(t.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream.handle(), parameters, nullptr),
            "launch the compiled kernel");
  stream.synchronize();
  expect_equal(out, to(arange(Scalar(32)), DType::I32));
}

void compile_source(Device d) {
  const Tensor here = ramp(d, 1, 1);
  cuda::compile_to_ptx("extern \"C\" __global__ void probe(float* x) { x[threadIdx.x] *= 2; }", "probe.cu");
}

void gemm(Device d) {
  const Tensor a = ramp(Device{}, 64, 64), b = ramp(Device{}, 64, 48);
  expect_equal(matmul(to(a, d), to(b, d)), matmul(a, b));
}

void convolution(Device d) {
  const Tensor x = reshape(ramp(Device{}, 2 * 3, 8 * 8), {2, 3, 8, 8}),
               w = reshape(ramp(Device{}, 4 * 3, 9), {4, 3, 3, 3});
  expect_equal(conv2d(to(x, d), to(w, d)), conv2d(x, w));
}

void graph(Device d) {
  cuda::Gpu& gpu = cuda::Runtime::gpu(d);
  const Tensor x = ones({256}, DType::F32, d), y = zeros({256}, DType::F32, d);
  add_(y, x);  // loads the kernel, which a graph cannot
  const cuda::Stream before = cuda::Stream::current(gpu), side = cuda::Stream::create(gpu);
  device_hooks.synchronize(d);
  cuda::Stream::set_current(side);
  struct Restore {
    const cuda::Stream& stream;
    ~Restore() { cuda::Stream::swap_current(stream); }
  } const restore{before};
  cuda::Graph recorded = cuda::Graph::begin(side);
  add_(y, x);
  recorded.end();
  recorded.replay(side);
  recorded.replay(side);
  device_hooks.synchronize(d);
  expect_equal(y, full({256}, 3, DType::F32));
}

void peer_copy(Device d) {
  const Device other{d.type, static_cast<int8_t>(d.index == 0 ? 1 : 0)};
  const Tensor x = ramp(d, 64, 64);
  expect_equal(to(x, other), x);
}

std::string one_device(Device d) { return cuda::Runtime::get(d.type).count() < 2 ? "there is one device" : ""; }
std::string no_nvrtc(Device) {
  const Library& library = cuda::vendor_library(cuda::Vendor::Nvrtc).library;
  return library ? "" : library.why();
}

std::vector<Job> jobs() {
  return {{"allocate", "4 MiB", allocate},
          {"copy", "1 MiB to the device and back", copy},
          {"pinned-copy", "1 MiB from pinned host memory", pinned_copy},
          {"launch", "add of 64 x 64 floats", launch},
          {"jit", "PTX compiled by the driver, loaded and run", compile},
          {"nvrtc", "CUDA C++ compiled by NVRTC", compile_source, no_nvrtc},
          {"gemm", "64 x 64 times 64 x 48 floats", gemm},
          {"convolution", "2 x 3 x 8 x 8 with 4 filters of 3 x 3", convolution},
          {"graph", "captured and replayed twice", graph},
          {"peer-copy", "16 KiB to another device", peer_copy, one_device}};
}

// The failure of a probe is what it reports, so its evidence is added by examine().
void look_nowhere(const Facts&, Evidence&) {}

constexpr const char* kMemoryFix = "nvidia-smi\nstrata doctor --section gpu";
constexpr const char* kDriverFix = "nvidia-smi -q\nsudo dmesg | grep -i -e nvrm -e xid | tail";
constexpr const char* kLibraryFix = "strata libraries\nstrata doctor --section libraries";

constexpr Check kProbes[] = {
  {"probe.open", kError, "The device does not open",
   "Its context cannot be created: another process holds it, it has no memory left, or the driver failed.", kDriverFix,
   look_nowhere},
  {"probe.allocate", kError, "The device does not give memory",
   "Others use it, or a limit is set (STRATA_CUDA_ALLOC_CONF, MIG).", kMemoryFix, look_nowhere},
  {"probe.copy", kError, "A copy to the device and back fails, or changes the data",
   "A fault of the bus, of the memory, or of an IOMMU that is not set up for this.", kDriverFix, look_nowhere},
  {"probe.pinned-copy", kError, "Copies from pinned host memory fail",
   "Pinning is limited (ulimit -l, the container's memory limit), or the IOMMU refuses the transfer.",
   "ulimit -l unlimited\nsudo dmesg | grep -i iommu | tail", look_nowhere},
  {"probe.launch", kError, "A kernel does not run, or computes something else",
   "This build has no kernels for the GPU, or the GPU is faulty.", "strata doctor --section build", look_nowhere},
  {"probe.jit", kError, "The driver does not compile PTX",
   "libnvidia-ptxjitcompiler is missing, or CUDA_DISABLE_PTX_JIT is set.",
   "ldconfig -p | grep ptxjitcompiler\nunset CUDA_DISABLE_PTX_JIT", look_nowhere},
  {"probe.nvrtc", kWarning, "NVRTC does not compile", "Custom and fused kernels are not available.", kLibraryFix,
   look_nowhere},
  {"probe.gemm", kError, "A matrix product fails, or is wrong",
   "cuBLASLt does not match the driver, or the kernels do not match the GPU.", kLibraryFix, look_nowhere},
  {"probe.convolution", kError, "A convolution fails, or is wrong",
   "cuDNN does not match the driver, or its parts are of different releases.", kLibraryFix, look_nowhere},
  {"probe.graph", kError, "Graphs cannot be captured or replayed", "Replay of compiled functions needs them.",
   kDriverFix, look_nowhere},
  {"probe.peer-copy", kError, "A copy to another device fails, or changes the data",
   "IOMMU and access control on the PCI bus (ACS) break direct copies between GPUs on some machines.",
   "nvidia-smi topo -p2p r\nsudo dmesg | grep -i iommu | tail", look_nowhere},
};

}  // namespace

std::span<const Check> probe_checks() { return kProbes; }

std::vector<Probe> run_probes(const std::string& device) {
  std::vector<Probe> done;
  Device d;
  try {
    d = require_available(device_from_name(device));
    cuda::Runtime::gpu(d).activate();
  } catch (const Error& e) {
    if (device_from_name(device).type == DeviceType::Cpu) throw;
    Probe p;
    p.name = "open";
    p.failure = e.what();
    return {p};
  }
  for (const Job& job : jobs()) {
    Probe p;
    p.name = job.name;
    p.detail = job.detail;
    try {
      if (job.skip) p.skipped = job.skip(d);
      if (p.skipped.empty()) {
        job.run(d);  // the first time also loads kernels
        const auto begin = Clock::now();
        job.run(d);
        p.ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
      }
    } catch (const Error& e) { p.failure = e.what(); }
    done.push_back(p);
  }
  return done;
}

}  // namespace strata::doctor
