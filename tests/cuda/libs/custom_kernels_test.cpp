// Kernels compiled at run time: compile(), launches with checked arguments, elementwise kernels.
// After the tests of the driver table, which reset the context of the first device with all memory that is kept there.
#include <gtest/gtest.h>

#include "cuda/custom/compile.h"
#include "cuda/custom/elementwise.h"
#include "cuda/libs/libraries.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata::cuda {
namespace {

const Device kGpu{DeviceType::Vgpu, 0};

constexpr const char* kAdd = R"(
extern "C" __global__ void add(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
__global__ void fill(double* out, double value, long long n, bool negative, short step) {
  for (long long i = threadIdx.x; i < n; i += step) out[i] = negative ? -value : value;
}
template <class T> __global__ void scale(T* x, T by) { x[threadIdx.x] *= by; }
)";

bool same(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.shape(), b.shape()) && all(eq(a, b)).item<bool>();
}

#define NEEDS_NVRTC()                                                      \
  if (const auto& nvrtc = vendor_library(Vendor::Nvrtc).library; !nvrtc) { \
    EXPECT_ERROR(NotImplemented, "NVRTC", compile(kAdd, kGpu));            \
    return;                                                                \
  }

TEST(Compile, RunsKernels) {
  NEEDS_NVRTC();
  const Module module = compile(kAdd, kGpu, {.name = "add.cu", .options = {}, .instances = {"scale<float>"}});
  const Tensor x = to(arange(1000, kFloat32), kGpu), y = to(full({1000}, 0.5), kGpu), out = zeros_like(x);
  module.function("add")({4}, {256})(x, y, out, 1000);
  EXPECT_TRUE(same(out, x + y));
  module.function("scale<float>")({1}, {10})(out, 2.0F);
  EXPECT_EQ(to(out, Device{}).data<float>()[3], 7);
  EXPECT_EQ(to(out, Device{}).data<float>()[10], 10.5F);
  const Tensor d = to(zeros({7}, kFloat64), kGpu);
  module.function("fill")({1}, {32})(d, 3.25, int64_t{7}, true, int16_t{32});
  EXPECT_TRUE(same(to(d, Device{}), full({7}, -3.25, kFloat64)));
  EXPECT_EQ(module.kernels().size(), 3U);
}

TEST(Compile, EqualSourcesAreCompiledOnce) {
  NEEDS_NVRTC();
  EXPECT_EQ(compile(kAdd, kGpu).ptx().data(), compile(kAdd, kGpu).ptx().data());
  EXPECT_NE(compile(kAdd, kGpu).ptx().data(), compile(kAdd, kGpu, {.options = {"-DA=1"}}).ptx().data());
}

TEST(Compile, ParametersComeFromPtxAndSource) {
  NEEDS_NVRTC();
  const Module module = compile(kAdd, kGpu);
  const auto add = module.function("add").parameters(), fill = module.function("fill").parameters();
  ASSERT_EQ(add.size(), 4U);
  EXPECT_EQ(add[0].pointer, Parameter::Pointer::ToConst);
  EXPECT_EQ(add[2].pointer, Parameter::Pointer::Yes);
  EXPECT_EQ(add[3].text, "int n");
  ASSERT_EQ(fill.size(), 5U);
  EXPECT_EQ(fill[1].kind, Parameter::Kind::Float);
  EXPECT_EQ(fill[2].pointer, Parameter::Pointer::No);
  EXPECT_EQ(fill[3].size, 1U);
}

TEST(Compile, WritesAreCounted) {
  NEEDS_NVRTC();
  const Tensor x = to(ones({8}), kGpu), y = to(ones({8}), kGpu), out = zeros_like(x);
  const auto before = out->version(), read = x->version();
  compile(kAdd, kGpu).function("add")({1}, {32})(x, y, out, 8);
  EXPECT_GT(out->version(), before);
  EXPECT_EQ(x->version(), read);
}

TEST(Compile, RejectsWrongArguments) {
  NEEDS_NVRTC();
  const KernelHandle add = compile(kAdd, kGpu).function("add");
  const Tensor x = to(ones({8}), kGpu);
  EXPECT_ERROR(Type, "has 4 parameters, but got 3", add({1}, {32})(x, x, x));
  EXPECT_ERROR(Type, "int n", add({1}, {32})(x, x, x, 1.0F));
  EXPECT_ERROR(Type, "4-byte integer", add({1}, {32})(x, x, x, int64_t{1}));
  EXPECT_ERROR(Type, "not a pointer", add({1}, {32})(x, x, x, x));
  EXPECT_ERROR(Type, "pass a tensor", add({1}, {32})(x, 8, x, 8));
  EXPECT_ERROR(Type, "undefined", add({1}, {32})(x, Tensor(), x, 8));
  EXPECT_ERROR(Runtime, "on cpu", add({1}, {32})(x, ones({8}), x, 8));
  EXPECT_ERROR(Value, "not contiguous", add({1}, {32})(x, to(ones({8, 2}), kGpu).select(1, 0), x, 8));
  EXPECT_ERROR(Value, "grid", add({0}, {32})(x, x, x, 8));
  EXPECT_ERROR(Value, "threads", add({1}, {1024, 2})(x, x, x, 8));
  EXPECT_ERROR(Value, "shared memory", add({1}, {32}, 1U << 30)(x, x, x, 8));
  const Tensor leaf = to(ones({8}), kGpu).set_requires_grad();
  EXPECT_ERROR(Runtime, "requires a gradient", add({1}, {32})(x, x, leaf, 8));
  add({1}, {32})(leaf, x, x, 8);  // only read
}

