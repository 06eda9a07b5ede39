#include "onnx/export/exporter.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "onnx/save.h"
#include "onnx/value.h"

namespace strata::onnx {
namespace {

std::string key_of(const OpRecord& r) { return r.overload.empty() ? r.name : r.name + "." + r.overload; }

constexpr ExportTable (*kExportTables[])() = {to_math::table, to_shapes::table, to_networks::table};
const std::unordered_map<std::string_view, const ExportEntry*>& exporters() {
  static const std::unordered_map<std::string_view, const ExportEntry*> all = [] {
    std::unordered_map<std::string_view, const ExportEntry*> index;
    for (const auto table : kExportTables)
      for (const ExportEntry& e : table()) index.emplace(e.record, &e);
    return index;
  }();
  return all;
}
}  // namespace

const ExportEntry* find_exporter(const OpRecord& record) {
  const auto found = exporters().find(key_of(record));
  return found == exporters().end() ? nullptr : found->second;
}
std::vector<std::string> exported_records() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : exporters()) names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}
std::vector<std::string> records_without_export(const graph::Graph& g) {
  std::vector<std::string> missing;
  for (const graph::Node& n : g.nodes)
    if ((n.form == Form::Out || !find_exporter(*n.op)) &&
        std::find(missing.begin(), missing.end(), key_of(*n.op)) == missing.end())
      missing.push_back(key_of(*n.op));
  return missing;
}

// --- the node at hand ----------------------------------------------------------------------------------------------------
void Exporter::refuse(const std::string& why) const {
  if (!node_) fail(ErrorKind::NotImplemented, "onnx: the program cannot be exported: " + why);
  fail(ErrorKind::NotImplemented, fmt::format("onnx: {} at {} cannot be exported: {}", key_of(*node_->op),
                                              node_->source.empty() ? "an unknown line" : node_->source, why));
}
const graph::Argument& Exporter::argument(std::string_view name) const {
  for (size_t i = 0; i < node_->op->params.size(); ++i)
    if (node_->op->params[i].name == name) return node_->args[i];
  STRATA_ASSERT(!"a parameter of the record");
  return node_->args[0];
}
bool Exporter::given(std::string_view name) const { return !std::holds_alternative<std::monostate>(argument(name)); }
bool Exporter::is_value(std::string_view name) const { return std::holds_alternative<graph::ValueRef>(argument(name)); }
DType Exporter::dtype(std::string_view name) const {
  return graph_.values[std::get<graph::ValueRef>(argument(name)).id].type.dtype;
}
const std::vector<int64_t>& Exporter::shape(std::string_view name) const {
  return graph_.values[std::get<graph::ValueRef>(argument(name)).id].type.shape;
}
const std::vector<int64_t>& Exporter::shape_of(std::string_view list, size_t i) const {
  return graph_.values[std::get<graph::ValueList>(argument(list)).ids.at(i)].type.shape;
}
DType Exporter::result_dtype(size_t i) const { return graph_.values[node_->results.at(i)].type.dtype; }
const std::vector<int64_t>& Exporter::result_shape(size_t i) const {
  return graph_.values[node_->results.at(i)].type.shape;
}

