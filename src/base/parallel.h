// Parallel loops on one thread pool.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/api.h"

namespace strata {

STRATA_API int num_threads();            // threads that a loop may use; 1 inside a parallel loop
STRATA_API void set_num_threads(int n);  // for loops started from any thread
STRATA_API int hardware_threads();

// A barrier for the members of a team. Spins for about 10 us, then yields.
class STRATA_API TeamBarrier {
 public:
  void wait(int members);

 private:
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> phase_{0};
};

// Runs this thread's parallel loops serially for the duration of a scope, for callers that have threads of their own.
class STRATA_API SerialLoops {
 public:
  SerialLoops();
  ~SerialLoops();
  SerialLoops(const SerialLoops&) = delete;
  SerialLoops& operator=(const SerialLoops&) = delete;

 private:
  bool before_;
};

namespace detail {
STRATA_API void run_team(int most, void (*body)(void*, int, int, TeamBarrier&), void* context);
// Calls body(context, begin, end) on disjoint pieces that cover [0, n). Rethrows an exception of a piece.
STRATA_API void run_parallel(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context);
}  // namespace detail

// body(begin, end) over pieces of [0, n) of at least `grain` items. The partition depends on the thread count: a result
// that depends on it must be reduced over fixed chunks instead, so that any thread count gives the same bits.
template <class Body> void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (n <= grain || num_threads() == 1) return body(int64_t{0}, n);
  detail::run_parallel(
    n, grain, [](void* context, int64_t begin, int64_t end) { (*static_cast<const Body*>(context))(begin, end); },
    const_cast<Body*>(&body));
}

// body(index, members, barrier), once per member of a team of at most `most` threads that run concurrently: for work
// with dependent steps. If the pool is busy with another thread's work, the caller is the only member. The body must
// not throw.
template <class Body> void parallel_team(int most, const Body& body) {
  detail::run_team(
    most,
    [](void* context, int index, int members, TeamBarrier& barrier) {
      (*static_cast<const Body*>(context))(index, members, barrier);
    },
    const_cast<Body*>(&body));
}

}  // namespace strata
