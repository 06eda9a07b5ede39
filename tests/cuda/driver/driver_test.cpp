// The driver table over the virtual GPU: modules, launches, queues, memory, errors; and the wrappers around a table.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "cuda/driver/vgpu.h"
#include "cuda/driver/wrap.h"
#include "tests/expect_error.h"

namespace strata::cuda::driver {

namespace {

const char* const kPtx = R"(.version 8.3
.target sm_80
.address_size 64
.global .align 4 .u32 calls = 0;
.extern .shared .align 16 .b8 dynamic[];
.visible .entry add(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .b64 %x, %y, %w; .reg .b32 %t, %b, %s, %n; .reg .f32 %f, %g; .reg .pred %p;
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %s, %ntid.x; mad.lo.u32 %t, %b, %s, %t; ld.param.u32 %n, [n];
  setp.ge.u32 %p, %t, %n; @%p ret;
  cvt.u64.u32 %w, %t; shl.b64 %w, %w, 2; ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; add.u64 %x, %x, %w; add.u64 %y, %y, %w;
  ld.global.f32 %f, [%x]; ld.global.f32 %g, [%y]; add.f32 %g, %f, %g; st.global.f32 [%y], %g; ret;
}
.visible .entry wild() { .reg .b64 %a; mov.u64 %a, 64; st.global.u32 [%a], 1; ret; }
.visible .entry uses_shared(.param .u64 out) {
  .reg .b64 %o; .reg .b32 %v; st.shared.u32 [dynamic+12], 41; ld.shared.u32 %v, [dynamic+12]; add.u32 %v, %v, 1; ld.param.u64 %o, [out]; st.global.u32 [%o], %v; ret;
}
)";

#define OK(call) ASSERT_EQ(call, kSuccess) << vgpu_message()

struct Driver : ::testing::Test {
  void open(VgpuOptions options = {}) {
    options.memory = 64 << 20;
    cu = &open_vgpu(options);
    OK(cu->cuInit(0));
    CUcontext context = nullptr;
    OK(cu->cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu->cuCtxSetCurrent(context));
  }
  CUfunction function(const char* name) {
    if (!module) { EXPECT_EQ(cu->cuModuleLoadData(&module, kPtx), kSuccess) << vgpu_message(); }
    CUfunction f = nullptr;
    EXPECT_EQ(cu->cuModuleGetFunction(&f, module, name), kSuccess) << vgpu_message();
    return f;
  }
  CUdeviceptr upload(const std::vector<float>& v) {
    CUdeviceptr p = 0;
    EXPECT_EQ(cu->cuMemAlloc(&p, v.size() * 4), kSuccess);
    EXPECT_EQ(cu->cuMemcpyHtoD(p, v.data(), v.size() * 4), kSuccess);
    return p;
  }
  CUresult add(CUdeviceptr x, CUdeviceptr y, unsigned n, CUstream stream) {
    void* args[] = {&x, &y, &n};
    return cu->cuLaunchKernel(function("add"), (n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, args, nullptr);
  }
  std::vector<float> download(CUdeviceptr p, size_t n) {
    std::vector<float> v(n);
    EXPECT_EQ(cu->cuMemcpyDtoH(v.data(), p, n * 4), kSuccess) << vgpu_message();
    return v;
  }
  const Table* cu = nullptr;
  CUmodule module = nullptr;
};

TEST_F(Driver, EveryEntryIsThere) {
  open();
#define CHECK_ENTRY(name, symbol, parameters) EXPECT_NE(cu->name, nullptr) << #name;
  STRATA_DRIVER_ENTRIES(CHECK_ENTRY)
#undef CHECK_ENTRY
}

TEST_F(Driver, AddsVectors) {
  open();
  const CUdeviceptr x = upload(std::vector<float>(1000, 1.5f)), y = upload(std::vector<float>(1000, 2.0f));
  OK(add(x, y, 1000, nullptr));
  EXPECT_EQ(download(y, 1000), std::vector<float>(1000, 3.5f));
  const auto counters = take_vgpu_counters();
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_EQ(counters[0].kernel, "add");
  EXPECT_EQ(counters[0].blocks, 16u);
  OK(cu->cuMemFree(x));
  OK(cu->cuMemFree(y));
}

TEST_F(Driver, DynamicSharedMemoryHasItsLimit) {
  open();
  CUdeviceptr out = upload({0});
  void* args[] = {&out};
  const CUfunction f = function("uses_shared");
  OK(cu->cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 16, nullptr, args, nullptr));
  uint32_t v = 0;
  OK(cu->cuMemcpyDtoH(&v, out, 4));
  EXPECT_EQ(v, 42u);
  EXPECT_EQ(cu->cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 100 << 10, nullptr, args, nullptr), kInvalidValue);
  EXPECT_NE(vgpu_message().find("cuFuncSetAttribute"), std::string::npos) << vgpu_message();
  OK(cu->cuFuncSetAttribute(f, kFunctionMaxDynamicShared, 100 << 10));
  OK(cu->cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 100 << 10, nullptr, args, nullptr));
}

