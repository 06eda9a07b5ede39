// Forms of weights that are kept between calls.
#include "cpu/packed.h"

#include <gtest/gtest.h>

#include "strata/ops.h"

namespace strata {
namespace {

Tensor filled(std::initializer_list<int64_t> shape, float value) {
  Tensor t = make_tensor(Shape(shape.begin(), shape.size()), DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = value;
  return t;
}

TEST(Packed, KeepsFromTheSecondCallOnAndDropsWithTheTensor) {
  const size_t before = cpu::form_bytes();
  int made = 0;
  {
    const Tensor t = filled({100}, 1);
    const auto ask = [&] { return cpu::form_of(*t, {7}, 4096, [&](std::byte*) { ++made; }); };
    EXPECT_FALSE(cpu::has_form(*t, {7}));
    ask();
    EXPECT_EQ(cpu::form_bytes(), before);
    ask(), ask(), ask();
    EXPECT_EQ(made, 2);
    EXPECT_TRUE(cpu::has_form(*t, {7}));
    EXPECT_FALSE(cpu::has_form(*t, {8}));
    EXPECT_EQ(cpu::form_bytes(), before + 4096);
    t->storage->bump();
    EXPECT_FALSE(cpu::has_form(*t, {7}));
    ask();
    EXPECT_EQ(made, 3);
    EXPECT_EQ(cpu::form_bytes(), before);  // the old form went when the values had changed
    ask();
  }
  EXPECT_EQ(cpu::form_bytes(), before);
}

TEST(Packed, SeesWritesThroughAPointer) {
  const Tensor x = filled({2, 32, 12, 12}, 1), w = filled({48, 32, 3, 3}, 1);
  const auto value = [&] { return conv2d(x, w).data<float>()[0]; };
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(value(), 288, 1e-2);
  for (int64_t i = 0; i < w.numel(); ++i) w.data<float>()[i] = 2;
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(value(), 576, 1e-2);
}

TEST(Packed, ViewsOfOneStorageHaveFormsOfTheirOwn) {
  const Tensor all = filled({200}, 1), first = narrow(all, 0, 0, 100), second = narrow(all, 0, 100, 100);
  int made = 0;
  for (const Tensor& t : {first, second, first, second, first, second})
    cpu::form_of(*t, {7}, 64, [&](std::byte*) { ++made; });
  EXPECT_EQ(made, 4);
}

}  // namespace
}  // namespace strata
