// Functions of a program that is recorded, each as a graph of its own: the bodies of control flow.
#include <fmt/core.h>

#include <algorithm>

#include "compile/recorder.h"
#include "dispatch/source_line.h"

namespace strata::graph {

Recorder::Recorder(Recorder& outer, std::string what)
    : options_(outer.options_), lenient_(false), outer_(&outer), part_(std::move(what)), careful_(outer.careful_) {
  inside_composites = outer.inside_composites;
}

void InnerMemory::add(Ref<Storage> memory) {
  if (held_.size() >= sweep_at_) forget_unreachable();
  const Storage* key = memory.get();
  held_.emplace(key, std::move(memory));
}
void InnerMemory::add(const InnerMemory& other) {
  for (const auto& [key, memory] : other.held_) add(memory);
}
void InnerMemory::forget_unreachable() {
  std::erase_if(held_, [](const auto& entry) { return entry.second->refs.load() == 1; });
  sweep_at_ = std::max<size_t>(64, 2 * held_.size());
}
void Recorder::add_control(uint64_t first_order, uint64_t end, const InnerMemory& memory) {
  control_orders_.emplace_back(first_order, end);
  inner_.add(memory);
  inner_.forget_unreachable();
}

void Recorder::watch(const TapeNode& n) {
  if (auto* recorder = dynamic_cast<Recorder*>(current_observer())) recorder->goes_back(n);
}
// A backward pass inside of the program calls ops on what the tape has saved. What a call of the graph has saved inside, no other
// node can use.
void Recorder::goes_back(const TapeNode& n) {
  went_back_ = true;
  if (lenient_ && !refused_.empty()) return;
  std::string why;
  bool is_recent = false;
  for (const Recorder* r = this; r; r = r->outer_) {
    is_recent = n.order >= r->first_order_;
    for (const auto& [first, end] : r->control_orders_)
      if (n.order >= first && n.order < end)
        why =
          "computes the gradient of cond, while_loop or scan itself, which a graph cannot hold; take the gradient of "
          "what it returns";
  }
  if (is_recent && why.empty() && !n.custom())
    for (const Ref<Storage>& memory : saved_by(n))
      if (memory && !knows(memory.get()))
        why = fmt::format(
          "computes a gradient of {} from a value that was computed inside of a composite; capture it with "
          "composites=False, or take the gradient of what it returns",
          n.name());
  if (why.empty()) return;
  if (const std::string line = program_line(); !line.empty()) why += " (at " + line + ")";
  if (lenient_) return refuse(std::move(why));
  object(ErrorKind::NotImplemented, "capture: the program " + why);
}

void Recorder::object(ErrorKind kind, std::string why) {
  if (refused_.empty()) refused_ = why;
  fail(kind, std::move(why));
}

void Recorder::add(Node n, const Tensors& results) {
  for (const Tensor& t : results) n.results.push_back(new_value(type_of(*t), t->requires_grad));
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
  if (careful_ && part.refused_.empty()) part.refused_ = tape_of(result.outputs, first).beyond_ops;
  try {
    for (size_t i = 0; i < result.outputs.size(); ++i) {
      STRATA_CHECK(result.outputs[i], Type, "{} returned an undefined tensor", what);
      part.graph_.outputs.push_back(part.value_for_use(*result.outputs[i], true));
    }
  } catch (const Error& e) {
    if (!careful_) throw;
    if (part.refused_.empty()) part.refused_ = e.what();
  }
  STRATA_CHECK(careful_ || part.refused_.empty(), NotImplemented, "{}", part.refused_);
  result.objection = part.refused_;
  for (const auto& [storage, m] : part.memories_)
    if (m.first_id != kNoValue) result.outside.insert(storage);
    else result.inside.add(m.held);
  result.inside.add(part.inner_);
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
  const ValueId outer_id = outer_->value_for_use(t);
  const size_t given = graph_.inputs.size() - others_.size();
  for (size_t k = 0; k < others_.size(); ++k)
    if (others_[k] == outer_id) {
      show(t, graph_.inputs[given + k]);
      return graph_.inputs[given + k];
    }
  const ValueId id = new_value(type_of(t), outer_->recorded_[outer_id], outer_->graph_.values[outer_id].name);
  graph_.inputs.push_back(id);
  others_.push_back(outer_id);
  define_memory(t, id);
  return id;
}

}  // namespace strata::graph
