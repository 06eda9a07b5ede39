// The threads behind parallel loops: started when first needed, woken by a store while they still look, by the kernel later.
#pragma once
#include <atomic>
#include <cstdint>

namespace strata::detail {

// Runs work(context, index, members) for every index below `members`, 0 on the caller's thread, and returns when all is done.
// together: each index on a thread of its own, all at the same time; otherwise the caller does what no other thread has
// begun. False, and nothing was run: another thread uses the team now, or threads could not be started. Work must not throw.
bool run_on_team(int members, bool together, void (*work)(void* context, int index, int members), void* context);

// Waits until done() holds: looks closely at first, then lets other threads run between looks.
template <class Done> void wait_until(const Done& done);

void pause_briefly();  // of a processor that looks at a variable in a loop
void let_others_run();

template <class Done> void wait_until(const Done& done) {
  for (int looks = 0; !done(); ++looks)
    if (looks < 1000) pause_briefly();
    else let_others_run();
}

}  // namespace strata::detail
