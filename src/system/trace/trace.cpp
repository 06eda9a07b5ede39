#include "system/trace/trace.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "system/trace/outputs.h"

namespace strata::tracing {

namespace {

constexpr std::pair<const char*, Layer> kTables[] = {
  {"op", Layer::Op},     {"kernel", Layer::Kernel},     {"device", Layer::Device},   {"module", Layer::Module},
  {"user", Layer::User}, {"autograd", Layer::Autograd}, {"runtime", Layer::Runtime}, {"driver", Layer::Driver}};

std::string time_text(int64_t ns) {
  const double us = static_cast<double>(ns) / 1e3;
  return us < 1e3   ? fmt::format("{:.2f} us", us)
         : us < 1e6 ? fmt::format("{:.2f} ms", us / 1e3)
                    : fmt::format("{:.3f} s", us / 1e6);
}

std::string bytes_text(double n) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int step = 0;
  for (; n >= 1000 && step < 4; ++step) n /= 1000;
  return fmt::format("{:.3g} {}", n, kUnits[step]);
}

// Whether the span counts in its table by itself: not an op inside another op of the same name.
bool is_inner(const Recording& r, const std::vector<int32_t>& parent, size_t i) {
  const Event& e = r.events[i];
  for (int32_t p = parent[i]; p >= 0; p = parent[static_cast<size_t>(p)])
    if (r.events[static_cast<size_t>(p)].layer == e.layer && r.events[static_cast<size_t>(p)].name == e.name)
      return true;
  return false;
}

}  // namespace

Trace::Trace(Recording recording) : recording_(std::make_shared<const Recording>(std::move(recording))) {
  const std::vector<Event>& events = recording_->events;
  STRATA_CHECK(events.size() < UINT32_MAX / 2, Runtime, "trace: {} spans are too many", events.size());
  auto n = std::make_shared<Nesting>();
  n->order.resize(events.size());
  std::iota(n->order.begin(), n->order.end(), 0u);
  std::stable_sort(n->order.begin(), n->order.end(), [&](uint32_t a, uint32_t b) {
    const Event &x = events[a], &y = events[b];
    if (x.thread != y.thread) return x.thread < y.thread;
    if (x.begin_ns != y.begin_ns) return x.begin_ns < y.begin_ns;
    if (x.end_ns != y.end_ns) return x.end_ns > y.end_ns;
    return a > b;  // of equal times, the one that ended later is outside
  });
  n->self_ns.resize(events.size());
  n->parent.assign(events.size(), -1);
  std::vector<uint32_t> open;
  for (const uint32_t i : n->order) {
    const Event& e = events[i];
    while (!open.empty() && (events[open.back()].thread != e.thread || events[open.back()].end_ns < e.end_ns ||
                             (events[open.back()].end_ns <= e.begin_ns && e.begin_ns != e.end_ns)))
      open.pop_back();
    n->self_ns[i] = e.end_ns - e.begin_ns;
    if (!open.empty()) {
      n->parent[i] = static_cast<int32_t>(open.back());
      n->self_ns[open.back()] -= e.end_ns - e.begin_ns;
    }
    open.push_back(i);
  }
  nesting_ = n;
}

std::string Trace::line_of(size_t i) const {
  const Recording& r = *recording_;
  for (int64_t p = static_cast<int64_t>(i); p >= 0; p = nesting_->parent[static_cast<size_t>(p)]) {
    const Event& e = r.events[static_cast<size_t>(p)];
    if (e.layer != Layer::Python) continue;
    if (const char* file = r.text(e, key::file))
      return fmt::format("{}:{} in {}", file, r.integer(e, key::line, 0), r.text(e, key::function));
  }
  return {};
}

