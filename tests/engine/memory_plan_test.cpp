#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace strata::engine {
namespace {

std::vector<Block> random_blocks(std::mt19937& random, size_t count) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < count; ++i) {
    const auto first = static_cast<uint32_t>(i / (1 + random() % 3));
    const uint32_t last = random() % 20 == 0 ? UINT32_MAX : first + random() % 30;
    blocks.push_back({random() % 9 == 0 ? 0 : random() % 5000, first, last, 0});
  }
  std::ranges::sort(blocks, {}, &Block::first);
  return blocks;
}

TEST(MemoryPlan, NoTwoLiveBlocksShareBytes) {
  std::mt19937 random(20261119);
  for (int round = 0; round < 300; ++round) {
    std::vector<Block> blocks = random_blocks(random, random() % 200);
    const size_t bytes = place(blocks);
    EXPECT_EQ(fault_of(blocks, bytes), "") << round;
    EXPECT_GE(bytes, least_bytes(blocks));
    EXPECT_LE(bytes, 3 * least_bytes(blocks));
  }
}

TEST(MemoryPlan, ChainNeedsTheMemoryOfTwoBlocks) {
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < 1000; ++i) blocks.push_back({1024, i, i + 1, 0});
  EXPECT_EQ(place(blocks), 2048u);
  EXPECT_EQ(least_bytes(blocks), 2048u);
}

TEST(MemoryPlan, OfNothingIsEmpty) {
  std::vector<Block> blocks;
  EXPECT_EQ(place(blocks), 0u);
  blocks.push_back({0, 0, 5, 0});
  EXPECT_EQ(place(blocks), 0u);
}

// The check itself must be able to fail.
TEST(MemoryPlan, FaultsAreFound) {
  std::vector<Block> blocks = {{512, 0, 3, 0}, {512, 2, 4, 256}};
  EXPECT_NE(fault_of(blocks, 1024).find("share bytes between steps 2 and 3"), std::string::npos);
  blocks[1].first = 4;
  EXPECT_EQ(fault_of(blocks, 1024), "");
  EXPECT_NE(fault_of(blocks, 700), "");
}

TEST(MemoryPlan, IsFastForManyBlocks) {
  std::mt19937 random(7);
  std::vector<Block> blocks = random_blocks(random, 100000);
  EXPECT_GT(place(blocks), 0u);
}
}  // namespace
}  // namespace strata::engine
