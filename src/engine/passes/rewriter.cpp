#include "engine/passes/rewriter.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "autograd/autograd.h"
#include "compile/passes.h"
#include "strata/ops/movement/copy.h"

namespace strata::engine {

using graph::kNoValue;
using graph::ValueRef;

std::string place_of(const graph::Node& n) {
  if (!n.scope.empty()) return n.scope;
  if (!n.source.empty()) return n.source;
  return n.op->name;
}

Rewriter::Rewriter(graph::Graph& g, const PassOptions& options, const char* pass)
    : g_(g),
      options_(options),
      pass_(pass),
      before_(g.nodes.size()),
      producers_(g.values.size(), kNone),
      returned_(g.values.size(), 0),
      users_(g.values.size()),
      states_(g.values.size(), -1),
      dead_(g.nodes.size(), false),
      written_(g.values.size(), false) {
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for (const ValueId id : g.nodes[i].results)
      if (id != kNoValue) producers_[id] = i;
    use(g.nodes[i], i);
  }
  for (const ValueId id : g.outputs) ++returned_[id];
  for (const graph::Graph::Write& w : g.writes) {
    ++returned_[w.value];
    written_[w.target] = true;
  }
  for (size_t i = 0; i < g.states.size(); ++i) states_[g.states[i].id] = static_cast<int64_t>(i);
}

void Rewriter::use(const Node& n, size_t at) {
  graph::for_each_use(n, [&](ValueId id) { users_[id].push_back(at); });
}
void Rewriter::forget(const Node& n, size_t at) {
  graph::for_each_use(n, [&](ValueId id) {
    const auto found = std::ranges::find(users_[id], at);
    if (found != users_[id].end()) users_[id].erase(found);
  });
}

size_t Rewriter::producer(ValueId id, size_t which) const {
  if (id == kNoValue) return kNone;
  const size_t at = producers_[id];
  if (at == kNone || dead_[at]) return kNone;
  const Node& n = g_.nodes[at];
  const bool plain = n.form == Form::Plain && n.bodies.empty() && !graph::count_written(n);
  return plain && which < n.results.size() && n.results[which] == id ? at : kNone;
}
size_t Rewriter::producer(ValueId id, const OpRecord& op) const {
  const size_t at = producer(id);
  return at != kNone && g_.nodes[at].op == &op ? at : kNone;
}
size_t Rewriter::sole_producer(ValueId id, const OpRecord& op) const {
  return id != kNoValue && uses(id) == 1 ? producer(id, op) : kNone;
}
size_t Rewriter::sole_user(ValueId id) const {
  if (returned_[id] || users_[id].size() != 1 || users_[id][0] == kInserted) return kNone;
  const Node& n = g_.nodes[users_[id][0]];
  return n.form == Form::Plain && n.bodies.empty() ? users_[id][0] : kNone;
}

const graph::Argument& Rewriter::arg(const Node& n, std::string_view name) {
  for (size_t i = 0; i < n.args.size(); ++i)
    if (n.op->params[i].name == name) return n.args[i];
  fail(ErrorKind::Internal, fmt::format("engine: {} has no parameter '{}'", n.op->name, name));
}
graph::ValueId Rewriter::value(const Node& n, std::string_view name) {
  const auto* ref = std::get_if<ValueRef>(&arg(n, name));
  return ref ? ref->id : kNoValue;
}
Tensor Rewriter::constant(ValueId id) const {
  if (id == kNoValue || states_[id] < 0 || written_[id]) return {};
  const graph::Graph::State& s = g_.states[static_cast<size_t>(states_[id])];
  return s.named || s.tensor.requires_grad() ? Tensor() : s.tensor;
}
std::optional<double> Rewriter::number(const Argument& a) const {
  if (const auto* f = std::get_if<double>(&a)) return *f;
  if (const auto* i = std::get_if<int64_t>(&a)) return static_cast<double>(*i);
  const auto* ref = std::get_if<ValueRef>(&a);
  const Tensor t = ref ? constant(ref->id) : Tensor();
  if (!t || t.numel() != 1 || is_complex(t.dtype())) return {};
  return to(to(t, Device()), DType::F64).item().to_double();
}
bool Rewriter::is_number(const Argument& a, double value, double tolerance) const {
  const std::optional<double> found = number(a);
  return found && std::abs(*found - value) <= tolerance * std::max(1.0, std::abs(value));
}

