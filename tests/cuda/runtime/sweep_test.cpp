// The fault sweep: every driver call of a training step, of a captured graph and of the allocator fails once, with
// three codes. Each time there is a typed error or the right result, nothing leaks in the driver, and the CPU stays
// usable.
#include <fmt/core.h>

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "cuda/driver/vgpu.h"
#include "cuda/driver/wrap.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/event.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/host_memory.h"
#include "strata/strata.h"
#include "tests/temp_folder.h"

namespace strata::cuda {
namespace {

constexpr Device kVgpu{DeviceType::Vgpu, 0};

// A separate driver for device 'vgpu', whose call n fails; `leftovers` compares what was created with what was
// destroyed.
class FailingDriver {
 public:
  FailingDriver(uint64_t n, driver::CUresult code)
      : recorder_(driver::open_vgpu({.memory = 64 << 20})), injector_(recorder_.table(), n, code) {}
  uint64_t calls() const { return injector_.calls(); }
  std::string failed() const { return injector_.failed() ? injector_.failed() : ""; }

  // Runs it; returns the text of the error, if there was one. Another kind of exception fails the test.
  template <class F> std::optional<std::string> run(const F& work) {
    try {
      if (const driver::CUresult r = injector_.table().cuInit(0))
        fail(ErrorKind::Runtime, fmt::format("cuInit: {}", r));
      Runtime runtime(DeviceType::Vgpu, injector_.table());
      Runtime* const before = Runtime::replace(DeviceType::Vgpu, &runtime);
      std::optional<std::string> error;
      try {
        work();
      } catch (const Error& e) { error = e.what(); }
      if (error) try {
          EXPECT_EQ(runtime[0].allocator->stats().allocated, 0u) << failed();
        } catch (const Error&) {}  // the device cannot be opened
      Runtime::replace(DeviceType::Vgpu, before);
      return error;
    } catch (const Error& e) { return e.what(); }
  }

  // Objects that the driver still has, by the names of the calls. One whose destruction was made to fail may be left.
  std::string leftovers() const {
    static const std::pair<std::vector<std::string>, std::vector<std::string>> kPairs[] = {
      {{"cuMemAlloc"}, {"cuMemFree"}},
      {{"cuMemHostAlloc"}, {"cuMemFreeHost"}},
      {{"cuMemAddressReserve"}, {"cuMemAddressFree"}},
      {{"cuMemCreate"}, {"cuMemRelease"}},
      {{"cuMemMap"}, {"cuMemUnmap"}},
      {{"cuStreamCreateWithPriority"}, {"cuStreamDestroy"}},
      {{"cuEventCreate"}, {"cuEventDestroy"}},
      {{"cuStreamBeginCapture"}, {"cuStreamEndCapture"}},
      {{"cuStreamEndCapture"}, {"cuGraphDestroy"}},
      {{"cuGraphInstantiate"}, {"cuGraphExecDestroy"}},
      {{"cuModuleLoadData", "cuModuleLoadDataEx"}, {"cuModuleUnload"}},
      {{"cuLinkCreate"}, {"cuLinkDestroy"}},
      {{"cuDevicePrimaryCtxRetain"}, {"cuDevicePrimaryCtxRelease"}},
    };
    std::map<std::string, int> count;
    for (const driver::Call& c : recorder_.calls())
      if (c.result == driver::kSuccess) ++count[c.name];
    std::string text;
    for (const auto& [made, destroyed] : kPairs) {
      int left = 0;
      for (const std::string& name : made) left += count[name];
      for (const std::string& name : destroyed) left -= count[name] + (name == failed());
      if (left > 0) text += fmt::format("{} of {}, ", left, made[0]);
    }
    return text;
  }

