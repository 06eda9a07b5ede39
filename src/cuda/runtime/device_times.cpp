#include "cuda/runtime/device_times.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/runtime/allocator.h"
#include "record/op.h"

namespace strata::cuda {
namespace {

struct Timed {
  Gpu* gpu;
  driver::CUstream stream;
  const char* name;  // interned
  const char* op;    // null: none ran
  uint64_t id;
  driver::CUevent begin, end;
};
// Where the clocks of host and device meet.
struct Start {
  driver::CUevent event = nullptr;
  int64_t ns = 0;
};

constexpr size_t kMost = 200000;  // launches with times; later ones have none

struct Waiting {
  std::mutex mutex;
  std::vector<Timed> launches;
  std::map<Gpu*, Start> starts;
};
Waiting& waiting() {
  static auto* const one = new Waiting;
  return *one;
}

driver::CUevent new_event(const Gpu& gpu) {
  driver::CUevent e = nullptr;
  return gpu.table().cuEventCreate(&e, 0) == driver::kSuccess ? e : nullptr;
}

// The first event of a device: the host waits for it once.
bool meet(Gpu& gpu) {
  const std::lock_guard hold(waiting().mutex);
  Start& s = waiting().starts[&gpu];
  if (s.event) return true;
  const driver::Table& t = gpu.table();
  s.event = new_event(gpu);
  if (!s.event) return false;
  if (t.cuEventRecord(s.event, nullptr) == driver::kSuccess && t.cuEventSynchronize(s.event) == driver::kSuccess) {
    s.ns = tracing::now();
    return true;
  }
  t.cuEventDestroy(s.event);
  s.event = nullptr;
  return false;
}

int64_t ns_after(const driver::Table& t, const Start& s, driver::CUevent e) {
  float ms = -1;
  return t.cuEventElapsedTime(&ms, s.event, e) == driver::kSuccess ? s.ns + static_cast<int64_t>(1e6 * ms) : -1;
}

// Adds a span of layer Device for each launch. Devices are lanes of their own: thread 1000000 + number of the stream.
void finish(tracing::Recording& out) {
  const tracing::Quiet quiet;
  const std::lock_guard hold(waiting().mutex);
  std::map<std::pair<Gpu*, driver::CUstream>, uint32_t> lanes;
  for (const Timed& l : waiting().launches) {
    const driver::Table& t = l.gpu->table();
    const Start& s = waiting().starts[l.gpu];
    if (l.gpu->enter() && t.cuEventSynchronize(l.end) == driver::kSuccess) {
      const int64_t begin = ns_after(t, s, l.begin), end = ns_after(t, s, l.end);
      const auto lane =
        lanes.try_emplace({l.gpu, l.stream}, static_cast<uint32_t>(1000000 + lanes.size())).first->second;
      if (begin >= 0 && end >= begin)
        out.add(tracing::Layer::Device, l.name, l.id, begin, end, lane, l.op, l.gpu->index);
    }
    t.cuEventDestroy(l.begin);
    t.cuEventDestroy(l.end);
  }
  waiting().launches.clear();
  for (auto& [gpu, s] : waiting().starts)
    if (s.event && gpu->enter()) gpu->table().cuEventDestroy(s.event);
  waiting().starts.clear();
}

[[maybe_unused]] const bool filled = (tracing::finish_devices = finish, true);

}  // namespace

void DeviceTime::begin(Gpu& gpu, driver::CUstream stream, const char* name) {
  const tracing::Quiet quiet;
  // Events of a capture have no times; devices of tests may be gone before the recording stops.
  if (gpu.allocator->capturing() || !gpu.runtime.lasting || !meet(gpu)) return;
  begin_ = new_event(gpu);
  if (!begin_) return;
  if (gpu.table().cuEventRecord(begin_, stream) != driver::kSuccess) {
    gpu.table().cuEventDestroy(begin_);
    return;
  }
  gpu_ = &gpu;
  stream_ = stream;
  name_ = name;
}

void DeviceTime::end() {
  const tracing::Quiet quiet;
  const driver::Table& t = gpu_->table();
  driver::CUevent end = new_event(*gpu_);
  const std::lock_guard hold(waiting().mutex);
  if (end && waiting().launches.size() < kMost && t.cuEventRecord(end, stream_) == driver::kSuccess) {
    waiting().launches.push_back({gpu_, stream_, tracing::intern(name_),
                                  thread_state.op ? tracing::intern(thread_state.op->name) : nullptr,
                                  tracing::current_id(), begin_, end});
    return;
  }
  if (end) t.cuEventDestroy(end);
  t.cuEventDestroy(begin_);
}

}  // namespace strata::cuda
