#include "engine/network.h"

#include <fmt/core.h>

#include <algorithm>

#include "autograd/autograd.h"
#include "onnx/tensor_data.h"
#include "strata/ops/movement/copy.h"
#include "tensor/device.h"

namespace strata::engine {
namespace {

Port port_of(const onnx::Network::Port& p) {
  Port port{p.name, p.type.kind, static_cast<onnx::ElementType>(p.type.element), p.type.has_shape, {}, p.optional};
  for (const onnx::TypeInfo::Dim& d : p.type.dims) port.dims.push_back({d.value, std::string(d.name)});
  return port;
}

Port port_of(const graph::Graph& g, graph::ValueId id, std::string name) {
  const graph::Graph::Value& v = g.values[id];
  Port port{std::move(name), onnx::TypeInfo::Kind::Tensor, onnx::element_type(v.type.dtype)};
  for (size_t d = 0; d < v.type.shape.size(); ++d) {
    Port::Dim dim{v.type.shape[d]};
    if (!v.shape.empty())
      if (const graph::Size& s = v.shape[d];
          !s.terms.empty() && (s.terms.size() > 1 || s.terms[0].powers != graph::Size::Term{}.powers)) {
        dim.size = -1;
        dim.name = graph::to_string(s, g.dims);
      }
    port.dims.push_back(std::move(dim));
  }
  return port;
}

// A device that an argument names is where the graph was captured: it becomes the network's.
graph::Graph on_device(graph::Graph g, Device device) {
  const auto moves = [&](Device& d) {
    if (d.type != DeviceType::Meta) d = device;
  };
  graph::for_each_graph(g, [&](const graph::Graph& part) {
    auto& own = const_cast<graph::Graph&>(part);
    for (graph::Graph::Value& v : own.values) moves(v.type.device);
    for (graph::Node& n : own.nodes)
      for (graph::Argument& a : n.args)
        if (auto* d = std::get_if<Device>(&a)) moves(*d);
  });
  const autograd::NoGrad off;
  for (graph::Graph::State& s : g.states) {
    if (s.tensor.device() != device) s.tensor = to(s.tensor, device);
    if (s.tensor.requires_grad()) s.tensor = alias(*s.tensor);
    // of a plan's file, which nobody writes to: kernels keep packed forms
    if (s.tensor.is_cpu() && s.tensor->storage->external && !s.tensor->storage->shared)
      s.tensor->storage->read_only = true;
  }
  return g;
}

}  // namespace

std::string to_string(const Port& port) {
  using Kind = onnx::TypeInfo::Kind;
  if (port.kind != Kind::Tensor) return port.name + (port.kind == Kind::Sequence ? ": a sequence" : ": a value");
  std::string dims;
  for (const Port::Dim& d : port.dims)
    dims += (dims.empty() ? "" : ", ") + (d.size >= 0 ? std::to_string(d.size) : d.name.empty() ? "?" : d.name);
  return fmt::format("{}: {}{}", port.name, onnx::name_of(port.element), port.has_shape ? "[" + dims + "]" : "");
}

OnnxNetwork::OnnxNetwork(onnx::Model model, Device device, const onnx::Limits& limits)
    : OnnxNetwork(std::make_shared<const onnx::Network>(std::move(model), device, limits)) {}
OnnxNetwork::OnnxNetwork(std::shared_ptr<const onnx::Network> network)
    : Network(network->device()), network_(std::move(network)) {
  for (const onnx::Network::Port& p : network_->inputs()) inputs_.push_back(port_of(p));
  for (const onnx::Network::Port& p : network_->outputs()) outputs_.push_back(port_of(p));
}

std::vector<std::pair<std::string, Tensor>> OnnxNetwork::weights() const {
  std::vector<std::pair<std::string, Tensor>> all;
  onnx::ExternalFiles files(model());
  for (const onnx::TensorData& t : model().graph.initializers)
    if (const onnx::Value v = onnx::make_value(t, files); v.tensor) all.emplace_back(std::string(t.name), v.tensor);
  return all;
}

static void count_ops(const onnx::Graph& graph, std::map<std::string, size_t>& counts) {
  for (const onnx::Node& n : graph.nodes) {
    ++counts[n.domain.empty() ? std::string(n.op) : fmt::format("{}.{}", n.domain, n.op)];
    for (const onnx::Attribute& a : n.attributes)
      for (const onnx::Graph& inner : a.graphs) count_ops(inner, counts);
  }
}
std::map<std::string, size_t> OnnxNetwork::op_counts() const {
  std::map<std::string, size_t> counts;
  count_ops(model().graph, counts);
  return counts;
}

GraphNetwork::GraphNetwork(graph::Graph g, Device device, const PortNames& names)
    : Network(device), program_(on_device(std::move(g), require_available(device))) {
  const graph::Graph& own = graph();
  STRATA_CHECK(own.writes.empty(), NotImplemented,
               "engine: the program writes to '{}', which it was given or refers to; an engine only computes results",
               own.values[own.writes[0].target].name);
  const auto ports = [&](const std::vector<graph::ValueId>& ids, const std::vector<std::string>& given,
                         const char* what) {
    STRATA_CHECK(given.empty() || given.size() == ids.size(), Value, "engine: {} {} names for {} {}s", given.size(),
                 what, ids.size(), what);
    std::vector<Port> list;
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::string name = !given.empty()   ? given[i]
                               : what[0] == 'i' ? own.values[ids[i]].name
                                                : fmt::format("output_{}", i);
      const auto same = [&](const Port& p) { return p.name == name; };
      STRATA_CHECK(std::ranges::none_of(list, same), Value, "engine: two {}s are named '{}'", what, name);
      list.push_back(port_of(own, ids[i], name));
    }
    return list;
  };
  inputs_ = ports(own.inputs, names.inputs, "input");
  outputs_ = ports(own.outputs, names.outputs, "output");
}

onnx::Values GraphNetwork::run(std::span<const onnx::Value> inputs) const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    STRATA_CHECK(inputs[i].tensor, Value, "engine: the input '{}' is missing",
                 i < inputs_.size() ? inputs_[i].name : std::to_string(i));
    tensors.push_back(inputs[i].tensor);
  }
  const autograd::NoGrad off;
  onnx::Values outputs;
  for (Tensor& t : program_.run(tensors)) outputs.emplace_back(std::move(t));
  return outputs;
}

std::vector<std::pair<std::string, Tensor>> GraphNetwork::weights() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const graph::Graph::State& s : graph().states) all.emplace_back(graph().values[s.id].name, s.tensor);
  return all;
}

std::map<std::string, size_t> GraphNetwork::op_counts() const {
  std::map<std::string, size_t> counts;
  graph::for_each_graph(graph(), [&](const graph::Graph& part) {
    for (const graph::Node& n : part.nodes) ++counts[n.op->name];
  });
  return counts;
}

}  // namespace strata::engine
