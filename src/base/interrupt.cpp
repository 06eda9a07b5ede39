#include "base/interrupt.h"

#include <atomic>
#include <cstdint>

namespace strata {
namespace {
std::atomic<void (*)()> current_hook{nullptr};
STRATA_THREAD_LOCAL uint32_t polls = 0;
}  // namespace

void set_interrupt_hook(void (*hook)()) { current_hook.store(hook, std::memory_order_relaxed); }

void poll_interrupt() {
  if (++polls % 1024) [[likely]]
    return;
  if (auto* hook = current_hook.load(std::memory_order_relaxed)) hook();
}

}  // namespace strata
