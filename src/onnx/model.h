// An ONNX model as it is in the file: names and weights are views of the mapped bytes, which the model keeps alive.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "onnx/fields.h"
#include "tensor/tensor.h"

namespace strata::onnx {

// A TensorProto. Its values are decoded when a tensor is made of it (onnx/tensor_data.h).
struct TensorData {
  std::string_view name, message;
  std::vector<int64_t> dims;
  int32_t type = 0;
  bool external = false;
};

// The type of a graph's input or output.
struct TypeInfo {
  enum class Kind : uint8_t { Unknown, Tensor, Sequence, Optional, Map, SparseTensor } kind = Kind::Unknown;
  int32_t element = 0;
  bool has_shape = false;
  struct Dim {
    int64_t value = -1;  // -1: not fixed
    std::string_view name;
  };
  std::vector<Dim> dims;
  std::vector<TypeInfo> inner;  // of a sequence or an optional: one
};
struct ValueInfo {
  std::string_view name;
  TypeInfo type;
};

struct Graph;
struct Attribute {
  std::string_view name, reference;  // reference: the attribute of the function that gives the value
  AttributeKind kind = AttributeKind::Undefined;
  int64_t i = 0;
  float f = 0;
  std::string_view s;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string_view> strings;
  std::vector<TensorData> tensors;  // one if the kind is Tensor
  std::vector<Graph> graphs;
  std::vector<TypeInfo> types;
};
struct Node {
  std::string_view name, op, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<Attribute> attributes;
};
struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<TensorData> initializers;
  std::vector<ValueInfo> inputs, outputs;
};
using Opsets = std::map<std::string, int64_t, std::less<>>;  // by domain; "" is ONNX's own
struct Function {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  Opsets opsets;
};

struct Model {
  std::shared_ptr<FileBytes> file;
  std::string folder;  // of external data; empty if the model was not read from a file
  int64_t ir_version = 0, model_version = 0;
  std::string_view producer, producer_version, domain, doc;
  Opsets opsets;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  Graph graph;
  std::vector<Function> functions;
  // Weights that are in the place of external data, by its location; then no file is opened.
  std::map<std::string, Tensor, std::less<>> attached = {};
};

// Parses the messages; what they mean is checked when a Program is made of them. Throws Runtime on a damaged file.
STRATA_API Model read_model(std::shared_ptr<FileBytes> file, std::string folder);
STRATA_API Model read_model(const std::string& path);
// One TensorProto or SequenceProto of a test case or a writer.
STRATA_API TensorData read_tensor(std::string_view message, const std::string& file);

}  // namespace strata::onnx
