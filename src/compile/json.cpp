// Graphs as JSON: everything but the values of their states.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "compile/control.h"

namespace strata::graph {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "strata.graph";
constexpr int kVersion = 1;
constexpr const char* kForms[] = {"plain", "in place", "out"};

// JSON has no infinities and NaNs.
json of_number(double f) { return std::isfinite(f) ? json(f) : json(fmt::format("{}", f)); }
double number_of(const json& j) {
  if (j.is_number()) return j.get<double>();
  const auto text = j.get<std::string>();
  STRATA_CHECK(text == "inf" || text == "-inf" || text == "nan" || text == "-nan", Value, "graph: '{}' is no number",
               text);
  return text == "inf" ? HUGE_VAL : text == "-inf" ? -HUGE_VAL : std::nan("");
}

// {"sum": [[factor, power of each dimension, ...], ...], "divisor": 1}
json of_size(const Size& s) {
  json terms = json::array();
  for (const Size::Term& t : s.terms) {
    terms.push_back({t.factor});
    for (const uint8_t power : t.powers) terms.back().push_back(power);
  }
  return {{"sum", terms}, {"divisor", s.divisor}};
}
json of_sizes(const Sizes& sizes) {
  json list = json::array();
  for (const Size& s : sizes) list.push_back(of_size(s));
  return list;
}
Size size_of_json(const json& j) {
  Size s;
  s.divisor = j.at("divisor").get<int64_t>();
  for (const json& t : j.at("sum")) {
    s.terms.push_back({t.at(0).get<int64_t>(), {}});
    for (size_t d = 0; d < kMaxVarying; ++d) s.terms.back().powers[d] = t.at(d + 1).get<uint8_t>();
  }
  return s;
}
Sizes sizes_of_json(const json& j) {
  Sizes sizes;
  for (const json& s : j) sizes.push_back(size_of_json(s));
  return sizes;
}

// {"value": 3} and so on: the key is the kind.
json of_argument(const Argument& a) {
  return std::visit(
    [](const auto& v) -> json {
      using T = std::remove_cvref_t<decltype(v)>;
      if constexpr (std::is_same_v<T, std::monostate>) return nullptr;
      else if constexpr (std::is_same_v<T, ValueRef>) return {{"value", v.id}};
      else if constexpr (std::is_same_v<T, ValueList>) {
        json ids = json::array();
        for (const ValueId id : v.ids) ids.push_back(id == kNoValue ? json(nullptr) : json(id));
        return {{"values", ids}};
      } else if constexpr (std::is_same_v<T, bool>) return v;
      else if constexpr (std::is_same_v<T, double>) return {{"float", of_number(v)}};
      else if constexpr (std::is_same_v<T, int64_t>) return {{"int", v}};
      else if constexpr (std::is_same_v<T, ComplexNumber>) return {{"complex", {of_number(v.re), of_number(v.im)}}};
      else if constexpr (std::is_same_v<T, std::vector<int64_t>>) return {{"ints", v}};
      else if constexpr (std::is_same_v<T, std::vector<double>>) {
        json list = json::array();
        for (const double f : v) list.push_back(of_number(f));
        return {{"floats", list}};
      } else if constexpr (std::is_same_v<T, std::string>) return {{"str", v}};
      else if constexpr (std::is_same_v<T, DType>) return {{"dtype", name_of(v)}};
      else if constexpr (std::is_same_v<T, Device>) return {{"device", strata::to_string(v)}};
      else if constexpr (std::is_same_v<T, Size>) return {{"size", of_size(v)}};
      else return {{"sizes", of_sizes(v)}};
    },
    a);
}
Argument argument_of(const json& j) {
  if (j.is_null()) return {};
  if (j.is_boolean()) return j.get<bool>();
  STRATA_CHECK(j.is_object() && j.size() == 1, Value, "graph: {} is no argument", j.dump());
  const std::string& kind = j.begin().key();
  const json& v = j.begin().value();
  if (kind == "value") return ValueRef{v.get<ValueId>()};
  if (kind == "values") {
    ValueList list;
    for (const json& id : v) list.ids.push_back(id.is_null() ? kNoValue : id.get<ValueId>());
    return list;
  }
  if (kind == "float") return number_of(v);
  if (kind == "int") return v.get<int64_t>();
  if (kind == "complex") return ComplexNumber{{number_of(v.at(0)), number_of(v.at(1))}};
  if (kind == "ints") return v.get<std::vector<int64_t>>();
  if (kind == "floats") {
    std::vector<double> list;
    for (const json& f : v) list.push_back(number_of(f));
    return list;
  }
  if (kind == "str") return v.get<std::string>();
  if (kind == "dtype") return dtype_from_name(v.get<std::string>());
  if (kind == "device") return device_from_name(v.get<std::string>());
  if (kind == "size") return size_of_json(v);
  if (kind == "sizes") return sizes_of_json(v);
  fail(ErrorKind::Value, fmt::format("graph: '{}' is no kind of argument", kind));
}
// The default of a parameter that a file of an earlier version does not have.
Argument default_of(const Value& v) {
  switch (v.tag) {
    case Tag::Float: return v.f;
    case Tag::Int: return v.i;
    case Tag::Bool: return v.i != 0;
    case Tag::Ints: return std::vector<int64_t>(v.int_list().begin(), v.int_list().end());
    case Tag::Floats: return std::vector<double>(v.float_list().begin(), v.float_list().end());
    case Tag::Str: return std::string(v.string());
    case Tag::DType: return v.dtype();
    default: return {};
  }
}

const OpRecord* find(const std::string& name, const std::string& overload) {
  if (const OpRecord* control = overload.empty() ? control_record(name) : nullptr) return control;
  for (const OpRecord* op : all_ops())
    if (op->name == name && op->overload == overload) return op;
  return nullptr;
}

const json& functions_of(const json& node) {
  static const json none = json::array();
  const auto found = node.find("functions");
  return found == node.end() ? none : *found;
}

class Reader {
 public:
  Reader(const json& j, const std::vector<std::pair<std::string, Tensor>>& states) : j_(j), states_(states) {}