TEST_F(Driver, BadLaunchesAndHandlesAreRefused) {
  open();
  void* none[] = {nullptr};
  const CUfunction f = function("add");
  EXPECT_EQ(cu->cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, nullptr, none, nullptr), kInvalidValue);
  EXPECT_EQ(cu->cuLaunchKernel(f, 0, 1, 1, 32, 1, 1, 0, nullptr, none, nullptr), kInvalidValue);
  EXPECT_EQ(cu->cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, nullptr, none, nullptr), kInvalidValue);
  EXPECT_EQ(cu->cuStreamSynchronize(reinterpret_cast<CUstream>(0x1234)), kInvalidHandle);
  EXPECT_EQ(cu->cuMemFree(12345), kInvalidValue);
  CUdeviceptr p = 0;
  EXPECT_EQ(cu->cuMemAlloc(&p, size_t{1} << 40), kOutOfMemory);
  CUmodule m = nullptr;
  EXPECT_EQ(cu->cuModuleLoadData(&m, ".version 8.3\n.target sm_80\n.entry k() { frobnicate }"), kInvalidPtx);
  EXPECT_NE(vgpu_message().find("line 3"), std::string::npos) << vgpu_message();
  CUfunction missing = nullptr;
  EXPECT_EQ(cu->cuModuleGetFunction(&missing, module, "nothing"), kNotFound);
}

TEST_F(Driver, AFaultIsStickyAndNamesItsPlace) {
  open();
  void* none[] = {nullptr};
  EXPECT_EQ(cu->cuLaunchKernel(function("wild"), 1, 1, 1, 32, 1, 1, 0, nullptr, none, nullptr), kIllegalAddress);
  EXPECT_NE(vgpu_message().find("kernel 'wild'"), std::string::npos) << vgpu_message();
  EXPECT_NE(vgpu_message().find("PTX line"), std::string::npos);
  CUdeviceptr p = 0;
  EXPECT_EQ(cu->cuMemAlloc(&p, 16), kIllegalAddress);
  OK(cu->cuDevicePrimaryCtxReset(0));
  OK(cu->cuMemAlloc(&p, 16));
}

TEST_F(Driver, DelayedStreamsShowAMissingWait) {
  // y += x twice, in two streams: with an event between them the sum is right for every order.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    module = nullptr;
    VgpuOptions options;
    options.delayed = true;
    options.seed = seed;
    open(options);
    CUstream a = nullptr, b = nullptr;
    CUevent e = nullptr;
    OK(cu->cuStreamCreateWithPriority(&a, kStreamNonBlocking, 0));
    OK(cu->cuStreamCreateWithPriority(&b, kStreamNonBlocking, 0));
    OK(cu->cuEventCreate(&e, 0));
    const CUdeviceptr x = upload({1}), y = upload({1}), z = upload({0});
    OK(add(x, y, 1, a));
    EXPECT_EQ(cu->cuStreamQuery(a), kSuccess);  // polling makes progress
    OK(add(x, y, 1, a));
    OK(cu->cuEventRecord(e, a));
    OK(cu->cuStreamWaitEvent(b, e, 0));
    OK(add(y, z, 1, b));
    OK(cu->cuStreamSynchronize(b));
    EXPECT_EQ(download(z, 1)[0], 3.0f) << seed;
  }
  bool early = false;  // without the wait, some order reads too early
  for (uint64_t seed = 0; seed < 20; ++seed) {
    module = nullptr;
    VgpuOptions options;
    options.delayed = true;
    options.seed = seed;
    open(options);
    CUstream a = nullptr, b = nullptr;
    OK(cu->cuStreamCreateWithPriority(&a, kStreamNonBlocking, 0));
    OK(cu->cuStreamCreateWithPriority(&b, kStreamNonBlocking, 0));
    const CUdeviceptr x = upload({1}), y = upload({1}), z = upload({0});
    OK(add(x, y, 1, a));
    OK(add(y, z, 1, b));
    OK(cu->cuCtxSynchronize());
    early = early || download(z, 1)[0] == 1.0f;
  }
  EXPECT_TRUE(early);
}

