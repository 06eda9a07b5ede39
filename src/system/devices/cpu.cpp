// The CPU: what the kernel's files say of it.
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "base/parallel.h"
#include "system/devices/sources.h"

namespace strata::devices {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The first value of each key of /proc/cpuinfo.
std::map<std::string, std::string> cpuinfo() {
  std::map<std::string, std::string> found;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    found.emplace(key, colon + 2 <= line.size() ? line.substr(colon + 2) : "");
  }
  return found;
}

// The instruction sets that matter for kernels, of those that the processor names.
std::string instruction_sets(const std::string& flags) {
  std::istringstream words(flags);
  std::set<std::string> have;
  for (std::string word; words >> word;) have.insert(word);
  std::string text;
  for (const auto& [flag, name] : {std::pair{"sse4_2", "SSE4.2"},
                                   {"avx", "AVX"},
                                   {"avx2", "AVX2"},
                                   {"fma", "FMA"},
                                   {"f16c", "F16C"},
                                   {"avx512f", "AVX-512"},
                                   {"avx512_vnni", "AVX-512 VNNI"},
                                   {"avx512_bf16", "AVX-512 BF16"},
                                   {"avx512_fp16", "AVX-512 FP16"},
                                   {"avx_vnni", "AVX-VNNI"},
                                   {"amx_tile", "AMX"},
                                   {"amx_bf16", "AMX BF16"},
                                   {"amx_int8", "AMX INT8"},
                                   {"asimd", "NEON"},
                                   {"sve", "SVE"},
                                   {"sve2", "SVE2"},
                                   {"bf16", "BF16"}})
    if (have.contains(flag)) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

uint64_t size_in(const std::string& text) {  // "1024K"
  const uint64_t n = std::strtoull(text.c_str(), nullptr, 10);
  return text.ends_with('K') ? n << 10 : text.ends_with('M') ? n << 20 : n;
}

// How many CPUs a list such as "0-3,8" names.
int count_in(const std::string& list) {
  int n = 0;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    n += dash == part.npos ? 1 : std::atoi(part.c_str() + dash + 1) - std::atoi(part.c_str()) + 1;
  }
  return n;
}

void add_caches(Info& info, int cpus) {
  for (int i = 0; i < 8; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string level = first_line(folder + "level"), kind = first_line(folder + "type");
    if (level.empty() || kind == "Instruction") continue;
    const int sharing = std::max(1, count_in(first_line(folder + "shared_cpu_list")));
    info.memory.push_back(
      {"L" + level + " cache", size_in(first_line(folder + "size")), std::max(1, cpus / sharing), 0, 0});
  }
}

struct Times {
  double busy = 0, all = 0;
};
Times times() {
  std::istringstream words(first_line("/proc/stat"));
  std::string label;
  words >> label;
  Times t;
  double v = 0;
  for (int i = 0; i < 8 && words >> v; ++i) {
    t.all += v;
    if (i != 3 && i != 4) t.busy += v;  // idle, waiting for disks
  }
  return t;
}

}  // namespace

Info cpu_info() {
  Info info;
  info.device = "cpu";
  auto about = cpuinfo();
  info.name = about.contains("model name") ? about["model name"] : "unknown";
  const auto add = [&](const char* name, const std::string& text, std::optional<double> number = {}) {
    if (!text.empty()) info.properties.push_back({name, text, number});
  };
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const uint64_t memory =
    static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  add("threads", std::to_string(hardware_threads()), hardware_threads());
  const int cores = about.contains("cpu cores") ? std::atoi(about["cpu cores"].c_str()) : 0;
  if (cores) add("cores_per_socket", std::to_string(cores), cores);
  add("simd", simd_level());
  add("instruction_sets", instruction_sets(about.contains("flags") ? about["flags"] : about["Features"]));
  if (const std::string khz = first_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"); !khz.empty())
    add("clock_mhz", fmt::format("{} MHz", std::atoll(khz.c_str()) / 1000),
        static_cast<double>(std::atoll(khz.c_str())) / 1000);
  int nodes = 0;
  while (!first_line(fmt::format("/sys/devices/system/node/node{}/cpulist", nodes)).empty()) ++nodes;
  if (nodes) add("numa_nodes", std::to_string(nodes), nodes);
  add("memory_gib", gib(memory), static_cast<double>(memory) / (1 << 30));
  add_caches(info, static_cast<int>(std::max(1L, online)));
  info.memory.push_back({"memory", memory, 1, 0, 0});
  return info;
}

Load cpu_load() {
  static Times before;
  if (before.all == 0) {
    before = times();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const Times now = times();
  Load l;
  l.device = "cpu";
  if (now.all > before.all) l.percent = 100 * (now.busy - before.busy) / (now.all - before.all);
  before = now;
  double total = 0, available = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemTotal:")) total = std::strtod(line.c_str() + 9, nullptr) * 1024;
    if (line.starts_with("MemAvailable:")) available = std::strtod(line.c_str() + 13, nullptr) * 1024;
  }
  if (total > 0) {
    l.memory_total = total;
    l.memory_used = total - available;
  }
  return l;
}

}  // namespace strata::devices
