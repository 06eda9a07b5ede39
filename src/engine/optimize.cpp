#include <fmt/core.h>

#include "compile/passes.h"
#include "engine/passes.h"
#include "engine/passes/inference.h"

namespace strata::engine {
namespace {

void note(const PassOptions& options, const char* pass, size_t removed) {
  if (options.decisions && removed)
    options.decisions->push_back({pass, "the whole graph", fmt::format("{} nodes are gone", removed)});
}

}  // namespace

size_t optimize(graph::Graph& graph, const PassOptions& options) {
  size_t removed = 0;
  const auto count = [&](const char* pass, size_t nodes) {
    note(options, pass, nodes);
    removed += nodes;
  };
  count("remove_unused", graph::remove_unused(graph));
  if (options.only_necessary) return removed;
  count("fold_constants", graph::fold_constants(graph, options.constant_bytes));
  count("merge_equal", graph::merge_equal(graph));
  count("remove_copies", graph::remove_copies(graph));
  if (options.level > 0) {
    count("cancel_transposes", cancel_transposes(graph, options));
    count("fold_pads", fold_pads(graph, options));
    count("fold_norms", fold_norms(graph, options));
    count("join_patterns", join_patterns(graph, options));
    count("join_attention", join_attention(graph, options));
    count("fuse_products", fuse_products(graph, options));
    count("lay_out_channels_last", lay_out_channels_last(graph, options));
  }
  count("remove_unused", graph::remove_unused(graph));
  return removed;
}

}  // namespace strata::engine
