// Graphs as capsules.
#pragma once
#include "compile/graph.h"
#include "python/capsule.h"

namespace strata::python {

template <> constexpr const char* kCapsule<graph::Graph> = "strata.graph";

}  // namespace strata::python
