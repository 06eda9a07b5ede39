#include "base/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/expect_error.h"

namespace strata {
namespace {

struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

TEST(Parallel, CoversEveryIndexOnceForAnyCut) {
  for (int threads : {1, 2, 3, 8})
    for (int64_t n : {0, 1, 2, 7, 100, 1001})
      for (int64_t grain : {1, 3, 1000}) {
        const Threads scope(threads);
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          EXPECT_LT(begin, end);
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (const auto& s : seen) ASSERT_EQ(s.load(), 1);
      }
}

TEST(Parallel, TeamsWaitForEachOther) {
  for (int threads : {1, 2, 3, 5}) {
    const Threads scope(threads);
    constexpr int kSteps = 200;
    std::vector<std::atomic<int>> arrived(kSteps);
    std::atomic<int> early{0}, runs{0};
    parallel_team(3, [&](int index, int members, TeamBarrier& barrier) {
      EXPECT_LE(members, std::min(threads, 3));
      EXPECT_LT(index, members);
      EXPECT_EQ(num_threads(), members == 1 ? threads : 1);
      ++runs;
      for (auto& step : arrived) {
        ++step;
        barrier.wait(members);
        early += step != members;
      }
    });
    EXPECT_EQ(early, 0);
    EXPECT_EQ(arrived.back(), runs);
  }
}

TEST(Parallel, UsesSeveralThreadsAndNeverNests) {
  const Threads scope(2);
  std::atomic<int> pieces{0}, inner{0};
  parallel_for(1000, 1, [&](int64_t, int64_t) {
    ++pieces;
    EXPECT_EQ(num_threads(), 1);
    parallel_for(10, 1, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin, 0);
      EXPECT_EQ(end, 10);
      ++inner;
    });
  });
  EXPECT_EQ(pieces.load(), 2);
  EXPECT_EQ(inner.load(), 2);
  EXPECT_EQ(num_threads(), 2);
}

TEST(Parallel, ErrorsOfAnyPieceReachTheCaller) {
  const Threads scope(4);
  for (int64_t where : {0, 499, 999})
    EXPECT_ERROR(Value, "piece failed", parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
                   STRATA_CHECK(where < begin || where >= end, Value, "piece failed");
                 }));
  std::atomic<int64_t> sum{0};
  parallel_for(1000, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum.load(), 1000);
}

TEST(Parallel, LoopsOfSeveralThreadsRunSideBySide) {
  const Threads scope(2);
  std::vector<std::thread> threads;
  std::atomic<int64_t> total{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        std::atomic<int64_t> mine{0};
        parallel_for(100, 1, [&](int64_t begin, int64_t end) { mine += end - begin; });
        total += mine;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(total.load(), 4 * 50 * 100);
}

#ifndef __SANITIZE_THREAD__  // does not follow threads into a child
TEST(Parallel, AChildOfForkStartsThreadsOfItsOwn) {
  const Threads scope(3);
  std::atomic<int64_t> sum{0};
  parallel_for(1000, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> together{0};
    parallel_team(3, [&](int, int members, TeamBarrier& barrier) {
      ++together;
      barrier.wait(members);
      if (together != members) together = -100;
    });
    _exit(together > 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

TEST(Parallel, ALoopIsDoneWhetherOthersTakePartOrNot) {
  const Threads scope(4);  // perhaps more than there are processors: some members come too late and find nothing to do
  for (int round = 0; round < 2000; ++round) {
    std::atomic<int64_t> sum{0};
    parallel_for(64, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    ASSERT_EQ(sum.load(), 64);
  }
}

TEST(Parallel, ThreadCountIsChecked) {
  EXPECT_ERROR(Runtime, "expected 1 to 1024 threads, got 0", set_num_threads(0));
  EXPECT_ERROR(Runtime, "expected 1 to 1024 threads, got 1000000", set_num_threads(1'000'000));
  EXPECT_GE(hardware_threads(), 1);
}

}  // namespace
}  // namespace strata
