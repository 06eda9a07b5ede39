// Optimisation of the graphs that an engine runs. Each pass keeps what the graph computes: its bits, or within rounding where the
// options allow it; verify() runs after each.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compile/graph.h"

namespace strata::engine {

struct CalibrationTable;

// What a pass did at one place, or why it did not: for the engine's report.
struct Decision {
  std::string pass;   // "fold_constants"
  std::string where;  // the name or source of the node
  std::string what;   // what was replaced by what, or why it was not
  bool applied = true;
  int64_t bytes = 0;  // of memory traffic that it saves, if known
};

struct PassOptions {
  bool fp16 = false, bf16 = false, int8 = false;  // lower precisions that may be used
  bool only_necessary = false;                    // nothing that changes bits or replaces values
  bool only_layers = false;                       // constants, norms and pads become part of layers; no op is new
  int level = 3;                                  // 0: only what removes work, without new forms of nodes
  int64_t constant_bytes = 16 << 20;  // a node whose results would be more new constants than this is not folded
  const CalibrationTable* calibration = nullptr;  // for int8
  std::vector<Decision>* decisions = nullptr;     // gets what was decided, if given
};

// Runs all passes that the options allow. Returns how many nodes they removed.
STRATA_API size_t optimize(graph::Graph& graph, const PassOptions& options = {});

}  // namespace strata::engine
