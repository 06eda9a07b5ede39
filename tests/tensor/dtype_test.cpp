#include "tensor/dtype.h"

#include "tests/expect_error.h"

namespace strata {
namespace {

TEST(DType, NamesGoBothWays) {
  for (int i = 0; i < kDTypeCount; ++i)
    EXPECT_EQ(dtype_from_name(name_of(static_cast<DType>(i))), static_cast<DType>(i));
  EXPECT_EQ(dtype_from_name("torch.float16"), kFloat16);
  EXPECT_EQ(dtype_from_name("strata.long"), kInt64);
  EXPECT_EQ(dtype_from_name("half"), kFloat16);
  EXPECT_ERROR(Type, "unknown dtype 'float128'", dtype_from_name("float128"));
  EXPECT_ERROR(Type, "unknown dtype ''", dtype_from_name(""));
}

TEST(DType, ComplexTypesHoldTheirParts) {
  for (const DType t : {kBool, kUInt8, kInt64, kFloat16, kBFloat16, kFloat32})
    for (const DType c : {kComplex64, kComplex128}) {
      EXPECT_EQ(promote(t, c), c);
      EXPECT_EQ(promote(c, t), c);
    }
  EXPECT_EQ(promote(kFloat64, kComplex64), kComplex128);
  EXPECT_EQ(promote(kComplex64, kComplex128), kComplex128);
  EXPECT_TRUE(is_complex(kComplex64) && is_differentiable(kComplex64));
  EXPECT_FALSE(is_floating(kComplex64) || is_integral(kComplex64));
  EXPECT_EQ(real_type(kComplex128), kFloat64);
  EXPECT_EQ(complex_type(kFloat32), kComplex64);
  EXPECT_EQ(size_of(kComplex64), 8u);
  EXPECT_EQ(size_of(kComplex128), 16u);
}

TEST(DType, ComplexNumbersConvert) {
  const Complex<float> z{2.5F, -1};
  EXPECT_EQ(convert<double>(z), 2.5);
  EXPECT_EQ(convert<int64_t>(z), 2);
  EXPECT_TRUE(convert<bool>(Complex<double>{0, 1}));
  EXPECT_FALSE(convert<bool>(Complex<double>{0, 0}));
  EXPECT_EQ(convert<Complex<double>>(z).im, -1);
  EXPECT_EQ(convert<Complex<float>>(Half(3.0F)).re, 3);
}

// PyTorch's table for two tensors with dimensions, written out: rows and columns b u8 i8 i16 i32 i64 f16 bf16 f32 f64.
TEST(DType, PromotionTableOfAllPairs) {
  constexpr DType b = kBool, u1 = kUInt8, i1 = kInt8, i2 = kInt16, i4 = kInt32, i8 = kInt64, h = kFloat16,
                  bf = kBFloat16, f = kFloat32, d = kFloat64;
  constexpr DType order[10] = {b, u1, i1, i2, i4, i8, h, bf, f, d};
  constexpr DType table[10][10] = {{b, u1, i1, i2, i4, i8, h, bf, f, d},  {u1, u1, i2, i2, i4, i8, h, bf, f, d},
                                   {i1, i2, i1, i2, i4, i8, h, bf, f, d}, {i2, i2, i2, i2, i4, i8, h, bf, f, d},
                                   {i4, i4, i4, i4, i4, i8, h, bf, f, d}, {i8, i8, i8, i8, i8, i8, h, bf, f, d},
                                   {h, h, h, h, h, h, h, f, f, d},        {bf, bf, bf, bf, bf, bf, f, bf, f, d},
                                   {f, f, f, f, f, f, f, f, f, d},        {d, d, d, d, d, d, d, d, d, d}};
  for (int r = 0; r < 10; ++r)
    for (int c = 0; c < 10; ++c)
      EXPECT_EQ(promote(order[r], order[c]), table[r][c]) << name_of(order[r]) << " " << name_of(order[c]);
}

TEST(DType, Float8HasNoCommonTypeWithAnotherNarrowFloat) {
  EXPECT_ERROR(Runtime, "have no common type", promote(kFloat8E4M3, kFloat8E5M2));
  EXPECT_ERROR(Runtime, "have no common type", promote(kFloat16, kFloat8E4M3));
  EXPECT_EQ(promote(kFloat8E4M3, kFloat32), kFloat32);
}

TEST(DType, DefaultIsAFloatingType) {
  EXPECT_EQ(default_dtype(), kFloat32);
  EXPECT_ERROR(Type, "expected a floating-point dtype, got int64", set_default_dtype(kInt64));
  set_default_dtype(kFloat64);
  EXPECT_EQ(default_dtype(), kFloat64);
  set_default_dtype(kFloat32);
}

TEST(DType, CategoriesAndSizes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    EXPECT_EQ(is_floating(t) + is_integral(t) + is_complex(t), 1);
    dispatch_dtype(t, [&]<class T> {
      EXPECT_EQ(sizeof(T), size_of(t));
      EXPECT_EQ(dtype_of<T>, t);
    });
    dispatch_size(t, [&]<class T> { EXPECT_EQ(sizeof(T), size_of(t)); });
  }
  EXPECT_FALSE((kAllTypes - kBoolType).has(kBool));
  EXPECT_TRUE(kStorageTypes.has(kFloat8E5M2));
}

TEST(DType, ConvertsValues) {
  EXPECT_EQ(convert<int32_t>(-2.9), -2);
  EXPECT_EQ((convert<uint8_t>(300.0F)), 44);
  EXPECT_TRUE((convert<bool>(0.5F)));
  EXPECT_FALSE((convert<bool>(Half(-0.F))));
  EXPECT_EQ((convert<int64_t>(BFloat16(-3.F))), -3);
}

}  // namespace
}  // namespace strata
