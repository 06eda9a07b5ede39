// Virtual memory management, pools, peers; launches with attributes; stale handles; spans.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/trace.h"
#include "cuda/driver/vgpu.h"

namespace strata::cuda::driver {

namespace {

const char* const kPtx = R"(.version 8.3
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 p, .param .u32 v, .param .u64 far) {
  .reg .b64 %p, %w, %f; .reg .b32 %t, %v;
  ld.param.u64 %p, [p]; ld.param.u32 %v, [v]; ld.param.u64 %f, [far]; mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4;
  add.u64 %p, %p, %w; st.global.u32 [%p], %v; add.u64 %p, %p, %f; st.global.u32 [%p], %v; ret;
}
.visible .entry count(.param .u64 p) { .reg .b64 %p; .reg .b32 %v; ld.param.u64 %p, [p]; atom.global.add.u32 %v, [%p], 1; ret; }
)";

#define OK(call) ASSERT_EQ(call, kSuccess) << vgpu_message()

struct Parts : ::testing::Test {
  void SetUp() override {
    VgpuOptions options;
    options.memory = 64 << 20;
    options.profiles = {"ampere", "turing"};
    options.checks = "memory";
    cu = &open_vgpu(options);
    OK(cu->cuInit(0));
    for (int d : {1, 0}) {
      OK(cu->cuDevicePrimaryCtxRetain(&context[d], d));
      OK(cu->cuCtxSetCurrent(context[d]));
    }
    OK(cu->cuModuleLoadData(&module, kPtx));
    OK(cu->cuModuleGetFunction(&fill, module, "fill"));
  }
  CUresult run_fill(CUdeviceptr p, unsigned v, uint64_t far) {
    void* params[] = {&p, &v, &far};
    return cu->cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr);
  }
  uint32_t at(CUdeviceptr p) {
    uint32_t v = 0;
    EXPECT_EQ(cu->cuMemcpyDtoH(&v, p, 4), kSuccess) << vgpu_message();
    return v;
  }
  size_t free_bytes() {
    size_t free = 0, total = 0;
    EXPECT_EQ(cu->cuMemGetInfo(&free, &total), kSuccess);
    return free;
  }
  const Table* cu = nullptr;
  CUcontext context[2] = {};
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
};

TEST_F(Parts, MapsCreatedMemoryIntoReservedAddresses) {
  CUmemAllocationProp prop{};
  prop.type = kAllocationPinned;
  prop.location = {kLocationDevice, 0};
  size_t g = 0;
  OK(cu->cuMemGetAllocationGranularity(&g, &prop, 0));
  const size_t before = free_bytes();
  CUdeviceptr base = 0;
  OK(cu->cuMemAddressReserve(&base, 8 * g, 0, 0, 0));
  EXPECT_EQ(base % g, 0u);
  EXPECT_EQ(free_bytes(), before);  // addresses cost nothing
  EXPECT_EQ(run_fill(base, 1, 0), kIllegalAddress);
  OK(cu->cuDevicePrimaryCtxReset(0));  // a fault is sticky
  SetUp();
  OK(cu->cuMemAddressReserve(&base, 8 * g, 0, 0, 0));
  CUmemGenericAllocationHandle a = 0, b = 0;
  OK(cu->cuMemCreate(&a, g, &prop, 0));
  OK(cu->cuMemCreate(&b, g, &prop, 0));
  EXPECT_EQ(free_bytes(), before - 2 * g);
  OK(cu->cuMemMap(base, g, 0, a, 0));
  EXPECT_EQ(cu->cuMemMap(base, g, 0, b, 0), kInvalidValue);          // mapped already
  EXPECT_EQ(cu->cuMemMap(base + 8 * g, g, 0, b, 0), kInvalidValue);  // not reserved
  OK(cu->cuMemMap(base + g, g, 0, b, 0));
  const CUmemAccessDesc access{{kLocationDevice, 0}, kAccessReadWrite};
  OK(cu->cuMemSetAccess(base, 2 * g, &access, 1));
  OK(run_fill(base + g - 64, 7, 64));  // across the boundary of the two
  EXPECT_EQ(at(base + g - 4), 7u);
  EXPECT_EQ(at(base + g), 7u);
  // The memory keeps its contents while it has a handle, and can be mapped at two addresses.
  OK(cu->cuMemUnmap(base + g, g));
  EXPECT_EQ(cu->cuMemcpyDtoH(&g, base + g, 4), kInvalidValue);
  OK(cu->cuMemMap(base + 4 * g, g, 0, b, 0));
  OK(cu->cuMemSetAccess(base + 4 * g, g, &access, 1));
  EXPECT_EQ(at(base + 4 * g), 7u);
  OK(cu->cuMemRelease(b));
  EXPECT_EQ(cu->cuMemRelease(b), kInvalidValue);
  EXPECT_EQ(at(base + 4 * g), 7u);  // lives while it is mapped
  EXPECT_EQ(cu->cuMemAddressFree(base, 8 * g), kInvalidValue);
  OK(cu->cuMemUnmap(base, g));
  OK(cu->cuMemUnmap(base + 4 * g, g));
  OK(cu->cuMemRelease(a));
  OK(cu->cuMemAddressFree(base, 8 * g));
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(cu->cuMemCreate(&a, g + 1, &prop, 0), kInvalidValue);
  EXPECT_EQ(cu->cuMemCreate(&a, 64 * g, &prop, 0), kOutOfMemory);
}

