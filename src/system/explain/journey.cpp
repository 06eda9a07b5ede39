// Records one call, and sorts its spans by op: a step for each, with the layers that it passes.
#include "system/explain/journey.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "autograd/autograd.h"
#include "base/error.h"
#include "cuda/driver/vgpu.h"
#include "dispatch/settings.h"
#include "strata/ops.h"
#include "system/explain/layers.h"
#include "tensor/device_hooks.h"

namespace strata::journey {
namespace {
using tracing::Event, tracing::Recording;
using TraceLayer = tracing::Layer;

// A recording that ends with its scope, also if the call throws.
struct Recorder {
  Recorder() { tracing::start(); }
  ~Recorder() {
    if (running) (void)tracing::stop();
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  Recording stop() {
    running = false;
    return tracing::stop();
  }
  bool running = true;
};

// The kernels of each choice, in order: an explanation lists all of a list together.
std::vector<std::vector<Explanation::Line>> choices_of(const Explanation& seen) {
  std::vector<std::vector<Explanation::Line>> all;
  for (size_t at = 0; at < seen.lines.size();) {
    const OpRecord* op = seen.lines[at].op;
    size_t size = 0;
    for (const Kernels& list : op->lists)
      if (!list.empty() && seen.lines[at].kernel == list.data()) size = list.size();
    if (size == 0 || at + size > seen.lines.size()) return {};  // kernels of elsewhere: then the trace has the reasons
    all.emplace_back(seen.lines.begin() + static_cast<ptrdiff_t>(at),
                     seen.lines.begin() + static_cast<ptrdiff_t>(at + size));
    at += size;
  }
  return all;
}

// Which of the choices of the first call are those of the second one: the same ops in the same order, but the first call may
// make others in between, such as for values that are then cached.
void match(const std::vector<std::vector<Explanation::Line>>& asked, const std::vector<Seen>& seen,
           const std::vector<Event>& events, std::map<uint32_t, std::vector<Explanation::Line>>& out) {
  std::vector<std::tuple<int64_t, uint32_t, const OpRecord*>> made;  // in the order in which they were made
  for (const Seen& s : seen)
    for (const uint32_t c : s.choices) made.emplace_back(events[c].end_ns, c, s.record);
  std::sort(made.begin(), made.end());
  size_t next = 0;
  for (const auto& [when, choice, op] : made)
    for (size_t i = next; i < asked.size(); ++i)
      if (asked[i][0].op == op) {
        out[choice] = asked[i];
        next = i + 1;
        break;
      }
}

const OpRecord* record_of(const char* name) {
  static const auto* const by_name = [] {
    auto* made = new std::map<const char*, const OpRecord*>;
    for (const OpRecord* op : all_ops()) made->emplace(op->name.c_str(), op);
    return made;
  }();
  const auto at = by_name->find(name);
  return at == by_name->end() ? nullptr : at->second;
}

// Devices that finish their work before counters are read.
void wait_for(const std::vector<Tensor>& results) {
  for (const Tensor& t : results)
    if (t && (t.device().type == DeviceType::Cuda || t.device().type == DeviceType::Vgpu))
      device_hooks.synchronize(t.device());
}

std::vector<Fact> shown(const std::vector<Tensor>& results) {
  const autograd::NoGrad none;
  std::vector<Fact> all;
  for (const Tensor& t : results) {
    if (!t) continue;
    std::string sizes;
    for (const int64_t n : t.shape()) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", n);
    std::string values = "no values";
    if (t.device().type != DeviceType::Meta && t.numel() > 0) {
      const bool some = t.numel() > 6;
      const Tensor first = to(some ? narrow(reshape(detach(t), {-1}), 0, 0, 6) : detach(t), Device{});
      values = first.to_string();
      if (values.starts_with("tensor(")) values = values.substr(7, values.rfind(')') - 7);
      if (const size_t dtype = values.find(", dtype="); dtype != values.npos) values.resize(dtype);
      if (some) values = values.substr(0, values.rfind(']')) + ", ...]";
    }
    all.push_back({fmt::format("{}[{}]", info_of(t.dtype()).name, sizes), values});
  }
  return all;
}

class Sorter {
 public:
  Sorter(const tracing::Trace& trace, uint64_t id) : trace_(trace), events_(trace.recording().events) {
    for (const uint32_t i : trace.order())
      if (events_[i].layer == TraceLayer::Op && events_[i].id == id) add(i);
    for (const uint32_t i : trace.order()) place(i, id);
    for (const auto& [launch, device] : trace.launches(id))
      if (const auto at = step_of_.find(outer(static_cast<int32_t>(launch))); at != step_of_.end())
        seen[at->second].launches.push_back({launch, device, nullptr});
  }

