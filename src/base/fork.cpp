#include "base/fork.h"

#include <pthread.h>

#include <atomic>

namespace strata {
namespace {

std::atomic<std::mutex*> locks[kForkLocks];
bool held[kForkLocks];  // locks held by the thread that is forking

void lock_all() {
  for (int i = 0; i < kForkLocks; ++i)
    if (std::mutex* m = locks[i].load()) {
      m->lock();
      held[i] = true;
    }
}
void unlock_all() {
  for (int i = kForkLocks; i-- > 0;)
    if (held[i]) {
      held[i] = false;
      locks[i].load()->unlock();
    }
}
}  // namespace

void hold_over_fork(std::mutex& mutex, ForkOrder order) {
  static const int registered = pthread_atfork(lock_all, unlock_all, unlock_all);
  static_cast<void>(registered);
  locks[static_cast<int>(order)].store(&mutex);
}

}  // namespace strata
