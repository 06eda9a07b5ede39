#include "onnx/strip.h"

#include <protozero/pbf_writer.hpp>
#include <set>

#include "onnx/messages.h"
#include "onnx/tensor_data.h"

namespace strata::onnx {
namespace {

constexpr int64_t kSmallBytes = 256;  // weights that stay: shapes, indices, numbers

class Stripper {
 public:
  Stripper(const Model& model, std::vector<std::pair<std::string, Tensor>>& weights)
      : model_(model), files_(model), weights_(weights) {}

  std::string run() {
    const std::string_view bytes(reinterpret_cast<const char*>(model_.file->data()), model_.file->size());
    return rewritten(bytes, [&](uint32_t f, std::string_view v, std::string& out) {
      if (f == field::kModelGraph) out = graph(v);
      else if (f == field::kFunctions) out = function(v);
      else return false;
      return true;
    });
  }

 private:
  // The message, with the fields of kind length-delimited for which replace(field, contents, new contents) is true replaced.
  template <class F> static std::string rewritten(std::string_view message, const F& replace) {
    protozero::pbf_reader in(message.data(), message.size());
    std::string out;
    protozero::pbf_writer writer(out);
    for (;;) {
      const protozero::data_view before = in.data();
      if (!in.next()) return out;
      std::string contents;
      if (in.wire_type() == protozero::pbf_wire_type::length_delimited) {
        const protozero::pbf_tag_type tag = in.tag();
        if (replace(tag, text_of(in.get_view()), contents)) {
          writer.add_bytes(tag, contents);
          continue;
        }
      } else {
        in.skip();
      }
      out.append(before.data(), before.size() - in.data().size());  // as it is
    }
  }
  std::string graph(std::string_view message) {
    return rewritten(message, [&](uint32_t f, std::string_view v, std::string& out) {
      if (f == field::kNode) out = node(v);
      else if (f == field::kInitializer) out = tensor(v);
      else return false;
      return true;
    });
  }
  std::string function(std::string_view message) {
    return rewritten(message, [&](uint32_t f, std::string_view v, std::string& out) {
      if (f != field::kFunctionNode) return false;
      out = node(v);
      return true;
    });
  }
  std::string node(std::string_view message) {
    return rewritten(message, [&](uint32_t f, std::string_view v, std::string& out) {
      if (f != field::kNodeAttribute) return false;
      out = attribute(v);
      return true;
    });
  }
  std::string attribute(std::string_view message) {
    return rewritten(message, [&](uint32_t f, std::string_view v, std::string& out) {
      if (f == field::kT || f == field::kTensors) out = tensor(v);
      else if (f == field::kG || f == field::kGraphs) out = graph(v);
      else return false;
      return true;
    });
  }

  std::string tensor(std::string_view message) {
    const TensorData data = read_tensor(message, model_.file->name());
    const auto type = static_cast<ElementType>(data.type);
    if (type == ElementType::String || (!data.external && static_cast<int64_t>(message.size()) < kSmallBytes))
      return std::string(message);
    if (is_carried(type) && !data.external) return std::string(message);
    const Tensor values = is_carried(type) ? external_codes(data, files_) : make_value(data, files_).tensor;
    std::string name = data.name.empty() ? "constant" : std::string(data.name);
    while (!names_.insert(name).second) name += "_";
    weights_.emplace_back(name, values);
    std::string out;
    protozero::pbf_writer writer(out);
    for (const int64_t d : data.dims) writer.add_int64(field::kDims, d);
    writer.add_int32(field::kDataType, data.type);
    writer.add_bytes(field::kTensorName, data.name.data(), data.name.size());
    {
      protozero::pbf_writer entry(writer, field::kExternalData);
      entry.add_string(field::kKey, "location");
      entry.add_string(field::kValue, name);
    }
    writer.add_enum(field::kDataLocation, 1);
    return out;
  }

  const Model& model_;
  ExternalFiles files_;
  std::vector<std::pair<std::string, Tensor>>& weights_;
  std::set<std::string> names_;
};

}  // namespace

std::string without_weights(const Model& model, std::vector<std::pair<std::string, Tensor>>& weights) {
  return reading(model.file->name(), [&] { return Stripper(model, weights).run(); });
}

}  // namespace strata::onnx
