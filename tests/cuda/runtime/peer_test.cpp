// Copies between two virtual devices: direct, ordered in the streams of both.
#include "cuda/runtime/peer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/driver/vgpu.h"
#include "cuda/driver/wrap.h"
#include "cuda/runtime/allocator.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata::cuda {
namespace {

constexpr Device kFirst{DeviceType::Vgpu, 0}, kSecond{DeviceType::Vgpu, 1};
std::optional<Device> on(Device d) { return d; }

// Two 'vgpu' devices, and a record of the calls.
class TwoDevices {
 public:
  explicit TwoDevices(const driver::VgpuOptions& options)
      : recorder_(driver::open_vgpu(options)), runtime_(DeviceType::Vgpu, started(recorder_.table())) {
    before_ = Runtime::replace(DeviceType::Vgpu, &runtime_);
  }
  ~TwoDevices() { Runtime::replace(DeviceType::Vgpu, before_); }
  TwoDevices(const TwoDevices&) = delete;
  TwoDevices& operator=(const TwoDevices&) = delete;
  int count(const std::string& call) const {
    const auto calls = recorder_.calls();
    return static_cast<int>(std::count_if(calls.begin(), calls.end(), [&](const auto& c) { return c.name == call; }));
  }
  Gpu& operator[](int i) { return runtime_[i]; }

 private:
  static const driver::Table& started(const driver::Table& t) {
    EXPECT_EQ(t.cuInit(0), driver::kSuccess);
    return t;
  }
  driver::Recorder recorder_;
  Runtime runtime_;
  Runtime* before_;
};
driver::VgpuOptions options(bool delayed, uint64_t seed) {
  return {.profiles = {"ampere", "ampere"}, .delayed = delayed, .seed = seed, .memory = 64 << 20};
}

TEST(PeerCopies, DoNotTouchTheHost) {
  TwoDevices devices(options(false, 0));
  EXPECT_TRUE(can_access_peer(devices[0], devices[1]));
  const Tensor x = full({1000}, 3.0, {}, on(kFirst));
  const Tensor y = to(x, on(kSecond)), z = to(y, on(kFirst), kFloat64);
  EXPECT_EQ(devices.count("cuMemcpyPeerAsync"), 2);
  EXPECT_EQ(devices.count("cuMemcpyDtoHAsync") + devices.count("cuMemcpyHtoDAsync"), 0);
  EXPECT_EQ(devices.count("cuStreamSynchronize") + devices.count("cuCtxSynchronize"), 0);
  EXPECT_EQ(devices.count("cuCtxEnablePeerAccess"), 2);  // once for each direction
  for (int i = 0; i < 5; ++i) to(x, on(kSecond));
  EXPECT_EQ(devices.count("cuCtxEnablePeerAccess"), 2);
  EXPECT_EQ(sum(y).item<double>(), 3000.0);
  EXPECT_EQ(sum(z).item<double>(), 3000.0);
  // Strided and empty tensors work too.
  const Tensor t = to(transpose(view(arange(6, kFloat32), {2, 3}), 0, 1), on(kFirst));
  EXPECT_EQ(to(to(t, on(kSecond)), on(Device{})).select(0, 2).select(0, 1).item<double>(), 5.0);
  EXPECT_EQ(to(zeros({0, 3}, {}, on(kFirst)), on(kSecond)).numel(), 0);
}

// If work runs as late as possible, a missing wait on either side gives a wrong number for some seed.
TEST(PeerCopies, KeepTheOrderOfBothSides) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    TwoDevices devices(options(true, seed));
    const Tensor target = zeros({100}, {}, on(kSecond));
    Tensor source = zeros({100}, {}, on(kFirst));
    for (int i = 1; i < 4; ++i) {
      add_(source, 1);                 // must be seen by the copy
      const Tensor seen = target * 1;  // must read what was there before it
      copy_(target, source);
      add_(source, 10);  // must not be seen
      add_(source, -10);
      if (seed % 2) device_hooks.synchronize(kFirst);  // one side runs first, or the other
      ASSERT_EQ(sum(target + seen).item<double>(), 100.0 * (2 * i - 1)) << "seed " << seed;
    }
  }
}

TEST(PeerCopies, ADeadPeerIsAnError) {
  TwoDevices devices(options(false, 0));
  const Tensor x = ones({10}, {}, on(kFirst));
  try {
    devices[1].refuse(driver::kIllegalAddress, "do something");
  } catch (const Error&) {}
  EXPECT_ERROR(Runtime, "'vgpu:1' has failed", to(x, on(kSecond)));
  EXPECT_EQ(sum(x).item<double>(), 10.0);  // the other goes on
}

}  // namespace
}  // namespace strata::cuda
