// Examines this machine: can its GPUs be used, and if not, why not and what to do. The same as `strata doctor`.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/api.h"

namespace strata::doctor {

enum class Severity : uint8_t { Warning, Error };  // Error: a device cannot be used

// A record of the table of checks.
struct CheckInfo {
  std::string id;       // "driver.module-not-loaded"
  std::string section;  // "driver"
  Severity severity;
  std::string title, explanation;
  std::string fix;   // commands, one per line; comments begin with #
  std::string page;  // of the docs
};
STRATA_API const std::vector<CheckInfo>& checks();
STRATA_API std::vector<std::string> sections();  // "driver", "gpu", …
// What a check looks for, or a topic such as "legacy-macos", as text. Throws Value if there is neither.
STRATA_API std::string explain(const std::string& id);
STRATA_API std::vector<std::string> topics();

struct Options {
  std::vector<std::string> sections = {};  // empty: all, except torch
  bool torch = false;                      // also examine an installed PyTorch, by running its interpreter
  bool probes = true;                      // use the devices: allocate, copy, launch, …
  std::string device = {};                 // for the probes; empty: cuda, if it is there. "vgpu", "cuda:1"
  std::string root = {};                   // examine the files below this folder instead of this machine's
  std::optional<std::map<std::string, std::string>> environment = {};  // instead of this process's
  std::vector<std::string> package_folders = {};  // of Python; empty: those of the interpreter on PATH
  std::optional<std::string> architectures = {};  // as if this build had machine code for these: "80 90a"
  double seconds = 20;                            // for each library or program that is asked
};

struct Finding {
  const CheckInfo* check;
  std::vector<std::string> evidence;  // what was found
};
struct Fact {
  std::string section, name, value;
};
struct Probe {
  std::string name;     // "gemm"
  double ms = 0;        // of one run after the first
  std::string detail;   // "256 x 256 x 256, float32"
  std::string skipped;  // why it was not run
  std::string failure;  // empty: it worked
};
struct Report {
  std::vector<std::string> sections;
  size_t checked = 0;  // number of checks
  std::vector<Fact> facts;
  std::vector<Finding> findings;
  std::string probed;  // the device of the probes; empty: none
  std::vector<Probe> probes;
  STRATA_API int status() const;  // 0 fine, 1 warnings, 2 a device cannot be used
};
// Throws Value for a section or a device that does not exist.
STRATA_API Report examine(const Options& options = {});

STRATA_API std::string to_text(const Report& report);
STRATA_API std::string to_json(const Report& report);
STRATA_API std::string fix_hints(const Report& report);  // the commands, as a shell script to read and run
// The findings in few lines, without opening libraries: appended to the error when device cuda is not available.
STRATA_API std::string short_form();

}  // namespace strata::doctor
