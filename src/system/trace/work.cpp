// What kernels compute, from the shapes of their ops, and which launch a span of a device belongs to.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "system/trace/trace.h"

namespace strata::tracing {
namespace {

using Sizes = std::vector<int64_t>;

// As doubles: shapes of hostile programs may have more elements than an int64 counts.
double count(const Sizes& s, size_t from = 0) {
  double n = 1;
  for (size_t i = from; i < s.size(); ++i) n *= static_cast<double>(s[i]);
  return n;
}
double last(const Sizes& s) { return s.empty() ? 1 : static_cast<double>(s.back()); }

// Images and positions of a convolution: the smaller one of the sizes before and after it, which is the output's, and the
// input's if it is transposed.
double positions(const Sizes& a, const Sizes& b) { return std::min(count(a, 2), count(b, 2)); }

// A kernel of ours, or a call of a library that launches its own.
bool is_launch(const Event& e) {
  const std::string_view name = e.name;
  return e.layer == Layer::Runtime && (name == "launch" || name == "cublasLtMatmul" || name == "cudnnBackendExecute");
}

double rule(std::string_view op, const std::vector<Sizes>& in, const std::vector<Sizes>& out) {
  if (in.empty() || out.empty()) return 0;
  op.remove_prefix(op.rfind('.') + 1);  // "nn.functional.linear"
  if (op.starts_with('_')) op.remove_prefix(1);
  // A product: two operations for each element of the result and of the summed dimension.
  for (const std::string_view name : {"mm", "bmm", "matmul", "mv", "dot"})
    if (op == name) return 2 * count(out[0]) * last(in[0]);
  if (op.starts_with("linear")) return 2 * count(out[0]) * last(in[0]);
  for (const std::string_view name : {"addmm", "baddbmm", "addmv", "addbmm"})
    if (op == name) return in.size() > 1 ? 2 * count(out[0]) * last(in[1]) : 0;
  if (op.starts_with("conv")) {
    if (in.size() < 2 || in[0].size() < 3 || in[1].size() < 3 || out[0].size() < 3) return 0;
    const auto images = static_cast<double>(in[0][0]);
    const bool of_weight = op.find("weight") != op.npos;
    return 2 * images * (of_weight ? positions(in[0], in[1]) * count(out[0]) : positions(in[0], out[0]) * count(in[1]));
  }
  // Two products; five in the gradient.
  if (op.starts_with("attention") && in.size() >= 3 && in[0].size() >= 2 && in[1].size() >= 2)
    return (op.find("backward") != op.npos ? 10 : 4) * count(in[0]) * static_cast<double>(in[1][in[1].size() - 2]);
  return 0;
}

}  // namespace

int64_t Trace::flops(size_t kernel) const {
  const Recording& r = *recording_;
  if (r.events[kernel].layer != Layer::Kernel) return 0;
  std::vector<Sizes> in, out;
  for (const Fact& f : r.facts(r.events[kernel]))
    if (*f.key == key::output) out.push_back(f.sizes);
  const int32_t op = parent(kernel);
  if (op < 0 || r.events[static_cast<size_t>(op)].layer != Layer::Op) return 0;
  for (const Fact& f : r.facts(r.events[static_cast<size_t>(op)]))
    if (*f.key == key::input) in.push_back(f.sizes);
  const double n = rule(r.events[static_cast<size_t>(op)].name, in, out);
  return n > 0 && n < 9e18 ? static_cast<int64_t>(n) : 0;
}

std::vector<std::pair<uint32_t, int32_t>> Trace::launches(uint64_t id) const {
  const std::vector<Event>& events = recording_->events;
  std::vector<std::pair<uint32_t, int32_t>> all;
  std::vector<int32_t> timed;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].id != id) continue;
    if (events[i].layer == Layer::Device) timed.push_back(static_cast<int32_t>(i));
    if (is_launch(events[i])) all.emplace_back(static_cast<uint32_t>(i), -1);
  }
  // Devices report launches in their order; one without a time is left out there.
  size_t next = 0;
  for (auto& [launch, device] : all) {
    const char* kernel = recording_->text(events[launch], key::kernel);
    if (!kernel) kernel = events[launch].name;  // a library's call
    if (next < timed.size() && std::string_view(events[static_cast<size_t>(timed[next])].name) == kernel)
      device = timed[next++];
  }
  return all;
}

std::vector<Work> Trace::work() const {
  const std::vector<Event>& events = recording_->events;
  // The innermost span of a layer around an event, or -1.
  const auto around = [&](size_t i, Layer layer) {
    int32_t p = parent(i);
    while (p >= 0 && events[static_cast<size_t>(p)].layer != layer) p = parent(static_cast<size_t>(p));
    return p;
  };
  std::map<int64_t, int32_t> module_of_node;  // of forward ops
  std::map<int32_t, std::vector<std::string>> rejected;
  std::set<uint64_t> ids;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& e = events[i];
    if (e.layer == Layer::Device) ids.insert(e.id);
    if (e.layer == Layer::Op)
      if (const int64_t node = recording_->integer(e, key::node, 0)) module_of_node[node] = around(i, Layer::Module);
    if (e.layer == Layer::Dispatch)
      for (const Fact& f : recording_->facts(e))
        if (*f.key == key::rejected) rejected[around(i, Layer::Op)].emplace_back(f.text);
  }
  std::vector<Work> all;
  std::map<int32_t, size_t> places;
  std::vector<std::pair<int64_t, uint32_t>> begins;
  for (size_t i = 0; i < events.size(); ++i)
    if (events[i].layer == Layer::Kernel && around(i, Layer::Kernel) < 0)
      begins.emplace_back(events[i].begin_ns, static_cast<uint32_t>(i));
  std::sort(begins.begin(), begins.end());
  for (const auto& [begin, i] : begins) {
    const Event& e = events[i];
    Work w;
    w.event = i;
    w.kernel = e.name;
    w.host_ns = e.end_ns - e.begin_ns;
    w.bytes = recording_->integer(e, key::bytes, 0);
    w.flops = flops(i);
    const int32_t op = around(i, Layer::Op);
    if (op >= 0) w.op = events[static_cast<size_t>(op)].name;
    if (const auto at = rejected.find(op); at != rejected.end()) w.rejected = at->second;
    int32_t module = around(i, Layer::Module);
    if (const int32_t step = around(i, Layer::Autograd); module < 0 && step >= 0) {
      const auto at = module_of_node.find(recording_->integer(events[static_cast<size_t>(step)], key::node, 0));
      if (at != module_of_node.end()) module = at->second;
    }
    if (module >= 0) w.module = events[static_cast<size_t>(module)].name;
    places[static_cast<int32_t>(i)] = all.size();
    all.push_back(std::move(w));
  }
  std::map<uint32_t, int32_t> on_device;
  for (const uint64_t id : ids)
    for (const auto& [launch, device] : launches(id)) on_device[launch] = device;
  for (size_t i = 0; i < events.size(); ++i) {
    if (!is_launch(events[i])) continue;
    int32_t outermost = around(i, Layer::Kernel);
    for (int32_t p = outermost; p >= 0; p = around(static_cast<size_t>(p), Layer::Kernel)) outermost = p;
    const auto at = places.find(outermost);
    if (at == places.end()) continue;
    Work& w = all[at->second];
    ++w.launches;
    const auto device = on_device.find(static_cast<uint32_t>(i));
    if (device == on_device.end() || device->second < 0) continue;
    const Event& d = events[static_cast<size_t>(device->second)];
    w.device_ns += d.end_ns - d.begin_ns;
  }
  return all;
}

}  // namespace strata::tracing