std::string Exporter::cast(const std::string& value, DType from, DType to) {
  return from == to ? value : out.node("Cast", {value}, {{"to", static_cast<int64_t>(element_type(to))}});
}
std::string Exporter::value(std::string_view name, std::optional<DType> as) {
  const graph::Argument& a = argument(name);
  if (const auto* ref = std::get_if<graph::ValueRef>(&a)) {
    const DType own = graph_.values[ref->id].type.dtype;
    return cast(name_of(ref->id), own, as.value_or(own));
  }
  if (const auto* size = std::get_if<graph::Size>(&a))
    return cast(out.node("Squeeze", {size_value(*size)}), DType::I64, as.value_or(DType::I64));
  if (std::holds_alternative<graph::ComplexNumber>(a)) refuse("complex numbers are not supported");
  return out.number(number(name), as.value_or(DType::F32));
}
Names Exporter::values(std::string_view name, std::optional<DType> as) {
  Names names;
  for (const graph::ValueId id : std::get<graph::ValueList>(argument(name)).ids) {
    if (id == graph::kNoValue) refuse("a list has None");
    const DType own = graph_.values[id].type.dtype;
    names.push_back(cast(name_of(id), own, as.value_or(own)));
  }
  return names;
}
double Exporter::number(std::string_view name) const {
  const graph::Argument& a = argument(name);
  if (const auto* f = std::get_if<double>(&a)) return *f;
  if (const auto* i = std::get_if<int64_t>(&a)) return static_cast<double>(*i);
  if (const auto* b = std::get_if<bool>(&a)) return *b;
  refuse(fmt::format("'{}' is no fixed number", name));
}
int64_t Exporter::integer(std::string_view name) const {
  const graph::Argument& a = argument(name);
  if (const auto* i = std::get_if<int64_t>(&a)) return *i;
  if (const auto* b = std::get_if<bool>(&a)) return *b;
  refuse(fmt::format("'{}' depends on sizes that vary", name));
}
bool Exporter::flag(std::string_view name) const { return given(name) && number(name) != 0; }
std::string Exporter::text(std::string_view name) const {
  const auto* s = std::get_if<std::string>(&argument(name));
  return s ? *s : std::string();
}
std::vector<int64_t> Exporter::ints(std::string_view name) const {
  const graph::Argument& a = argument(name);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&a)) return *list;
  if (const auto* one = std::get_if<int64_t>(&a)) return {*one};
  if (std::holds_alternative<std::monostate>(a)) return {};
  refuse(fmt::format("'{}' depends on sizes that vary", name));
}
std::vector<int64_t> Exporter::ints_or_none(std::string_view name) const {
  const graph::Argument& a = argument(name);
  return std::holds_alternative<graph::Size>(a) || std::holds_alternative<graph::Sizes>(a) ? std::vector<int64_t>()
                                                                                           : ints(name);
}
int64_t Exporter::axis(std::string_view name, std::string_view of) const {
  const int64_t a = integer(name), n = rank(of);
  if (n == 0) refuse("the input has no dimensions");
  return a < 0 ? a + n : a;
}
std::vector<int64_t> Exporter::axes(std::string_view name, std::string_view of) const {
  std::vector<int64_t> out = ints(name);
  const int64_t n = rank(of);
  if (n == 0) return {};
  if (out.empty())
    for (int64_t d = 0; d < n; ++d) out.push_back(d);
  for (int64_t& a : out) a = a < 0 ? a + n : a;
  return out;
}

// --- sizes ---------------------------------------------------------------------------------------------------------------
std::string Exporter::dim_value(size_t dim) {
  if (const auto known = dims_.find(dim); known != dims_.end()) return known->second;
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const graph::Graph::Value& v = graph_.values[graph_.inputs[i]];
    for (size_t d = 0; d < v.shape.size(); ++d)
      if (v.shape[d] == graph::size_of_dim(dim)) {
        const std::string all = out.node("Shape", {name_of(graph_.inputs[i])});
        return dims_[dim] = out.node("Gather", {all, out.ints({static_cast<int64_t>(d)})});
      }
  }
  refuse("a dimension that varies is not that of an input");
}
std::string Exporter::size_value(const graph::Size& size) {
  std::string sum;
  for (const graph::Size::Term& term : size.terms) {
    std::string product;
    for (size_t d = 0; d < graph::kMaxVarying; ++d)
      for (int k = 0; k < term.powers[d]; ++k)
        product = product.empty() ? dim_value(d) : out.node("Mul", {product, dim_value(d)});
    if (product.empty()) product = out.ints({term.factor});
    else if (term.factor != 1) product = out.node("Mul", {product, out.ints({term.factor})});
    sum = sum.empty() ? product : out.node("Add", {sum, product});
  }
  if (sum.empty()) sum = out.ints({0});
  return size.divisor == 1 ? sum : out.node("Div", {sum, out.ints({size.divisor})});
}
std::string Exporter::size_vector(const graph::Sizes& sizes) {
  std::vector<int64_t> fixed;
  for (const graph::Size& s : sizes) {
    const bool constant =
      s.divisor == 1 &&
      (s.terms.empty() || (s.terms.size() == 1 && s.terms[0].powers == std::array<uint8_t, graph::kMaxVarying>{}));
    if (constant) fixed.push_back(s.terms.empty() ? 0 : s.terms[0].factor);
  }
  if (fixed.size() == sizes.size()) return out.ints(fixed);
  Names parts;
  for (const graph::Size& s : sizes) parts.push_back(size_value(s));
  return parts.size() == 1 ? parts[0] : out.node("Concat", parts, {{"axis", int64_t{0}}});
}
std::string Exporter::sizes(std::string_view name) {
  const graph::Argument& a = argument(name);
  if (const auto* list = std::get_if<graph::Sizes>(&a)) return size_vector(*list);
  if (const auto* one = std::get_if<graph::Size>(&a)) return size_value(*one);
  return out.ints(ints(name));
}
std::string Exporter::shape_of_result(size_t i) {
  const graph::Graph::Value& v = graph_.values[node_->results.at(i)];
  return v.shape.empty() ? out.ints(v.type.shape) : size_vector(v.shape);
}
std::vector<OuterSize> Exporter::outer_shape(const graph::Graph::Value& v) const {
  std::vector<OuterSize> sizes;
  for (size_t d = 0; d < v.type.shape.size(); ++d) {
    if (v.shape.empty()) {
      sizes.emplace_back(v.type.shape[d]);
      continue;
    }
    const std::vector<int64_t> two(graph_.dims.size(), 2), three(graph_.dims.size(), 3);
    const graph::Size& s = v.shape[d];
    if (s.divisor == 1 && graph::evaluate(s, two) == graph::evaluate(s, three))
      sizes.emplace_back(graph::evaluate(s, two));
    else sizes.emplace_back(graph::to_string(s, graph_.dims));
  }
  return sizes;
}
std::string Exporter::name_of(graph::ValueId id) {
  if (const auto found = names_.find(id); found != names_.end()) return found->second;
  for (const graph::Graph::State& s : graph_.states) {  // a weight is written if a node reads it
    if (s.id != id) continue;
    const std::string name = out.fresh(s.named ? graph_.values[id].name : "constant");
    out.weight(name, s.tensor);
    return names_[id] = name;
  }
  refuse("it uses a result of an earlier op that ONNX does not have");
}

