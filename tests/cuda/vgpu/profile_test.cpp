// Profiles from JSON, the cache model, estimates, and counters as text.
#include <fmt/core.h>

#include "cuda/vgpu/cache.h"
#include "tests/cuda/vgpu/machine.h"
#include "tests/expect_error.h"

namespace strata::cuda::vgpu::testing {

namespace {

TEST(Profile, FieldsOverABase) {
  const Profile p = profile_of(
    R"({"base": "turing", "name": "small", "multiprocessors": 2, "shared_optin": 32768, "bandwidth": 1e11, "f32_per_sm": 32})");
  EXPECT_EQ(p.name, "small");
  EXPECT_EQ(p.multiprocessors, 2);
  EXPECT_EQ(p.major, 7);
  EXPECT_EQ(p.shared_optin, 32768);
  EXPECT_EQ(p.bandwidth, 1e11);
  EXPECT_EQ(p.f32_per_sm, 32);
  EXPECT_EQ(p.threads_per_sm, profile_of("turing").threads_per_sm);
  EXPECT_ERROR(Value, "unknown field 'sms'", profile_of(R"({"sms": 3})"));
  EXPECT_ERROR(Value, "'multiprocessors' of the device profile must be a number from 1",
               profile_of(R"({"multiprocessors": 0})"));
  EXPECT_ERROR(Value, "must be a text", profile_of(R"({"name": 3})"));
  EXPECT_ERROR(Value, "no device profile 'volta'", profile_of(R"({"base": "volta"})"));
  EXPECT_ERROR(Value, "not a JSON object", profile_of("{\"name\": "));
  EXPECT_ERROR(Value, "use turing, ampere, hopper, or", profile_of("gtx"));
}

TEST(Profile, OccupancyNamesItsLimit) {
  const Profile p = profile_of("ampere");
  EXPECT_STREQ(occupancy(p, 1024, 32, 0).limiter, "threads");
  EXPECT_EQ(occupancy(p, 1024, 32, 0).blocks, 2);
  EXPECT_STREQ(occupancy(p, 32, 16, 0).limiter, "blocks");
  EXPECT_STREQ(occupancy(p, 256, 255, 0).limiter, "registers");
  EXPECT_STREQ(occupancy(p, 128, 32, 100 << 10).limiter, "shared memory");
  EXPECT_EQ(occupancy(p, 128, 32, 100 << 10).blocks, 1);
}

TEST(Profile, RegistersAreHeldToWhatTheKernelAsksFor) {
  const auto registers = [](const std::string& directives) {
    std::string loads, stores;
    for (int i = 0; i < 100; ++i) {
      loads += fmt::format("ld.global.u32 %r{}, [%d0+{}];\n", i, 4 * i);
      stores += fmt::format("st.global.u32 [%d0+{}], %r{};\n", 4 * i, 99 - i);
    }
    Memory memory(1 << 20);
    Module module(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 a) " + directives +
                    " { .reg .b32 %r<100>; .reg .b64 %d0; ld.param.u64 %d0, [a];\n" + loads + stores + "ret; }",
                  memory);
    return module.kernel("k")->registers;
  };
  EXPECT_GE(registers(""), 100u);
  EXPECT_EQ(registers(".maxnreg 40"), 40u);
  EXPECT_EQ(registers(".maxntid 1024, 1, 1"), 64u);
  EXPECT_EQ(registers(".maxntid 256, 1, 1 .minnctapersm 5"), 48u);
}

TEST(Cache, CountsWhatMissesAndWhatGoesBack) {
  CacheModel fits(1 << 20), small(64 << 10);
  for (CacheModel* c : {&fits, &small})
    for (int round = 0; round < 3; ++round)
      for (uint64_t a = 0; a < 512 << 10; a += 4) c->touch(0x10000000 + a, 4, Access::Read);
  EXPECT_EQ(fits.read(), 512u << 10);         // each byte once
  EXPECT_EQ(small.read(), 3 * (512u << 10));  // a range larger than the cache is always evicted before it is reused
  CacheModel writes(1 << 20);
  for (uint64_t a = 0; a < 1000 * 32; a += 4) writes.touch(a, 4, Access::Write);
  EXPECT_EQ(writes.read(), 0u);
  EXPECT_EQ(writes.written(), 0u);
  writes.flush();
  EXPECT_EQ(writes.written(), 32000u);
  writes.touch(100, 16, Access::Atomic);  // was written before: nothing to read
  EXPECT_EQ(writes.read(), 0u);
  writes.touch(1 << 24, 40, Access::Read);  // two sectors
  EXPECT_EQ(writes.read(), 64u);
}

TEST(Counters, MemoryBoundAndEstimate) {
  Machine m(compiled("block.75"));
  constexpr int kCount = 1 << 16;  // of float4
  const uint64_t x = m.put(std::vector<float>(4 * kCount, 1.0f)), y = m.put(std::vector<float>(4 * kCount, 2.0f)),
                 out = m.put(std::vector<float>(4 * kCount));
  Launch launch{{256, 1, 1}, {256, 1, 1}};
  const Counters plain = m.run("pointwise", launch, x, y, out, 1.0f, kCount);
  launch.model_cache = true;
  const Counters c = m.run("pointwise", launch, x, y, out, 1.0f, kCount);
  EXPECT_FALSE(plain.cache_modelled);
  EXPECT_EQ(c.dram_read, 2u * 16 * kCount);
  EXPECT_EQ(c.dram_written, 16u * kCount);
  EXPECT_EQ(c.global_sectors, plain.global_sectors);  // the other counters are the same
  EXPECT_EQ(c.warp_instructions, plain.warp_instructions);
  const Profile p = profile_of("ampere");
  const Estimate e = estimate(c, p);
  EXPECT_STREQ(e.bound, "launch");  // 3 MB take less time than the launch
  Profile slow = p;
  slow.bandwidth = 1e9;
  EXPECT_STREQ(estimate(c, slow).bound, "device memory");
  EXPECT_NEAR(estimate(c, slow).seconds, 3.0 * 16 * kCount / 1e9, 1e-5);
  slow.bandwidth = p.bandwidth;
  slow.clock_khz = 1000;
  EXPECT_STREQ(estimate(c, slow).bound, "issue");

  const std::string text = to_text({plain, c});
  EXPECT_NE(text.find("kernel"), std::string::npos);
  EXPECT_NE(text.find("pointwise"), std::string::npos);
  EXPECT_NE(text.find(std::to_string(3 * 16 * kCount)), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_NE(report(c).find("through the cache"), std::string::npos);
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
