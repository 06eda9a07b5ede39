// Failing drivers and kernels: typed errors, a dead device with its cause.
#include <gtest/gtest.h>

#include "cuda/driver/vgpu.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/stream.h"
#include "tests/expect_error.h"

namespace strata::cuda {
namespace {

const driver::Table& fresh() { return driver::open_vgpu({.memory = 64 << 20}); }

TEST(RuntimeFaults, DeadDeviceSaysWhy) {
  const driver::Table& table = fresh();
  ASSERT_EQ(table.cuInit(0), driver::kSuccess);
  Runtime runtime(DeviceType::Vgpu, table);
  Gpu& gpu = runtime[0];
  EXPECT_ERROR(Runtime, "could not do something: CUDA_ERROR_ILLEGAL_ADDRESS",
               gpu.check(driver::kIllegalAddress, "do something"));
  EXPECT_TRUE(gpu.dead());
  EXPECT_ERROR(Runtime, "Cause: vgpu:0 could not do something", gpu.allocator->allocate(10, nullptr));
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
  for (const auto& shape : {std::pair<Grid, Grid>{{0}, {32}},
                            {{1, 0}, {32}},
                            {{1, 1, 0}, {32}},
                            {{1}, {0}},
                            {{1}, {32, 0}},
                            {{1}, {1, 1, 0}},
                            {{1}, {1, 1, 128}},
                            {{1}, {1u << 31, 2}},
                            {{1u << 31}, {32}}})
    EXPECT_ERROR(Internal, "cannot be launched on vgpu:0", s.launch_with(f, shape.first, shape.second, 0, nullptr));
  EXPECT_ERROR(Internal, "no device kernels of the name 'nothing'",
               s.launch_with(Function("nothing", "x"), {1}, {32}, 0, nullptr));
}

}  // namespace
}  // namespace strata::cuda
