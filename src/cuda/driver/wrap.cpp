// Trampolines for every entry, generated from the list in api.h.
#include "cuda/driver/wrap.h"

#include <atomic>
#include <mutex>

#include "base/error.h"
#include "base/trace.h"

namespace strata::cuda::driver {

namespace {

struct Injecting {
  const Table* below = nullptr;
  uint64_t n = 0;
  CUresult code = kSuccess;
  std::atomic<uint64_t> calls{0};
  std::atomic<const char*> failed{nullptr};
};
struct Recording {
  const Table* below = nullptr;
  std::mutex guard;
  std::vector<Call> calls;
};
std::atomic<const Table*> tracing[2] = {nullptr, nullptr};
Injecting injecting;
Recording recording;

bool only_text(const char* name) {  // functions that report an error must not fail themselves
  const std::string_view n(name);
  return n == "cuGetErrorName" || n == "cuGetErrorString";
}

template <auto Field, class Function> struct Trampoline;
template <auto Field, class... A> struct Trampoline<Field, CUresult (*)(A...)> {
  static inline std::atomic<const char*> name = nullptr;
  static CUresult inject(A... a) {
    if (!only_text(name.load(std::memory_order_relaxed)) && injecting.calls.fetch_add(1) + 1 == injecting.n) {
      injecting.failed = name.load();
      return injecting.code;
    }
    return (injecting.below->*Field)(a...);
  }
  static CUresult trace_0(A... a) {
    const tracing::Span span(tracing::Layer::Driver, name.load(std::memory_order_relaxed));
    return (tracing[0].load(std::memory_order_relaxed)->*Field)(a...);
  }
  static CUresult trace_1(A... a) {
    const tracing::Span span(tracing::Layer::Driver, name.load(std::memory_order_relaxed));
    return (tracing[1].load(std::memory_order_relaxed)->*Field)(a...);
  }
  static CUresult record(A... a) {
    const CUresult r = (recording.below->*Field)(a...);
    const std::lock_guard<std::mutex> lock(recording.guard);
    recording.calls.push_back({name.load(), r});
    return r;
  }
};

}  // namespace

#define STRATA_DRIVER_TRAMPOLINE(kind) [](Table& table) { STRATA_DRIVER_ENTRIES(STRATA_DRIVER_SET_##kind) }
#define STRATA_DRIVER_SET(entry, kind)                              \
  Trampoline<&Table::entry, decltype(Table::entry)>::name = #entry; \
  table.entry = Trampoline<&Table::entry, decltype(Table::entry)>::kind;
#define STRATA_DRIVER_SET_inject(entry, symbol, parameters) STRATA_DRIVER_SET(entry, inject)
#define STRATA_DRIVER_SET_record(entry, symbol, parameters) STRATA_DRIVER_SET(entry, record)

#define STRATA_DRIVER_SET_trace_0(entry, symbol, parameters) STRATA_DRIVER_SET(entry, trace_0)
#define STRATA_DRIVER_SET_trace_1(entry, symbol, parameters) STRATA_DRIVER_SET(entry, trace_1)

#define STRATA_DRIVER_LEAVE_OUT(entry, symbol, parameters) \
  if (!below.entry) t.entry = nullptr;

const Table& traced_libcuda(const Table& below) {
  tracing[0] = &below;
  static const Table table = [&] {
    Table t;
    STRATA_DRIVER_TRAMPOLINE(trace_0)(t);
    STRATA_DRIVER_ENTRIES(STRATA_DRIVER_LEAVE_OUT)
    return t;
  }();
  return table;
}
const Table& traced_vgpu(const Table& below) {
  tracing[1] = &below;
  static const Table table = [&] {
    Table t;
    STRATA_DRIVER_TRAMPOLINE(trace_1)(t);
    STRATA_DRIVER_ENTRIES(STRATA_DRIVER_LEAVE_OUT)
    return t;
  }();
  return table;
}

FaultInjector::FaultInjector(const Table& below, uint64_t n, CUresult code) {
  STRATA_CHECK(!injecting.below, Runtime, "there is already a FaultInjector; only one can exist");
  STRATA_CHECK(n > 0 && code != kSuccess, Value,
               "a FaultInjector fails call 1 or a later one, with a code that is an error");
  injecting.below = &below;
  injecting.n = n;
  injecting.code = code;
  injecting.calls = 0;
  injecting.failed = nullptr;
  STRATA_DRIVER_TRAMPOLINE(inject)(table_);
}
FaultInjector::~FaultInjector() { injecting.below = nullptr; }
uint64_t FaultInjector::calls() const { return injecting.calls; }
const char* FaultInjector::failed() const { return injecting.failed; }

Recorder::Recorder(const Table& below) {
  STRATA_CHECK(!recording.below, Runtime, "there is already a Recorder; only one can exist");
  recording.below = &below;
  recording.calls.clear();
  STRATA_DRIVER_TRAMPOLINE(record)(table_);
}
Recorder::~Recorder() { recording.below = nullptr; }
std::vector<Call> Recorder::calls() const {
  const std::lock_guard<std::mutex> lock(recording.guard);
  return recording.calls;
}

}  // namespace strata::cuda::driver