TEST_F(Parts, PoolsCountWhatIsTaken) {
  CUmemPoolProps props{};
  props.allocType = kAllocationPinned;
  props.location = {kLocationDevice, 0};
  props.maxSize = 4096;
  CUmemoryPool pool = nullptr, standard = nullptr, now = nullptr;
  OK(cu->cuMemPoolCreate(&pool, &props));
  OK(cu->cuDeviceGetDefaultMemPool(&standard, 0));
  EXPECT_NE(pool, standard);
  CUdeviceptr p = 0, q = 0;
  OK(cu->cuMemAllocFromPoolAsync(&p, 3000, pool, nullptr));
  EXPECT_EQ(cu->cuMemAllocFromPoolAsync(&q, 3000, pool, nullptr), kOutOfMemory);
  uint64_t used = 0, high = 0, threshold = 1 << 20;
  OK(cu->cuMemPoolGetAttribute(pool, kPoolUsed, &used));
  EXPECT_EQ(used, 3000u);
  OK(cu->cuMemFreeAsync(p, nullptr));
  OK(cu->cuMemPoolGetAttribute(pool, kPoolUsed, &used));
  OK(cu->cuMemPoolGetAttribute(pool, kPoolUsedHigh, &high));
  EXPECT_EQ(used, 0u);
  EXPECT_EQ(high, 3000u);
  OK(cu->cuMemPoolSetAttribute(pool, kPoolReleaseThreshold, &threshold));
  EXPECT_EQ(cu->cuMemPoolSetAttribute(pool, kPoolUsed, &threshold), kInvalidValue);
  EXPECT_EQ(cu->cuMemPoolSetAttribute(pool, 77, &threshold), kInvalidValue);
  OK(cu->cuDeviceSetMemPool(0, pool));
  OK(cu->cuMemAllocAsync(&p, 64, nullptr));
  OK(cu->cuMemPoolGetAttribute(pool, kPoolUsed, &used));
  EXPECT_EQ(used, 64u);
  OK(cu->cuMemPoolTrimTo(pool, 0));
  EXPECT_EQ(cu->cuMemPoolDestroy(standard), kInvalidValue);
  OK(cu->cuMemPoolDestroy(pool));
  OK(cu->cuDeviceGetMemPool(&now, 0));
  EXPECT_EQ(now, standard);
  OK(cu->cuMemFree(p));
}

