// What the runtime makes of failing drivers and kernels: typed errors, a dead device that says why, nothing leaked.
#include <gtest/gtest.h>

#include "cuda/driver/vgpu.h"
#include "cuda/driver/wrap.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/event.h"
#include "cuda/runtime/graph.h"
#include "tests/expect_error.h"

namespace strata::cuda {
namespace {

const driver::Table& fresh() { return driver::open_vgpu({.memory = 64 << 20}); }

// Allocations, a launch, events and a captured graph on one device.
void workload(Runtime& runtime) {
  Gpu& gpu = runtime[0];
  const Stream s = Stream::create(gpu);
  Ref<Storage> a = gpu.allocator->allocate(1 << 16, s.handle()), b = gpu.allocator->allocate(3 << 20, s.handle());
  const Event e(gpu);
  e.record(s);
  gpu.allocator->record_stream(*a, nullptr);
  a = {};
  gpu.check(gpu.table().cuMemsetD8Async(reinterpret_cast<driver::CUdeviceptr>(b->data), 1, 1000, s.handle()), "fill");
  Graph g = Graph::begin(s);
  gpu.check(gpu.table().cuMemsetD8Async(reinterpret_cast<driver::CUdeviceptr>(b->data), 2, 1000, s.handle()), "fill");
  g.end();
  g.replay(s);
  s.synchronize();
  gpu.allocator->empty_cache();
}

TEST(RuntimeFaults, EveryCallMayFail) {
  uint64_t calls = 0;
  {
    const driver::FaultInjector counting(fresh(), ~uint64_t{0}, driver::kUnknown);
    ASSERT_EQ(counting.table().cuInit(0), driver::kSuccess);
    Runtime runtime(DeviceType::Vgpu, counting.table());
    workload(runtime);
    calls = counting.calls();
  }
  ASSERT_GT(calls, 30u);
  int raised = 0;
  for (const driver::CUresult code : {driver::kOutOfMemory, driver::kIllegalAddress, driver::kUnknown})
    for (uint64_t n = 2; n <= calls; ++n) {
      const driver::FaultInjector faults(fresh(), n, code);
      ASSERT_EQ(faults.table().cuInit(0), driver::kSuccess);
      Runtime runtime(DeviceType::Vgpu, faults.table());
      try {
        workload(runtime);
      } catch (const Error& e) {
        ++raised;
        EXPECT_FALSE(std::string(e.what()).empty());
      }
      if (runtime.count()) {
        EXPECT_EQ(runtime[0].allocator->stats().allocated, 0u) << "call " << n << " " << faults.failed();
      }
    }
  EXPECT_GT(raised, static_cast<int>(calls));
}

TEST(RuntimeFaults, DeadDeviceSaysWhy) {
  const driver::Table& table = fresh();
  ASSERT_EQ(table.cuInit(0), driver::kSuccess);
  Runtime runtime(DeviceType::Vgpu, table);
  Gpu& gpu = runtime[0];
  EXPECT_ERROR(Runtime, "could not do something: CUDA_ERROR_ILLEGAL_ADDRESS",
               gpu.check(driver::kIllegalAddress, "do something"));
  EXPECT_TRUE(gpu.dead());
  EXPECT_ERROR(Runtime, "It died of: vgpu:0 could not do something", gpu.allocator->allocate(10, nullptr));
}

TEST(RuntimeFaults, LimitsAreCheckedBeforeALaunch) {
  const driver::Table& table = fresh();
  ASSERT_EQ(table.cuInit(0), driver::kSuccess);
  Runtime runtime(DeviceType::Vgpu, table);
  const Stream s = Stream::standard(runtime[0]);
  const Function f("copy", "Copy_f32");
  EXPECT_ERROR(Internal, "cannot be launched on vgpu:0", s.launch_with(f, {1}, {4096}, 0, nullptr));
  EXPECT_ERROR(Internal, "cannot be launched on vgpu:0", s.launch_with(f, {1, 100000}, {32}, 0, nullptr));
  EXPECT_ERROR(Internal, "cannot be launched on vgpu:0", s.launch_with(f, {1}, {32}, 1 << 20, nullptr));
  EXPECT_ERROR(Internal, "cannot be launched on vgpu:0", s.launch_with(f, {0}, {32}, 0, nullptr));
  EXPECT_ERROR(Internal, "no device kernels of the name 'nothing'",
               s.launch_with(Function("nothing", "x"), {1}, {32}, 0, nullptr));
}

}  // namespace
}  // namespace strata::cuda
