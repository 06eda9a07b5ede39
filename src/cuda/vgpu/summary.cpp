#include "cuda/vgpu/summary.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"

namespace strata::cuda::vgpu {
namespace {

double ratio(uint64_t a, uint64_t b) { return b ? static_cast<double>(a) / static_cast<double>(b) : 0; }

std::string most_of(const std::map<std::string, double>& weights) {
  const auto most =
    std::max_element(weights.begin(), weights.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == weights.end() ? "" : most->first;
}

// "1.23 G": four digits are enough to compare, and keep columns narrow.
std::string short_number(uint64_t n) {
  const auto v = static_cast<double>(n);
  if (n < 10000) return fmt::format("{}", n);
  const std::pair<double, const char*> units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  for (const auto& [size, unit] : units)
    if (v >= size) return fmt::format("{:.2f}{}", v / size, unit);
  return fmt::format("{}", n);
}

std::string or_dash(uint64_t requests, double value) { return requests ? fmt::format("{:.2f}", value) : "-"; }

std::string row(const KernelTotals& t, size_t op_width, size_t width) {
  return fmt::format("{:<{}} {:<{}} {:>8} {:>9} {:>5.0f}% {:>8} {:>7} {:>4.0f}% {:<14} {:>8.3f} ms, {}\n", t.op,
                     op_width, t.kernel, width, t.launches, short_number(t.thread_instructions),
                     100 * t.simt_efficiency(), or_dash(t.global_requests, t.sectors_per_request()),
                     or_dash(t.shared_requests, t.passes_per_request()), 100 * t.occupancy, t.limiter,
                     1e3 * t.estimated_seconds, t.bound);
}

}  // namespace

double KernelTotals::simt_efficiency() const {
  return warp_instructions ? ratio(thread_instructions, warp_instructions) / 32 : 1;
}
double KernelTotals::sectors_per_request() const { return ratio(global_sectors, global_requests); }
double KernelTotals::passes_per_request() const { return ratio(shared_passes, shared_requests); }

void Summary::Sums::add(const Sums& o) {
  KernelTotals& t = totals;
  t.launches += o.totals.launches;
  t.warps += o.totals.warps;
  t.warp_instructions += o.totals.warp_instructions;
  t.thread_instructions += o.totals.thread_instructions;
  t.global_requests += o.totals.global_requests;
  t.global_sectors += o.totals.global_sectors;
  t.shared_requests += o.totals.shared_requests;
  t.shared_passes += o.totals.shared_passes;
  t.occupancy += o.totals.occupancy;
  t.estimated_seconds += o.totals.estimated_seconds;
  for (const auto& [name, weight] : o.limiters) limiters[name] += weight;
  for (const auto& [name, weight] : o.bounds) bounds[name] += weight;
}

KernelTotals Summary::Sums::result() const {
  KernelTotals t = totals;
  t.occupancy = t.warps ? t.occupancy / static_cast<double>(t.warps) : 0;
  t.limiter = most_of(limiters);
  t.bound = most_of(bounds);
  return t;
}

void Summary::add(const Counters& c) {
  const auto warps = static_cast<double>(c.warps);
  Sums one;
  one.totals = {.op = c.op,
                .kernel = c.kernel,
                .launches = 1,
                .warps = c.warps,
                .warp_instructions = c.warp_instructions,
                .thread_instructions = c.thread_instructions,
                .global_requests = c.global_requests,
                .global_sectors = c.global_sectors,
                .shared_requests = c.shared_requests,
                .shared_passes = c.shared_passes,
                .occupancy = c.occupancy.fraction * warps,
                .limiter = {},
                .estimated_seconds = c.estimated.seconds,
                .bound = {}};
  one.limiters[c.occupancy.limiter] = warps;
  one.bounds[c.estimated.bound] = c.estimated.seconds;
  const auto [at, fresh] = kernels_.try_emplace({c.op, c.kernel}, one);
  if (!fresh) at->second.add(one);
}

std::vector<KernelTotals> Summary::kernels() const {
  std::vector<KernelTotals> out;
  for (const auto& [name, sums] : kernels_) out.push_back(sums.result());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.estimated_seconds > b.estimated_seconds; });
  return out;
}

Summary::Sums Summary::sum(const std::vector<KernelTotals>& some) const {
  Sums out;
  for (const KernelTotals& t : some) out.add(kernels_.at({t.op, t.kernel}));
  return out;
}

KernelTotals Summary::total() const {
  KernelTotals t = sum(kernels()).result();
  t.op = "all";
  return t;
}

std::string Summary::to_text(size_t most) const {
  if (empty()) return "no launches\n";
  std::vector<KernelTotals> shown = kernels();
  if (shown.size() > most + 1) {  // a line for one other kernel might as well be its own
    const std::vector<KernelTotals> rest(shown.begin() + static_cast<std::ptrdiff_t>(most), shown.end());
    shown.resize(most);
    shown.push_back(sum(rest).result());
    shown.back().op = fmt::format("{} others", rest.size());
  }
  shown.push_back(total());
  size_t op_width = 2, width = 6;
  for (const KernelTotals& t : shown) {
    op_width = std::max(op_width, t.op.size());
    width = std::max(width, t.kernel.size());
  }
  std::string out =
    fmt::format("{:<{}} {:<{}} {:>8} {:>9} {:>6} {:>8} {:>7}  {:<18} {}\n", "op", op_width, "kernel", width, "launches",
                "instr.", "SIMT", "sectors", "passes", "occupancy, limit", "estimate, bound");
  for (const KernelTotals& t : shown) out += row(t, op_width, width);
  return out +
         "instr.: executed by threads. SIMT: threads that take part in a warp's instruction, of 32. sectors: pieces of "
         "32 bytes that\n"
         "a warp's request to device memory touches; 4 are best for 32 floats. passes: rounds over the banks for a "
         "request to shared\n"
         "memory; more than 1 is a bank conflict (up to 4 bytes a thread). estimate: from these counts, no "
         "measurement.\n";
}

}  // namespace strata::cuda::vgpu
