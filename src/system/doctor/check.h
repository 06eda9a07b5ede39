// The tables of checks: each has what users read, and a function that looks at the facts.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "system/doctor/doctor.h"
#include "system/doctor/facts.h"

namespace strata::doctor {

using Evidence = std::vector<std::string>;  // not empty: it was found
struct Check {
  const char* id;
  Severity severity;
  const char *title, *explanation, *fix;
  void (*look)(const Facts& f, Evidence& found);
};
constexpr Severity kError = Severity::Error, kWarning = Severity::Warning;

// In the order of the sections.
std::span<const Check> driver_checks();
std::span<const Check> gpu_checks();
std::span<const Check> toolkit_checks();
std::span<const Check> library_checks();
std::span<const Check> python_checks();
std::span<const Check> build_checks();
std::span<const Check> environment_checks();
std::span<const Check> container_checks();
std::span<const Check> system_checks();
std::span<const Check> mac_checks();
std::span<const Check> probe_checks();
std::span<const Check> torch_checks();

struct Topic {
  const char *name, *text;
};
std::span<const Topic> all_topics();

// Runs the probes on a device. "jit" and the others are the names of the checks "probe.jit", …
std::vector<Probe> run_probes(const std::string& device);

}  // namespace strata::doctor
