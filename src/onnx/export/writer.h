// Writes ONNX messages: nodes, weights and values of one graph, in the order in which they are added.
#pragma once
#include <initializer_list>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "onnx/fields.h"
#include "tensor/tensor.h"

namespace strata::onnx {

struct AttributeValue {
  AttributeKind kind = AttributeKind::Undefined;
  int64_t i = 0;
  double f = 0;
  std::string s = {};
  std::vector<int64_t> ints = {};
  AttributeValue(int64_t v) : kind(AttributeKind::Int), i(v) {}
  AttributeValue(double v) : kind(AttributeKind::Float), f(v) {}
  AttributeValue(std::string v) : kind(AttributeKind::String), s(std::move(v)) {}
  AttributeValue(std::vector<int64_t> v) : kind(AttributeKind::Ints), ints(std::move(v)) {}
};
struct NamedAttribute {
  const char* name;
  AttributeValue value;
};
using Attributes = std::vector<NamedAttribute>;

// A size of an input or output: a number, or the name of a dimension that varies.
using OuterSize = std::variant<int64_t, std::string>;

class Writer {
 public:
  Writer(int64_t opset) : opset_(opset) {}
  int64_t opset() const { return opset_; }

  // A name that no value has, beginning with `hint`.
  std::string fresh(const std::string& hint);
  // Adds a node with one result, or several; returns their names.
  std::string node(const char* op, std::vector<std::string> inputs, const Attributes& attributes = {});
  std::vector<std::string> nodes(const char* op, std::vector<std::string> inputs, const Attributes& attributes,
                                 size_t outputs);
  void node_to(const char* op, const std::vector<std::string>& inputs, const Attributes& attributes,
               const std::vector<std::string>& outputs);
  // Constants. Weights are kept until they are written.
  void weight(const std::string& name, const Tensor& values);
  std::string constant(const Tensor& values, const std::string& hint = "constant");
  std::string ints(const std::vector<int64_t>& values);  // a vector
  std::string integer(int64_t value);                    // without dimensions
  std::string number(double value, DType dtype);

  void input(const std::string& name, DType dtype, const std::vector<OuterSize>& shape);
  void output(const std::string& name, DType dtype, const std::vector<OuterSize>& shape);
  void label(const std::string& source, const std::string& scope);  // of the nodes that follow

  // Writes the model; weights go into a file beside it if they are too large for one message (or if `external`).
  void save(const std::string& path, bool external);
  std::string bytes();  // of a model with its weights inside

 private:
  std::string model(const std::string& weights_file);
  int64_t opset_;
  std::set<std::string> names_;
  std::string nodes_, inputs_, outputs_, source_, scope_;
  std::vector<std::pair<std::string, Tensor>> weights_;
  std::vector<std::pair<std::vector<int64_t>, std::string>> known_ints_;
};

}  // namespace strata::onnx