std::vector<Row> Trace::rows(const std::string& by) const {
  const Recording& r = *recording_;
  const bool lines = by == "line", layers = by == "layer";
  const auto known = std::find_if(std::begin(kTables), std::end(kTables), [&](const auto& t) { return by == t.first; });
  STRATA_CHECK(
    lines || layers || known != std::end(kTables), Value,
    "trace: there is no table by '{}'; there are op, kernel, line, layer, module, user, device, autograd, runtime "
    "and driver",
    by);
  std::map<std::string, Row> found;
  std::vector<Row*> row_of(r.events.size(), nullptr);  // of spans that have a row
  std::unordered_map<uint64_t, std::vector<uint32_t>> outermost;
  for (const uint32_t i : nesting_->order) {
    const Event& e = r.events[i];
    std::string name;
    bool inner = false;
    if (layers) name = tracing::name_of(e.layer);
    else if (lines) name = e.layer == Layer::Python ? line_of(i) : "";
    else if (e.layer == known->second) name = e.layer == Layer::Autograd ? std::string(e.name) + " backward" : e.name;
    if (name.empty()) continue;
    if (lines)
      for (int32_t p = nesting_->parent[i]; p >= 0 && !inner; p = nesting_->parent[static_cast<size_t>(p)])
        inner = r.events[static_cast<size_t>(p)].layer == Layer::Python;
    else inner = !layers && is_inner(r, nesting_->parent, i);
    Row& row = found[name];
    row.key = name;
    row_of[i] = &row;
    ++row.calls;
    row.self_ns += nesting_->self_ns[i];
    if (layers || !inner) row.total_ns += e.end_ns - e.begin_ns;
    if (lines && !inner) outermost[e.id].push_back(i);
    if (e.layer == Layer::Device) row.device_ns += e.end_ns - e.begin_ns;
  }
  for (size_t i = 0; i < r.events.size(); ++i) {
    const Event& e = r.events[i];
    Row* row = nullptr;
    if (e.layer == Layer::Kernel) {
      for (int64_t p = static_cast<int64_t>(i); p >= 0 && !row; p = nesting_->parent[static_cast<size_t>(p)])
        row = row_of[static_cast<size_t>(p)];
      if (row && !layers) {
        row->bytes += r.integer(e, key::bytes, 0);
        row->flops += flops(i);
      }
    }
    if (e.layer != Layer::Device || by == "device" || layers) continue;
    if (lines) {
      if (const auto at = outermost.find(e.id); at != outermost.end()) row = row_of[at->second[0]];
    } else if (by == "op") {
      if (const char* op = r.text(e, key::op))
        if (const auto at = found.find(op); at != found.end()) row = &at->second;
    }
    if (row) row->device_ns += e.end_ns - e.begin_ns;
  }
  std::vector<Row> rows;
  rows.reserve(found.size());
  for (auto& [name, row] : found) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::max(a.total_ns, a.device_ns) > std::max(b.total_ns, b.device_ns);
  });
  return rows;
}

std::string Trace::table(const std::string& by, size_t most, const Peaks& peaks) const {
  const std::vector<Row> all = rows(by);
  const bool device = std::any_of(all.begin(), all.end(), [](const Row& r) { return r.device_ns > 0; });
  const bool bytes = std::any_of(all.begin(), all.end(), [](const Row& r) { return r.bytes > 0; });
  const bool flops = std::any_of(all.begin(), all.end(), [](const Row& r) { return r.flops > 0; });
  const bool shares = peaks.bytes > 0 || peaks.flops > 0;
  std::string text = fmt::format(
    "{:<44} {:>8} {:>12} {:>12}{}{}{}{}\n", by, "calls", "total", "self",
    device ? fmt::format(" {:>12}", "device") : "", bytes ? fmt::format(" {:>10} {:>12}", "bytes", "per second") : "",
    flops ? fmt::format(" {:>14}", "operations") : "", shares ? fmt::format(" {:>8}", "of peak") : "");
  for (size_t i = 0; i < std::min(most, all.size()); ++i) {
    const Row& r = all[i];
    const std::string name = r.key.size() > 44 ? "..." + r.key.substr(r.key.size() - 41) : r.key;
    text += fmt::format("{:<44} {:>8} {:>12} {:>12}", name, r.calls, time_text(r.total_ns), time_text(r.self_ns));
    if (device) text += fmt::format(" {:>12}", r.device_ns ? time_text(r.device_ns) : "");
    const int64_t time = r.device_ns ? r.device_ns : r.total_ns;
    if (bytes)
      text += r.bytes ? fmt::format(
                          " {:>10} {:>12}", bytes_text(static_cast<double>(r.bytes)),
                          time ? bytes_text(1e9 * static_cast<double>(r.bytes) / static_cast<double>(time)) + "/s" : "")
                      : fmt::format(" {:>10} {:>12}", "", "");
    const double seconds = static_cast<double>(time) / 1e9;
    if (flops)
      text += fmt::format(
        " {:>14}", r.flops && time ? fmt::format("{:.4g} GFLOP/s", static_cast<double>(r.flops) / seconds / 1e9) : "");
    const double share = std::max(peaks.bytes > 0 ? static_cast<double>(r.bytes) / peaks.bytes : 0,
                                  peaks.flops > 0 ? static_cast<double>(r.flops) / peaks.flops : 0);
    if (shares) text += fmt::format(" {:>8}", share > 0 && time ? fmt::format("{:.0f}%", 100 * share / seconds) : "");
    while (text.ends_with(' ')) text.pop_back();
    text += "\n";
  }
  if (all.size() > most) text += fmt::format("… and {} more\n", all.size() - most);
  if (recording_->dropped)
    text += fmt::format("{} spans were dropped: give the recording more memory\n", recording_->dropped);
  return text;
}

