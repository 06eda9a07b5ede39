// Products with an epilogue of the user: gemm::compile and Gemm<Config>.
#include <gtest/gtest.h>

#include "cuda/custom/gemm.h"
#include "cuda/custom/gemm_source.h"
#include "cuda/libs/libraries.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata::gemm {
namespace {

const Device kGpu{DeviceType::Vgpu, 0};

struct LinearRelu : Defaults {
  static constexpr int kM = 64, kN = 64;
  static constexpr const char* kEpilogue = "relu(acc + bias[n])";
};

// Whole numbers from -3 to 3, which products of bfloat16 keep exactly.
Tensor numbers(int64_t rows, int64_t columns, DType dtype) {
  const Tensor all = arange(rows * columns, kFloat32);
  return to(to(reshape(remainder(mul(all, 5), 7) - 3, {rows, columns}), dtype), kGpu);
}
bool same(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.shape(), b.shape()) && all(eq(a, b)).item<bool>();
}

#define NEEDS_NVRTC()                                                                  \
  if (const auto& nvrtc = cuda::vendor_library(cuda::Vendor::Nvrtc).library; !nvrtc) { \
    const Tensor x = numbers(4, 4, DType::BF16);                                       \
    EXPECT_ERROR(NotImplemented, "NVRTC", compile({.dtype = DType::BF16})(x, x));      \
    return;                                                                            \
  }

TEST(GemmCompile, AppliesTheEpilogue) {
  NEEDS_NVRTC();
  for (const DType dtype : {DType::BF16, DType::F16, DType::F32, DType::F64}) {
    const Kernel kernel = compile({.dtype = dtype, .epilogue = "relu(acc + bias[n]) * scale"});
    ASSERT_EQ(kernel.extras().size(), 2U);
    EXPECT_EQ(kernel.extras()[0].name, "bias");
    EXPECT_TRUE(kernel.extras()[0].by_row);
    const Tensor a = numbers(20, 13, dtype), b = numbers(13, 9, dtype), bias = reshape(numbers(1, 9, dtype), {9});
    const Tensor want = mul(relu(add(matmul(a, b), bias)), 2);
    EXPECT_TRUE(same(kernel(a, b, {{"bias", bias}, {"scale", 2}}), want));
    const Tensor out = zeros_like(want);
    EXPECT_EQ(kernel(a, b, {{"bias", bias}, {"scale", 2.0}}, out).get(), out.get());
    EXPECT_TRUE(same(out, want));
  }
}

// NVRTC compiles them anywhere; test_virtual_hopper.py runs them.
TEST(GemmCompile, KernelsForHopperCompile) {
  NEEDS_NVRTC();
  const std::vector<const char*> options{"--gpu-architecture=compute_90a", "--std=c++20",
                                         "--device-as-default-execution-space"};
  Config config{.dtype = DType::F16, .epilogue = "gelu(acc + bias[n]) * scale + residual[m, n]"};
  for (const DType made : {DType::F16, DType::F32}) {
    config.out_dtype = made;
    Variant variant;
    variant.extras = {DType::F16, DType::F64, made};
    variant.numbers = {false, true, false};
    variant.reading = {Reading::Pairs, Reading::Elements, made == DType::F16 ? Reading::Staged : Reading::Pairs};
    variant.a_dtype = variant.b_dtype = DType::F16;
    variant.b_along_k = made == DType::F16;
    for (const size_t tiles : {cuda::kHugeTiles, cuda::kSmallTiles, cuda::kFlatTiles}) {
      variant.hopper = &cuda::kHopperTiles[tiles];
      const std::string source = kernel_source(config, read_epilogue(config), variant);
      const std::string ptx = cuda::compile_to_ptx(source, "gemm", options, {}).ptx;
      EXPECT_NE(ptx.find(fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16", variant.hopper->shape.n)),
                ptx.npos);
      EXPECT_NE(ptx.find("cp.async.bulk.tensor.4d.shared::cluster.global"), ptx.npos);
    }
  }
}

TEST(GemmCompile, TakesAConfigurationOfTypes) {
  NEEDS_NVRTC();
  const Gemm<LinearRelu> linear_relu;
  EXPECT_EQ(linear_relu.config().tile[0], 64);
  EXPECT_EQ(linear_relu.config().stages, 4);
  const Tensor a = numbers(70, 33, DType::BF16), b = numbers(33, 65, DType::BF16), bias = numbers(1, 65, DType::BF16);
  const Tensor row = reshape(bias, {65});
  EXPECT_TRUE(same(linear_relu(a, b, {{"bias", row}}), relu(add(matmul(a, b), row))));
}

TEST(GemmCompile, RefusesBadInput) {
  EXPECT_ERROR(Value, "multiples of 16", compile({.tile = {100, 128, 32}}));
  EXPECT_ERROR(Value, "2 to 8", compile({.stages = 9}));
  EXPECT_ERROR(Type, "dtype must be", compile({.dtype = DType::I64}));
  EXPECT_ERROR(Value, "one C++ expression", compile({.epilogue = "acc; acc"}));
  const Kernel kernel = compile({.epilogue = "acc + bias[n]"});
  const Tensor x = numbers(8, 8, DType::BF16), bias = reshape(numbers(1, 8, DType::BF16), {8});
  EXPECT_ERROR(Type, "needs 'bias'", kernel(x, x));
  EXPECT_ERROR(Type, "has no 'zork'", kernel(x, x, {{"bias", bias}, {"zork", 1}}));
  EXPECT_ERROR(Runtime, "inner sizes", kernel(x, numbers(7, 8, DType::BF16), {{"bias", bias}}));
  EXPECT_ERROR(Type, "expected factors of bfloat16", kernel(numbers(8, 8, DType::F32), x, {{"bias", bias}}));
  EXPECT_ERROR(Runtime, "is on cpu", kernel(to(x, Device{}), x, {{"bias", bias}}));
  EXPECT_ERROR(Type, "undefined", kernel(Tensor(), x, {{"bias", bias}}));
}

}  // namespace
}  // namespace strata::gemm
