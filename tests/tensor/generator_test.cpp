#include "tensor/generator.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "device/philox.h"

namespace strata {
namespace {

std::vector<uint32_t> words(uint64_t seed, uint64_t counter) {
  const PhiloxBlock b = philox(seed, counter);
  return {b.word, b.word + 4};
}

// Known answers: the first is from the authors' test vectors (Random123, kat_vectors); the others, which need the upper
// half of the counter at zero as in ours, come from a direct transcription of the paper's rounds below.
TEST(Philox, KnownAnswerOfTheAuthors) {
  EXPECT_EQ(words(0, 0), (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

std::vector<uint32_t> by_the_paper(std::vector<uint32_t> c, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const auto product0 = uint64_t{0xD2511F53} * c[0], product1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(product0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

TEST(Philox, CounterIsTheLowHalfAndSeedTheKey) {
  // The transcription agrees with the authors' vectors that use all four counter words.
  EXPECT_EQ(by_the_paper({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(by_the_paper({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x299f31d0a4093822}, ~uint64_t{0}})
    for (uint64_t counter : {uint64_t{0}, uint64_t{1}, uint64_t{0x85a308d3243f6a88}, ~uint64_t{0}})
      EXPECT_EQ(words(seed, counter),
                by_the_paper({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                             static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)));
}

TEST(Philox, UniformsStayBelowOne) {
  EXPECT_EQ(uniform_f32(0), 0.F);
  EXPECT_LT(uniform_f32(~0u), 1.F);
  EXPECT_EQ(uniform_f32(~0u), 1.F - 0x1p-24F);
  EXPECT_EQ(uniform_f64(0, 0), 0.0);
  EXPECT_EQ(uniform_f64(~0u, ~0u), 1.0 - 0x1p-53);
}

TEST(Generator, ReservesPiecesOneAfterTheOther) {
  Generator g(7);
  const auto a = g.reserve(3), b = g.reserve_words(5), c = g.reserve(1);
  EXPECT_EQ(a.first, 0u);
  EXPECT_EQ(b.first, 3u);
  EXPECT_EQ(c.first, 5u);
  EXPECT_EQ(c.seed, 7u);
}

TEST(Generator, StateIsRestoredAndSeedingStartsOver) {
  Generator g(7);
  g.reserve(10);
  const auto state = g.state();
  g.reserve(5);
  g.set_state(state);
  EXPECT_EQ(g.reserve(1).first, 10u);
  g.manual_seed(8);
  EXPECT_EQ(g.initial_seed(), 8u);
  EXPECT_EQ(g.reserve(1).first, 0u);
  std::set<uint64_t> fresh;
  for (int i = 0; i < 8; ++i) fresh.insert(g.seed());
  EXPECT_EQ(fresh.size(), 8u);
  EXPECT_LT(*fresh.rbegin(), uint64_t{1} << 53);
}

TEST(Generator, ThreadsGetDisjointPieces) {
  Generator g(1);
  std::vector<std::vector<uint64_t>> firsts(4);
  std::vector<std::thread> threads;
  for (auto& mine : firsts)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) mine.push_back(g.reserve(2).first);
    });
  for (auto& t : threads) t.join();
  std::set<uint64_t> all;
  for (const auto& mine : firsts) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 4000u);
  EXPECT_EQ(*all.rbegin(), 7998u);
}

}  // namespace
}  // namespace strata