std::string Rewriter::fresh_name(const std::string& like) {
  if (names_.empty())
    for (const graph::Graph::Value& v : g_.values) names_.insert(v.name);
  std::string name = like;
  for (size_t k = 2; !names_.insert(name).second; ++k) name = fmt::format("{}_{}", like, k);
  return name;
}
graph::ValueId Rewriter::add_value(const graph::ValueType& type, const std::string& name) {
  g_.values.push_back({type, fresh_name(name)});
  producers_.push_back(kNone);
  returned_.push_back(0);
  users_.emplace_back();
  states_.push_back(-1);
  written_.push_back(false);
  return static_cast<ValueId>(g_.values.size() - 1);
}
graph::ValueId Rewriter::add_constant(const Tensor& t, const std::string& name) {
  const ValueId id = add_value(graph::type_of(*t), name);
  states_[id] = static_cast<int64_t>(g_.states.size());
  g_.states.push_back({id, t, false});
  return id;
}

graph::Node Rewriter::make(const OpRecord& op, std::vector<Argument> args, std::vector<ValueId> results,
                           const Node& like) {
  Node n;
  n.op = &op;
  n.args = std::move(args);
  n.results = std::move(results);
  n.no_grad = like.no_grad;
  n.source = like.source;
  n.scope = like.scope;
  return n;
}
void Rewriter::replace(size_t at, Node n, const std::vector<size_t>& others) {
  forget(g_.nodes[at], at);
  for (const size_t other : others) {
    if (other == at || dead_[other]) continue;
    forget(g_.nodes[other], other);
    dead_[other] = true;
  }
  for (const ValueId id : n.results)
    if (id != kNoValue) producers_[id] = at;
  g_.nodes[at] = std::move(n);
  use(g_.nodes[at], at);
}
void Rewriter::insert_before(size_t at, Node n) {
  use(n, kInserted);
  inserted_.emplace_back(at, std::move(n));
}
void Rewriter::set_argument(size_t at, size_t index, Argument a) {
  forget(g_.nodes[at], at);
  g_.nodes[at].args[index] = std::move(a);
  use(g_.nodes[at], at);
}
void Rewriter::redirect(ValueId from, ValueId to) {
  const auto change = [&](Node& n) {
    for (graph::Argument& a : n.args) {
      if (auto* ref = std::get_if<ValueRef>(&a); ref && ref->id == from) ref->id = to;
      if (auto* list = std::get_if<graph::ValueList>(&a)) std::ranges::replace(list->ids, from, to);
    }
  };
  for (const size_t at : users_[from]) {
    users_[to].push_back(at);
    if (at != kInserted) change(g_.nodes[at]);
  }
  for (auto& [at, n] : inserted_) change(n);
  users_[from].clear();
  if (!returned_[from]) return;
  std::ranges::replace(g_.outputs, from, to);
  for (graph::Graph::Write& w : g_.writes)
    if (w.value == from) w.value = to;
  returned_[to] += returned_[from];
  returned_[from] = 0;
}

void Rewriter::note(const Node& n, const std::string& what, bool applied, int64_t bytes) {
  if (options_.decisions) options_.decisions->push_back({pass_, place_of(n), what, applied, bytes});
}
int64_t Rewriter::bytes(ValueId id) const {
  int64_t n = static_cast<int64_t>(size_of(type(id).dtype));
  for (const int64_t s : type(id).shape) n *= s;
  return n;
}

size_t Rewriter::finish() {
  std::vector<Node> nodes;
  std::ranges::stable_sort(inserted_, {}, &std::pair<size_t, Node>::first);
  size_t next = 0;
  for (size_t i = 0; i < g_.nodes.size(); ++i) {
    for (; next < inserted_.size() && inserted_[next].first == i; ++next)
      nodes.push_back(std::move(inserted_[next].second));
    if (!dead_[i]) nodes.push_back(std::move(g_.nodes[i]));
  }
  g_.nodes = std::move(nodes);
  graph::remove_unused(g_);  // ends with verify()
  return before_ > g_.nodes.size() ? before_ - g_.nodes.size() : 0;
}

}  // namespace strata::engine
