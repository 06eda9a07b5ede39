// Counters aggregated by kernel: sums, weighted means, order, and the table.
#include "cuda/vgpu/summary.h"

#include <gtest/gtest.h>

namespace strata::cuda::vgpu {
namespace {

Counters launch(const char* kernel, uint64_t warps, double seconds, Occupancy occupancy, const char* bound) {
  Counters c;
  c.kernel = kernel;
  c.warps = warps;
  c.warp_instructions = 10 * warps;
  c.thread_instructions = 240 * warps;  // 24 of 32 threads
  c.global_requests = 2 * warps;
  c.global_sectors = 9 * warps;
  c.occupancy = occupancy;
  c.estimated = {seconds, bound};
  return c;
}

TEST(Summary, AddsUpByKernelAndTakesMeansByWeight) {
  Summary s;
  EXPECT_TRUE(s.empty());
  s.add(launch("quick", 1, 1e-6, {32, "blocks", 0.5}, "launch"));
  s.add(launch("slow", 3, 2e-6, {8, "registers", 0.25}, "f32"));
  s.add(launch("slow", 1, 5e-6, {16, "threads", 1.0}, "device memory"));
  const std::vector<KernelTotals> kernels = s.kernels();
  ASSERT_EQ(kernels.size(), 2u);
  const KernelTotals& slow = kernels[0];
  EXPECT_EQ(slow.kernel, "slow");
  EXPECT_EQ(slow.launches, 2u);
  EXPECT_EQ(slow.thread_instructions, 960u);
  EXPECT_DOUBLE_EQ(slow.simt_efficiency(), 0.75);
  EXPECT_DOUBLE_EQ(slow.sectors_per_request(), 4.5);
  EXPECT_DOUBLE_EQ(slow.passes_per_request(), 0);
  EXPECT_DOUBLE_EQ(slow.occupancy, (3 * 0.25 + 1.0) / 4);
  EXPECT_EQ(slow.limiter, "registers");    // of three warps in four
  EXPECT_EQ(slow.bound, "device memory");  // five microseconds of seven
  EXPECT_DOUBLE_EQ(slow.estimated_seconds, 7e-6);
  const KernelTotals all = s.total();
  EXPECT_EQ(all.op, "all");
  EXPECT_EQ(all.launches, 3u);
  EXPECT_EQ(all.warps, 5u);
  EXPECT_DOUBLE_EQ(all.occupancy, (0.5 + 3 * 0.25 + 1.0) / 5);
}

TEST(Summary, TheTableNamesTheSlowestAndCountsTheRest) {
  Summary s;
  for (int k = 0; k < 5; ++k)
    s.add(launch(("kernel_" + std::to_string(k)).c_str(), 1, 1e-6 * (k + 1), {1, "blocks", 0.1}, "launch"));
  const std::string some = s.to_text(2);
  EXPECT_LT(some.find("kernel_4"), some.find("kernel_3"));
  EXPECT_EQ(some.find("kernel_2"), std::string::npos);
  EXPECT_NE(some.find("\n3 others "), std::string::npos) << some;
  EXPECT_NE(some.find("\nall "), std::string::npos) << some;
  EXPECT_NE(some.find(" 0.015 ms, launch"), std::string::npos) << some;  // of all
  EXPECT_NE(some.find("no measurement"), std::string::npos);
  const std::string all = s.to_text(4);
  EXPECT_NE(all.find("kernel_0"), std::string::npos);  // not "1 others"
  EXPECT_EQ(all.find("others"), std::string::npos);
}

TEST(Summary, OfNothing) {
  const Summary s;
  EXPECT_TRUE(s.kernels().empty());
  EXPECT_EQ(s.total().launches, 0u);
  EXPECT_EQ(s.to_text(3), "no launches\n");
}

}  // namespace
}  // namespace strata::cuda::vgpu
