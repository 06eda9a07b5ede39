#include "strata/strata.h"

#include <cstring>

#include "tests/expect_error.h"

namespace strata {
namespace {

using Sizes = std::vector<int64_t>;
Sizes list(Shape s) { return {s.begin(), s.end()}; }

TEST(Tensor, StartsUndefined) {
  const Tensor t;
  EXPECT_FALSE(t);
  EXPECT_EQ(t.to_string(), "Tensor()");
}

TEST(Tensor, ShapeStridesAndNumel) {
  const Tensor t = make_tensor(Sizes{2, 3, 4}, kFloat64);
  EXPECT_EQ(list(t.strides()), (Sizes{12, 4, 1}));
  EXPECT_EQ(t.numel(), 24);
  EXPECT_EQ(t.size(-1), 4);
  EXPECT_ERROR(Index, "out of range", t.size(3));
  EXPECT_EQ(t->storage->requested, 24 * sizeof(double));
  const Tensor scalar = make_tensor({}, kFloat32);
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_EQ(make_tensor(Sizes{3, 0, 2}, kFloat32).numel(), 0);
}

TEST(Tensor, SizesAreChecked) {
  EXPECT_ERROR(Runtime, "a size cannot be negative", make_tensor(Sizes{2, -1}, kFloat32));
  EXPECT_ERROR(Runtime, "at most 64 dimensions", make_tensor(Sizes(65, 1), kFloat32));
  const Tensor many = make_tensor(Sizes(64, 1), kFloat32);
  EXPECT_EQ(alias(*many).strides().size(), 64);
}

TEST(Tensor, ProductsThatDoNotFitAreTypedErrors) {
  const Sizes bad[] = {{int64_t{1} << 62, 4},
                       {int64_t{1} << 32, int64_t{1} << 32},  // 2^64 wraps to 0
                       {4194305, 4194305, 211106198978564},   // wraps to 4
                       {INT64_MAX},
                       {int64_t{1} << 60, 8},  // 2^63
                       {3, int64_t{1} << 40, int64_t{1} << 40}};
  for (const Sizes& shape : bad) {
    EXPECT_ERROR(Runtime, "more elements than can be addressed", checked_numel(shape));
    for (DType dtype : {kBool, kFloat64})
      EXPECT_ERROR(Runtime, "more elements than can be addressed", make_tensor(shape, dtype));
    EXPECT_ERROR(Runtime, "more elements than can be addressed", zeros(shape));
    EXPECT_ERROR(Runtime, "more elements than can be addressed",
                 expand(reshape(ones({1}), Sizes(shape.size(), 1)), shape));
  }
  EXPECT_EQ(checked_numel(Sizes{int64_t{1} << 40, 1 << 18, 0}), 0);
  EXPECT_EQ(make_tensor(Sizes{int64_t{1} << 40, 0, 1 << 18}, kFloat32).numel(), 0);
  // Empty, but strides and products of some of the sizes would overflow.
  EXPECT_ERROR(Runtime, "more elements than can be addressed",
               checked_numel(Sizes{int64_t{1} << 40, int64_t{1} << 40, 0}));
  EXPECT_ERROR(Runtime, "more elements than can be addressed",
               make_tensor(Sizes{int64_t{1} << 40, 0, int64_t{1} << 40}, kFloat32));
  EXPECT_ERROR(OutOfMemory, "out of memory", make_tensor(Sizes{int64_t{1} << 55}, kFloat64));
}

TEST(Tensor, OpsRefuseResultsThatDoNotFit) {
  const Tensor wide = expand(ones({1, 1}), {int64_t{1} << 31, 1}), tall = expand(ones({1, 1}), {1, int64_t{1} << 31});
  EXPECT_ERROR(Runtime, "more elements than can be addressed", wide + tall);
  EXPECT_ERROR(Runtime, "does not fit into 64 bits", repeat(ones({2}), {int64_t{1} << 62}));
  EXPECT_ERROR(Runtime, "does not fit into 64 bits", repeat(ones({4}), {int64_t{1} << 62}));  // 2^64 wraps to 0
  EXPECT_ERROR(Runtime, "more elements than can be addressed",
               matmul(expand(ones({1, 1}), {int64_t{1} << 32, 1}), expand(ones({1, 1}), {1, int64_t{1} << 32})));
}

TEST(Tensor, ItemReadsEveryDtypeAndOnlyOneElement) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const Tensor t = full({1, 1}, 1, static_cast<DType>(i));
    if (is_complex(t.dtype())) {
      EXPECT_EQ(t.item().to_complex().re, 1.0);
      EXPECT_ERROR(Runtime, "complex", t.item<double>());
      continue;
    }
    EXPECT_EQ(t.item<double>(), 1.0) << name_of(static_cast<DType>(i));
    EXPECT_EQ(t.item<int64_t>(), 1);
  }
  EXPECT_EQ(full({}, INT64_MAX, kInt64).item<int64_t>(), INT64_MAX);
  EXPECT_ERROR(Runtime, "a tensor with 2 elements cannot be converted", ones({2}).item());
  EXPECT_ERROR(Runtime, "a tensor with 0 elements cannot be converted", ones({0}).item());
}

