// The thread pool of parallel loops. Threads start on first use; a store wakes them while they poll, a futex once they
// sleep.
#pragma once
#include <atomic>
#include <cstdint>

namespace strata::detail {

// Runs work(context, index, members) for every index below `members`, 0 on the caller's thread, and returns when all
// are done. together: each index on its own thread, concurrently; otherwise the caller runs what no other thread has
// started. Returns false without running anything if another thread uses the pool, or threads could not be started.
// Work must not throw.
bool run_on_team(int members, bool together, void (*work)(void* context, int index, int members), void* context);

// The same in two steps, each index on its own thread: the caller does its part, index 0, before it calls finish_team. Waits while
// another thread uses the pool. Throws if the process may not have as many threads, see grow_team.
void start_team(int members, void (*work)(void* context, int index, int members), void* context);
void finish_team();
int grow_team(int members);  // starts threads; the number of members that there are now, at most `members`

// Waits until done() holds: spins at first, then yields.
template <class Done> void wait_until(const Done& done);

void pause_briefly();  // a pause instruction, for spin loops
void let_others_run();

template <class Done> void wait_until(const Done& done) {
  for (int looks = 0; !done(); ++looks)
    if (looks < 1000) pause_briefly();
    else let_others_run();
}

}  // namespace strata::detail
