// Writes programs as ONNX models.
#pragma once
#include <string>
#include <vector>

#include "compile/graph.h"

namespace strata::onnx {

constexpr int64_t kOldestExport = 18;

struct SaveOptions {
  std::vector<std::string> input_names = {}, output_names = {};  // default: those of the graph
  int64_t opset = 20;
  bool external_data = false;  // weights in a file beside the model; always if there is more than 1 GiB of them
};

// Writes the calls of a graph as nodes of ONNX. Throws NotImplemented with all ops that have no form there.
STRATA_API void save(const graph::Graph& graph, const std::string& path, const SaveOptions& options = {});
STRATA_API std::string to_bytes(const graph::Graph& graph, const SaveOptions& options = {});
// The names of the records in a graph that cannot be written.
STRATA_API std::vector<std::string> records_without_export(const graph::Graph& graph);
// All records that can be written, by name.
STRATA_API std::vector<std::string> exported_records();

}  // namespace strata::onnx
