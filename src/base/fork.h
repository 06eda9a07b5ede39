// What a child of fork() inherits. Only the forking thread lives on in it, so a lock that another thread held would stay locked.
#pragma once
#include <mutex>

#include "base/api.h"

namespace strata {

// The order in which locks are taken before a fork: a thread that holds one may wait for those behind it.
enum class ForkOrder { Packed, Trace, Memory };
constexpr int kForkLocks = 3;

// Holds a lock that lives for ever while the process forks: the child finds it free, and what it guards whole. One per order.
STRATA_API void hold_over_fork(std::mutex& mutex, ForkOrder order);

}  // namespace strata
