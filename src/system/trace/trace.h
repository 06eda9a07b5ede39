// Records what a program does, on all layers, and shows it. In Python: `with strata.tracing() as t: …`.
//
//   strata::tracing::Session session;
//   … work …
//   strata::tracing::Trace t = session.stop();
//   std::cout << t.table("op");
//   t.save("trace.json");  // for Perfetto; also .svg (flame graph), .html, .txt
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/trace.h"

namespace strata::tracing {

// One line of a table.
struct Row {
  std::string key;
  uint64_t calls = 0;
  int64_t total_ns = 0, self_ns = 0;  // with and without the spans inside
  int64_t device_ns = 0;              // of the kernels that it launched
  int64_t bytes = 0;                  // that its kernels read and wrote, at least
  int64_t flops = 0;                  // that they computed, where a rule is known
};
// Measured limits of a device, per second; see devices::copy_rate and product_rate.
struct Peaks {
  double bytes = 0, flops = 0;  // 0: not known
};

// A kernel with what runs inside it.
struct Work {
  uint32_t event;      // of the recording
  std::string module;  // the innermost span of layer Module around it, or around the forward op; may be empty
  const char *op = "", *kernel = "";  // the innermost op around it
  int64_t host_ns = 0, device_ns = 0, bytes = 0, flops = 0;
  uint32_t launches = 0;
  std::vector<std::string> rejected;  // kernels that came first in the list, with reasons
};

class STRATA_API Trace {
 public:
  Trace() : Trace(tracing::Recording()) {}
  explicit Trace(tracing::Recording recording);

  const tracing::Recording& recording() const { return *recording_; }
  // Spans by "op", "kernel", "line", "layer", "module", "user" or "device", the longest first. Throws Value for another.
  std::vector<Row> rows(const std::string& by = "op") const;
  // With `peaks` also how near each row comes to them.
  std::string table(const std::string& by = "op", size_t most = 20, const Peaks& peaks = {}) const;
  std::string tree(size_t most = 200) const;  // the spans in order, indented
  std::string to_html() const;
  std::string flame_svg() const;
  // By the end of the name: .json (Trace Event format, for Perfetto and Chrome), .svg, .html or .txt. Throws Value for
  // another, Io if the file cannot be written.
  void save(const std::string& path) const;
  // "train.py:12 in step" of the line of the program that caused a span; empty if it is not known.
  std::string line_of(size_t event) const;
  std::span<const uint32_t> order() const { return nesting_->order; }     // events by thread, then begin
  int32_t parent(size_t event) const { return nesting_->parent[event]; }  // the span around it; -1: none
  // Floating-point operations of a kernel, from the shapes of its op; 0 if no rule is known.
  int64_t flops(size_t kernel_event) const;
  std::vector<Work> work() const;  // all kernels, in the order in which they began
  // For each launch of the spans of an id, in order: the span of the kernel on the device. -1: not timed.
  std::vector<std::pair<uint32_t, int32_t>> launches(uint64_t id) const;

 private:
  struct Nesting {
    std::vector<uint32_t> order;   // events by thread, then begin
    std::vector<int64_t> self_ns;  // by event
    std::vector<int32_t> parent;   // -1: none
  };
  std::shared_ptr<const tracing::Recording> recording_;
  std::shared_ptr<const Nesting> nesting_;
};

// Sends the spans of later recordings to NVTX too, whose ranges NVIDIA's profilers show. Throws NotImplemented if it is missing.
STRATA_API void send_ranges(bool on);
// Ranges of the program's own: their depth, or -1 if NVTX is missing.
STRATA_API int push_range(const char* name);
STRATA_API int pop_range();

// Records from its construction to stop() or its end. One at a time per process.
class STRATA_API Session {
 public:
  explicit Session(size_t most_bytes = size_t{1} << 28);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Trace stop();

 private:
  bool running_ = true;
};

// A block that the program names: a span of layer User.
class Scope {
 public:
  explicit Scope(const std::string& name)
      : span_(tracing::Layer::User, tracing::enabled.load(std::memory_order_relaxed) ? tracing::intern(name) : "") {}

 private:
  tracing::Span span_;
};

}  // namespace strata::tracing