  // The counters of launches, if each launch has its own.
  void add_counters(const std::vector<cuda::vgpu::Counters>& all) {
    size_t launches = 0;
    for (const Seen& s : seen) launches += s.launches.size();
    if (launches != all.size()) return;
    std::vector<std::pair<int64_t, LaunchSeen*>> in_order;
    for (Seen& s : seen)
      for (LaunchSeen& l : s.launches) in_order.emplace_back(events_[l.span].begin_ns, &l);
    std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < all.size(); ++i) in_order[i].second->counters = &all[i];
  }

  std::vector<Seen> seen;

 private:
  // The innermost op around a span, or -1.
  int32_t outer(int32_t i) const {
    for (i = trace_.parent(static_cast<size_t>(i)); i >= 0; i = trace_.parent(static_cast<size_t>(i)))
      if (events_[static_cast<size_t>(i)].layer == TraceLayer::Op) return i;
    return -1;
  }
  void add(uint32_t i) {
    Seen s;
    s.span = i;
    s.record = record_of(events_[i].name);
    for (int32_t p = trace_.parent(i); p >= 0; p = trace_.parent(static_cast<size_t>(p))) {
      const Event& e = events_[static_cast<size_t>(p)];
      if (e.layer == TraceLayer::Op) ++s.depth;
      if (e.layer == TraceLayer::Autograd) s.backward = static_cast<int32_t>(p);
      if (e.layer == TraceLayer::Python && s.depth == 0 && s.python < 0) s.python = p;
    }
    step_of_[static_cast<int32_t>(i)] = seen.size();
    seen.push_back(std::move(s));
  }
  void place(uint32_t i, uint64_t id) {
    const Event& e = events_[i];
    if (e.id != id || e.layer == TraceLayer::Op) return;
    const auto at = step_of_.find(outer(static_cast<int32_t>(i)));
    if (at == step_of_.end()) return;
    Seen& s = seen[at->second];
    const std::string_view name = e.name;
    if (e.layer == TraceLayer::Dispatch && name == "choose") s.choices.push_back(i);
    if (e.layer == TraceLayer::Kernel) s.kernels.push_back(i);
    if (e.layer == TraceLayer::Driver) s.driver.push_back(i);
    if (e.layer == TraceLayer::Runtime && name == "allocate") s.allocations.push_back(i);
    if (e.layer == TraceLayer::Runtime && name.starts_with("parallel_")) s.loops.push_back(i);
  }
  const tracing::Trace& trace_;
  const std::vector<Event>& events_;
  std::map<int32_t, size_t> step_of_;
};

}  // namespace

const Layer* Step::find(const std::string& wanted) const {
  const auto at = std::find_if(layers.begin(), layers.end(), [&](const Layer& l) { return l.name == wanted; });
  return at == layers.end() ? nullptr : &*at;
}

Journey follow(const std::function<std::vector<Tensor>()>& run, const std::string& title, bool warm_up) {
  STRATA_CHECK(!tracing::enabled.load(), Runtime,
               "explain: a recording is running, and explain records the call itself; end the recording first");
  Journey j;
  Explanation asked;
  std::vector<Tensor> results;
  Recorder recorder;
  if (warm_up) {
    const Scoped<Explanation*> look(thread_state.explain, &asked);
    const tracing::Span span(TraceLayer::User, "warm-up");
    results = run();
    wait_for(results);
  }
  results.clear();
  (void)cuda::driver::take_vgpu_counters();
  {
    const Scoped<Explanation*> look(thread_state.explain, warm_up ? nullptr : &asked);
    const tracing::Span span(TraceLayer::User, "explain");
    j.id = tracing::current_id();
    const int64_t begin = tracing::now();
    results = run();
    j.us = static_cast<double>(tracing::now() - begin) / 1e3;
  }
  wait_for(results);
  const tracing::Trace trace(recorder.stop());
  const std::vector<cuda::vgpu::Counters> counters = cuda::driver::take_vgpu_counters();
  const std::vector<Event>& events = trace.recording().events;
  j.spans =
    static_cast<size_t>(std::count_if(events.begin(), events.end(), [&](const Event& e) { return e.id == j.id; }));
  j.device = "cpu";
  for (const Tensor& t : results)
    if (t) j.device = to_string(t.device());

  Sorter sorter(trace, j.id);
  sorter.add_counters(counters);
  Describer describer(trace, j.device);
  match(choices_of(asked), sorter.seen, events, describer.asked);
  j.considered = std::move(asked.lines);
  for (const Seen& s : sorter.seen) j.steps.push_back(describer.describe(s));
  j.results = shown(results);
  j.title = !title.empty() ? title : j.steps.empty() ? "a call without ops" : j.steps[0].op;
  return j;
}

}  // namespace strata::journey
