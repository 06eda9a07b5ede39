// Trace spans: what every layer does, with times and typed facts. One relaxed load per span while nothing is recorded;
// otherwise each thread writes into a buffer of its own, without locks.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/api.h"

namespace strata::tracing {

// Outermost first. User: a block that the program has named; Device: what a GPU did, on its own clock.
enum class Layer : uint8_t { User, Module, Python, Op, Dispatch, Autograd, Kernel, Runtime, Driver, Device };
constexpr int kLayers = 10;
STRATA_API const char* name_of(Layer layer);

// What a fact is about. A name may occur several times in a span: "rejected".
struct Key {
  enum class Kind : uint8_t {
    Integer,
    Number,
    Text,    // a static string
    Copied,  // a text of any length
    Tensor,  // dtype, as a static string, and sizes
  };
  const char* name;
  Kind kind;
  // By name: each library has keys of its own.
  bool operator==(const Key& o) const { return std::string_view(name) == o.name; }
};
namespace key {
inline constexpr Key bytes{"bytes", Key::Kind::Integer}, node{"node", Key::Kind::Integer},
  line{"line", Key::Kind::Integer}, address{"address", Key::Kind::Integer}, pool_hit{"reused", Key::Kind::Integer},
  grid_x{"grid_x", Key::Kind::Integer}, grid_y{"grid_y", Key::Kind::Integer}, grid_z{"grid_z", Key::Kind::Integer},
  block_x{"block_x", Key::Kind::Integer}, block_y{"block_y", Key::Kind::Integer},
  block_z{"block_z", Key::Kind::Integer}, shared{"shared_bytes", Key::Kind::Integer},
  registers{"registers", Key::Kind::Integer}, result{"result", Key::Kind::Integer},
  device{"device", Key::Kind::Integer}, stream{"stream", Key::Kind::Integer}, occupancy{"occupancy", Key::Kind::Number},
  file{"file", Key::Kind::Text}, function{"function", Key::Kind::Text}, kernel{"kernel", Key::Kind::Text},
  op{"op", Key::Kind::Text}, source{"source", Key::Kind::Text}, rejected{"rejected", Key::Kind::Copied},
  detail{"detail", Key::Kind::Copied}, name{"name", Key::Kind::Copied}, input{"input", Key::Kind::Tensor},
  output{"output", Key::Kind::Tensor};
}  // namespace key

// What buffers are made of: a span has kHeader slots, and each fact one or more.
struct Slot {
  uint64_t a, b;
};
constexpr uint32_t kHeader = 3;

struct Fact {
  const Key* key;
  int64_t integer = 0;
  double number = 0;
  std::string_view text;       // of Text and Copied; the dtype of Tensor
  std::vector<int64_t> sizes;  // of Tensor
};
STRATA_API std::string to_string(const Fact& fact);  // "bytes 1024", "float32[3, 4]"

class Recording;

// A finished span.
struct Event {
  Layer layer;
  uint16_t slots;    // of its facts
  uint32_t thread;   // numbered from 0 in the order in which they recorded first
  const char* name;  // lives as long as the process, or the recording
  uint64_t id;       // shared by all spans of one outermost one, on all layers
  int64_t begin_ns, end_ns;
  uint64_t first;  // its facts, in the recording
};

// What was recorded, in order of the ends of spans, by thread.
class STRATA_API Recording {
 public:
  std::vector<Event> events;
  uint64_t dropped = 0;  // spans for which there was no memory

  std::vector<Fact> facts(const Event& e) const;
  const char* text(const Event& e, const Key& k) const;  // of a Text; null if it has none
  int64_t integer(const Event& e, const Key& k, int64_t otherwise) const;
  std::string detail(const Event& e) const;  // all facts as one text
  // Adds a span from elsewhere: the device's.
  void add(Layer layer, std::string_view name, uint64_t id, int64_t begin_ns, int64_t end_ns, uint32_t thread,
           const char* op, int64_t device);

 private:
  friend Recording stop();
  std::vector<Slot> slots_;
};

STRATA_API extern std::atomic<bool> enabled;
// Starts recording; `most_bytes` of buffers in all, after which spans are counted and dropped. Throws Runtime if it is on.
STRATA_API void start(size_t most_bytes = size_t{1} << 28);
STRATA_API Recording stop();       // all spans since start() that have ended
STRATA_API int64_t now();          // in ns, on the clock of spans
STRATA_API uint64_t current_id();  // of the outermost open span of this thread; 0: none

// A copy of a text that lives as long as the process; equal texts share one. For few different texts.
STRATA_API const char* intern(std::string_view text);

// Called by stop() before it collects, while recording is on: a device back end adds what it knows later.
STRATA_API extern std::atomic<void (*)(Recording&)> finish_devices;

// No spans of this thread are recorded in its scope: work of the recorder itself.
struct STRATA_API Quiet {
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

// A span covers a scope. Spans nest; the outermost one assigns a new id. Facts are added to the innermost open span.
class STRATA_API Span {
 public:
  Span(Layer layer, const char* name) {
    if (enabled.load(std::memory_order_relaxed)) [[unlikely]]
      begin(layer, name);
  }
  ~Span() {
    if (open_) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  bool active() const { return open_; }
  // Only when active. The name and texts of kind Text must live as long as the process.
  void fact(const Key& k, int64_t value);
  void number(const Key& k, double value);
  void text(const Key& k, const char* value);
  void copied(const Key& k, std::string_view value);
  void tensor(const Key& k, const char* dtype, std::span<const int64_t> sizes);

 private:
  void begin(Layer layer, const char* name);
  void end();
  bool can_add() const;  // it is the innermost open span of this thread and recording
  bool open_ = false;
  uint32_t mark_ = 0, parent_ = 0, generation_ = 0;
  void* buffer_ = nullptr;
};

}  // namespace strata::tracing
