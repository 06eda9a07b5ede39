// Conversions to bytes and back, before layers that a calibration knows.
#pragma once
#include "engine/passes/rewriter.h"
#include "engine/quantize/table.h"

namespace strata::engine {

// The name by which tables know a layer: that of its weight; empty if node `at` is none whose sums bytes can make.
std::string layer_name(const Rewriter& r, size_t at);
// Weights of one layer in int8, with a scale per channel of the result.
struct ByteWeight;
ByteWeight byte_weight_of(const Tensor& weight);
// The table's name of a value: without what passes add to it.
STRATA_API std::string table_name(const std::string& value);

// Inserts them for all layers whose inputs are in the table and that need not stay in float32. Returns how many layers that are.
STRATA_API size_t insert_bytes(graph::Graph& g, const CalibrationTable& table, const PassOptions& options);

}  // namespace strata::engine
