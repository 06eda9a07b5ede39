// Waking a sleeping thread costs 20 to 40 us, as much as half of a small loop. So an idle member polls for work for a
// while and yields between polls: another process on the same processors gets them at once. When the caller has
// finished its own part, it runs the pieces that no member has started: a loop never waits for a thread that sleeps or
// has no processor.
#include "base/thread_team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace strata::detail {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookFor = std::chrono::microseconds(200);
constexpr int kCloseLooks = 200;  // about 5 us

struct Work {
  void (*run)(void* context, int index, int members) = nullptr;
  void* context = nullptr;
  int members = 0;
  int processor = -1;        // of the caller
  std::atomic<int> left{0};  // members other than the caller that have not finished
};

// A yielding thread looks idle to the scheduler, which may leave it on the caller's processor, where it only runs after
// the caller's own part. Moves off that processor, then allows all processors again.
void leave_processor(int processor) {
  cpu_set_t all, others;
  if (sched_getaffinity(0, sizeof all, &all) != 0 || !CPU_ISSET(processor, &all) || CPU_COUNT(&all) < 2) return;
  others = all;
  CPU_CLR(processor, &others);
  if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof all, &all);
}

struct alignas(64) Member {
  std::atomic<Work*> work{nullptr};
  std::atomic<uint32_t> asleep{0};

  void give(Work* w) {
    work.store(w, std::memory_order_seq_cst);
    if (asleep.exchange(0, std::memory_order_seq_cst)) syscall(SYS_futex, &asleep, FUTEX_WAKE_PRIVATE, 1, nullptr);
  }
  // Either the member takes its work, or the caller takes it back.
  Work* take() { return work.load(std::memory_order_relaxed) ? work.exchange(nullptr) : nullptr; }

  Work* wait() {
    for (int i = 0; i < kCloseLooks; ++i) {
      if (Work* w = take()) return w;
      pause_briefly();
    }
    const auto start = Clock::now();
    do {
      if (Work* w = take()) return w;
      let_others_run();
    } while (Clock::now() - start < kLookFor);
    for (;;) {
      asleep.store(1, std::memory_order_seq_cst);
      if (Work* w = take()) {
        asleep.store(0, std::memory_order_relaxed);
        return w;
      }
      syscall(SYS_futex, &asleep, FUTEX_WAIT_PRIVATE, 1, nullptr);
    }
  }

  [[noreturn]] void live(int index) {
    for (;;) {
      Work* w = wait();
      if (w->processor >= 0 && w->processor == sched_getcpu()) leave_processor(w->processor);
      w->run(w->context, index, w->members);
      w->left.fetch_sub(1, std::memory_order_release);  // the last use of w: the caller may start other work now
    }
  }
};

struct Team {
  std::mutex busy;           // held by the thread that uses the pool
  Work work;                 // of that thread
  std::atomic<int> size{0};  // of members, for threads that do not hold `busy`
  std::vector<std::unique_ptr<Member>> members;

  bool grow(int count) {
    try {
      while (static_cast<int>(members.size()) < count) {
        auto member = std::make_unique<Member>();
        members.reserve(members.size() + 1);
        start(*member, static_cast<int>(members.size()) + 1);
        members.push_back(std::move(member));
        size.store(static_cast<int>(members.size()), std::memory_order_release);
      }
      return true;
    } catch (const std::system_error&) { return false; }  // the process limit is reached
  }
  void begin(int count, void (*run)(void*, int, int), void* context) {
    work.run = run;
    work.context = context;
    work.members = count;
    work.processor = sched_getcpu();
    work.left.store(count - 1, std::memory_order_relaxed);
    for (int i = 0; i < count - 1; ++i) members[static_cast<size_t>(i)]->give(&work);
  }
  // Block signals: they are handled by the program's own threads.
  static void start(Member& member, int index) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([&member, index] { member.live(index); }).detach();
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
};

// Never destroyed: its threads may still use it while static objects are destroyed. A child of fork() has none of the
// threads, so it starts a new pool.
std::atomic<Team*> current{nullptr};
Team& team() {
  Team* t = current.load(std::memory_order_acquire);
  if (t) return *t;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!current.load()) {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
    static_cast<void>(registered);
    current.store(new Team, std::memory_order_release);
  }
  return *current.load();
}
}  // namespace

void pause_briefly() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}
void let_others_run() { sched_yield(); }

int grow_team(int members) {
  Team& t = team();
  if (t.size.load(std::memory_order_acquire) < members - 1) {
    const std::lock_guard lock(t.busy);
    t.grow(members - 1);
  }
  return std::min(members, t.size.load(std::memory_order_acquire) + 1);
}

void start_team(int members, void (*work)(void*, int, int), void* context) {
  Team& t = team();
  std::unique_lock lock(t.busy);
  STRATA_CHECK(t.grow(members - 1), Runtime, "could not start {} threads: the process or the user may not have as many",
               members - 1);
  lock.release();  // until finish_team
  t.begin(members, work, context);
}

void finish_team() {
  Team& t = team();
  wait_until([&] { return t.work.left.load(std::memory_order_acquire) == 0; });
  t.busy.unlock();
}

bool run_on_team(int members, bool together, void (*work)(void*, int, int), void* context) {
  Team& t = team();
  std::unique_lock lock(t.busy, std::try_to_lock);
  if (!lock || !t.grow(members - 1)) return false;
  lock.release();  // until finish_team
  t.begin(members, work, context);
  work(context, 0, members);
  for (int i = members - 1; !together && i > 0; --i)
    if (t.members[static_cast<size_t>(i - 1)]->take()) {
      work(context, i, members);
      t.work.left.fetch_sub(1, std::memory_order_relaxed);
    }
  finish_team();
  return true;
}

}  // namespace strata::detail
