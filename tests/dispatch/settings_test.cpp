#include "dispatch/settings.h"

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

TEST(Settings, DefaultDeviceIsOfNewTensors) {
  EXPECT_EQ(get_default_device(), Device());
  set_default_device(Device(DeviceType::Meta));
  EXPECT_EQ(zeros({2}).device().type, DeviceType::Meta);
  set_default_device({});
  EXPECT_EQ(zeros({2}).device().type, DeviceType::Cpu);
}

TEST(Settings, PrintOptionsAreCheckedAndUsed) {
  const PrintOptions before = get_printoptions();
  PrintOptions options = before;
  options.precision = 2;
  set_printoptions(options);
  EXPECT_EQ(full({1}, 0.12345).to_string(), "tensor([0.12])");
  options.precision = 99;
  EXPECT_ERROR(Value, "precision is 0 to 40", set_printoptions(options));
  set_printoptions(before);
}

TEST(Settings, RandomStateIsRestored) {
  const Tensor state = get_rng_state();
  const Tensor a = rand({3});
  set_rng_state(state);
  EXPECT_TRUE(equal(a, rand({3})));
  EXPECT_ERROR(Type, "undefined", set_rng_state({}));
  EXPECT_ERROR(Value, "16 elements", set_rng_state(zeros({16})));
}

TEST(Settings, ThreadsAndPrecision) {
  const int before = get_num_threads();
  set_num_threads(1);
  EXPECT_EQ(get_num_threads(), 1);
  set_num_threads(before);
  set_float32_matmul_precision("high");
  EXPECT_EQ(get_float32_matmul_precision(), "high");
  set_float32_matmul_precision("highest");
}

TEST(Settings, DevicesAreCounted) {
  EXPECT_EQ(cuda::device_count(kCPU), 0);
  EXPECT_EQ(cuda::is_available(), cuda::device_count() > 0);
  EXPECT_NO_THROW(cuda::synchronize(kCPU));
  if (cuda::is_available(kVGPU)) { EXPECT_NO_THROW(cuda::synchronize(kVGPU)); }
}

TEST(Types, ResultTypeWeighsTensorsMoreThanNumbers) {
  EXPECT_EQ(result_type(zeros({2}, DType::I32), 1.5), DType::F32);
  EXPECT_EQ(result_type(zeros({2}, DType::F16), 1.5), DType::F16);
  EXPECT_EQ(result_type(zeros({2}, DType::I32), zeros({2}, DType::I64)), DType::I64);
  EXPECT_ERROR(Type, "undefined", result_type(Tensor(), 1));
}

TEST(Types, CanCastKeepsTheCategory) {
  EXPECT_TRUE(can_cast(DType::F64, DType::F16));
  EXPECT_TRUE(can_cast(DType::Bool, DType::I8));
  EXPECT_FALSE(can_cast(DType::F16, DType::I64));
  EXPECT_FALSE(can_cast(DType::C64, DType::F64));
}

TEST(Types, BroadcastShapes) {
  EXPECT_EQ(broadcast_shapes({{2, 1}, {3}, {}}), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(broadcast_shapes({{0, 1}, {1, 4}}), (std::vector<int64_t>{0, 4}));
  EXPECT_TRUE(broadcast_shapes({}).empty());
  EXPECT_ERROR(Runtime, "do not broadcast", broadcast_shapes({{2}, {3}}));
  EXPECT_ERROR(Runtime, "negative", broadcast_shapes({{-1}}));
}

TEST(Types, DLPackSharesMemory) {
  const Tensor a = zeros({2, 3});
  const Tensor b = from_dlpack(to_dlpack(a));
  b.fill_(3);
  EXPECT_TRUE(equal(a, full({2, 3}, 3.0)));
  EXPECT_ERROR(Value, "null", from_dlpack(nullptr));
  EXPECT_ERROR(Type, "undefined", to_dlpack({}));
}

TEST(Explain, ListsTheKernelsOfACall) {
  const Tensor a = ones({4, 4});
  const Explanation seen = explain([&] { matmul(a, a); });
  EXPECT_FALSE(seen.lines.empty());
  EXPECT_EQ(seen.chosen().op->name, "matmul");
}

TEST(Tuning, LastsUntilTheEndOfTheBlock) {
  {
    const TuneGuard guard;
    EXPECT_TRUE(thread_state.tuning);
  }
  EXPECT_FALSE(thread_state.tuning);
}

}  // namespace
}  // namespace strata
