// Shapes and strides of values, computed again after a change of the layouts.
#pragma once
#include "compile/graph.h"

namespace strata::engine {

// The results of a node for arguments of the types that its values have now, without values (device meta). Throws what the op
// throws. Only for plain calls.
// `same`: throws if a dtype or a shape is not that of the value.
STRATA_API std::vector<graph::ValueType> result_types(const graph::Graph& g, const graph::Node& n, bool same = true);

// Infers the types of all values again, after nodes were replaced by others whose results have other strides. Outputs keep theirs.
// Throws if that is not possible; the graph is as it was then.
STRATA_API void infer_again(graph::Graph& g);
// Whether the first result of a node that takes the place of others is of the type that its value has.
STRATA_API bool keeps_type(const graph::Graph& g, const graph::Node& n);

}  // namespace strata::engine
