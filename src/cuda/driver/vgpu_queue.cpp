// Streams and events: queues of work, and points in them.
//
// Work runs in the calling thread, one piece at a time. By default it runs immediately. In delayed mode nothing runs
// before the host waits, and then streams that can proceed take turns in a random order. A stream that reads another
// stream's output without waiting for its event then reads too early, reproducibly for the same seed.
#include <chrono>

#include "base/error.h"
#include "cuda/driver/vgpu_state.h"

namespace strata::cuda::driver::virtual_gpu {

namespace {

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::vector<Stream*> streams_of(const Device& device) {
  std::vector<Stream*> out;
  auto& d = const_cast<Device&>(device);
  out.push_back(&d.default_stream);
  for (const auto& [handle, s] : state().streams)
    if (s->device == d.default_stream.device) out.push_back(s.get());
  return out;
}

// The default stream and the blocking ones run in the order of the calls.
bool may_run(const Device& device, const Stream& s) {
  if (s.queue.empty() || (s.queue.front().after && !s.queue.front().after->done)) return false;
  const uint64_t number = s.queue.front().number;
  const auto earlier = [&](const Stream& other) { return !other.queue.empty() && other.queue.front().number < number; };
  if (&s != &device.default_stream) return !s.blocking || !earlier(device.default_stream);
  for (const Stream* other : streams_of(device))
    if (other != &s && other->blocking && earlier(*other)) return false;
  return true;
}

CUresult dead(const Device& d) { return d.dead == kSuccess ? kSuccess : say(d.dead, d.why_dead); }

// Runs work of other devices if this one cannot proceed: it may wait for them.
bool run_another(const Device& d) {
  for (const auto& other : state().devices)
    if (other.get() != &d && run_one(*other)) return true;
  return false;
}

template <class Done> CUresult run_until(Device& d, const Done& done) {
  while (!done()) {
    if (!run_one(d) && !run_another(d))
      return dead(d) ? dead(d) : say(kUnknown, "queued work waits for an event that was never recorded");
  }
  return dead(d);
}

std::shared_ptr<Moment> mark(Device& d, Stream& s) {
  auto m = std::make_shared<Moment>();
  enqueue(d, s, [m] {
    m->done = true;
    m->nanoseconds = now();
  });
  return m;
}

struct Found {
  Device* device = nullptr;
  Stream* stream = nullptr;
  Event* event = nullptr;
  CUresult result = kSuccess;
};
Found find(CUstream stream, bool needs_stream, CUevent event, bool needs_event) {
  Found f;
  f.result = current(f.device);
  if (f.result) return f;
  if (needs_stream && !(f.stream = find_stream(stream, *f.device)))
    f.result = say(kInvalidHandle, "no such stream on this device");
  if (needs_event) {
    const auto e = state().events.find(event);
    if (e == state().events.end()) f.result = say(kInvalidHandle, "no such event");
    else f.event = e->second.get();
  }
  return f;
}

}  // namespace

Stream* find_stream(CUstream stream, Device& device) {
  // 1 and 2 are the driver's handles of the legacy and the per-thread default stream.
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return &device.default_stream;
  const auto s = state().streams.find(stream);
  return s == state().streams.end() || s->second->device != device.default_stream.device ? nullptr : s->second.get();
}

bool run_one(Device& d) {
  if (d.dead != kSuccess) return false;
  std::vector<Stream*> ready;
  for (Stream* s : streams_of(d))
    if (may_run(d, *s)) ready.push_back(s);
  if (ready.empty()) return false;
  Stream* chosen = ready[0];
  if (state().options.delayed) chosen = ready[state().order() % ready.size()];
  else
    for (Stream* s : ready)
      if (s->queue.front().number < chosen->queue.front().number) chosen = s;
  const Work work = std::move(chosen->queue.front());
  chosen->queue.pop_front();
  try {
    work.run();
  } catch (const std::exception& e) {  // sticky, as on a GPU: nothing on this device works until it is reset
    d.dead = code_of(e);
    d.why_dead = e.what();
    for (Stream* s : streams_of(d)) s->queue.clear();
  }
  return true;
}

CUresult enqueue(Device& d, Stream& s, std::function<void()> run, std::shared_ptr<Moment> after, const NodeInfo& info) {
  if (s.capture) {
    s.capture->work.push_back({state().fresh<CUgraphNode>(), info, std::move(run)});
    return kSuccess;
  }
  s.queue.push_back({std::move(run), std::move(after), ++state().works});
  if (!state().options.delayed)
    while (run_one(d)) {}
  return dead(d);
}

CUresult drain(Device& d, Stream* stream) {
  return run_until(d, [&] {
    if (stream) return stream->queue.empty();
    for (const Stream* s : streams_of(d))
      if (!s->queue.empty()) return false;
    return true;
  });
}

CUresult reach(Device& d, const std::shared_ptr<Moment>& m) {
  return run_until(d, [&] { return !m || m->done; });
}

void add_queues(Table& t) {
  t.cuStreamCreateWithPriority = [](CUstream* out, unsigned flags, int priority) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(nullptr, false, nullptr, false);
      if (f.result) return f.result;
      if (!out || flags > kStreamNonBlocking) return kInvalidValue;
      auto s = std::make_unique<Stream>();
      s->device = f.device->default_stream.device;
      s->priority = std::clamp(priority, -5, 0);
      s->blocking = !(flags & kStreamNonBlocking);
      *out = state().fresh<CUstream>();
      state().streams[*out] = std::move(s);
      return kSuccess;
    });
  };
  t.cuStreamDestroy = [](CUstream stream) -> CUresult {
    return guarded([&]() -> CUresult {
      const auto s = state().streams.find(stream);
      if (s == state().streams.end()) return say(kInvalidHandle, "no such stream");
      Device& d = *state().devices[static_cast<size_t>(s->second->device)];
      if (d.dead == kSuccess) drain(d, s->second.get());  // queued work still runs
      state().streams.erase(s);
      return kSuccess;
    });
  };
  t.cuStreamSynchronize = [](CUstream stream) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(stream, true, nullptr, false);
      if (f.result) return f.result;
      if (f.stream->capture) return say(kStreamCaptureUnsupported, "a capturing stream cannot be waited for");
      return drain(*f.device, f.stream);
    });
  };
  t.cuStreamQuery = [](CUstream stream) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(stream, true, nullptr, false);
      if (f.result) return f.result;
      if (f.stream->queue.empty()) return kSuccess;
      run_one(*f.device);  // so that polling terminates
      return f.stream->queue.empty() ? dead(*f.device) : kNotReady;
    });
  };
  t.cuStreamGetPriority = [](CUstream stream, int* priority) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(stream, true, nullptr, false);
      if (f.result) return f.result;
      if (!priority) return kInvalidValue;
      *priority = f.stream->priority;
      return kSuccess;
    });
  };
  t.cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(stream, true, event, true);
      if (f.result) return f.result;
      if (f.event->captured) {  // joins the capture of the event
        f.stream->capture = f.event->captured;
        f.event->captured->streams.insert(f.stream);
        return kSuccess;
      }
      // waiting for an event that was never recorded does nothing
      if (f.stream->capture || !f.event->last) return kSuccess;
      return enqueue(
        *f.device, *f.stream, [] {}, f.event->last);
    });
  };
  t.cuLaunchHostFunc = [](CUstream stream, CUhostFn function, void* data) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(stream, true, nullptr, false);
      if (f.result) return f.result;
      if (!function) return kInvalidValue;
      return enqueue(*f.device, *f.stream, [function, data] { function(data); }, nullptr, {kNodeHost});
    });
  };
  t.cuEventCreate = [](CUevent* out, unsigned flags) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(nullptr, false, nullptr, false);
      if (f.result) return f.result;
      if (!out) return kInvalidValue;
      auto e = std::make_unique<Event>();
      e->device = f.device->default_stream.device;
      e->flags = flags;
      *out = state().fresh<CUevent>();
      state().events[*out] = std::move(e);
      return kSuccess;
    });
  };
  t.cuEventDestroy = [](CUevent event) -> CUresult {
    return guarded(
      [&]() -> CUresult { return state().events.erase(event) ? kSuccess : say(kInvalidHandle, "no such event"); });
  };
  t.cuEventRecord = [](CUevent event, CUstream stream) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(stream, true, event, true);
      if (f.result) return f.result;
      f.event->captured = f.stream->capture;
      if (f.stream->capture) return kSuccess;
      f.event->last = mark(*f.device, *f.stream);
      return dead(*f.device);
    });
  };
  t.cuEventQuery = [](CUevent event) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(nullptr, false, event, true);
      if (f.result) return f.result;
      if (!f.event->last || f.event->last->done) return kSuccess;
      run_one(*f.device);
      return f.event->last->done ? dead(*f.device) : kNotReady;
    });
  };
  t.cuEventSynchronize = [](CUevent event) -> CUresult {
    return guarded([&]() -> CUresult {
      Found f = find(nullptr, false, event, true);
      return f.result ? f.result : reach(*f.device, f.event->last);
    });
  };
  t.cuEventElapsedTime = [](float* ms, CUevent start, CUevent end) -> CUresult {
    return guarded([&]() -> CUresult {
      Found a = find(nullptr, false, start, true), b = find(nullptr, false, end, true);
      if (a.result || b.result) return a.result ? a.result : b.result;
      if (!ms) return kInvalidValue;
      if (!a.event->last || !b.event->last || ((a.event->flags | b.event->flags) & kEventDisableTiming))
        return say(kInvalidHandle, "both events must have been recorded, with timing");
      if (!a.event->last->done || !b.event->last->done) return kNotReady;
      *ms = static_cast<float>(static_cast<double>(b.event->last->nanoseconds - a.event->last->nanoseconds) * 1e-6);
      return kSuccess;
    });
  };
}

}  // namespace strata::cuda::driver::virtual_gpu