TEST_F(Driver, GraphsReplayWhatWasCaptured) {
  open();
  CUstream s = nullptr;
  OK(cu->cuStreamCreateWithPriority(&s, 0, 0));
  const CUdeviceptr x = upload({2}), y = upload({0});
  function("add");
  OK(cu->cuStreamBeginCapture(s, 0));
  OK(add(x, y, 1, s));
  OK(add(x, y, 1, s));
  EXPECT_EQ(cu->cuStreamSynchronize(s), kStreamCaptureUnsupported);
  CUgraph g = nullptr;
  CUgraphExec exec = nullptr;
  OK(cu->cuStreamEndCapture(s, &g));
  EXPECT_EQ(download(y, 1)[0], 0.0f);
  OK(cu->cuGraphInstantiate(&exec, g, 0));
  OK(cu->cuGraphDestroy(g));
  OK(cu->cuGraphLaunch(exec, s));
  OK(cu->cuGraphLaunch(exec, s));
  EXPECT_EQ(download(y, 1)[0], 8.0f);
  OK(cu->cuGraphExecDestroy(exec));
}

TEST_F(Driver, CopiesOfRectanglesAndFills) {
  open();
  CUdeviceptr p = 0;
  OK(cu->cuMemAlloc(&p, 64));
  OK(cu->cuMemsetD8Async(p, 7, 64, nullptr));
  std::vector<uint8_t> host(6);
  for (size_t k = 0; k < 6; ++k) host[k] = static_cast<uint8_t>(k);
  CUDA_MEMCPY2D c{};
  c.srcMemoryType = kHost;
  c.srcHost = host.data();
  c.srcPitch = 3;
  c.dstMemoryType = kDevice;
  c.dstDevice = p;
  c.dstPitch = 8;
  c.dstXInBytes = 1;
  c.dstY = 2;
  c.WidthInBytes = 3;
  c.Height = 2;
  OK(cu->cuMemcpy2DAsync(&c, nullptr));
  std::vector<uint8_t> out(64);
  OK(cu->cuMemcpyDtoH(out.data(), p, 64));
  EXPECT_EQ(out[16], 7);
  EXPECT_EQ(out[17], 0);
  EXPECT_EQ(out[19], 2);
  EXPECT_EQ(out[25], 3);
  EXPECT_EQ(out[28], 7);
  c.dstY = 7;
  EXPECT_EQ(cu->cuMemcpy2DAsync(&c, nullptr), kInvalidValue);
  EXPECT_EQ(cu->cuMemsetD8Async(p, 0, 1 << 20, nullptr), kInvalidValue);
}

TEST_F(Driver, WrappersFailAndRecordCalls) {
  open();
  const Table* below = cu;
  {
    Recorder recorder(*below);
    cu = &recorder.table();
    CUdeviceptr p = 0;
    OK(cu->cuMemAlloc(&p, 16));
    EXPECT_EQ(cu->cuMemFree(1), kInvalidValue);
    const auto calls = recorder.calls();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_STREQ(calls[0].name, "cuMemAlloc");
    EXPECT_EQ(calls[1].result, kInvalidValue);
    EXPECT_ERROR(Runtime, "already a Recorder", Recorder(*below));
  }
  FaultInjector injector(*below, 2, kOutOfMemory);
  cu = &injector.table();
  CUdeviceptr p = 0, q = 0;
  OK(cu->cuMemAlloc(&p, 16));
  EXPECT_EQ(cu->cuMemAlloc(&q, 16), kOutOfMemory);
  EXPECT_EQ(q, 0u);
  EXPECT_STREQ(injector.failed(), "cuMemAlloc");
  OK(cu->cuMemAlloc(&q, 16));
  EXPECT_EQ(injector.calls(), 3u);
}

TEST(LibCuda, IsThereOrSaysWhyNot) {
  const Table* table = libcuda();
  EXPECT_EQ(table == nullptr, !why_not().empty());
  if (!table) { EXPECT_NE(why_not().find("driver"), std::string::npos) << why_not(); }
}

}  // namespace
}  // namespace strata::cuda::driver
