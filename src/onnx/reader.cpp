#include "onnx/messages.h"
#include "onnx/model.h"

namespace strata::onnx {
namespace {

// Limits of what a file may ask for; real models are far below.
constexpr int kMostNestedGraphs = 64, kMostNestedTypes = 16;
constexpr int64_t kMostItems = int64_t{1} << 22;  // nodes, attributes, tensors and values in all

class Reader {
 public:
  Model model(std::string_view bytes) {
    Model m;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kIrVersion: m.ir_version = in.integer(); break;
        case field::kProducerName: m.producer = in.view(); break;
        case field::kProducerVersion: m.producer_version = in.view(); break;
        case field::kModelDomain: m.domain = in.view(); break;
        case field::kModelVersion: m.model_version = in.integer(); break;
        case field::kModelDoc: m.doc = in.view(); break;
        case field::kModelGraph:
          STRATA_CHECK(!seen_graph_, Runtime, "the model has two graphs");
          seen_graph_ = true;
          m.graph = graph(in.view(), 0);
          break;
        case field::kOpsetImport: opset(in.view(), m.opsets); break;
        case field::kModelMetadata: m.metadata.push_back(entry(in.view())); break;
        case field::kFunctions: m.functions.push_back(function(in.view())); break;
        default: in.skip();
      }
    STRATA_CHECK(seen_graph_, Runtime, "no graph was found; it is no ONNX model");
    return m;
  }
  TensorData tensor(std::string_view message) {
    count();
    TensorData t;
    t.message = message;
    Message in(message);
    while (in.next()) switch (in.field()) {
        case field::kDims: in.integers([&](int64_t d) { t.dims.push_back(d); }); break;
        case field::kDataType: t.type = static_cast<int32_t>(in.integer()); break;
        case field::kTensorName: t.name = in.view(); break;
        case field::kDataLocation: t.external = in.integer() == 1; break;
        case field::kSegment: fail(ErrorKind::NotImplemented, "tensors in segments are not supported");
        default: in.skip();
      }
    return t;
  }