std::string Trace::tree(size_t most) const {
  const Recording& r = *recording_;
  std::string text;
  size_t shown = 0;
  for (const uint32_t i : nesting_->order) {
    if (shown++ == most) {
      text += fmt::format("… and {} more spans\n", r.events.size() - most);
      break;
    }
    const Event& e = r.events[i];
    size_t depth = 0;
    for (int32_t p = nesting_->parent[i]; p >= 0; p = nesting_->parent[static_cast<size_t>(p)]) ++depth;
    const std::string detail = r.detail(e);
    text +=
      fmt::format("{}{}: {}{}{}  {:.1f} us  #{}\n", std::string(2 * depth, ' '), tracing::name_of(e.layer), e.name,
                  detail.empty() ? "" : " ", detail, static_cast<double>(e.end_ns - e.begin_ns) / 1e3, e.id);
  }
  return text;
}

std::string Trace::flame_svg() const {
  return make_flame_svg(*recording_, nesting_->order, nesting_->parent, nesting_->self_ns);
}

std::string Trace::to_html() const { return make_html(*this); }

void Trace::save(const std::string& path) const {
  if (path.ends_with(".json")) return write_chrome_json(*recording_, path);
  std::string text;
  if (path.ends_with(".svg")) text = flame_svg();
  else if (path.ends_with(".html")) text = to_html();
  else if (path.ends_with(".txt")) text = table("op", 100) + "\n" + table("layer") + "\n" + table("line", 100);
  else
    fail(
      ErrorKind::Value,
      fmt::format("trace: cannot tell the format of '{}'; use a name that ends in .json, .svg, .html or .txt", path));
  write_text(path, text);
}

Session::Session(size_t most_bytes) { tracing::start(most_bytes); }
Session::~Session() {
  if (running_) (void)tracing::stop();
}
Trace Session::stop() {
  STRATA_CHECK(std::exchange(running_, false), Runtime, "trace: this session has been stopped before");
  return Trace(tracing::stop());
}

namespace {
// STRATA_TRACE=file: the whole process is recorded, and the file written when it ends.
struct WholeProcess {
  WholeProcess() {
    const char* file = std::getenv("STRATA_TRACE");
    if (!file || !*file) return;
    path() = file;
    owner() = ::getpid();
    ::unsetenv("STRATA_TRACE");  // a program that this one starts would replace the file
    tracing::start();
    std::atexit([] {
      if (!tracing::enabled.load() || owner() != ::getpid()) return;  // stopped by the program; a forked process
      try {
        Trace(tracing::stop()).save(path());
      } catch (const std::exception& e) { fmt::print(stderr, "strata: STRATA_TRACE: {}\n", e.what()); }
    });
  }
  static pid_t& owner() {
    static pid_t pid = 0;
    return pid;
  }
  static std::string& path() {
    static auto* const text = new std::string;
    return *text;
  }
};
[[maybe_unused]] const WholeProcess whole_process;
}  // namespace

}  // namespace strata::tracing