TEST(Tensor, OnlyFloatsMayRequireGradients) {
  EXPECT_ERROR(Runtime, "only tensors of floating-point and complex dtype", ones({2}, kInt64).set_requires_grad());
  Tensor x = ones({2});
  x.set_requires_grad();
  const Tensor y = x * 2;
  EXPECT_ERROR(Runtime, "only a leaf tensor can stop requiring", Tensor(y).set_requires_grad(false));
}

TEST(Tensor, LayoutFollowsTheOther) {
  const Tensor nchw = make_tensor(Sizes{2, 3, 4, 5}, kFloat32),
               nhwc = permute(make_tensor(Sizes{2, 4, 5, 3}, kFloat32), {0, 3, 1, 2});
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->set_shape(nhwc.shape());
  t->set_strides_like(*nhwc);
  EXPECT_EQ(list(t.strides()), list(nhwc.strides()));
  EXPECT_TRUE(t->is_dense());
  EXPECT_FALSE(t.is_contiguous());
  t->set_strides_like(*nchw);
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_FALSE(slice(nchw, 3, 0, 4, 2)->is_dense());
}

TEST(Tensor, AliasSharesMemoryAndVersion) {
  const Tensor a = ones({3});
  const Tensor b = alias(*a), shape = shape_only(*a);
  EXPECT_EQ(a.bytes(), b.bytes());
  EXPECT_FALSE(shape->data);
  const uint32_t before = b->version();
  add_(a, 1);
  EXPECT_EQ(b->version(), before + 1);
  EXPECT_EQ(sum(b).item<double>(), 6.0);
}

// More than 2^31 elements: offsets and counts must not be 32 bits anywhere.
TEST(Tensor, MoreElementsThan32BitsCount) {
  const int64_t n = (int64_t{1} << 31) + 8;
  const size_t before = memory_stats().allocated_bytes;
  {
    const Tensor t = full({n}, 3, kUInt8);
    EXPECT_EQ(t.data<uint8_t>()[n - 1], 3);
    const Tensor end = narrow(t, 0, n - 4, 4);
    fill_(end, 7);
    fill_(select(t, 0, n - 1), 9);
    EXPECT_EQ(t.data<uint8_t>()[n - 2], 7);
    EXPECT_EQ(select(t, 0, -1).item<int64_t>(), 9);
    EXPECT_EQ(sum(t).item<int64_t>(), 3 * (n - 4) + 3 * 7 + 9);
    EXPECT_EQ(index_select(t, 0, full({1}, n - 1, kInt64)).item<int64_t>(), 9);
  }
  empty_cache();
  EXPECT_EQ(memory_stats().allocated_bytes, before);
}

}  // namespace
}  // namespace strata
