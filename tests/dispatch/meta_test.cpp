// Device meta: shapes, strides and dtypes are computed, no values and no memory.
#include "strata/strata.h"

#include "tests/expect_error.h"

namespace strata {
namespace {

constexpr Device kMeta{DeviceType::Meta};
using Sizes = std::vector<int64_t>;
Sizes list(Shape s) { return {s.begin(), s.end()}; }
Tensor meta(std::initializer_list<int64_t> shape, DType dtype = kFloat32) {
  return empty(IntList(shape), dtype, Device{DeviceType::Meta});
}

TEST(Meta, TensorsHaveShapesAndNoMemory) {
  const MemoryStats before = memory_stats();
  const Tensor x = meta({int64_t{1} << 50});
  EXPECT_TRUE(x.is_meta());
  EXPECT_EQ(x.device(), kMeta);
  EXPECT_EQ(x.bytes(), nullptr);
  EXPECT_EQ(x->storage->requested, size_t{1} << 52);
  EXPECT_EQ(list(sum(mul(x, 2)).shape()), Sizes{});
  EXPECT_EQ(list(matmul(meta({1 << 25, 1 << 20}), meta({1 << 20, 1 << 24})).shape()), (Sizes{1 << 25, 1 << 24}));
  EXPECT_EQ(memory_stats().allocations, before.allocations);
  EXPECT_EQ(memory_stats().allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(make_tensor(Shape({3}), kInt64, kMeta).dtype(), kInt64);
}

TEST(Meta, EveryNumberIsTheSameDevice) {
  EXPECT_EQ(require_available(device_from_name("meta:3")), kMeta);
  EXPECT_EQ(require_available(kMeta), kMeta);
  EXPECT_EQ(to_string(kMeta), "meta");
  EXPECT_EQ(meta({3}).to_string(), "tensor(..., device='meta', size=(3,))");
}

TEST(Meta, ViewsStayWithinTheirNominalStorage) {
  const Tensor x = meta({4, 3}), row = select(x, 0, 2);
  EXPECT_EQ(row->storage_offset(), 6);
  EXPECT_EQ(select(row, 0, 1)->storage_offset(), 7);
  EXPECT_EQ(list(transpose(x, 0, 1).strides()), (Sizes{1, 3}));
  EXPECT_EQ(list(as_strided(x, {2, 2}, {3, 1}, 7).shape()), (Sizes{2, 2}));
  EXPECT_ERROR(Runtime, "out of bounds", as_strided(x, {3, 2}, {3, 1}, 7));
  add_(row, 1);
  EXPECT_EQ(x->version(), 1u);
}

TEST(Meta, GradientsAreMetaTensors) {
  Tensor w = meta({5, 3});
  w.set_requires_grad();
  const Tensor y = matmul(meta({2, 5}), w);
  mul_(select(y, 0, 0), 2);
  mean(relu(y)).backward();
  ASSERT_TRUE(w.grad());
  EXPECT_TRUE(w.grad().is_meta());
  EXPECT_EQ(list(w.grad().shape()), (Sizes{5, 3}));
}

TEST(Meta, ValuesCannotBeRead) {
  const Tensor x = meta({1});
  EXPECT_ERROR(Runtime, "Tensor.item() cannot be called on meta tensors", x.item());
  EXPECT_ERROR(Runtime, "a tensor with 2 elements", meta({2}).item());
  EXPECT_ERROR(NotImplemented, "Could not read the values of a meta tensor", x.data<float>());
  EXPECT_ERROR(NotImplemented, "Cannot copy out of meta tensor; no data!", to(x, std::optional(Device{})));
  EXPECT_ERROR(NotImplemented, "Cannot copy out of meta tensor; no data!", copy_(ones({1}), x));
  EXPECT_ERROR(NotImplemented, "Cannot copy out of meta tensor; no data!", to_host(*x));
  EXPECT_ERROR(NotImplemented, "the shape of the result depends on the values", nonzero(x));
  EXPECT_NO_THROW(copy_(x, ones({1})));
}

TEST(Meta, DevicesDoNotMix) {
  const Tensor x = meta({3});
  EXPECT_ERROR(Runtime, "at least two devices, meta and cpu", add(x, ones({3})));
  EXPECT_ERROR(Runtime, "at least two devices, meta and cpu", matmul(ones({2, 3}), x));
  EXPECT_TRUE(add(x, full({}, 1.0)).is_meta());
  Tensor out = ones({3});
  EXPECT_ERROR(Runtime, "the inputs are on meta and out= is on cpu", call_out(op_add, Args(x, x, 1), &out));
}

TEST(Meta, ResultsOfOutAreResized) {
  Tensor out = meta({0});
  call_out(op_add, Args(meta({2, 3}), 1, 1), &out);
  EXPECT_EQ(list(out.shape()), (Sizes{2, 3}));
  Tensor range = meta({0}, kInt64);
  call_out(find_op("arange"), Args(Value(int64_t{1} << 50), Value(), Value(), Value(false)), &range);
  EXPECT_EQ(range.numel(), int64_t{1} << 50);
}

TEST(Meta, ModulesMoveThereAndBackWithoutValues) {
  nn::Linear layer(3, 2, {.device = kMeta});
  EXPECT_TRUE(layer.weight().is_meta());
  EXPECT_EQ(list(layer(meta({4, 3})).shape()), (Sizes{4, 2}));
  EXPECT_ERROR(NotImplemented, "Cannot copy out of meta tensor", layer.to(Device{}));
  layer.to_empty(Device{});
  EXPECT_FALSE(layer.weight().is_meta());
  EXPECT_TRUE(layer.weight().requires_grad());
  layer.to(kMeta);
  EXPECT_TRUE(layer.bias().is_meta());
}

TEST(Meta, ExplainSaysThatNothingRuns) {
  Explanation seen;
  const Scoped<Explanation*> look(thread_state.explain, &seen);
  add(meta({3}), 1);
  ASSERT_FALSE(seen.lines.empty());
  EXPECT_STREQ(seen.lines.back().kernel->name, "meta: nothing runs");
}

}  // namespace
}  // namespace strata