  Graph run() {
    STRATA_CHECK(j_.is_object() && j_.value("format", "") == kFormat, Value, "graph: this is no text of a graph");
    STRATA_CHECK(j_.at("version") == kVersion, Value, "graph: the text has version {}; this version of Strata reads {}",
                 j_.at("version").dump(), kVersion);
    std::set<std::string> unknown;
    find_unknown_ops(j_, unknown, 0);
    STRATA_CHECK(unknown.empty(), NotImplemented, "graph: this version of Strata does not have the ops {}",
                 fmt::format("{}", fmt::join(unknown, ", ")));
    Graph g = graph_of(j_);
    verify(g);
    return g;
  }

 private:
  static ValueType type_of(const json& v) {
    ValueType type;
    type.dtype = dtype_from_name(v.at("dtype").get<std::string>());
    type.device = device_from_name(v.value("device", "cpu"));
    type.shape = v.at("shape").get<std::vector<int64_t>>();
    type.strides = v.at("strides").get<std::vector<int64_t>>();
    STRATA_CHECK(type.shape.size() == type.strides.size() && type.shape.size() <= kMaxDims, Value,
                 "graph: a value has {} sizes and {} strides", type.shape.size(), type.strides.size());
    return type;
  }
  Graph graph_of(const json& j) const {
    Graph g;
    for (const json& d : j.value("dims", json::array()))
      g.dims.push_back({d.at("name").get<std::string>(), d.at("min").get<int64_t>(), d.at("max").get<int64_t>()});
    for (const json& v : j.at("values"))
      g.values.push_back({type_of(v), v.at("name").get<std::string>(),
                          sizes_of_json(v.value("varying_shape", json::array())),
                          sizes_of_json(v.value("varying_strides", json::array()))});
    g.inputs = j.at("inputs").get<std::vector<ValueId>>();
    for (const json& s : j.at("states")) read_state(g, s);
    for (const json& n : j.at("nodes")) g.nodes.push_back(node_of(n));
    g.outputs = j.at("outputs").get<std::vector<ValueId>>();
    for (const json& w : j.at("writes"))
      g.writes.push_back({w.at("target").get<ValueId>(), w.at("value").get<ValueId>()});
    return g;
  }
  void read_state(Graph& g, const json& s) const {
    const auto id = s.at("value").get<ValueId>();
    STRATA_CHECK(id < g.values.size(), Value, "graph: state {} is no value", id);
    const Graph::Value& want = g.values[id];
    const auto found = std::ranges::find(states_, want.name, &std::pair<std::string, Tensor>::first);
    STRATA_CHECK(found != states_.end() && found->second, Value, "graph: there is no tensor for its state '{}'",
                 want.name);
    const Tensor& t = found->second;
    const ValueType type = graph::type_of(*t);
    STRATA_CHECK(type.dtype == want.type.dtype && type.shape == want.type.shape && type.device == want.type.device,
                 Value, "graph: the tensor of state '{}' is {}; expected {}", want.name, to_string(type),
                 to_string(want.type));
    g.states.push_back({id, t, s.at("named").get<bool>()});
    if (type.strides == want.type.strides) return;
    static const OpRecord& clone = find_op("clone_strided");  // files hold tensors in row-major order
    g.states.back().tensor = call(clone, Args(t, IntList(want.type.strides)));
  }
  static void find_unknown_ops(const json& graph, std::set<std::string>& unknown, size_t depth) {
    STRATA_CHECK(depth <= kMostNested, Value, "graph: more than {} functions are inside each other", kMostNested);
    for (const json& n : graph.at("nodes")) {
      const auto name = n.at("op").get<std::string>();
      if (!find(name, n.value("overload", ""))) unknown.insert(name);
      for (const json& body : functions_of(n)) find_unknown_ops(body, unknown, depth + 1);
    }
  }
  Node node_of(const json& j) const {
    Node n;
    n.op = find(j.at("op").get<std::string>(), j.value("overload", ""));
    const auto form = std::ranges::find(kForms, j.value("form", kForms[0]));
    STRATA_CHECK(form != std::end(kForms), Value, "graph: '{}' is no form of a call", j.value("form", ""));
    n.form = static_cast<Form>(form - kForms);
    const json& args = j.at("args");
    for (uint32_t i = 0; i < n.op->params.size(); ++i) {
      const auto found = args.find(std::string(n.op->params[i].name));
      n.args.push_back(found == args.end() ? default_of(n.op->defaults[i]) : argument_of(*found));
    }
    for (const auto& item : args.items()) {
      const std::string& name = item.key();
      STRATA_CHECK(std::ranges::any_of(n.op->params, [&](const Param& p) { return p.name == name; }), NotImplemented,
                   "graph: {} has no parameter '{}' in this version of Strata", n.op->name, name);
    }
    for (const json& id : j.at("results")) n.results.push_back(id.is_null() ? kNoValue : id.get<ValueId>());
    n.no_grad = j.value("no_grad", false);
    n.source = j.value("source", "");
    n.scope = j.value("scope", "");
    for (const json& body : functions_of(j)) n.bodies.push_back(graph_of(body));
    return n;
  }

