// Forms of weights that are cached between calls.
#include "cpu/packed.h"

#include <gtest/gtest.h>

#include <cstring>

#include "strata/ops.h"

namespace strata {
namespace {

Tensor filled(std::initializer_list<int64_t> shape, float value) {
  Tensor t = make_tensor(Shape(shape.begin(), shape.size()), DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = value;
  return t;
}

bool same(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0;
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
    ask();
    ask();
    ask();
    EXPECT_EQ(made, 2);
    EXPECT_TRUE(cpu::has_form(*t, {7}));
    EXPECT_FALSE(cpu::has_form(*t, {8}));
    EXPECT_EQ(cpu::form_bytes(), before + 4096);
    t->count_write();
    EXPECT_FALSE(cpu::has_form(*t, {7}));
    ask();
    EXPECT_EQ(made, 3);
    EXPECT_EQ(cpu::form_bytes(), before);  // the old form was freed when the values changed
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

TEST(Packed, FormIfKeptMakesNothingOnTheFirstCallNorOfSharedMemory) {
  const Tensor t = filled({100}, 1);
  int made = 0;
  const auto ask = [&] { return static_cast<bool>(cpu::form_if_kept(*t, {7}, 64, [&](std::byte*) { ++made; })); };
  EXPECT_FALSE(ask());
  EXPECT_TRUE(ask());
  EXPECT_TRUE(ask());
  EXPECT_EQ(made, 1);
  t->count_write();
  EXPECT_FALSE(ask());
  t->storage->shared = true;
  EXPECT_FALSE(ask());
  EXPECT_FALSE(ask());
  EXPECT_EQ(made, 1);
}

// Whether oneDNN computes a linear layer on this processor: it caches a packed weight, our own product reads the plain
// one.
bool onednn_runs_linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  Explanation explanation;
  {
    const Scoped look(thread_state.explain, &explanation);
    nn::functional::linear(x, w, b);
  }
  return std::string_view(explanation.chosen().kernel->name) == "onednn";
}

TEST(Packed, LinearHasTheSameBitsWithThePackedWeight) {
  for (const DType dtype : {DType::F32, DType::BF16})
    for (const int64_t rows : {3, 16, 65}) {
      const Tensor x = to(randn({rows, 130}), dtype), w = to(randn({97, 130}), dtype), b = to(randn({97}), dtype);
      const bool packs = onednn_runs_linear(x, clone(w), b);
      const size_t before = cpu::form_bytes();
      const Tensor first = nn::functional::linear(x, w, b);
      EXPECT_EQ(cpu::form_bytes(), before);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(nn::functional::linear(x, w, b), first));
      EXPECT_EQ(cpu::form_bytes() > before, packs);
      w.bytes()[1] ^= std::byte{0x10};
      w->count_write();
      const Tensor changed = nn::functional::linear(x, w, b);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(nn::functional::linear(x, w, b), changed));
      EXPECT_FALSE(same(first, changed));
    }
}

TEST(Packed, LinearTellsASquareWeightFromItsTranspose) {
  const Tensor x = randn({5, 96}), w = randn({96, 96}), wt = t(w);
  const Tensor straight = nn::functional::linear(x, w), turned = nn::functional::linear(x, wt);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(same(nn::functional::linear(x, w), straight));
    EXPECT_TRUE(same(nn::functional::linear(x, wt), turned));
  }
  EXPECT_FALSE(same(straight, turned));
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
