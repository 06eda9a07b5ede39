// Functions of a program that is recorded, each as a graph of its own: the bodies of control flow.
#include <fmt/core.h>

#include <algorithm>

#include "compile/recorder.h"
#include "compile/tape.h"

namespace strata::graph {

Recorder::Recorder(Recorder& outer, std::string what)
    : options_(outer.options_), lenient_(false), outer_(&outer), part_(std::move(what)), careful_(outer.careful_) {
  inside_composites = outer.inside_composites;
}

void Recorder::object(ErrorKind kind, std::string why) {
  if (refused_.empty()) refused_ = why;
  fail(kind, std::move(why));
}

void Recorder::add(Node n, const Tensors& results) {
  if (pending_order_) hide_saved(results, n.op->name);
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
  if (careful_ && part.refused_.empty()) part.refused_ = tape_of(result.outputs, first).beyond_ops;
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
