#include "engine/definition.h"

#include <fmt/core.h>

#include <algorithm>

#include "record/op.h"
#include "strata/ops/movement/copy.h"

namespace strata::engine {
namespace {

// The arguments of one call; lists must outlive it.
struct Bound {
  const std::vector<std::vector<Tensor>>& values;  // by call
  std::vector<std::vector<Tensor>> lists = {};

  Value operator()(std::monostate) const { return {}; }
  Value operator()(const Layer& l) const { return Value(tensor(l)); }
  Value operator()(const std::vector<Layer>& layers) {
    std::vector<Tensor>& list = lists.emplace_back();
    for (const Layer& l : layers) list.push_back(tensor(l));
    return Value(TensorList(std::span<const Tensor>(list)));
  }
  Value operator()(const std::string& s) const { return Value(std::string_view(s)); }
  Value operator()(const std::vector<int64_t>& v) const { return Value(IntList(v)); }
  template <class T> Value operator()(const T& v) const { return Value(v); }

  const Tensor& tensor(const Layer& l) const {
    STRATA_CHECK(l.result < values[l.node].size(), Value, "engine: layer {} has {} results, not {}", l.node,
                 values[l.node].size(), l.result + 1);
    return values[l.node][l.result];
  }
};

// "conv2d", or with an overload "conv2d.padding"; names of ops may have dots themselves.
const OpRecord& op_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return find_op(name);
  try {
    return find_op(name);
  } catch (const Error&) { return find_op(name.substr(0, dot), name.substr(dot + 1)); }
}

}  // namespace

void NetworkDefinition::check(const Argument& a) const {
  const auto known = [&](const Layer& l) {
    STRATA_CHECK(l.node < calls_.size(), Value, "engine: layer {} is of another network", l.node);
  };
  if (const auto* l = std::get_if<Layer>(&a)) known(*l);
  if (const auto* list = std::get_if<std::vector<Layer>>(&a)) std::ranges::for_each(*list, known);
}

Layer NetworkDefinition::add_input(Input input) {
  calls_.push_back({nullptr, {static_cast<int64_t>(inputs_.size())}});
  inputs_.push_back(std::move(input));
  return {calls_.size() - 1, 0};
}

Layer NetworkDefinition::add(const std::string& name, std::vector<Argument> args, const Named& named) {
  const OpRecord& op = op_of(name);
  STRATA_CHECK(args.size() <= op.params.size(), Type, "engine: {} takes {} arguments, {} were given\n  {}", name,
               op.params.size(), args.size(), op.schema);
  Call call{&op, std::move(args)};
  for (const auto& [key, value] : named) {
    const auto param = std::ranges::find(op.params, key, &Param::name);
    STRATA_CHECK(param != op.params.end(), Type, "engine: {} has no parameter '{}'\n  {}", name, key, op.schema);
    const auto at = static_cast<size_t>(param - op.params.begin());
    STRATA_CHECK(at >= call.args.size() || std::holds_alternative<std::monostate>(call.args[at]), Type,
                 "engine: the argument '{}' of {} is given twice", key, name);
    if (at >= call.args.size()) call.args.resize(at + 1);
    call.args[at] = value;
  }
  for (const Argument& a : call.args) check(a);
  STRATA_CHECK(call.args.size() >= op.required, Type, "engine: {} needs {} arguments, {} were given\n  {}", name,
               op.required, call.args.size(), op.schema);
  calls_.push_back(std::move(call));
  return {calls_.size() - 1, 0};
}

std::shared_ptr<const Network> NetworkDefinition::finish(Device device) const {
  STRATA_CHECK(!outputs_.empty(), Value, "engine: the network has no outputs; mark_output() makes a layer one");
  for (const Layer& l : outputs_) check(l);
  const auto run = [this](const std::vector<Tensor>& inputs) {
    std::vector<std::vector<Tensor>> values;
    for (const Call& c : calls_) {
      if (!c.op) {
        values.push_back({inputs[static_cast<size_t>(std::get<int64_t>(c.args[0]))]});
        continue;
      }
      Bound bound{values};
      bound.lists.reserve(c.args.size());
      Args args = c.op->defaults;
      args.size = static_cast<uint32_t>(c.op->params.size());
      for (uint32_t i = 0; i < c.args.size(); ++i)
        if (!std::holds_alternative<std::monostate>(c.args[i])) args[i] = std::visit(bound, c.args[i]);
      std::vector<Tensor> results(c.op->outputs);
      if (c.op->returns_list) results = call_list(*c.op, args);
      else call_into(*c.op, args, results.data());
      values.push_back(std::move(results));
    }
    std::vector<Tensor> outputs;
    for (const Layer& l : outputs_) outputs.push_back(Bound{values}.tensor(l));
    return outputs;
  };
  return trace(run, inputs_, device);
}

}  // namespace strata::engine
