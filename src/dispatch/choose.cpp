#include "dispatch/choose.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "dispatch/devices.h"
#include "dispatch/tuning.h"
#include "record/declined.h"

namespace strata {
namespace {

size_t limit_from_environment() {
  const char* text = std::getenv("STRATA_WORKSPACE_LIMIT");
  size_t bytes = SIZE_MAX;
  if (text) {
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, bytes);
    STRATA_CHECK(error == std::errc() && stop == end, Value,
                 "STRATA_WORKSPACE_LIMIT is '{}', expected a number of bytes", text);
  }
  return bytes;
}
std::atomic<size_t>& limit() {
  static std::atomic<size_t> bytes{limit_from_environment()};
  return bytes;
}

thread_local const char* preferred = nullptr;

// Why a kernel rejects the call; empty if it accepts.
std::string objection_to(const Kernel& k, const Call& c, Plan& plan) {
  if (const char* reason = k.objection(c, plan)) return reason;
  if (k.plans() && plan.workspace > workspace_limit())
    return fmt::format("needs {} bytes of workspace, the limit is {}", plan.workspace, workspace_limit());
  return {};
}
}  // namespace

const char* name_of(Source source) {
  constexpr const char* kNames[] = {"own", "oneDNN", "LAPACK", "cuBLASLt", "cuDNN", "generated"};
  return kNames[static_cast<size_t>(source)];
}

std::string facts_of(const Kernel& k) {
  std::string text = name_of(k.source);
  if (k.numerics.tf32) text += ", TF32";
  if (k.numerics.error > 1) text += fmt::format(", {}x the rounding error", k.numerics.error);
  if (!k.numerics.deterministic) text += ", bits vary";
  return text;
}

std::string verdict(const Explanation::Line& line) {
  std::string text = line.reason.empty() ? "chosen" : line.reason;
  if (!line.variant.empty()) text += fmt::format("; plan {}", line.variant);
  if (line.workspace) text += fmt::format("; {} bytes of workspace", line.workspace);
  if (line.time_us > 0) text += fmt::format("; {:.1f} us", line.time_us);
  return text;
}

size_t workspace_limit() { return limit().load(std::memory_order_relaxed); }
void set_workspace_limit(size_t bytes) { limit().store(bytes, std::memory_order_relaxed); }

const char* prefer_kernel(const char* name) { return std::exchange(preferred, name); }

void no_kernel(const Call& c, const Kernels& kernels) {
  std::string what = fmt::format("{}: no kernel fits these arguments", c.op.name);
  Plan plan;
  for (const Kernel& k : kernels) what += fmt::format("\n  {}: {}", k.name, objection_to(k, c, plan));
  fail(ErrorKind::NotImplemented, what);
}

// The choice of choose() as a span, with the reason of each kernel that was rejected.
static const Kernel& choose_traced(const Kernels& kernels, const Call& c, Plan& plan) {
  tracing::Span span(tracing::Layer::Dispatch, "choose");
  for (const Kernel& k : kernels) {
    const std::string reason = objection_to(k, c, plan);
    if (reason.empty()) {
      if (span.active()) span.text(tracing::key::kernel, k.name);
      return k;
    }
    if (span.active()) span.copied(tracing::key::rejected, fmt::format("{}: {}", k.name, reason));
  }
  no_kernel(c, kernels);
}

// Asks every kernel, so that an explanation can show all of them.
const Kernel& choose_watched(const Kernels& kernels, const Call& c, Plan& plan) {
  if (!thread_state.explain && !thread_state.tuning && !c.op.is_tuned()) return choose_traced(kernels, c, plan);
  Explanation looked;
  std::vector<Explanation::Line>& lines = looked.lines;
  std::vector<size_t> ready;
  Plan tried;
  for (size_t i = 0; i < kernels.size(); ++i) {
    Explanation::Line& line = looked.add(c.op, kernels[i]);
    line.reason = objection_to(kernels[i], c, tried);
    if (!line.reason.empty()) continue;
    ready.push_back(i);
    if (!kernels[i].plans()) continue;
    if (tried.variant) line.variant = tried.variant;
    line.workspace = tried.workspace;
  }
  if (ready.empty()) no_kernel(c, kernels);
  size_t best = ready[0];
  if (const std::vector<double> times = tuned_times(kernels, c, ready); !times.empty()) {
    for (size_t i : ready) {
      if (std::isinf(times[i])) lines[i].reason = "declined this call when it ran";
      else lines[i].time_us = times[i];
      if (times[i] < times[best]) best = i;
    }
  }
  if (preferred)
    for (size_t i : ready)
      if (std::strcmp(kernels[i].name, preferred) == 0) best = i;
  const Kernel& chosen = kernels[best];
  chosen.objection(c, plan);
  if (!thread_state.explain) return chosen;
  for (size_t i = 0; i < lines.size(); ++i) {
    lines[i].behind = i > best;
    if (lines[i].reason.empty() && i != best)
      lines[i].reason = fmt::format("ready, but {} {}", chosen.name,
                                    i > best    ? "comes first"
                                    : preferred ? "is preferred"
                                                : "was faster");
  }
  auto& seen = thread_state.explain->lines;
  seen.insert(seen.end(), lines.begin(), lines.end());
  return chosen;
}

namespace {

void run_with_workspace(const Kernel& k, const Call& c, const Plan& plan) {
  Call with_workspace = c;
  Tensor bytes;
  if (plan.workspace) {
    const int64_t size[] = {static_cast<int64_t>(plan.workspace)};
    bytes = make_tensor(Shape(size), DType::U8, device_of_run(c));
    with_workspace.workspace = bytes.get();
  }
  if (k.run_plan) return k.run_plan(with_workspace, plan);
  Workspace memory(with_workspace);
  k.run_in(with_workspace, memory);
}

// Corrects what an explanation says about a call whose chosen kernel declined.
void explain_again(const Call& c, const Kernel& declined, const char* reason, const Kernel& chosen) {
  std::vector<Explanation::Line>& lines = thread_state.explain->lines;
  for (const Kernel* k : {&declined, &chosen}) {
    const auto line = std::find_if(lines.rbegin(), lines.rend(),
                                   [&](const Explanation::Line& l) { return l.op == &c.op && l.kernel == k; });
    if (line != lines.rend()) line->reason = k == &declined ? reason : "";
  }
}

const Kernels& list_with(const Kernel& k, const OpRecord& op) {
  const Kernels& cpu = op.kernels(Backend::Cpu);
  const bool here = std::any_of(cpu.begin(), cpu.end(), [&](const Kernel& each) { return &each == &k; });
  return here ? cpu : op.kernels(Backend::Cuda);
}

// Runs the first kernel that accepts a call that another one declined. Each is tried once.
void run_another(const Kernel& declined, const Call& c, const Declined& error) {
  Plan plan;
  const char* reason = declined.objection(c, plan);
  for (const Kernel& k : list_with(declined, c.op)) {
    if (&k == &declined || !objection_to(k, c, plan).empty()) continue;
    if (thread_state.explain) explain_again(c, declined, reason ? reason : error.what(), k);
    if (!k.plans()) return k.run(c);
    try {
      return run_with_workspace(k, c, plan);
    } catch (const Declined&) { continue; }
  }
  throw error;
}
}  // namespace

void run_planned(const Kernel& k, const Call& c, const Plan& plan) {
  try {
    run_with_workspace(k, c, plan);
  } catch (const Declined& error) { run_another(k, c, error); }
}

}  // namespace strata
