// Planted bugs: each check finds its own, and reports kernel, op, thread, CUDA line and PTX line.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/file.h"
#include "cuda/driver/vgpu.h"
#include "tests/expect_error.h"

namespace strata::cuda::driver {

namespace {

// The kernels; their lines are named below.
const std::string& planted() {
  static const std::string text = [] {
    const auto file = FileBytes::map(STRATA_PLANTED);
    return std::string(reinterpret_cast<const char*>(file->data()), file->size());
  }();
  return text;
}

#define OK(call) ASSERT_EQ(call, kSuccess) << vgpu_message()

struct Checks : ::testing::Test {
  void open(const char* checks) {
    VgpuOptions options;
    options.memory = 64 << 20;
    options.checks = checks;
    open(options);
  }
  void open(const VgpuOptions& options) {
    cu = &open_vgpu(options);
    OK(cu->cuInit(0));
    CUcontext c = nullptr;
    OK(cu->cuDevicePrimaryCtxRetain(&c, 0));
    OK(cu->cuCtxSetCurrent(c));
    OK(cu->cuModuleLoadData(&module, planted().c_str()));
    OK(cu->cuMemAlloc(&x, 256));
    OK(cu->cuMemAlloc(&y, 256));
  }
  template <class... A> CUresult run(const char* name, unsigned threads, A... args) {
    CUfunction f = nullptr;
    if (const CUresult r = cu->cuModuleGetFunction(&f, module, name)) return r;
    void* params[] = {static_cast<void*>(&args)..., nullptr};
    return cu->cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, nullptr, params, nullptr);
  }
  void expect(CUresult found, CUresult code, std::initializer_list<const char*> texts) {
    EXPECT_EQ(found, code);
    for (const char* text : texts) EXPECT_NE(vgpu_message().find(text), std::string::npos) << vgpu_message();
  }
  const Table* cu = nullptr;
  CUmodule module = nullptr;
  CUdeviceptr x = 0, y = 0;
};

TEST_F(Checks, OutOfBoundsNamesEverything) {
  open("memory");
  set_vgpu_label("add.Tensor");
  OK(run("write", 64, x, 4u));
  expect(run("write", 65, x, 4u), kIllegalAddress,
         {"0 bytes behind an allocation of 256 bytes", "kernel 'write' of add.Tensor", "thread (64,0,0)",
          "planted.cu:12", "PTX line 12: st.global.u32 [%p], %t"});
  set_vgpu_label(nullptr);
  open("");  // without the check the neighbouring bytes are overwritten silently, as on a GPU
  OK(run("write", 65, x, 4u));
}

TEST_F(Checks, MisalignedAccessIsAlwaysFound) {
  open("");
  expect(run("write", 64, x, 2u), kMisalignedAddress, {"not a multiple of 4", "thread (1,0,0)", "planted.cu:12"});
}

TEST_F(Checks, UseAfterFree) {
  open("memory");
  OK(cu->cuMemFree(x));
  expect(run("write", 1, x, 4u), kIllegalAddress, {"byte 0 of an allocation of 256 bytes that was freed"});
}

TEST_F(Checks, UninitialisedReads) {
  open("init");
  OK(cu->cuMemsetD8Async(x, 1, 128, nullptr));
  OK(run("copy", 32, x, y));
  OK(run("copy", 32, y, x));  // written by a kernel
  expect(run("copy", 33, x, y), kLaunchFailed,
         {"nobody has written", "byte 128 of", "thread (32,0,0)", "planted.cu:20"});
  open("init");
  expect(run("never_written", 1, x), kLaunchFailed, {"shared memory at 0x8", "planted.cu:41"});
}

TEST_F(Checks, RacesInSharedMemory) {
  open("race");
  OK(run("neighbour", 64, x, 1u));
  expect(run("neighbour", 64, x, 0u), kLaunchFailed, {"race in shared memory", "no barrier", "planted.cu:3"});
  open("memory,sync");
  OK(run("neighbour", 64, x, 0u));  // the other checks do not report it
}

TEST_F(Checks, DivergentBarriers) {
  open("");
  OK(run("divergent", 32, x));  // correct by luck
  open("sync");
  expect(run("divergent", 32, x), kLaunchFailed, {"divergent code", "lanes 0xffff0000", "0x0000ffff do not"});
}

TEST_F(Checks, EndlessKernelsTimeOut) {
  VgpuOptions options;
  options.memory = 64 << 20;
  options.instruction_limit = 1000000;
  open(options);
  expect(run("endless", 32), kLaunchTimeout,
         {"more than the limit of 1000000", "STRATA_VGPU_LIMIT", "kernel 'endless'"});
  ASSERT_EQ(setenv("STRATA_VGPU_LIMIT", "2000000", 1), 0);
  options.instruction_limit = 0;
  open(options);
  expect(run("endless", 32), kLaunchTimeout, {"more than the limit of 2000000"});
  ASSERT_EQ(setenv("STRATA_VGPU_LIMIT", "many", 1), 0);
  EXPECT_ERROR(Value, "STRATA_VGPU_LIMIT is 'many'", open_vgpu(options));
  unsetenv("STRATA_VGPU_LIMIT");
}

TEST_F(Checks, NamesOfChecks) {
  EXPECT_EQ(vgpu::checks_named("memory,race"), vgpu::kCheckMemory | vgpu::kCheckRace);
  EXPECT_EQ(vgpu::checks_named("all"), 15u);
  EXPECT_EQ(vgpu::checks_named(""), 0u);
  EXPECT_ERROR(Value, "no check 'raec'", vgpu::checks_named("memory,raec"));
  ASSERT_EQ(setenv("STRATA_VGPU_CHECK", "memory", 1), 0);
  open("");
  expect(run("write", 65, x, 4u), kIllegalAddress, {"outside of every allocation"});
  unsetenv("STRATA_VGPU_CHECK");
}

}  // namespace
}  // namespace strata::cuda::driver
