#include "onnx/export/writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "base/file.h"
#include "onnx/value.h"
#include "ops/creation/from_values.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/copy.h"

namespace strata::onnx {
namespace {

constexpr size_t kMostInside = size_t{1} << 30;  // a message ends at 2 GiB
constexpr size_t kAlignment = 64;

void write_attribute(protozero::pbf_writer& node, const NamedAttribute& a) {
  protozero::pbf_writer out(node, field::kNodeAttribute);
  out.add_string(field::kAttributeName, a.name);
  const AttributeValue& v = a.value;
  if (v.kind == AttributeKind::Int) out.add_int64(field::kI, v.i);
  if (v.kind == AttributeKind::Float) out.add_float(field::kF, static_cast<float>(v.f));
  if (v.kind == AttributeKind::String) out.add_bytes(field::kS, v.s);
  for (const int64_t i : v.ints) out.add_int64(field::kInts, i);
  out.add_int32(field::kAttributeType, static_cast<int32_t>(v.kind));
}
void write_value(std::string& to_bytes, const std::string& name, DType dtype, const std::vector<OuterSize>& shape) {
  protozero::pbf_writer out(to_bytes);
  out.add_string(field::kValueName, name);
  protozero::pbf_writer type(out, field::kValueType), tensor(type, field::kTensorType);
  tensor.add_int32(field::kElementType, static_cast<int32_t>(element_type(dtype)));
  protozero::pbf_writer sizes(tensor, field::kShape);
  for (const OuterSize& s : shape) {
    protozero::pbf_writer dim(sizes, field::kDim);
    if (const auto* fixed = std::get_if<int64_t>(&s)) dim.add_int64(field::kDimValue, *fixed);
    else dim.add_string(field::kDimParam, std::get<std::string>(s));
  }
}
Tensor host_values(const Tensor& t) { return contiguous(t.is_cpu() ? t : to(t, Device())); }
}  // namespace

std::string Writer::fresh(const std::string& hint) {
  std::string name = hint;
  for (int i = 1; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", hint, i);
  return name;
}

void Writer::node_to(const char* op, const std::vector<std::string>& inputs, const Attributes& attributes,
                     const std::vector<std::string>& outputs) {
  std::string bytes;
  {
    protozero::pbf_writer out(bytes);
    for (const std::string& i : inputs) out.add_string(field::kNodeInput, i);
    for (const std::string& o : outputs) out.add_string(field::kNodeOutput, o);
    out.add_string(field::kNodeName, fresh(scope_.empty() ? op : scope_ + "." + op));
    out.add_string(field::kOpType, op);
    for (const NamedAttribute& a : attributes) write_attribute(out, a);
    if (!source_.empty()) out.add_string(6, source_);  // doc_string
  }
  protozero::pbf_writer(nodes_).add_message(field::kNode, bytes);
}
std::vector<std::string> Writer::nodes(const char* op, std::vector<std::string> inputs, const Attributes& attributes,
                                       size_t outputs) {
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) names.push_back(fresh(std::string(op) + "_out"));
  node_to(op, inputs, attributes, names);
  return names;
}
std::string Writer::node(const char* op, std::vector<std::string> inputs, const Attributes& attributes) {
  return nodes(op, std::move(inputs), attributes, 1)[0];
}

void Writer::weight(const std::string& name, const Tensor& values) { weights_.emplace_back(name, host_values(values)); }
std::string Writer::constant(const Tensor& values, const std::string& hint) {
  const std::string name = fresh(hint);
  weight(name, values);
  return name;
}
std::string Writer::ints(const std::vector<int64_t>& values) {
  for (const auto& [known, name] : known_ints_)
    if (known == values) return name;
  known_ints_.emplace_back(
    values, constant(tensor_from_memory(values.data(), static_cast<int64_t>(values.size()), DType::I64, {})));
  return known_ints_.back().second;
}
std::string Writer::integer(int64_t value) { return constant(full({}, value, TensorOptions(DType::I64))); }
std::string Writer::number(double value, DType dtype) { return constant(full({}, value, TensorOptions(dtype))); }

void Writer::input(const std::string& name, DType dtype, const std::vector<OuterSize>& shape) {
  std::string bytes;
  write_value(bytes, name, dtype, shape);
  protozero::pbf_writer(inputs_).add_message(field::kGraphInput, bytes);
}
void Writer::output(const std::string& name, DType dtype, const std::vector<OuterSize>& shape) {
  std::string bytes;
  write_value(bytes, name, dtype, shape);
  protozero::pbf_writer(outputs_).add_message(field::kGraphOutput, bytes);
}
void Writer::label(const std::string& source, const std::string& scope) {
  source_ = source;
  scope_ = scope;
}

std::string Writer::model(const std::string& weights_file) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  out.add_int64(field::kIrVersion, 8);
  out.add_string(field::kProducerName, "strata");
  {
    protozero::pbf_writer opset(out, field::kOpsetImport);
    opset.add_string(field::kOpsetDomain, "");
    opset.add_int64(field::kOpsetVersion, opset_);
  }
  protozero::pbf_writer graph(out, field::kModelGraph);
  graph.add_string(field::kGraphName, "main");
  const auto append = [&](const std::string& part) { bytes.append(part); };
  append(nodes_);
  append(inputs_);
  append(outputs_);
  uint64_t offset = 0;
  for (const auto& [name, t] : weights_) {
    const size_t size = t.nbytes();
    protozero::pbf_writer weight(graph, field::kInitializer);
    for (const int64_t d : t.shape()) weight.add_int64(field::kDims, d);
    weight.add_int32(field::kDataType, static_cast<int32_t>(element_type(t.dtype())));
    weight.add_string(field::kTensorName, name);
    if (weights_file.empty()) {
      weight.add_bytes(field::kRawData, reinterpret_cast<const char*>(t.bytes()), size);
      continue;
    }
    const auto entry = [&](const char* key, const std::string& text) {
      protozero::pbf_writer e(weight, field::kExternalData);
      e.add_string(field::kKey, key);
      e.add_string(field::kValue, text);
    };
    entry("location", weights_file);
    entry("offset", std::to_string(offset));
    entry("length", std::to_string(size));
    weight.add_int32(field::kDataLocation, 1);
    offset += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  graph.commit();
  return bytes;
}

std::string Writer::bytes() { return model(""); }

void Writer::save(const std::string& path, bool external) {
  size_t total = 0;
  for (const auto& [name, t] : weights_) total += (t.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
  if (!external && total <= kMostInside) {
    write_file(path, model(""));
    return;
  }
  const std::string data = path + ".data";
  AtomicFile file(data, total);
  const std::vector<std::byte> zeros(kAlignment);
  for (const auto& [name, t] : weights_) {
    const size_t size = t.nbytes();
    file.write(Bytes(t.bytes(), size));
    file.write(Bytes(zeros.data(), (kAlignment - size % kAlignment) % kAlignment));
  }
  file.commit();
  const size_t slash = data.rfind('/');
  write_file(path, model(slash == std::string::npos ? data : data.substr(slash + 1)));
}

}  // namespace strata::onnx
