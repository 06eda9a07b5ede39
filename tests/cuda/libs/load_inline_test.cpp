// load_inline: how sources are split for the two compilers, and functions from C++.
#include <gtest/gtest.h>

#include "cuda/custom/split_source.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

using namespace strata;
using cuda::split_source;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }
int64_t lines(const std::string& text) { return std::ranges::count(text, '\n'); }

TEST(SplitSource, KernelsGoToTheDeviceAndFunctionsToTheHost) {
  const std::string source = R"(#include <vector>
__global__ void k(const float* x, int) {
  x[0];
}
__device__ float f(float x) { return __expf(x); }
void g() { k<<<1, dim3(2)>>>(nullptr, 3); }
)";
  const auto split = split_source(source, "kernels");
  EXPECT_TRUE(has(split.device, "x[0];") && has(split.device, "__expf") && !has(split.device, "void g") &&
              !has(split.device, "vector"));
  EXPECT_TRUE(has(split.host, "#include <vector>") && !has(split.host, "x[0];") && !has(split.host, "__expf"));
  EXPECT_TRUE(has(split.host, "::strata::cuda::configure(1, dim3(2)), k(nullptr, 3);")) << split.host;
  EXPECT_TRUE(has(split.host, "::kernels.launch_stub(\"k\", {}, x, strata_unnamed_1);")) << split.host;
  EXPECT_EQ(lines(split.host), lines(source));
  EXPECT_EQ(lines(split.device), lines(source));
  EXPECT_EQ(split.kernels, std::vector<std::string>{"k"});
}

TEST(SplitSource, TextThatOnlyLooksLikeCode) {
  const std::string source = R"cpp(// void f() { __global__ }
                                   const char* text = "__global__ void k() {}";
                                   const char brace = '{';
                                   /* namespace { */
#define LONG(x) x<<<1, 1>>>()
                                   const char* raw() { return R"x(k<<<1, 1>>>(); " } )x"; }
                                   constexpr int kMany = 1'000'000;
  )cpp";
  const auto split = split_source(source, "kernels");
  EXPECT_TRUE(split.kernels.empty());
  EXPECT_TRUE(has(split.host, "k<<<1, 1>>>(); \" }")) << split.host;
  EXPECT_TRUE(has(split.host, "\"__global__ void k() {}\"") && has(split.host, "configure(1, 1), x()"));
  EXPECT_TRUE(has(split.device, "kMany = 1'000'000;") && !has(split.device, "raw"));
}

TEST(SplitSource, TemplatesAndNamespaces) {
  const auto split = split_source(R"(namespace a::b { namespace {
template <class T, int N = 3, typename... R>
__global__ void __launch_bounds__(64) k(T* x, R... rest) {}
static __global__ void plain() {}
} }
extern "C" { __global__ void c_kernel(int n) {} }
void f() { a::b::k<float, (1 > 0)><<<1, 2, 3>>>(nullptr); }
)",
                                  "kernels");
  EXPECT_TRUE(has(split.host,
                  "launch_stub(\"a::b::k\", {::strata::cuda::instance_name<T>(), "
                  "::strata::cuda::instance_name<N>(), ::strata::cuda::instance_name<R>()...}, x, rest...)"))
    << split.host;
  EXPECT_TRUE(has(split.host, "configure(1, 2, 3), a::b::k<float, (1 > 0)>(nullptr)")) << split.host;
  EXPECT_EQ(split.kernels, (std::vector<std::string>{"a::b::plain", "c_kernel"}));
  EXPECT_FALSE(has(split.device, "static"));
}

TEST(SplitSource, SharedTypesKeepTheirMembers) {
  const auto split = split_source(R"(struct Op {
  float by = 2;
  __device__ float operator()(float x) const { return __fmul_rn(x, by); }
  __host__ __device__ int both() const { return 1; }
};
struct Host { std::vector<int> list; };
using real = float;
)",
                                  "kernels");
  EXPECT_TRUE(has(split.host, "operator()(float x) const ;") && has(split.host, "return 1;")) << split.host;
  EXPECT_FALSE(has(split.host, "__fmul_rn"));
  EXPECT_TRUE(has(split.device, "__fmul_rn") && has(split.device, "using real") && !has(split.device, "struct Host"));
}

// Whatever the text, splitting ends without an error of another kind and keeps the lines.
TEST(SplitSource, BrokenSources) {
  const std::string whole =
    R"(template <class T> __global__ void k(T* x) { x[0] = 'a'; } /* c */ void f() { k<int><<<1, 1>>>(p); }
namespace n { struct S { int x; }; } #define X "y)";
  for (size_t n = 0; n <= whole.size(); ++n)
    for (const std::string& text :
         {whole.substr(0, n), whole.substr(n), "{" + whole.substr(n), "<<<" + whole.substr(0, n)}) {
      try {
        const auto split = split_source(text, "kernels");
        EXPECT_EQ(lines(split.device), lines(text));
        static_cast<void>(cuda::host_source(text));
      } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::Value) << e.what(); }
    }
}

TEST(LoadInline, FunctionsFromCpp) {
  const auto mine =
    cuda::load_inline({.name = "mine",
                       .cpp_sources = {"torch::Tensor plus(torch::Tensor x, int64_t n) { return x + n; }"},
                       .cuda_sources = {R"(
__global__ void twice(const float* x, float* out, int n) {
  if (threadIdx.x < n) out[threadIdx.x] = 2 * x[threadIdx.x];
}
torch::Tensor doubled(torch::Tensor x) {
  auto out = torch::empty_like(x);
  twice<<<1, 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
})"},
                       .functions = {{"plus", "x + n"}, {"doubled", ""}}});
  const Tensor x = ones({3}, kFloat32, Device("vgpu"));
  const cuda::ExtensionValue one[] = {x}, wrong[] = {2, 2};
  EXPECT_EQ(mine.function("doubled")(one).tensor.sum().item<double>(), 6);
  EXPECT_EQ(mine.function("plus")({x.cpu(), 2}).tensor.sum().item<double>(), 9);
  EXPECT_EQ(mine.function("plus").doc, "x + n");
  EXPECT_ERROR(Type, "argument 1 must be Tensor, not int 2", mine.function("plus")(wrong));
  EXPECT_ERROR(Type, "takes 2 arguments", mine.function("plus")(one));
  EXPECT_ERROR(Value, "its functions are plus, doubled", mine.function("other"));
  EXPECT_ERROR(Value, "at most 200",
               cuda::load_inline({.name = std::string(5000, 'a'), .cpp_sources = {"void f() {}"}}));
}

}  // namespace
