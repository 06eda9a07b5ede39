// Changes to a graph in place: patterns are found by following values to the nodes that compute them, and nodes are replaced.
#pragma once
#include <optional>
#include <set>
#include <string_view>

#include "engine/passes.h"

namespace strata::engine {

class Rewriter {
 public:
  using Argument = graph::Argument;
  using Node = graph::Node;
  using ValueId = graph::ValueId;

  Rewriter(graph::Graph& g, const PassOptions& options, const char* pass);

  graph::Graph& graph() { return g_; }
  const graph::Graph& graph() const { return g_; }
  size_t size() const { return g_.nodes.size(); }
  const Node& node(size_t i) const { return g_.nodes[i]; }
  bool dead(size_t i) const { return dead_[i]; }
  const graph::ValueType& type(ValueId id) const { return g_.values[id].type; }

  // The node that computes a value, if its call is plain and the value is its result `which`; kNone otherwise.
  static constexpr size_t kNone = SIZE_MAX;
  size_t producer(ValueId id, size_t which = 0) const;
  // The same if the op is this one.
  size_t producer(ValueId id, const OpRecord& op) const;
  // The same if nothing else uses the value.
  size_t sole_producer(ValueId id, const OpRecord& op) const;
  size_t uses(ValueId id) const { return users_[id].size() + returned_[id]; }  // by nodes and the caller
  bool returned(ValueId id) const { return returned_[id]; }
  size_t sole_user(ValueId id) const;  // the node that alone uses the value, once; kNone otherwise

  // Arguments by the name of the parameter.
  static const Argument& arg(const Node& n, std::string_view name);
  static ValueId value(const Node& n, std::string_view name);  // kNoValue if it is None
  // A tensor that does not change between runs; undefined for other values.
  Tensor constant(ValueId id) const;
  // A number, or a constant of one element.
  std::optional<double> number(const Argument& a) const;
  bool is_number(const Argument& a, double value, double tolerance = 1e-6) const;

  ValueId add_constant(const Tensor& t, const std::string& name);
  ValueId add_value(const graph::ValueType& type, const std::string& name);
  // A call with the place in the program of another.
  static Node make(const OpRecord& op, std::vector<Argument> args, std::vector<ValueId> results, const Node& like);
  // Puts a node where another is, whose results nobody needs but those of the new one. The nodes of `others` go.
  void replace(size_t at, Node n, const std::vector<size_t>& others = {});
  void insert_before(size_t at, Node n);
  void set_argument(size_t at, size_t index, Argument a);
  void redirect(ValueId from, ValueId to);  // all uses, also by the caller

  // For the report. `bytes`: of memory traffic that it saves.
  void applied(size_t at, const std::string& what, int64_t bytes = 0) { note(node(at), what, true, bytes); }
  void refused(size_t at, const std::string& why) { note(node(at), why, false, 0); }
  int64_t bytes(ValueId id) const;

  // Removes what is not used any more and checks the graph. Returns how many nodes are gone.
  size_t finish();

 private:
  void note(const Node& n, const std::string& what, bool applied, int64_t bytes);
  void use(const Node& n, size_t at);
  void forget(const Node& n, size_t at);
  std::string fresh_name(const std::string& like);

  graph::Graph& g_;
  const PassOptions& options_;
  const char* pass_;
  size_t before_;
  std::vector<size_t> producers_, returned_;  // by value
  std::vector<std::vector<size_t>> users_;    // by value: nodes, once for each use; kInserted: one that is inserted
  static constexpr size_t kInserted = SIZE_MAX;
  std::vector<int64_t> states_;       // by value: the index among the states, -1 for others
  std::vector<bool> dead_, written_;  // by node; by value
  std::vector<std::pair<size_t, Node>> inserted_;
  std::set<std::string> names_;
};

// The name or the place of a node, for messages.
std::string place_of(const graph::Node& n);

}  // namespace strata::engine
