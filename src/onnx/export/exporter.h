// What the exporters of records see: the node of a graph, and the writer.
#pragma once
#include <map>
#include <optional>
#include <span>

#include "compile/graph.h"
#include "onnx/export/writer.h"

namespace strata::onnx {

using Names = std::vector<std::string>;

class Exporter {
 public:
  Exporter(const graph::Graph& g, Writer& writer) : graph_(g), out(writer) {}

  void run(const std::vector<std::string>& input_names, const std::vector<std::string>& output_names);

  // --- the node at hand -----------------------------------------------------------------------------------------------
  const graph::Argument& argument(std::string_view name) const;
  bool given(std::string_view name) const;     // and not None
  bool is_value(std::string_view name) const;  // a tensor
  DType dtype(std::string_view name) const;    // of a tensor, as captured
  const std::vector<int64_t>& shape(std::string_view name) const;
  const std::vector<int64_t>& shape_of(std::string_view list, size_t i) const;  // of a tensor of a list
  const std::vector<Param>& params() const { return node_->op->params; }
  int64_t rank(std::string_view name) const { return static_cast<int64_t>(shape(name).size()); }
  // The value of a tensor, converted if it has another dtype; a number becomes a constant of the dtype.
  std::string value(std::string_view name, std::optional<DType> as = {});
  std::string value_or_none(std::string_view name, std::optional<DType> as = {}) {
    return given(name) ? value(name, as) : "";
  }
  Names values(std::string_view name, std::optional<DType> as = {});  // of a list of tensors
  int64_t integer(std::string_view name) const;                       // a fixed one
  int64_t integer_or(std::string_view name, int64_t otherwise) const { return given(name) ? integer(name) : otherwise; }
  double number(std::string_view name) const;
  double number_or(std::string_view name, double otherwise) const { return given(name) ? number(name) : otherwise; }
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::vector<int64_t> ints(std::string_view name) const;          // fixed ones; one number is a list of one
  std::vector<int64_t> ints_or_none(std::string_view name) const;  // empty if they depend on sizes that vary
  std::string sizes(std::string_view name);  // the same as a vector of the model, also sizes that vary
  int64_t axis(std::string_view name, std::string_view of = "input") const;
  std::vector<int64_t> axes(std::string_view name, std::string_view of = "input") const;  // all if they are not given
  DType result_dtype(size_t i = 0) const;
  const std::vector<int64_t>& result_shape(size_t i = 0) const;
  size_t results() const { return node_->results.size(); }

  std::string cast(const std::string& value, DType from, DType to);
  std::string shape_of_result(size_t i = 0);  // as a vector of the model
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::string name_of(graph::ValueId id);
  std::string size_vector(const graph::Sizes& sizes);
  std::string size_value(const graph::Size& size);  // a vector of one
  std::string dim_value(size_t dim);
  std::vector<OuterSize> outer_shape(const graph::Graph::Value& v) const;

  const graph::Graph& graph_;
  const graph::Node* node_ = nullptr;
  std::map<graph::ValueId, std::string> names_;
  std::map<size_t, std::string> dims_;

 public:
  Writer& out;
};

// How a record is written. Returns the names of the results.
struct ExportEntry {
  const char* record;                 // "name" or "name.overload"
  const char* op = nullptr;           // an op of ONNX with the same inputs
  Names (*run)(Exporter&) = nullptr;  // otherwise
};
using ExportTable = std::span<const ExportEntry>;
namespace to_math {
ExportTable table();
}
namespace to_shapes {
ExportTable table();
}
namespace to_networks {
ExportTable table();
}
const ExportEntry* find_exporter(const OpRecord& record);

}  // namespace strata::onnx