void Exporter::run(const std::vector<std::string>& input_names, const std::vector<std::string>& output_names) {
  STRATA_CHECK(graph_.writes.empty(), NotImplemented,
               "onnx: the program writes to {} of its inputs or buffers; a model of ONNX cannot. Export "
               "it in eval mode",
               graph_.writes.size());
  const std::vector<std::string> missing = onnx::records_without_export(graph_);
  if (!missing.empty()) {
    std::string list;
    for (const std::string& m : missing) list += (list.empty() ? "" : ", ") + m;
    fail(ErrorKind::NotImplemented, "onnx: these ops have no form in ONNX: " + list);
  }
  const auto check_names = [](const std::vector<std::string>& given, size_t count, const char* what) {
    STRATA_CHECK(given.empty() || given.size() == count, Value, "onnx: {} names for {} {}", given.size(), count, what);
  };
  check_names(input_names, graph_.inputs.size(), "inputs");
  check_names(output_names, graph_.outputs.size(), "outputs");
  std::vector<std::string> outputs = output_names;
  for (size_t i = outputs.size(); i < graph_.outputs.size(); ++i) outputs.push_back(fmt::format("output_{}", i));
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const graph::Graph::Value& v = graph_.values[graph_.inputs[i]];
    const std::string wanted = input_names.empty() ? v.name : input_names[i], name = out.fresh(wanted);
    STRATA_CHECK(name == wanted, Value, "onnx: two inputs have the name '{}'", wanted);
    names_[graph_.inputs[i]] = name;
    out.input(name, v.type.dtype, outer_shape(v));
  }
  for (std::string& name : outputs) {
    const std::string wanted = name;
    name = out.fresh(wanted);
    STRATA_CHECK(name == wanted, Value, "onnx: two values have the name '{}'", wanted);
  }
  for (const graph::Node& n : graph_.nodes) {
    node_ = &n;
    out.label(n.source, n.scope);
    const ExportEntry& e = *find_exporter(*n.op);
    Names results;
    if (e.op) {
      Names inputs;
      for (size_t i = 0; i < n.args.size(); ++i)
        if (std::holds_alternative<graph::ValueRef>(n.args[i]))
          inputs.push_back(name_of(std::get<graph::ValueRef>(n.args[i]).id));
      results = {out.node(e.op, inputs)};
    } else {
      results = e.run(*this);
    }
    for (size_t i = 0; i < n.results.size() && i < results.size(); ++i) names_[n.results[i]] = results[i];
  }
  out.label("", "");
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const graph::Graph::Value& v = graph_.values[graph_.outputs[i]];
    out.node_to("Identity", {name_of(graph_.outputs[i])}, {}, {outputs[i]});
    out.output(outputs[i], v.type.dtype, outer_shape(v));
  }
}

namespace {
Writer written(const graph::Graph& graph, const SaveOptions& options) {
  STRATA_CHECK(options.opset >= kOldestExport && options.opset <= kNewestOpset, Value,
               "onnx: opset {} cannot be written; {} to {} can", options.opset, kOldestExport, kNewestOpset);
  Writer writer(options.opset);
  Exporter(graph, writer).run(options.input_names, options.output_names);
  return writer;
}
}  // namespace

void save(const graph::Graph& graph, const std::string& path, const SaveOptions& options) {
  written(graph, options).save(path, options.external_data);
}
std::string to_bytes(const graph::Graph& graph, const SaveOptions& options) { return written(graph, options).bytes(); }

}  // namespace strata::onnx
