// The graph of a captured program: op records called on values that are never written to. Running it calls the same records, so
// shape rules, gradients and devices are those of eager calls. docs/internals/graph.md has the format and the rules.
#pragma once
#include <array>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "record/op.h"

namespace strata::graph {

using ValueId = uint32_t;
constexpr ValueId kNoValue = UINT32_MAX;

// What is known of a value before the graph runs: what the capture saw.
struct ValueType {
  DType dtype = DType::F32;
  Device device;
  std::vector<int64_t> shape, strides;
  bool operator==(const ValueType&) const = default;
};
STRATA_API ValueType type_of(const TensorImpl& t);
// Whether the stride of a dimension says nothing: its size is 1, or there are no elements.
STRATA_API bool has_any_strides(const ValueType& type, size_t dim);
// Equal but for such strides.
STRATA_API bool same_layout(const ValueType& a, const ValueType& b);
STRATA_API std::string to_string(const ValueType& type);  // "float32[2, 3]", "float32[2, 3] cuda:0"

// A size that depends on dimensions that vary (Graph::dims): a sum of products of them, such as 2 * batch * length + 1.
constexpr size_t kMaxVarying = 4;
struct Size {
  struct Term {
    int64_t factor = 0;
    std::array<uint8_t, kMaxVarying> powers = {};  // of each dimension; all 0: a constant
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms = {};
  int64_t divisor = 1;  // of the sum, which it divides: length * (length - 1) / 2
  bool operator==(const Size&) const = default;
};
using Sizes = std::vector<Size>;
STRATA_API Size size_of_dim(size_t d);  // Graph::dims[d] itself
STRATA_API int64_t evaluate(const Size& size, const std::vector<int64_t>& dims);

// An argument of a node: a value, a list of values, or what the program passed itself.
struct ValueRef {
  ValueId id;
  bool operator==(const ValueRef&) const = default;
};
struct ValueList {
  std::vector<ValueId> ids;  // kNoValue: None
  bool operator==(const ValueList&) const = default;
};
struct ComplexNumber : Complex<double> {
  bool operator==(const ComplexNumber& o) const { return re == o.re && im == o.im; }
};
using Argument = std::variant<std::monostate, ValueRef, ValueList, double, int64_t, bool, ComplexNumber,
                              std::vector<int64_t>, std::vector<double>, std::string, DType, Device, Size, Sizes>;

// A call. Nothing that it is given changes: in place, the op gets a copy of argument 0 with the same strides, and with out= new
// memory; results are the new values. After the results of a record that writes to arguments come the new values of these.
struct Graph;
struct Node {
  const OpRecord* op = nullptr;
  Form form = Form::Plain;
  std::vector<Argument> args;  // one per parameter of the record
  std::vector<ValueId> results;
  bool no_grad = false;       // inside a no_grad block of the program
  std::string source;         // "model.py:12" or empty
  std::string scope;          // of the module: "layers.0.linear", or empty
  std::vector<Graph> bodies;  // of control flow: what it calls; see control.h
};

struct Graph {
  // A dimension of inputs whose size may differ in each run.
  struct Dim {
    std::string name;
    int64_t min, max;
  };
  struct Value {
    ValueType type;  // as captured
    std::string name;
    Sizes shape = {}, strides = {};  // if they depend on dims; otherwise empty
    bool same_type(const Value& o) const { return type == o.type && shape == o.shape && strides == o.strides; }
  };
  // A tensor that the graph refers to: a parameter, a buffer, or another tensor that the program used.
  struct State {
    ValueId id;
    Tensor tensor;
    bool named =
      false;  // given by the caller of capture: it may change between runs, so passes must not compute with it
  };
  // After a run, this value is copied into an input or a state.
  struct Write {
    ValueId target, value;
    bool operator==(const Write&) const = default;
  };

