// Passes over graphs. Each keeps the bits of all outputs, ends with verify(), and returns how many nodes it removed.
#pragma once
#include "compile/graph.h"

namespace strata::graph {

// Nodes whose results nobody uses. Those that draw random numbers stay: they advance the generator.
STRATA_API size_t remove_unused(Graph& graph);
// Equal calls with equal arguments, except those that draw random numbers.
STRATA_API size_t merge_equal(Graph& graph);
// Copies of results that nobody else uses and that own their memory: the copy takes their place. A capture makes them where
// a program would take over memory, but for the references of the capture. Not for graphs that record gradients.
STRATA_API size_t remove_copies(Graph& graph);
// Computes nodes whose arguments are constants (states without a name) now; their results become constants. Not those that would
// make more than `max_bytes` of new constants each.
STRATA_API size_t fold_constants(Graph& graph, int64_t max_bytes = 16 << 20);

}  // namespace strata::graph
