// libgomp is opened at run time, not linked: its worker threads spin for milliseconds by default, which halves the speed of
// two processes side by side, and the spin count is read from the environment once, when the library is loaded.
#include "base/parallel.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "base/error.h"

namespace strata {
namespace {

std::atomic<int> wanted_threads{0};
STRATA_THREAD_LOCAL bool inside_loop = false;

struct Team {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*thread_num)() = nullptr;
  int (*team_size)() = nullptr;
  void (*set_threads)(int) = nullptr;

  Team() {
    void* lib = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    if (!lib) {
      const bool ours = !std::getenv("GOMP_SPINCOUNT") && !std::getenv("OMP_WAIT_POLICY");
      if (ours)
        // Measured with a small network: alone 7% slower than with endless spinning, and two such processes on two cores
        // reach together 94% of one alone (with a count of 3000, 58%).
        setenv("GOMP_SPINCOUNT", "700", 1);
      lib = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL);
      if (ours) unsetenv("GOMP_SPINCOUNT");  // not for child processes
    }
    if (!lib) return;
    parallel = reinterpret_cast<decltype(parallel)>(dlsym(lib, "GOMP_parallel"));
    thread_num = reinterpret_cast<decltype(thread_num)>(dlsym(lib, "omp_get_thread_num"));
    team_size = reinterpret_cast<decltype(team_size)>(dlsym(lib, "omp_get_num_threads"));
    set_threads = reinterpret_cast<decltype(set_threads)>(dlsym(lib, "omp_set_num_threads"));
    if (!thread_num || !team_size || !set_threads) parallel = nullptr;
  }
};

Team& team() {
  static Team t;
  return t;
}

// What libgomp's own barriers at both ends of a region guarantee, said again for ThreadSanitizer, to which they are invisible.
struct Fence {
#ifdef __SANITIZE_THREAD__
  std::atomic<int> opened{1}, done{0};
  void enter() { opened.load(std::memory_order_acquire); }
  void leave() { done.fetch_add(1, std::memory_order_release); }
  void open() { opened.store(1, std::memory_order_release); }
  void close() { done.load(std::memory_order_acquire); }
#else
  void enter() {}
  void leave() {}
  void open() {}
  void close() {}
#endif
};

struct Loop : Fence {
  int64_t n, piece;
  void (*body)(void*, int64_t, int64_t);
  void* context;
  std::mutex mutex;
  std::exception_ptr error;

  void run(int64_t index) {
    const int64_t begin = std::min(n, index * piece), end = std::min(n, begin + piece);
    if (begin >= end) return;
    try {
      body(context, begin, end);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }
};

void enter(void* p) {
  auto& loop = *static_cast<Loop*>(p);
  loop.enter();
  const bool before = inside_loop;
  inside_loop = true;
  // A team may be smaller than asked for (nested regions, limits): then a thread takes several pieces.
  const int64_t pieces = (loop.n + loop.piece - 1) / loop.piece;
  for (int64_t i = team().thread_num(); i < pieces; i += team().team_size()) loop.run(i);
  inside_loop = before;
  loop.leave();
}

struct TeamWork : Fence {
  void (*body)(void*, int, int, TeamBarrier&);
  void* context;
  TeamBarrier barrier;
};
void enter_team(void* p) {
  auto& work = *static_cast<TeamWork*>(p);
  work.enter();
  const bool before = inside_loop;
  inside_loop = true;
  work.body(work.context, team().thread_num(), team().team_size(), work.barrier);
  inside_loop = before;
  work.leave();
}
}  // namespace

void TeamBarrier::wait(int members) {
  if (members == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins) {
    if (spins >= 1000) sched_yield();
#ifdef __x86_64__
    else __builtin_ia32_pause();
#endif
  }
}

int hardware_threads() {
  static const int count = [] {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  }();
  return count;
}

void open_thread_team() { team(); }

int num_threads() {
  if (inside_loop) return 1;
  int n = wanted_threads.load(std::memory_order_relaxed);
  if (n == 0) [[unlikely]] {
    const char* text = std::getenv("OMP_NUM_THREADS");
    n = text && std::atoi(text) > 0 ? std::atoi(text) : hardware_threads();
    wanted_threads.store(n, std::memory_order_relaxed);
  }
  return n;
}

void set_num_threads(int n) {
  STRATA_CHECK(n >= 1, Runtime, "set_num_threads: expected a positive number of threads, got {}", n);
  wanted_threads.store(n, std::memory_order_relaxed);
}

void detail::run_team(int most, void (*body)(void*, int, int, TeamBarrier&), void* context) {
  const int threads = std::min(num_threads(), most);
  TeamWork work{{}, body, context, {}};
  if (threads <= 1 || !team().parallel) return body(context, 0, 1, work.barrier);
  work.open();
  team().parallel(enter_team, &work, static_cast<unsigned>(threads), 0);
  work.close();
}

SerialLoops::SerialLoops() : before_(inside_loop) { inside_loop = true; }
SerialLoops::~SerialLoops() { inside_loop = before_; }

void detail::run_parallel(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  const int64_t threads = std::min<int64_t>(num_threads(), (n + grain - 1) / std::max<int64_t>(grain, 1));
  if (threads <= 1 || !team().parallel) return body(context, 0, n);
  Loop loop{{}, n, (n + threads - 1) / threads, body, context, {}, nullptr};
  loop.open();
  team().parallel(enter, &loop, static_cast<unsigned>(threads), 0);
  loop.close();
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace strata
