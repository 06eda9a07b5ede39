#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "base/error.h"
#include "base/region.h"
#include "base/thread_team.h"
#include "base/trace.h"

namespace strata {
namespace {

constexpr int kMaxThreads = 1024;  // more would only exhaust the process's limit
constexpr int64_t kLongPiece = 4096, kAligned = 64;
std::atomic<int> wanted_threads{0};
STRATA_THREAD_LOCAL bool inside_loop = false;

struct Inside {
  bool before = inside_loop;
  Inside() { inside_loop = true; }
  ~Inside() { inside_loop = before; }
};

struct Loop {
  int64_t n, piece;
  void (*body)(void*, int64_t, int64_t);
  void* context;
  std::mutex mutex;
  std::exception_ptr error;

  void run(int64_t index) {
    const int64_t begin = std::min(n, index * piece), end = std::min(n, begin + piece);
    if (begin >= end) return;
    const Inside inside;
    try {
      body(context, begin, end);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }
};

void describe(tracing::Span& span, int64_t threads, int64_t pieces) {
  if (!span.active()) [[likely]]
    return;
  static constexpr tracing::Key kThreads{"threads", tracing::Key::Kind::Integer},
    kPieces{"pieces", tracing::Key::Kind::Integer};
  span.fact(kThreads, threads);
  span.fact(kPieces, pieces);
}

struct TeamWork {
  void (*body)(void*, int, int, TeamBarrier&);
  void* context;
  TeamBarrier barrier;
};
}  // namespace

void TeamBarrier::wait(int members) {
  if (members == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  detail::wait_until([&] { return phase_.load(std::memory_order_acquire) != phase; });
}

int hardware_threads() {
  static const int count = [] {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  }();
  return count;
}

int num_threads() {
  if (inside_loop) return 1;
  int n = wanted_threads.load(std::memory_order_relaxed);
  if (n == 0) [[unlikely]] {
    const char* text = std::getenv("OMP_NUM_THREADS");
    n = text && std::atoi(text) > 0 ? std::min(std::atoi(text), kMaxThreads) : hardware_threads();
    wanted_threads.store(n, std::memory_order_relaxed);
  }
  return n;
}

void set_num_threads(int n) {
  STRATA_CHECK(n >= 1 && n <= kMaxThreads, Runtime, "set_num_threads: expected 1 to {} threads, got {}", kMaxThreads,
               n);
  wanted_threads.store(n, std::memory_order_relaxed);
}

void detail::run_team(int most, void (*body)(void*, int, int, TeamBarrier&), void* context) {
  const int threads = std::min(num_threads(), most);
  TeamWork work{body, context, {}};
  const auto enter = [](void* p, int index, int members) {
    auto& w = *static_cast<TeamWork*>(p);
    const Inside inside;
    w.body(w.context, index, members, w.barrier);
  };
  if (threads <= 1) return body(context, 0, 1, work.barrier);
  tracing::Span span(tracing::Layer::Runtime, "parallel_team");
  describe(span, threads, threads);
  if (!run_on_team(threads, true, enter, &work)) body(context, 0, 1, work.barrier);
}

namespace {
struct Region {
  void (*body)(void*, int, int) = nullptr;
  void* context = nullptr;
};
thread_local Region region;  // that this thread started
}  // namespace

int detail::region_threads() { return inside_loop ? 1 : grow_team(num_threads()); }

void detail::start_region(int members, void (*body)(void*, int, int), void* context) {
  STRATA_CHECK(!inside_loop, Internal, "a region of {} threads was started inside a parallel loop", members);
  region = {body, context};
  const auto enter = [](void* p, int index, int count) {
    const Region& r = *static_cast<Region*>(p);
    const Inside inside;
    r.body(r.context, index, count);
  };
  start_team(members, enter, &region);
  inside_loop = true;
}
void detail::finish_region() {
  inside_loop = false;
  finish_team();
}

SerialLoops::SerialLoops() : before_(inside_loop) { inside_loop = true; }
SerialLoops::~SerialLoops() { inside_loop = before_; }

void detail::run_parallel(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  const int64_t threads = std::min<int64_t>(num_threads(), (n + grain - 1) / std::max<int64_t>(grain, 1));
  if (threads <= 1) return body(context, 0, n);
  int64_t piece = (n + threads - 1) / threads;
  // Pieces of elements begin at a cache line, which two threads would otherwise share, and vectors at their own size.
  if (piece >= kLongPiece) piece = (piece + kAligned - 1) / kAligned * kAligned;
  tracing::Span span(tracing::Layer::Runtime, "parallel_for");
  describe(span, threads, (n + piece - 1) / piece);
  Loop loop{n, piece, body, context, {}, nullptr};
  const auto enter = [](void* p, int index, int) { static_cast<Loop*>(p)->run(index); };
  if (!run_on_team(static_cast<int>(threads), false, enter, &loop)) return body(context, 0, n);
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace strata