  const json& j_;
  const std::vector<std::pair<std::string, Tensor>>& states_;
};

json of_graph(const Graph& g) {
  json j = {{"inputs", g.inputs}, {"outputs", g.outputs}};
  j["values"] = j["states"] = j["nodes"] = j["writes"] = json::array();
  for (const Graph::Dim& d : g.dims) j["dims"].push_back({{"name", d.name}, {"min", d.min}, {"max", d.max}});
  for (const Graph::Value& v : g.values) {
    json value = {{"name", v.name},
                  {"dtype", name_of(v.type.dtype)},
                  {"shape", v.type.shape},
                  {"strides", v.type.strides},
                  {"device", strata::to_string(v.type.device)}};
    if (!v.shape.empty()) value["varying_shape"] = of_sizes(v.shape);
    if (!v.strides.empty()) value["varying_strides"] = of_sizes(v.strides);
    j["values"].push_back(value);
  }
  for (const Graph::State& s : g.states) j["states"].push_back({{"value", s.id}, {"named", s.named}});
  for (const Node& n : g.nodes) {
    json args = json::object(), results = json::array();
    for (size_t i = 0; i < n.args.size(); ++i) args[std::string(n.op->params[i].name)] = of_argument(n.args[i]);
    for (const ValueId id : n.results) results.push_back(id == kNoValue ? json(nullptr) : json(id));
    json node = {{"op", n.op->name}, {"args", args}, {"results", results}};
    if (!n.op->overload.empty()) node["overload"] = n.op->overload;
    if (n.form != Form::Plain) node["form"] = kForms[static_cast<size_t>(n.form)];
    if (n.no_grad) node["no_grad"] = true;
    if (!n.source.empty()) node["source"] = n.source;
    if (!n.scope.empty()) node["scope"] = n.scope;
    for (const Graph& body : n.bodies) node["functions"].push_back(of_graph(body));
    j["nodes"].push_back(node);
  }
  for (const Graph::Write& w : g.writes) j["writes"].push_back({{"target", w.target}, {"value", w.value}});
  return j;
}

}  // namespace

std::string to_json(const Graph& g) {
  json j = of_graph(g);
  j["format"] = kFormat;
  j["version"] = kVersion;
  return j.dump();
}

Graph from_json(const std::string& text, const std::vector<std::pair<std::string, Tensor>>& states) {
  static constexpr int kDeepest = 16 + 5 * static_cast<int>(kMostNested);  // copying and printing recurse
  const auto not_too_deep = [](int depth, json::parse_event_t, json&) {
    STRATA_CHECK(depth <= kDeepest, Value, "graph: the text has more than {} levels", kDeepest);
    return true;
  };
  try {
    return Reader(json::parse(text, not_too_deep), states).run();
  } catch (const json::exception& e) {
    fail(ErrorKind::Value, fmt::format("graph: the text is damaged: {}", e.what()));
  }
}

}  // namespace strata::graph