TEST(Compile, RejectsWrongSources) {
  NEEDS_NVRTC();
  EXPECT_ERROR(Value, "wrong.cu(2): error",
               compile("\n__global__ void f(int* p) { *p = q; }", kGpu, {.name = "wrong.cu"}));
  EXPECT_ERROR(Value, "*p = q;", compile("\n__global__ void f(int* p) { *p = q; }", kGpu));
  EXPECT_ERROR(Value, "is empty", compile(" \n", kGpu));
  EXPECT_ERROR(Value, "NUL", compile(std::string("int x;\0", 7), kGpu));
  EXPECT_ERROR(Value, "begin with '-'", compile(kAdd, kGpu, {.options = {"x"}}));
  EXPECT_ERROR(Value, "the architecture is the device's", compile(kAdd, kGpu, {.options = {"-arch=sm_90"}}));
  EXPECT_ERROR(Value, "not the name", compile(kAdd, kGpu, {.instances = {"scale<float>; int x"}}));
  EXPECT_ERROR(Value, "not on cpu", compile(kAdd, Device{}));
  EXPECT_ERROR(Value, "no kernel 'sub' in kernels.cu", compile(kAdd, kGpu).function("sub"));
  EXPECT_ERROR(Value, "fill(double*, double, long long, bool, short)", compile(kAdd, kGpu).function("sub"));
  EXPECT_ERROR(Value, "overloaded",
               compile("__global__ void f(int* p) {}\n__global__ void f(float* p) {}", kGpu).function("f"));
}

TEST(Elementwise, BroadcastsAndPromotes) {
  NEEDS_NVRTC();
  const Elementwise axpy = Elementwise::of("out = a * x + y");
  const Tensor x = to(arange(6, kFloat32).reshape({2, 3}), kGpu), y = to(arange(3, kInt32), kGpu);
  EXPECT_TRUE(same(axpy({2.0, x, y})[0], 2.0 * x + y));
  EXPECT_TRUE(same(axpy({2, y, y})[0], 3 * y));
  EXPECT_EQ(axpy({2, y, y})[0].dtype(), kInt32);
  EXPECT_EQ(axpy({2.0, x.to(kFloat16), y})[0].dtype(), kFloat16);
  EXPECT_EQ(axpy({2.0, to(zeros({0, 3}), kGpu), y})[0].numel(), 0);
  const Tensor given = to(zeros({3, 2}), kGpu);
  const Operand operands[] = {1, x, x};
  const Tensor outs[] = {given.t()};
  axpy(operands, outs);
  EXPECT_TRUE(same(given, (x + x).t()));
}

TEST(Elementwise, RejectsWrongUse) {
  EXPECT_ERROR(Value, "assigns no output", Elementwise::of("a * x"));
  EXPECT_ERROR(Value, "no inputs", Elementwise::of("out = 1"));
  EXPECT_ERROR(Value, "declared twice", Elementwise("T x, T x", "T y", "y = x", "f"));
  EXPECT_ERROR(Value, "a type and a name", Elementwise("T x,", "T y", "y = x", "f"));
  EXPECT_ERROR(Value, "reserved", Elementwise("T i", "T y", "y = i", "f"));
  EXPECT_ERROR(Value, "neither a dtype nor", Elementwise("T x", "S y", "y = x", "f"));
  EXPECT_ERROR(Value, "is empty", Elementwise("T x", "T y", " ; ", "f"));
  EXPECT_ERROR(NotImplemented, "raw", Elementwise("raw T x", "T y", "y = x", "f"));
  NEEDS_NVRTC();
  const Elementwise f = Elementwise::of("out = x + y");
  const Tensor x = to(ones({4, 4}), kGpu);
  EXPECT_ERROR(Type, "has 2 inputs", f({x}));
  EXPECT_ERROR(Type, "none of the operands", f({1, 2}));
  EXPECT_ERROR(Runtime, "on cpu", f({x, ones({4})}));
  EXPECT_ERROR(Runtime, "broadcast", f({x, to(ones({3}), kGpu)}));
  const Operand operands[] = {x, x};
  const Tensor overlapping[] = {x.t()}, wrong_type[] = {x.to(kFloat64)}, wrong_shape[] = {to(ones({4}), kGpu)},
               expanded[] = {to(ones({4, 1}), kGpu).expand({4, 4})};
  EXPECT_ERROR(Runtime, "overlaps", f(operands, overlapping));
  EXPECT_ERROR(Type, "float64", f(operands, wrong_type));
  EXPECT_ERROR(Runtime, "but the result has", f(operands, wrong_shape));
  EXPECT_ERROR(Runtime, "share memory", f(operands, expanded));
  EXPECT_ERROR(Value, "out = x +* y", Elementwise::of("out = x +* y")({x, x}));
}

}  // namespace
}  // namespace strata::cuda
