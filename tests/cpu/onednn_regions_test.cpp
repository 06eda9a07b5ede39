// The interface of libgomp that oneDNN calls, called here as its compiler would.
#include <dlfcn.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

struct Interface {
  void (*start)(void (*)(void*), void*, unsigned);
  void (*end)();
  void (*barrier)();
  bool (*loop)(long, long, long, long, long*, long*);
  bool (*next)(long*, long*);
  void (*loop_end)();
  int (*threads)();
  int (*number)();
  int (*in_parallel)();

  Interface() {
    matmul(ones({64, 300}), ones({300, 200}));  // opens the module
    Dl_info self;
    dladdr(reinterpret_cast<const void*>(&num_threads), &self);
    const std::string own = self.dli_fname;
    const std::string file = own.substr(0, own.rfind('/') + 1) + "strata_onednn.so";
    void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (!module) throw std::runtime_error("the oneDNN module is not open: " + file);
    find(module, start, "GOMP_parallel_start");
    find(module, end, "GOMP_parallel_end");
    find(module, barrier, "GOMP_barrier");
    find(module, loop, "GOMP_loop_static_start");
    find(module, next, "GOMP_loop_static_next");
    find(module, loop_end, "GOMP_loop_end_nowait");
    find(module, threads, "omp_get_num_threads");
    find(module, number, "omp_get_thread_num");
    find(module, in_parallel, "omp_in_parallel");
  }
  template <class F> static void find(void* module, F& f, const char* name) {
    f = reinterpret_cast<F>(dlsym(module, name));
    if (!f) throw std::runtime_error(std::string("the oneDNN module has no ") + name);
  }
  // What `#pragma omp parallel num_threads(n)` is compiled to.
  template <class Body> void region(unsigned n, const Body& body) const {
    const auto call = [](void* p) { (*static_cast<const Body*>(p))(); };
    start(call, const_cast<Body*>(&body), n);
    body();
    end();
  }
};
const Interface& gomp() {
  static const Interface all;
  return all;
}
struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

// Every member once, all at the same time, with a barrier between the steps.
void check_region(unsigned members) {
  std::vector<std::atomic<int>> seen(members);
  std::atomic<int> arrived{0};
  gomp().region(members, [&] {
    ASSERT_EQ(gomp().threads(), static_cast<int>(members));
    ++seen[static_cast<size_t>(gomp().number())];
    for (int step = 1; step <= 50; ++step) {
      ++arrived;
      gomp().barrier();
      ASSERT_EQ(arrived.load(), step * static_cast<int>(members));
      gomp().barrier();
    }
  });
  for (const auto& s : seen) EXPECT_EQ(s.load(), 1);
  EXPECT_EQ(gomp().threads(), 1);
  EXPECT_EQ(gomp().number(), 0);
  EXPECT_EQ(gomp().in_parallel(), 0);
}

TEST(OnednnRegions, RunAllMembersAtOnce) {
  const Threads scope(4);
  for (unsigned members : {1u, 2u, 3u, 4u, 7u}) check_region(members);
}

TEST(OnednnRegions, RunWhileTheThreadsAreBusy) {
  const Threads scope(3);
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([] {
      for (int k = 0; k < 20; ++k) check_region(3);
    });
  for (std::thread& t : callers) t.join();
}

TEST(OnednnRegions, ProductsInsideALoopHaveOneThread) {
  const Threads scope(3);
  const Tensor a = ones({64, 300}), b = ones({300, 200}), alone = matmul(a, b);
  std::atomic<int> equal_results{0};
  parallel_for(4, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) equal_results += equal(matmul(a, b), alone);
  });
  EXPECT_EQ(equal_results.load(), 4);
}

TEST(OnednnRegions, RegionsInsideRegionsHaveOneThread) {
  const Threads scope(3);
  std::atomic<int> inner{0};
  gomp().region(3, [&] {
    const int number = gomp().number();
    gomp().region(3, [&] {
      EXPECT_EQ(gomp().threads(), 1);
      EXPECT_EQ(gomp().number(), 0);
      gomp().barrier();
      ++inner;
    });
    EXPECT_EQ(gomp().number(), number);
    EXPECT_NE(gomp().in_parallel(), 0);
  });
  EXPECT_EQ(inner.load(), 3);
}

TEST(OnednnRegions, LoopsVisitEveryIndexOnce) {
  const Threads scope(3);
  struct Range {
    long first, last, step;
  };
  for (const Range& r : {Range{0, 10, 1}, {0, 0, 1}, {5, 4, 1}, {3, 100, 7}, {10, 0, -3}, {0, 2, 1}, {-5, 5, 2}})
    for (long block : {0l, 1l, 2l, 100l})
      for (unsigned members : {1u, 3u}) {
        std::multiset<long> wanted;
        for (long i = r.first; r.step > 0 ? i < r.last : i > r.last; i += r.step) wanted.insert(i);
        std::mutex mutex;
        std::multiset<long> seen;
        gomp().region(members, [&] {
          for (int twice = 0; twice < 2; ++twice) {
            long begin = 0, end = 0;
            if (gomp().loop(r.first, r.last, r.step, block, &begin, &end)) do {
                const std::lock_guard hold(mutex);
                for (long i = begin; r.step > 0 ? i < end : i > end; i += r.step)
                  if (twice == 0) seen.insert(i);
              } while (gomp().next(&begin, &end));
            gomp().loop_end();
          }
        });
        EXPECT_EQ(seen, wanted) << r.first << ' ' << r.last << ' ' << r.step << ' ' << block << ' ' << members;
      }
}

}  // namespace
}  // namespace strata
