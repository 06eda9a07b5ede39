// The doctor from C++: its options, what it says of devices that fail, and that faults of a driver become findings.
#include "system/doctor/doctor.h"

#include <gtest/gtest.h>

#include <set>

#include "cuda/driver/vgpu.h"
#include "cuda/driver/wrap.h"
#include "cuda/runtime/runtime.h"
#include "strata/ops.h"
#include "tests/expect_error.h"

namespace strata::doctor {
namespace {

std::set<std::string> ids(const Report& r) {
  std::set<std::string> out;
  for (const Finding& f : r.findings) out.insert(f.check->id);
  return out;
}

// A runtime whose driver fails at call n, in place of the virtual GPU.
struct Faulty {
  Faulty(uint64_t n, int code, std::vector<std::string> profiles)
      : injector(open(std::move(profiles)), n, code),
        runtime(DeviceType::Vgpu, injector.table()),
        before(cuda::Runtime::replace(DeviceType::Vgpu, &runtime)) {}
  ~Faulty() { cuda::Runtime::replace(DeviceType::Vgpu, before); }
  Faulty(const Faulty&) = delete;
  Faulty& operator=(const Faulty&) = delete;

  static const cuda::driver::Table& open(std::vector<std::string> profiles) {
    const cuda::driver::Table& table = cuda::driver::open_vgpu({.profiles = std::move(profiles)});
    table.cuInit(0);
    return table;
  }
  cuda::driver::FaultInjector injector;
  cuda::Runtime runtime;
  cuda::Runtime* before;
};

TEST(Doctor, EveryFaultOfTheDriverIsAFindingAndNeverACrash) {
  std::set<std::string> seen;
  uint64_t reached = 0;
  for (uint64_t n = 2; n == 2 || n <= reached + 1; n += n < 50 ? 1 : 11)  // 1 counts the devices
  {
    Faulty driver(n, cuda::driver::kUnknown, {"ampere", "hopper"});
    const Report r = examine({.sections = {"probe"}, .device = "vgpu"});
    reached = std::max(reached, driver.injector.calls());
    if (driver.injector.failed() && r.findings.empty()) continue;  // a call whose failure does not matter
    EXPECT_EQ(r.status(), r.findings.empty() ? 0 : 2) << n;
    seen.merge(ids(r));
  }
  for (const CheckInfo& c : checks())
    if (c.section == "probe" && c.id != "probe.nvrtc") { EXPECT_TRUE(seen.contains(c.id)) << c.id; }
}

TEST(Doctor, ADeviceThatHasFailedIsNamed) {
  Faulty driver(UINT64_MAX, cuda::driver::kUnknown, {"ampere"});
  cuda::Gpu& gpu = cuda::Runtime::gpu({DeviceType::Vgpu, 0});
  EXPECT_FALSE(ids(examine({.sections = {"gpu"}})).contains("gpu.failed"));
  EXPECT_THROW(gpu.check(cuda::driver::kIllegalAddress, "run a kernel"), Error);
  const Report r = examine({.sections = {"gpu"}});
  ASSERT_TRUE(ids(r).contains("gpu.failed"));
  EXPECT_EQ(r.status(), 2);
}

TEST(Doctor, WrongOptionsAreRefused) {
  EXPECT_ERROR(Value, "there is no section 'x'", examine({.sections = {"x"}}));
  EXPECT_ERROR(Value, "no device 'x'", examine({.device = "x"}));
  EXPECT_ERROR(Value, "no check or topic", explain(""));
}

TEST(Doctor, AnEmptyRootHasOnlyWarnings) {
  const Report r =
    examine({.root = "/nowhere", .environment = std::map<std::string, std::string>{}, .architectures = "90"});
  EXPECT_EQ(ids(r), (std::set<std::string>{"gpu.none", "system.cache-not-writable"}));
  EXPECT_EQ(r.status(), 1);
  EXPECT_NE(to_text(r).find("0 errors, 2 warnings"), std::string::npos);
  EXPECT_NE(fix_hints(r).find("STRATA_CACHE_DIR"), std::string::npos);
}

}  // namespace
}  // namespace strata::doctor
