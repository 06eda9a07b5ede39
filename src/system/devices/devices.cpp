#include "system/devices/devices.h"

#include <fmt/core.h>
#include <hwy/targets.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "system/devices/sources.h"

namespace strata::devices {
namespace {

using nlohmann::json;

json positive(double v) { return v > 0 ? json(v) : json(); }
json known(double v) { return v >= 0 ? json(v) : json(); }

std::string size_text(uint64_t bytes) {
  if (bytes >= uint64_t{1} << 30) return gib(bytes);
  return bytes >= uint64_t{1} << 20 ? fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20))
                                    : fmt::format("{:.0f} KiB", static_cast<double>(bytes) / 1024);
}

std::string property(const Info& info, const std::string& name) {
  for (const Property& p : info.properties)
    if (p.name == name) return p.text;
  return {};
}

std::string one_line(const Info& i) {
  if (!i.why_not.empty()) return fmt::format("{:<7} not available: {}\n", i.device, i.why_not);
  if (i.device == "cpu")
    return fmt::format("{:<7} {}, {} threads, {}, {}\n", i.device, i.name, property(i, "threads"), property(i, "simd"),
                       property(i, "memory_gib"));
  return fmt::format("{:<7} {}, compute capability {}, {} multiprocessors, {}\n", i.device, i.name,
                     property(i, "compute_capability"), property(i, "multiprocessors"), property(i, "memory_gib"));
}

std::string details_of(const Info& i) {
  std::string text;
  for (const Property& p : i.properties) text += fmt::format("  {:<28} {}\n", p.name, p.text);
  if (!i.memory.empty())
    text += fmt::format("  {:<28} {:>12} {:>6} {:>14} {:>14}\n", "memory", "size", "count", "nominal", "measured");
  for (const MemoryLevel& m : i.memory)
    text += fmt::format("    {:<26} {:>12} {:>6} {:>14} {:>14}\n", m.name, size_text(m.bytes), m.count,
                        per_second(m.nominal, "B/s"), per_second(m.measured, "B/s"));
  if (!i.peaks.empty()) text += fmt::format("  {:<28} {:>34} {:>14}\n", "peak", "nominal", "measured");
  for (const Peak& p : i.peaks)
    text +=
      fmt::format("    {:<26} {:>34} {:>14}{}\n", p.what, per_second(p.nominal, p.unit), per_second(p.measured, p.unit),
                  p.nominal > 0 && p.measured > 0 ? fmt::format(" {:>4.0f}%", 100 * p.measured / p.nominal) : "");
  return text;
}

}  // namespace

std::string gib(uint64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

std::string per_second(double v, const std::string& unit) {
  if (!(v > 0)) return "";
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  const int step = std::clamp(static_cast<int>(std::log10(v) / 3), 0, 5);
  return fmt::format("{:.3g} {}{}", v / std::pow(1000.0, step), kPrefixes[step], unit);
}

const char* simd_level() {
  const int64_t targets = hwy::SupportedTargets();
  return targets & HWY_AVX3 ? "AVX-512" : targets & HWY_AVX2 ? "AVX2" : "baseline";
}

std::vector<Info> list(bool measure) {
  std::vector<Info> all{cpu_info()};
  for (Info& info : gpu_infos()) all.push_back(std::move(info));
  for (Info& info : all)
    if (measure && info.why_not.empty()) measure_into(info);
  return all;
}

std::string to_text(const std::vector<Info>& all, bool details) {
  std::string text;
  for (const Info& i : all) text += one_line(i) + (details ? details_of(i) : "");
  return text;
}

std::string to_json(const std::vector<Info>& all) {
  json out = json::array();
  for (const Info& i : all) {
    json one{{"device", i.device}, {"available", i.why_not.empty()}};
    if (!i.why_not.empty()) {
      one["why_not"] = i.why_not;
      out.push_back(one);
      continue;
    }
    one["name"] = i.name;
    for (const Property& p : i.properties) one[p.name] = p.number ? json(*p.number) : json(p.text);
    one["memory"] = json::array();
    for (const MemoryLevel& m : i.memory)
      one["memory"].push_back({{"name", m.name},
                               {"bytes", m.bytes},
                               {"count", m.count},
                               {"nominal", positive(m.nominal)},
                               {"measured", positive(m.measured)}});
    one["peaks"] = json::array();
    for (const Peak& p : i.peaks)
      one["peaks"].push_back(
        {{"what", p.what}, {"unit", p.unit}, {"nominal", positive(p.nominal)}, {"measured", positive(p.measured)}});
    out.push_back(one);
  }
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::vector<Load> load() {
  std::vector<Load> all{cpu_load()};
  for (Load& l : gpu_loads()) all.push_back(std::move(l));
  return all;
}

std::string to_text(const Load& l) {
  std::string text = fmt::format("{:<7}", l.device);
  if (l.percent >= 0) text += fmt::format(" {:>5.1f}% busy", l.percent);
  if (l.memory_total > 0)
    text += fmt::format("  {:>6.1f} of {:.1f} GiB", l.memory_used / (1 << 30), l.memory_total / (1 << 30));
  if (l.watts >= 0) text += fmt::format("  {:>5.1f} W", l.watts);
  if (l.celsius >= 0) text += fmt::format("  {:.0f} C", l.celsius);
  if (l.mhz >= 0) text += fmt::format("  {:.0f} MHz", l.mhz);
  return text + "\n";
}

std::string to_json(const std::vector<Load>& all) {
  json out = json::array();
  for (const Load& l : all)
    out.push_back({{"device", l.device},
                   {"percent", known(l.percent)},
                   {"memory_percent", known(l.memory_percent)},
                   {"memory_used", known(l.memory_used)},
                   {"memory_total", known(l.memory_total)},
                   {"watts", known(l.watts)},
                   {"celsius", known(l.celsius)},
                   {"mhz", known(l.mhz)}});
  return out.dump() + "\n";
}

}  // namespace strata::devices
