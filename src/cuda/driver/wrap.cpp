// Trampolines for every entry, made from the list in api.h.
#include "cuda/driver/wrap.h"

#include <atomic>
#include <mutex>

#include "base/error.h"

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
Injecting injecting;
Recording recording;

bool only_text(const char* name) {  // what reports an error must not fail by it
  const std::string_view n(name);
  return n == "cuGetErrorName" || n == "cuGetErrorString";
}

template <auto Field, class Function> struct Trampoline;
template <auto Field, class... A> struct Trampoline<Field, CUresult (*)(A...)> {
  static inline const char* name = nullptr;
  static CUresult inject(A... a) {
    if (!only_text(name) && injecting.calls.fetch_add(1) + 1 == injecting.n) {
      injecting.failed = name;
      return injecting.code;
    }
    return (injecting.below->*Field)(a...);
  }
  static CUresult record(A... a) {
    const CUresult r = (recording.below->*Field)(a...);
    const std::lock_guard<std::mutex> lock(recording.guard);
    recording.calls.push_back({name, r});
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

FaultInjector::FaultInjector(const Table& below, uint64_t n, CUresult code) {
  STRATA_CHECK(!injecting.below, Runtime, "a FaultInjector is alive already; only one can be");
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
  STRATA_CHECK(!recording.below, Runtime, "a Recorder is alive already; only one can be");
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
