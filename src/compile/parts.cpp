// Functions of a program that is recorded, each as a graph of its own: the bodies of control flow.
#include <fmt/core.h>

#include <algorithm>

#include "autograd/node.h"
#include "autograd/saved_hooks.h"
#include "compile/recorder.h"

namespace strata::graph {

using TapeNode = strata::Node;

uint64_t next_order() {
  const Ref<TapeNode> probe = strata::new_node(find_op("clone"));
  strata::give_order(*probe);
  return probe->order;
}
std::string beyond_ops(const std::vector<Tensor>& outputs, uint64_t first_order) {
  std::set<const TapeNode*> seen;
  std::vector<const TapeNode*> open;
  const auto visit = [&](const TapeNode* n) {
    if (n && n->order >= first_order && seen.insert(n).second) open.push_back(n);
  };
  for (const Tensor& t : outputs) visit(node_of(*t));
  while (!open.empty()) {
    const TapeNode* n = open.back();
    open.pop_back();
    if (n->custom()) return fmt::format("records a gradient that is no op's ({})", n->name());
    if (n->rare && (!n->rare->hooks.empty() || !n->rare->retained.empty()))
      return fmt::format("has a hook or retain_grad() on a result of {}", n->name());
    for (const TapeNode::Edge& e : n->edges) visit(e.node.get());
    for (const TapeNode::Edge& e : n->list_edges) visit(e.node.get());
  }
  return {};
}

Recorder::Recorder(Recorder& outer, std::string what)
    : options_(outer.options_), lenient_(false), outer_(&outer), part_(std::move(what)), careful_(outer.careful_) {
  inside_composites = outer.inside_composites;
}

void Recorder::object(ErrorKind kind, std::string why) {
  if (refused_.empty()) refused_ = why;
  fail(kind, std::move(why));
}

void Recorder::add(Node n, const Tensors& results) {
  for (const Tensor& t : results) n.results.push_back(new_value(type_of(*t)));
  graph_.nodes.push_back(std::move(n));
  const std::vector<ValueId> ids = graph_.nodes.back().results;
  for (size_t k = 0; k < results.size(); ++k) show(*results[k], ids[k]);
}

ValueId Recorder::unused_input(Graph& body, ValueId outer) const {
  Graph::Value value = graph_.values[outer];
  while (std::ranges::find(body.values, value.name, &Graph::Value::name) != body.values.end()) value.name += "_";
  body.values.push_back(std::move(value));
  return static_cast<ValueId>(body.values.size() - 1);
}
Recorder::Part Recorder::trace(const std::string& what, const Function& f, const Tensors& inputs,
                               const std::vector<ValueId>& ids) {
  Recorder part(*this, what);
  for (size_t i = 0; i < inputs.size(); ++i) part.add_input(inputs[i], graph_.values[ids[i]].name);
  const uint64_t first = careful_ ? next_order() : 0;
  Part result;
  try {
    const ObservedInstead observed(&part);
    result.outputs = f(inputs);
  } catch (const std::exception&) {
    if (!careful_ || part.refused_.empty()) throw;
  }
  try {
    for (size_t i = 0; i < result.outputs.size(); ++i) {
      STRATA_CHECK(result.outputs[i], Type, "{} returned an undefined tensor", what);
      part.graph_.outputs.push_back(part.value_of(*result.outputs[i]));
    }
  } catch (const Error& e) {
    if (!careful_) throw;
    part.refused_ = e.what();
  }
  if (careful_ && part.refused_.empty()) part.refused_ = beyond_ops(result.outputs, first);
  STRATA_CHECK(careful_ || part.refused_.empty(), NotImplemented, "{}", part.refused_);
  result.objection = part.refused_;
  for (const auto& [storage, m] : part.memories_)
    if (m.first_id != kNoValue) result.outside.insert(storage);
  result.graph = std::move(part.graph_);
  result.others = std::move(part.others_);
  return result;
}

bool Recorder::is_from_outside(const TensorImpl& t) const {
  if (!t.storage) return false;  // a result that is to be allocated
  const auto found = memories_.find(t.storage.get());
  return found == memories_.end() || found->second.first_id != kNoValue;
}
// A value of the outer recorder as an input of this one.
ValueId Recorder::from_outside(const TensorImpl& t) {
  const ValueId outer_id = outer_->value_of(t);
  const size_t given = graph_.inputs.size() - others_.size();
  for (size_t k = 0; k < others_.size(); ++k)
    if (others_[k] == outer_id) {
      show(t, graph_.inputs[given + k]);
      return graph_.inputs[given + k];
    }
  const ValueId id = new_value(type_of(t), outer_->graph_.values[outer_id].name);
  graph_.inputs.push_back(id);
  others_.push_back(outer_id);
  define_memory(t, id);
  return id;
}

}  // namespace strata::graph
