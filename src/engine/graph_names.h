// Names of the graph layer that files of this one use all the time.
#pragma once
#include "compile/graph.h"

namespace strata::engine {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;
using graph::ValueList;
using graph::ValueRef;
using graph::ValueType;

}  // namespace strata::engine
