#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "compile/passes.h"
#include "engine/passes.h"
#include "engine/passes/bytes.h"
#include "engine/passes/inference.h"
#include "engine/quantize/insert.h"

namespace strata::engine {
namespace {

void note(const PassOptions& options, const char* pass, size_t removed) {
  if (options.decisions && removed)
    options.decisions->push_back({pass, "the whole graph", fmt::format("{} nodes are gone", removed)});
}

bool cpu_has_bfloat16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// The 16-bit type to compute in, if one is allowed and fast.
std::optional<DType> lower_dtype(const graph::Graph& g, const PassOptions& options) {
  if ((!options.fp16 && !options.bf16) || g.values.empty()) return {};
  const auto on_device = [](const graph::Graph::Value& v) { return v.type.device.type != DeviceType::Cpu; };
  if (std::ranges::any_of(g.values, on_device)) return options.fp16 ? DType::F16 : DType::BF16;
  if (options.bf16 && cpu_has_bfloat16()) return DType::BF16;
  if (options.decisions)
    options.decisions->push_back({"lower_precision", "the whole graph",
                                  "stays in float32: this processor has no fast products of the types allowed", false});
  return {};
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
  const bool changes_nodes = options.level > 0 && graph.dims.empty();  // types are inferred for fixed sizes
  const ByteWeights weights = changes_nodes ? find_byte_weights(graph) : ByteWeights();
  count("fold_constants", graph::fold_constants(graph, options.constant_bytes));
  count("merge_equal", graph::merge_equal(graph));
  count("remove_copies", graph::remove_copies(graph));
  if (changes_nodes) {
    count("cancel_transposes", cancel_transposes(graph, options));
    count("fold_pads", fold_pads(graph, options));
    count("fold_norms", fold_norms(graph, options));
  }
  if (changes_nodes && !options.only_layers) {
    count("join_patterns", join_patterns(graph, options));
    count("join_attention", join_attention(graph, options));
    count("fuse_products", fuse_products(graph, options));
    restore_byte_weights(graph, weights, options);
    count("fuse_bytes", fuse_bytes(graph, options));
    const bool bytes = options.int8 && options.calibration;
    if (options.int8 && !bytes && weights.empty() && options.decisions)
      options.decisions->push_back({"insert_bytes", "the whole graph",
                                    "stays in floats: int8 needs a calibration, or a model with int8 weights", false});
    if (const std::optional<DType> low = bytes ? std::nullopt : lower_dtype(graph, options))
      count("lower_precision", lower_precision(graph, *low, options.calibration, options));
    count("lay_out_channels_last", lay_out_channels_last(graph, options));
    if (bytes) {
      insert_bytes(graph, *options.calibration, options);
      count("fuse_bytes", fuse_bytes(graph, options));
    }
    // Copies of constants in another order, and weights of bytes that no layer of bytes uses, however large they are.
    const bool all = !weights.empty() || options.calibration;
    count("fold_constants",
          graph::fold_constants(graph, all ? std::numeric_limits<int64_t>::max() : options.constant_bytes));
  }
  count("remove_unused", graph::remove_unused(graph));
  return removed;
}

}  // namespace strata::engine
