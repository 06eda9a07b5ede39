#include "base/trace.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "base/fork.h"

namespace strata::tracing {

std::atomic<bool> enabled{false};

namespace {
std::mutex mutex;
const bool fork_safe = (hold_over_fork(mutex, ForkOrder::Trace), true);
std::vector<Event>& events = *new std::vector<Event>;  // never destroyed: threads may outlive static objects
std::atomic<uint64_t> next_id{1};
std::atomic<uint32_t> next_thread{0};
thread_local uint32_t thread_number = next_thread++;
thread_local uint64_t current_id = 0;
thread_local int depth = 0;

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
}  // namespace

const char* name_of(Layer layer) {
  static const char* const names[] = {"python", "op", "dispatch", "autograd", "kernel", "runtime", "driver"};
  return names[static_cast<int>(layer)];
}

void start() {
  std::lock_guard lock(mutex);
  events.clear();
  enabled.store(true, std::memory_order_relaxed);
}

std::vector<Event> stop() {
  std::lock_guard lock(mutex);
  enabled.store(false, std::memory_order_relaxed);
  return std::exchange(events, {});
}

void Span::begin(Layer layer, const char* name) {
  if (depth++ == 0) current_id = next_id.fetch_add(1, std::memory_order_relaxed);
  begin_ns_ = now();
  open_ = new Event{layer, name, {}, current_id, begin_ns_, 0, thread_number};
}

void Span::detail(std::string text) {
  if (open_) static_cast<Event*>(open_)->detail = std::move(text);
}

void Span::end() {
  auto* event = static_cast<Event*>(open_);
  event->end_ns = now();
  --depth;
  {
    std::lock_guard lock(mutex);
    events.push_back(std::move(*event));
  }
  delete event;
}

}  // namespace strata::tracing