  std::vector<Dim> dims;      // in a body: none, sizes refer to those of the whole graph
  std::vector<Value> values;  // by id
  std::vector<ValueId> inputs;
  std::vector<State> states;
  std::vector<Node> nodes;  // every node after those whose results it uses
  std::vector<ValueId> outputs;
  std::vector<Write> writes;
};

// --- the executable specification -----------------------------------------------------------------------------------
// Throws Value if the graph breaks a rule: the message names the node. Captures, passes and readers end with it.
STRATA_API void verify(const Graph& graph);

// Thrown by runs: a result is not of the type that the capture saw, because it depends on values or on settings.
class STRATA_API OtherResult : public Error {
 public:
  explicit OtherResult(const std::string& what) : Error(ErrorKind::Runtime, what) {}
};

// --- use ------------------------------------------------------------------------------------------------------------
// Calls the records in order, and returns the outputs. Inputs must have the dtypes, shapes and devices of the capture, up to the
// dimensions that vary; other strides are copied first. Values are released after their last use. Gradients are recorded as in eager calls.
STRATA_API std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs);
// What runs need to know of a graph besides.
struct RunPlan {
  std::vector<uint32_t> uses;     // of each value
  std::vector<bool> overwriting;  // by value, see overwriting()
  bool overwrites = false;        // at least one
  struct Target {
    bool is_state;
    size_t index;  // among the states or the inputs
  };
  std::vector<Target> targets;               // of each write
  std::vector<const Storage*> state_memory;  // in the order of the states
  std::vector<const Storage*> written;       // the part of it that writes go to, sorted
  explicit RunPlan(const Graph& graph);
};
// The same for a graph that is run often: what does not depend on the inputs is computed once.
class STRATA_API Program {
 public:
  // A number that each run is given: it takes the place of an argument that is a double in the graph.
  struct NumberPlace {
    size_t node, arg, number;
  };
  explicit Program(Graph graph, std::vector<NumberPlace> places = {});  // in the order of the nodes
  const Graph& graph() const { return graph_; }
  const std::vector<NumberPlace>& places() const { return places_; }
  Graph graph_with(std::span<const double> numbers) const;
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, std::span<const double> numbers = {}) const;
  // Shows each result of each node after its call; nothing is written to the inputs and states.
  using Inspect = std::function<void(const Node&, ValueId, const Tensor&)>;
  void inspect(const std::vector<Tensor>& inputs, const Inspect& look, std::span<const double> numbers = {}) const;

 private:
  Graph graph_;
  RunPlan plan_;
  std::vector<NumberPlace> places_;
};

// One graph for all sizes, of captures of one program that differ in the sizes of inputs. points[k] has the sizes of `dims` in
// capture k: the first point, those with sizes that are larger by up to kMaxDegree in total (all of them), and at the end one or
// more to check the result. `axes` has the dimension of an axis of an input. Throws Runtime, with the line, if the program
// made other calls for other sizes, or if a number is no sum of products of the sizes.
constexpr int kMaxDegree = 3;
struct Axis {
  size_t input, axis, dim;
};
STRATA_API Graph generalize(const std::vector<Graph>& captures, const std::vector<std::vector<int64_t>>& points,
                            const std::vector<Graph::Dim>& dims, const std::vector<Axis>& axes);

// For each value: whether a run may write it to the memory of the input or state that gets it in the end. It may if nothing uses the
// old value any more, nor a view of it, and if no later call can find that the graph does not fit (OtherResult).
STRATA_API std::vector<bool> overwriting(const Graph& graph);

// As text, a line per node.
STRATA_API std::string to_string(const Graph& graph);
STRATA_API std::string to_string(const Size& size, const std::vector<Graph::Dim>& dims);
STRATA_API std::string to_string(const Graph::Value& value, const std::vector<Graph::Dim>& dims);  // its type
// Without the values of states. from_json gives its states these tensors, by name; it throws Value for a text that is no graph,
// NotImplemented for ops that this version does not have, all of them at once.
STRATA_API std::string to_json(const Graph& graph);
STRATA_API Graph from_json(const std::string& text, const std::vector<std::pair<std::string, Tensor>>& states);

// Calls f(id) for each value that a node uses, in order.
template <class F> void for_each_use(const Node& node, const F& f) {
  for (const Argument& a : node.args) {
    if (const auto* ref = std::get_if<ValueRef>(&a)) f(ref->id);
    if (const auto* list = std::get_if<ValueList>(&a))
      for (ValueId id : list->ids)
        if (id != kNoValue) f(id);
  }
}
// Calls f(graph) for the graph and for the bodies in it.
template <class F> void for_each_graph(const Graph& graph, const F& f) {
  f(graph);
  for (const Node& n : graph.nodes)
    for (const Graph& body : n.bodies) for_each_graph(body, f);
}
// The number of values that replace arguments (below): the last results of a call.
STRATA_API size_t count_written(const Node& node);
// The parameters whose arguments this call writes to (Tensor(a!)), as a mask.
STRATA_API uint16_t written_by(const Node& node);
// Calls f(value, result) for each value that this call overwrites, in the order of its results; both are kNoValue for a None
// in a list. With out= it overwrites none.
template <class F> void for_each_written(const Node& node, const F& f) {
  if (node.form == Form::InPlace) return f(std::get<ValueRef>(node.args[0]).id, node.results[0]);
  const uint16_t mask = written_by(node);
  if (!mask) return;
  size_t k = node.results.size() - count_written(node);
  for (uint32_t i = 0; i < node.args.size(); ++i) {
    if (!(mask >> i & 1)) continue;
    if (const auto* list = std::get_if<ValueList>(&node.args[i]))
      for (const ValueId id : list->ids) f(id, node.results[k++]);
    else f(std::get<ValueRef>(node.args[i]).id, node.results[k++]);
  }
}

}  // namespace strata::graph
