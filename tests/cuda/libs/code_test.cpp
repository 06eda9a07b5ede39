// Device code compiled at run time: PTX as text, and the output of NVRTC, if it is installed.
#include <gtest/gtest.h>

#include "cuda/libs/libraries.h"
#include "cuda/libs/nvrtc.h"
#include "cuda/runtime/module.h"
#include "cuda/runtime/stream.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata::cuda {
namespace {

constexpr const char* kTriple = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry triple(.param .u64 to, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .f32 %f;
  .reg .b64 %rd<3>;
  mov.u32 %r0, %tid.x;
  ld.param.u32 %r1, [n];
  setp.ge.u32 %p, %r0, %r1;
  @%p bra done;
  ld.param.u64 %rd0, [to];
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  ld.global.f32 %f, [%rd2];
  mul.f32 %f, %f, 0f40400000;
  st.global.f32 [%rd2], %f;
done:
  ret;
}
)";

void run_tripled(const Function& kernel) {
  const Tensor x = to(full({5}, 2.0), Device{DeviceType::Vgpu, 0});
  stream_of(x.device()).launch(kernel, {1}, {32}, 0, reinterpret_cast<uint64_t>(x->data), uint32_t{5});
  const Tensor y = to(x, Device{});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(y.data<float>()[i], 6);
}

TEST(Code, RunsPtxThatIsGivenAsText) {
  const auto code = std::make_shared<const Code>("test", kTriple);
  run_tripled(Function(code, "triple"));
  run_tripled(Function(std::make_shared<const Code>("test", kTriple), "triple"));  // different code with the same name
  EXPECT_THROW(run_tripled(Function(code, "no_such_kernel")), Error);
}

TEST(Code, TheVirtualGpuRefusesMachineCode) {
  const Function kernel(std::make_shared<const Code>("test", "ELF...", Code::Kind::Machine), "triple");
  EXPECT_ERROR(NotImplemented, "compile to PTX", run_tripled(kernel));
}

TEST(Nvrtc, CompilesOrSaysWhyNot) {
  constexpr const char* source =
    "extern \"C\" __global__ void triple(float* to, unsigned n) { if (threadIdx.x < n) to[threadIdx.x] *= 3; }";
  const char* const options[] = {"--gpu-architecture=compute_80"};
  if (!vendor_library(Vendor::Nvrtc).library) {
    EXPECT_ERROR(NotImplemented, "NVRTC", compile_to_ptx(source, "triple.cu", options));
    return;
  }
  run_tripled(
    Function(std::make_shared<const Code>("triple", compile_to_ptx(source, "triple.cu", options).ptx), "triple"));
  EXPECT_ERROR(Value, "wrong.cu(1)", compile_to_ptx("this is no C++", "wrong.cu", options));
}

}  // namespace
}  // namespace strata::cuda
