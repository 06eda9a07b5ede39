// The output of PyTorch for the same tensors.
#include <gtest/gtest.h>

#include <cmath>

#include "strata/strata.h"

namespace strata {
namespace {

std::string text(const Tensor& t) { return t.to_string(); }
Tensor values(std::initializer_list<double> l, DType dtype = kFloat32) {
  Tensor t = make_tensor(Shape({static_cast<int64_t>(l.size())}), kFloat64);
  std::copy(l.begin(), l.end(), t.data<double>());
  return to(t, dtype);
}

TEST(Print, Numbers) {
  EXPECT_EQ(text(values({1, 2, 3})), "tensor([1., 2., 3.])");
  EXPECT_EQ(text(values({1, 2.5, -3})), "tensor([ 1.0000,  2.5000, -3.0000])");
  EXPECT_EQ(text(values({1e-5, 1})), "tensor([1.0000e-05, 1.0000e+00])");
  EXPECT_EQ(text(values({1, NAN, INFINITY, -INFINITY})), "tensor([1., nan, inf, -inf])");
  EXPECT_EQ(text(full({}, 2.5)), "tensor(2.5000)");
  EXPECT_EQ(text(values({1, -20, 300}, kInt64)), "tensor([  1, -20, 300])");
  EXPECT_EQ(text(values({1, 0}, kBool)), "tensor([ True, False])");
}

TEST(Print, DtypesThatAreNotTheDefaultAreNamed) {
  EXPECT_EQ(text(values({1}, kFloat64)), "tensor([1.], dtype=strata.float64)");
  EXPECT_EQ(text(values({1}, kInt32)), "tensor([1], dtype=strata.int32)");
  EXPECT_EQ(text(values({1}, kBFloat16)), "tensor([1.], dtype=strata.bfloat16)");
}

TEST(Print, EmptyTensors) {
  EXPECT_EQ(text(ones({0})), "tensor([])");
  EXPECT_EQ(text(ones({2, 0})), "tensor([], size=(2, 0))");
  EXPECT_EQ(text(zeros({0}, kInt64)), "tensor([], dtype=strata.int64)");
}

TEST(Print, MatricesAreAlignedAndStridesFollowed) {
  const Tensor m = reshape(arange(6), {2, 3});
  EXPECT_EQ(text(m), "tensor([[0, 1, 2],\n        [3, 4, 5]])");
  EXPECT_EQ(text(transpose(m, 0, 1)), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
  EXPECT_EQ(text(reshape(arange(4), {2, 1, 2})), "tensor([[[0, 1]],\n\n        [[2, 3]]])");
}

TEST(Print, LargeTensorsAreSummarised) {
  EXPECT_EQ(text(arange(1001)), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  EXPECT_NE(text(arange(1000)).find("500"), std::string::npos);
}

TEST(Print, History) {
  Tensor x = ones({1});
  x.set_requires_grad();
  EXPECT_EQ(text(x), "tensor([1.], requires_grad=True)");
  EXPECT_EQ(text(x * 2), "tensor([2.], grad_fn=<MulBackward0>)");
}

}  // namespace
}  // namespace strata