 private:
  driver::Recorder recorder_;
  driver::FaultInjector injector_;
};

// This call may fail without an error: it only destroys, or a retry succeeded.
bool forgivable(const std::string& call, driver::CUresult code) {
  return call.find("Destroy") != std::string::npos || call.find("Free") != std::string::npos ||
         call.find("Release") != std::string::npos || call.find("Unload") != std::string::npos ||
         (code == driver::kOutOfMemory &&
          (call == "cuMemAlloc" || call == "cuMemCreate" || call == "cuMemMap" || call == "cuMemSetAccess"));
}

// `elsewhere`: calls that the workload also makes where nothing may be thrown, and whose failure it tolerates.
template <class F> void sweep(uint64_t at_least, const F& work, const std::set<std::string>& elsewhere = {}) {
  uint64_t calls = 0;
  {
    FailingDriver d(~uint64_t{0}, driver::kUnknown);
    EXPECT_EQ(d.run(work), std::nullopt);
    EXPECT_EQ(d.leftovers(), "");
    calls = d.calls();
  }
  ASSERT_GE(calls, at_least);
  const Tensor two = full({3}, 2.0);
  for (const driver::CUresult code : {driver::kOutOfMemory, driver::kLaunchFailed, driver::kUnknown})
    for (uint64_t n = 1; n <= calls; ++n) {
      FailingDriver d(n, code);
      const std::optional<std::string> error = d.run(work);
      const std::string where = fmt::format("call {} of {}, {} with code {}", n, calls, d.failed(), code);
      ASSERT_NE(d.failed(), "") << where;
      EXPECT_EQ(d.leftovers(), "") << where;
      if (!error)
        EXPECT_TRUE(forgivable(d.failed(), code) || elsewhere.count(d.failed())) << where << " went unnoticed";
      else EXPECT_NE(*error, "") << where;
      ASSERT_EQ(sum(two * two).item<double>(), 12.0) << where;
    }
}

struct Cnn : nn::Module {
  nn::Conv2d conv = add("conv", nn::Conv2d(1, 2, 3));
  nn::Linear linear = add("linear", nn::Linear(8, 3));
  Tensor forward(const Tensor& x) override { return linear(flatten(max_pool2d(relu(conv(x)), 2), 1)); }
};

TEST(FaultSweep, TrainingStep) {
  manual_seed(0);
  const Tensor images = randn({2, 1, 6, 6}), labels = ones({2}, kInt64);
  sweep(90, [&] {
    Cnn net;
    net.to(kVgpu);
    optim::Adam optimizer(net.parameters(), {.lr = 1e-3});
    const Tensor loss =
      nn::functional::cross_entropy(net(to(images, std::optional(kVgpu))), to(labels, std::optional(kVgpu)));
    loss.backward();
    optimizer.step();
    EXPECT_TRUE(std::isfinite(loss.item<double>()));
  });
}

TEST(FaultSweep, CapturedGraph) {
  const Tensor host = full({4, 4}, 3.0);
  sweep(40, [&] {
    Gpu& gpu = Runtime::gpu(kVgpu);
    const Stream s = Stream::create(gpu);
    struct Current {
      explicit Current(const Stream& stream) : gpu(stream.gpu()) { Stream::set_current(stream); }
      ~Current() { Stream::set_current(Stream::standard(gpu)); }
      Gpu& gpu;
    } const current(s);
    const Tensor x = to(host, std::optional(kVgpu));
    Tensor y;
    Graph g = Graph::begin(s);
    y = matmul(x, x) + 1;
    g.end();
    g.replay(s);
    g.replay(s);
    EXPECT_EQ(y.select(0, 0).select(0, 0).item<double>(), 37.0);
    Graph other = Graph::begin(s);
    y = matmul(x, x) + 2;
    other.end();
    g.update(other);
    g.replay(s);
    EXPECT_EQ(y.select(0, 0).select(0, 0).item<double>(), 38.0);
  });
}

TEST(FaultSweep, CompiledKernels) {
  const testing::TempFolder folder;
  ::setenv("STRATA_CUDA_CACHE", "1", 1);
  ::setenv("STRATA_CACHE_DIR", folder.path().c_str(), 1);
  sweep(30, [&] {
    std::filesystem::remove_all(folder.path());
    EXPECT_EQ(full({2}, 3.0, {}, std::optional(kVgpu)).select(0, 1).item<double>(), 3.0);
  });
  ::unsetenv("STRATA_CUDA_CACHE");
  ::unsetenv("STRATA_CACHE_DIR");
}

TEST(FaultSweep, ExpandableSegments) {
  Allocator::configure("expandable_segments:True");
  sweep(50, [&] {
    Allocator& memory = *Runtime::gpu(kVgpu).allocator;
    Ref<Storage> a = memory.allocate(3 << 20, nullptr), b = memory.allocate(6 << 20, nullptr);
    a = {};
    memory.empty_cache();
    a = memory.allocate(10 << 20, nullptr);
    a = {};
    b = {};
    memory.empty_cache();
    EXPECT_EQ(memory.stats().reserved, 0u);
  });
  Allocator::configure("expandable_segments:False");
}

TEST(FaultSweep, Allocator) {
  const auto work = [&] {
    Gpu& gpu = Runtime::gpu(kVgpu);
    Allocator& memory = *gpu.allocator;
    const Stream s = Stream::create(gpu), other = Stream::create(gpu);
    const Ref<Storage> pinned = HostMemory::of(DeviceType::Vgpu).allocate(gpu, 1000);
    Ref<Storage> a = memory.allocate(1 << 16, s.handle()), b = memory.allocate(30 << 20, s.handle());
    const Event e(gpu);
    e.record(s);
    e.wait_in(other);
    memory.record_stream(*a, other.handle());
    memory.record_stream(*b, nullptr);
    a = {};
    device_hooks.copy(b->data, kVgpu, pinned->data, {}, 1000, false);
    b = {};
    a = memory.allocate(50 << 20, other.handle());  // cached memory must be freed first
    a = {};
    s.synchronize();
    memory.empty_cache();
    HostMemory::of(DeviceType::Vgpu).empty_cache();
    EXPECT_EQ(memory.stats().reserved, 0u);
  };
  sweep(50, work,
        {"cuEventCreate", "cuEventRecord"});  // freed memory that another stream used then waits for the device
}

}  // namespace
}  // namespace strata::cuda