TEST_F(Parts, PeersReachEachOtherWhenAllowed) {
  CUdeviceptr here = 0, there = 0;
  OK(cu->cuMemAlloc(&here, 256));
  OK(cu->cuCtxSetCurrent(context[1]));
  OK(cu->cuMemAlloc(&there, 256));
  OK(cu->cuMemsetD32Async(there, 5, 64, nullptr));
  OK(cu->cuCtxSetCurrent(context[0]));
  int can = 0;
  OK(cu->cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  OK(cu->cuMemcpyPeerAsync(here, context[0], there, context[1], 256, nullptr));
  EXPECT_EQ(at(here + 252), 5u);
  EXPECT_EQ(cu->cuMemcpyPeerAsync(here, context[0], there, context[0], 256, nullptr), kInvalidValue);
  EXPECT_EQ(cu->cuCtxDisablePeerAccess(context[1]), kPeerAccessNotEnabled);
  OK(cu->cuCtxEnablePeerAccess(context[1], 0));
  EXPECT_EQ(cu->cuCtxEnablePeerAccess(context[1], 0), kPeerAccessAlreadyEnabled);
  OK(run_fill(there, 9, 0));
  OK(cu->cuCtxDisablePeerAccess(context[1]));
  OK(cu->cuMemcpyPeerAsync(here, context[0], there, context[1], 128, nullptr));
  EXPECT_EQ(at(here), 9u);
  EXPECT_EQ(run_fill(there, 1, 0), kIllegalAddress);
}

TEST_F(Parts, LaunchesWithAttributes) {
  CUdeviceptr p = 0;
  OK(cu->cuMemAlloc(&p, 256));
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = kLaunchCooperative;
  attributes[0].cooperative = 1;
  attributes[1].id = kLaunchCluster;
  attributes[1].cluster = {1, 1, 1};
  CUlaunchConfig config{1, 1, 1, 32, 1, 1, 0, nullptr, attributes, 2};
  unsigned v = 3;
  uint64_t far = 0;
  void* params[] = {&p, &v, &far};
  OK(cu->cuLaunchKernelEx(&config, fill, params, nullptr));
  EXPECT_EQ(at(p + 124), 3u);
  attributes[1].cluster.x = 2;
  EXPECT_EQ(cu->cuLaunchKernelEx(&config, fill, params, nullptr), kNotSupported);
  EXPECT_NE(vgpu_message().find("clusters"), std::string::npos);
  attributes[1].id = 99;
  EXPECT_EQ(cu->cuLaunchKernelEx(&config, fill, params, nullptr), kNotSupported);
  attributes[1].id = kLaunchIgnore;
  config.gridDimX = 100000;  // more than can be resident at once
  EXPECT_EQ(cu->cuLaunchKernelEx(&config, fill, params, nullptr), kLaunchOutOfResources);
}

TEST_F(Parts, EncodesTensorMaps) {
  CUdeviceptr p = 0;
  OK(cu->cuMemAlloc(&p, 64 * 128));
  CUtensorMap map;
  const unsigned long long sizes[] = {64, 64}, strides[] = {128};
  const unsigned box[] = {64, 64}, steps[] = {1, 1}, stepping[] = {2, 1};
  const auto encode = [&](CUdeviceptr at, const unsigned* given) {
    return cu->cuTensorMapEncodeTiled(&map, kTensorMapF16, 2, reinterpret_cast<void*>(at), sizes, strides, box, given,
                                      kTensorMapNotInterleaved, kTensorMapSwizzle128, kTensorMapPromote256,
                                      kTensorMapFillZeros);
  };
  OK(encode(p, steps));
  EXPECT_EQ(encode(p + 8, steps), kInvalidValue);
  EXPECT_NE(vgpu_message().find("multiple of 16"), std::string::npos);
  EXPECT_EQ(encode(0, steps), kInvalidValue);
  EXPECT_EQ(encode(p, stepping), kNotSupported);
  EXPECT_NE(vgpu_message().find("without interleaving and steps"), std::string::npos);
}

TEST_F(Parts, GraphsTakeNewArguments) {
  CUdeviceptr p = 0;
  OK(cu->cuMemAlloc(&p, 256));
  CUstream s = nullptr;
  OK(cu->cuStreamCreateWithPriority(&s, 0, 0));
  const auto capture = [&](unsigned v, int times) {
    EXPECT_EQ(cu->cuStreamBeginCapture(s, 0), kSuccess);
    uint64_t far = 0;
    void* params[] = {&p, &v, &far};
    for (int k = 0; k < times; ++k)
      EXPECT_EQ(cu->cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, s, params, nullptr), kSuccess);
    CUgraph g = nullptr;
    EXPECT_EQ(cu->cuStreamEndCapture(s, &g), kSuccess);
    return g;
  };
  CUgraphExec exec = nullptr;
  OK(cu->cuGraphInstantiate(&exec, capture(1, 1), 0));
  CUgraphExecUpdateResultInfo info{};
  OK(cu->cuGraphExecUpdate(exec, capture(2, 1), &info));
  EXPECT_EQ(info.result, kUpdateSuccess);
  OK(cu->cuGraphLaunch(exec, s));
  EXPECT_EQ(at(p), 2u);
  EXPECT_EQ(cu->cuGraphExecUpdate(exec, capture(3, 2), &info), kGraphExecUpdateFailure);
  EXPECT_EQ(info.result, kUpdateTopologyChanged);
  OK(cu->cuGraphLaunch(exec, s));
  EXPECT_EQ(at(p), 2u);
  OK(cu->cuModuleUnload(module));
  EXPECT_EQ(cu->cuGraphLaunch(exec, s), kInvalidHandle);
  EXPECT_NE(vgpu_message().find("was unloaded"), std::string::npos);
}

TEST_F(Parts, StaleFunctionsAreNeverFollowed) {
  CUdeviceptr p = 0;
  OK(cu->cuMemAlloc(&p, 256));
  for (int k = 0; k < 50; ++k) {
    const CUfunction stale = fill;
    OK(cu->cuModuleUnload(module));
    OK(cu->cuModuleLoadData(&module, kPtx));
    OK(cu->cuModuleGetFunction(&fill, module, "count"));
    ASSERT_NE(stale, fill);
    void* params[] = {&p};
    ASSERT_EQ(cu->cuLaunchKernel(stale, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), kInvalidHandle);
  }
}

TEST_F(Parts, CallsAreSpansWhileSomebodyTraces) {
  CUdeviceptr p = 0;
  tracing::start();
  OK(cu->cuMemAlloc(&p, 256));
  OK(run_fill(p, 1, 0));
  const auto events = tracing::stop().events;
  OK(cu->cuMemFree(p));
  std::vector<std::string> names;
  for (const auto& e : events)
    if (e.layer == tracing::Layer::Driver) names.emplace_back(e.name);
  EXPECT_EQ(names, (std::vector<std::string>{"cuMemAlloc", "cuLaunchKernel"}));
}

}  // namespace
}  // namespace strata::cuda::driver
