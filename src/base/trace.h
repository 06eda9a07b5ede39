// Trace spans: layer, name, correlation id, start, end. One relaxed load when tracing is off.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/api.h"

namespace strata::tracing {

enum class Layer : uint8_t { Python, Op, Dispatch, Autograd, Kernel, Runtime, Driver };
STRATA_API const char* name_of(Layer layer);

struct Event {
  Layer layer;
  const char* name;    // a static string
  std::string detail;  // details, e.g. the kernel chosen and the shapes
  uint64_t id;         // shared by all spans of one user-level call
  int64_t begin_ns, end_ns;
  uint32_t thread;
};

STRATA_API extern std::atomic<bool> enabled;
STRATA_API void start();
STRATA_API std::vector<Event> stop();  // all events since start(), in order of their end

// A span covers a scope. Spans nest; the outermost one assigns a new id.
class STRATA_API Span {
 public:
  Span(Layer layer, const char* name) {
    if (enabled.load(std::memory_order_relaxed)) [[unlikely]]
      begin(layer, name);
  }
  ~Span() {
    if (begin_ns_) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  bool active() const { return begin_ns_ != 0; }
  void detail(std::string text);  // only when active

 private:
  void begin(Layer layer, const char* name);
  void end();
  int64_t begin_ns_ = 0;
  void* open_ = nullptr;
};

}  // namespace strata::tracing