 private:
  void count() {
    STRATA_CHECK(++items_ <= kMostItems, Runtime, "the model has more than {} nodes, attributes and tensors",
                 kMostItems);
  }
  static std::pair<std::string_view, std::string_view> entry(std::string_view bytes) {
    std::pair<std::string_view, std::string_view> e;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kKey: e.first = in.view(); break;
        case field::kValue: e.second = in.view(); break;
        default: in.skip();
      }
    return e;
  }
  static void opset(std::string_view bytes, Opsets& opsets) {
    std::string_view domain;
    int64_t version = 0;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kOpsetDomain: domain = in.view(); break;
        case field::kOpsetVersion: version = in.integer(); break;
        default: in.skip();
      }
    opsets[domain == "ai.onnx" ? std::string() : std::string(domain)] = version;
  }
  TypeInfo type(std::string_view bytes, int depth) {
    STRATA_CHECK(depth < kMostNestedTypes, Runtime, "a type is nested deeper than {} levels", kMostNestedTypes);
    TypeInfo t;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kTensorType: tensor_type(in.view(), t, TypeInfo::Kind::Tensor); break;
        case field::kSparseType: tensor_type(in.view(), t, TypeInfo::Kind::SparseTensor); break;
        case field::kSequenceType: inner_type(in.view(), t, TypeInfo::Kind::Sequence, depth); break;
        case field::kOptionalType: inner_type(in.view(), t, TypeInfo::Kind::Optional, depth); break;
        case field::kMapType: t.kind = TypeInfo::Kind::Map; [[fallthrough]];
        default: in.skip();
      }
    return t;
  }
  void inner_type(std::string_view bytes, TypeInfo& t, TypeInfo::Kind kind, int depth) {
    t.kind = kind;
    t.inner.clear();
    Message in(bytes);
    while (in.next())
      if (in.field() == field::kElementType) t.inner.assign(1, type(in.view(), depth + 1));
      else in.skip();
  }
  void tensor_type(std::string_view bytes, TypeInfo& t, TypeInfo::Kind kind) {
    t.kind = kind;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kElementType: t.element = static_cast<int32_t>(in.integer()); break;
        case field::kShape: {
          t.has_shape = true;
          Message shape(in.view());
          while (shape.next())
            if (shape.field() == field::kDim) t.dims.push_back(dim(shape.view()));
            else shape.skip();
          break;
        }
        default: in.skip();
      }
  }
  TypeInfo::Dim dim(std::string_view bytes) {
    count();
    TypeInfo::Dim d;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kDimValue: d.value = in.integer(); break;
        case field::kDimParam: d.name = in.view(); break;
        default: in.skip();
      }
    return d;
  }
  ValueInfo value(std::string_view bytes) {
    count();
    ValueInfo v;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kValueName: v.name = in.view(); break;
        case field::kValueType: v.type = type(in.view(), 0); break;
        default: in.skip();
      }
    return v;
  }
  Attribute attribute(std::string_view bytes, int depth) {
    count();
    Attribute a;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kAttributeName: a.name = in.view(); break;
        case field::kReference: a.reference = in.view(); break;
        case field::kAttributeType: a.kind = static_cast<AttributeKind>(in.integer()); break;
        case field::kF: a.f = in.number(); break;
        case field::kI: a.i = in.integer(); break;
        case field::kS: a.s = in.view(); break;
        case field::kT:
        case field::kTensors: a.tensors.push_back(tensor(in.view())); break;
        case field::kG:
        case field::kGraphs: a.graphs.push_back(graph(in.view(), depth + 1)); break;
        case field::kFloats: in.numbers([&](float v) { a.floats.push_back(v); }); break;
        case field::kInts: in.integers([&](int64_t v) { a.ints.push_back(v); }); break;
        case field::kStrings: a.strings.push_back(in.view()); break;
        case field::kTypeProto:
        case field::kTypeProtos: a.types.push_back(type(in.view(), 0)); break;
        default: in.skip();
      }
    check(a);
    return a;
  }
  static void check(const Attribute& a) {
    STRATA_CHECK(!a.name.empty(), Runtime, "an attribute has no name");
    const bool one = a.reference.empty();
    STRATA_CHECK(a.kind != AttributeKind::Tensor || !one || a.tensors.size() == 1, Runtime,
                 "attribute '{}' is a tensor and has {}", a.name, a.tensors.size());
    STRATA_CHECK(a.kind != AttributeKind::Graph || !one || a.graphs.size() == 1, Runtime,
                 "attribute '{}' is a graph and has {}", a.name, a.graphs.size());
    STRATA_CHECK(a.kind != AttributeKind::Type || !one || a.types.size() == 1, Runtime,
                 "attribute '{}' is a type and has {}", a.name, a.types.size());
  }
  Node node(std::string_view bytes, int depth) {
    count();
    Node n;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kNodeInput: n.inputs.push_back(in.view()); break;
        case field::kNodeOutput: n.outputs.push_back(in.view()); break;
        case field::kNodeName: n.name = in.view(); break;
        case field::kOpType: n.op = in.view(); break;
        case field::kNodeDomain: n.domain = in.view(); break;
        case field::kOverload: n.overload = in.view(); break;
        case field::kNodeAttribute: n.attributes.push_back(attribute(in.view(), depth)); break;
        default: in.skip();
      }
    if (n.domain == "ai.onnx") n.domain = {};
    return n;
  }
  Graph graph(std::string_view bytes, int depth) {
    STRATA_CHECK(depth < kMostNestedGraphs, Runtime, "graphs are nested deeper than {} levels", kMostNestedGraphs);
    Graph g;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kNode: g.nodes.push_back(node(in.view(), depth)); break;
        case field::kGraphName: g.name = in.view(); break;
        case field::kInitializer: g.initializers.push_back(tensor(in.view())); break;
        case field::kGraphInput: g.inputs.push_back(value(in.view())); break;
        case field::kGraphOutput: g.outputs.push_back(value(in.view())); break;
        case field::kSparseInitializer: g.initializers.push_back(sparse(in.view())); break;
        default: in.skip();
      }
    return g;
  }
  static TensorData sparse(std::string_view) {
    fail(ErrorKind::NotImplemented, "sparse initializers are not supported; store them as dense tensors");
  }
  Function function(std::string_view bytes) {
    Function f;
    Message in(bytes);
    while (in.next()) switch (in.field()) {
        case field::kFunctionName: f.name = in.view(); break;
        case field::kFunctionDomain: f.domain = in.view(); break;
        case field::kFunctionOverload: f.overload = in.view(); break;
        case field::kFunctionInput: f.inputs.push_back(in.view()); break;
        case field::kFunctionOutput: f.outputs.push_back(in.view()); break;
        case field::kFunctionAttribute: f.attributes.push_back(in.view()); break;
        case field::kFunctionAttributeDefault: f.defaults.push_back(attribute(in.view(), 0)); break;
        case field::kFunctionNode: f.nodes.push_back(node(in.view(), 0)); break;
        case field::kFunctionOpset: opset(in.view(), f.opsets); break;
        default: in.skip();
      }
    if (f.domain == "ai.onnx") f.domain = {};
    return f;
  }

  bool seen_graph_ = false;
  int64_t items_ = 0;
};

std::string_view contents(const FileBytes& file) { return {reinterpret_cast<const char*>(file.data()), file.size()}; }
}  // namespace

Model read_model(std::shared_ptr<FileBytes> file, std::string folder) {
  Model m = reading(file->name(), [&] { return Reader().model(contents(*file)); });
  m.file = std::move(file);
  m.folder = std::move(folder);
  return m;
}

Model read_model(const std::string& path) {
  const size_t slash = path.rfind('/');
  return read_model(FileBytes::map(path), slash == std::string::npos ? "." : path.substr(0, slash + 1));
}

TensorData read_tensor(std::string_view message, const std::string& file) {
  return reading(file, [&] { return Reader().tensor(message); });
}

}  // namespace strata::onnx
