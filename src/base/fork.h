// Locks across fork(). Only the forking thread continues in the child, so a lock held by another thread would stay
// locked.
#pragma once
#include <mutex>

#include "base/api.h"

namespace strata {

// The order in which locks are taken before a fork: a thread that holds one may wait for later ones.
enum class ForkOrder { Packed, Trace, Memory };
constexpr int kForkLocks = 3;

// Holds a static lock during fork(): the child finds it unlocked, and the guarded data consistent. One lock per order.
STRATA_API void hold_over_fork(std::mutex& mutex, ForkOrder order);

}  // namespace strata
