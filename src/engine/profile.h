// What a run of each layer took.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compile/graph.h"

namespace strata::engine {

struct LayerProfile {
  std::string name, op, kernel, source;  // kernel: empty if the layer is a call of several; source: who wrote its code
  double milliseconds = 0;
  int64_t bytes = 0;  // that it reads and writes at least
  double flops = 0;
  std::vector<std::pair<std::string, std::string>> rejected = {};  // other kernels, with the reasons
};

// Products and sums that a node needs by its definition; 0 where memory decides.
STRATA_API double flops_of(const graph::Graph& graph, const graph::Node& node);
STRATA_API int64_t bytes_of(const graph::Graph& graph, const graph::Node& node);
// The name for reports: its source, else the name of its first result.
STRATA_API std::string name_of(const graph::Graph& graph, const graph::Node& node);

}  // namespace strata::engine
