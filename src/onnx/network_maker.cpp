// Makes a network of a model: finds the ops, gives each value a slot, puts the bodies of functions in place of their calls.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "onnx/network.h"
#include "onnx/registry.h"
#include "onnx/tensor_data.h"
#include "strata/ops/movement/copy.h"
#include "tensor/device.h"

namespace strata::onnx {
namespace {

constexpr int kMostNestedCalls = 64;
constexpr int64_t kMostSteps = int64_t{1} << 18;

// The names of a graph, and those of the graphs around it.
struct Scope {
  const Scope* around = nullptr;
  std::unordered_map<std::string_view, Slot> slots = {};
};
// What the attributes of a function's call are, for the nodes of its body.
using Arguments = std::unordered_map<std::string_view, const Attribute*>;
struct Context {
  const Opsets& opsets;
  const Arguments* arguments = nullptr;  // in a function
  int depth = 0;                         // of functions
};
}  // namespace

class NetworkMaker {
 public:
  NetworkMaker(Network& network) : n_(network), files_(network.model_) {
    for (const Function& f : n_.model_.functions) {
      const bool fresh = functions_.emplace(key_of(f.domain, f.name, f.overload), &f).second;
      STRATA_CHECK(fresh, Runtime, "the model has two functions '{}' of domain '{}'", f.name, f.domain);
    }
  }

  void make() {
    const Graph& graph = n_.model_.graph;
    const auto own = n_.model_.opsets.find("");
    if (own != n_.model_.opsets.end()) check_opset(own->second);
    Scope scope;
    std::unordered_map<std::string_view, const TensorData*> initializers;
    for (const TensorData& t : graph.initializers) initializers.emplace(t.name, &t);
    for (const ValueInfo& v : graph.inputs) {
      const auto initial = initializers.find(v.name);
      n_.main_.inputs.push_back(define(scope, v.name));
      n_.inputs_.push_back({std::string(v.name), v.type, initial != initializers.end()});
      n_.defaults_.push_back(initial == initializers.end() ? Value() : weight(*initial->second));
    }
    add_initializers(graph, scope, /*overridable=*/true);
    add_nodes(graph.nodes, scope, n_.main_, {n_.model_.opsets});
    for (const ValueInfo& v : graph.outputs) {
      n_.main_.outputs.push_back(find(scope, v.name, "the graph's outputs"));
      n_.outputs_.push_back({std::string(v.name), v.type});
    }
    refuse_unknown();
    find_dead(n_.main_);
    n_.slots_ = slots_;
  }

 private:
  struct Unknown {  // an op that is not known
    size_t count = 0;
    std::string names;
  };
  static std::string key_of(std::string_view domain, std::string_view name, std::string_view overload) {
    return fmt::format("{}\n{}\n{}", domain, name, overload);
  }
  static void check_opset(int64_t version) {
    STRATA_CHECK(version <= kNewestOpset, NotImplemented,
                 "the model needs opset {}; this version knows up to {}. Convert it to an older one", version,
                 kNewestOpset);
    STRATA_CHECK(version >= 1, Runtime, "the model has opset {}", version);
  }

  // Integers stay on the host: they are shapes and indices; ops on the device take them there when they meet.
  Value weight(const TensorData& data) {
    Value v = make_value(data, files_);
    if (v.tensor && n_.device_.type != DeviceType::Cpu && is_floating(v.tensor.dtype()))
      v.tensor = to(v.tensor, n_.device_);
    // Nobody writes to the mapped file: kernels keep packed forms of such weights.
    if (v.tensor && v.tensor.is_cpu() && v.tensor->storage->external) v.tensor->storage->read_only = true;
    return v;
  }
  Slot new_slot() { return slots_++; }
  Slot define(Scope& scope, std::string_view name) {
    const Slot slot = new_slot();
    STRATA_CHECK(scope.slots.emplace(name, slot).second, Runtime, "the value '{}' is computed twice", name);
    return slot;
  }
  static Slot find(const Scope& scope, std::string_view name, std::string_view reader) {
    for (const Scope* s = &scope; s; s = s->around)
      if (const auto found = s->slots.find(name); found != s->slots.end()) return found->second;
    fail(ErrorKind::Runtime, fmt::format("{}: the value '{}' is not computed before; a cycle, or a graph whose nodes "
                                         "are not in order",
                                         reader, name));
  }
  void add_initializers(const Graph& graph, Scope& scope, bool overridable) {
    for (const TensorData& t : graph.initializers) {
      if (overridable && scope.slots.contains(t.name)) continue;  // the default of an input
      n_.constant_slots_.push_back(define(scope, t.name));
      n_.constants_.push_back(weight(t));
    }
  }
  void add_nodes(const std::vector<Node>& nodes, Scope& scope, Block& block, const Context& context) {
    for (const Node& node : nodes) add_node(node, scope, block, context);
  }
  static std::string title_of(const Node& node) { return fmt::format("{} node '{}'", node.op, node.name); }

  void add_node(const Node& node, Scope& scope, Block& block, const Context& context) {
    STRATA_CHECK(++steps_ <= kMostSteps, Runtime, "the model expands to more than {} nodes", kMostSteps);
    std::vector<Slot> inputs;
    for (const std::string_view name : node.inputs)
      inputs.push_back(name.empty() ? kNoSlot : find(scope, name, title_of(node)));
    const auto version = context.opsets.find(node.domain);
    const std::shared_ptr<const UserOp> user = find_user_op(node.domain, node.op);
    const auto function = functions_.find(key_of(node.domain, node.op, node.overload));
    if (!user && function != functions_.end()) {
      add_call(node, *function->second, inputs, scope, block, context);
      return;
    }
    Step step;
    step.name = node.name;
    step.op = node.op;
    step.domain = node.domain;
    step.inputs = std::move(inputs);
    step.version = version == context.opsets.end() ? 1 : version->second;
    step.user = user;
    if (!user) step.entry = find_entry(node.domain, node.op, step.version);
    if (!user && !step.entry) note_unknown(node, step.version);
    for (const Attribute& a : node.attributes) add_attribute(a, scope, step, context);
    if (step.entry) check_inputs(node, *step.entry);
    for (const std::string_view name : node.outputs)
      step.outputs.push_back(name.empty() ? kNoSlot : define(scope, name));
    block.steps.push_back(std::move(step));
  }
  static void check_inputs(const Node& node, const OpEntry& entry) {
    const int count = static_cast<int>(node.inputs.size());
    STRATA_CHECK(count >= entry.min_inputs && (entry.max_inputs < 0 || count <= entry.max_inputs), Runtime,
                 "{} has {} inputs; expected {} to {}", title_of(node), count, entry.min_inputs,
                 entry.max_inputs < 0 ? std::string("any number") : std::to_string(entry.max_inputs));
    for (int i = 0; i < entry.min_inputs && entry.max_inputs >= 0; ++i)
      STRATA_CHECK(!node.inputs[static_cast<size_t>(i)].empty(), Runtime, "{}: input {} is missing", title_of(node), i);
  }
  void add_attribute(const Attribute& given, Scope& scope, Step& step, const Context& context) {
    const Attribute* a = &given;
    if (!a->reference.empty()) {
      if (!context.arguments)
        fail(ErrorKind::Runtime,
             fmt::format("attribute '{}' refers to one of a function, outside of functions", a->name));
      const auto found = context.arguments->find(a->reference);
      if (found == context.arguments->end()) return;  // not given: the op's own default
      a = found->second;
    }
    StepAttribute out{given.name, a, {}};
    for (const TensorData& t : a->tensors) out.tensors.push_back(weight(t));
    if (a->kind == AttributeKind::Graph) {
      step.block_names.push_back(given.name);
      step.blocks.push_back(make_block(a->graphs.at(0), scope, context));
    }
    step.attributes.push_back(std::move(out));
  }
  Block make_block(const Graph& graph, const Scope& around, const Context& context) {
    Block block;
    Scope scope{&around};
    for (const ValueInfo& v : graph.inputs) block.inputs.push_back(define(scope, v.name));
    add_initializers(graph, scope, true);
    add_nodes(graph.nodes, scope, block, context);
    for (const ValueInfo& v : graph.outputs) block.outputs.push_back(find(scope, v.name, "the outputs of a graph"));
    for (const ValueInfo& v : graph.outputs) block.output_types.push_back(v.type);
    return block;
  }
  void add_call(const Node& node, const Function& f, const std::vector<Slot>& inputs, Scope& scope, Block& block,
                const Context& context) {
    STRATA_CHECK(context.depth < kMostNestedCalls, Runtime,
                 "functions call each other deeper than {} levels; does '{}' "
                 "call itself?",
                 kMostNestedCalls, f.name);
    STRATA_CHECK(inputs.size() <= f.inputs.size() && node.outputs.size() <= f.outputs.size(), Runtime,
                 "{}: the function has {} inputs and {} outputs, the call {} and {}", title_of(node), f.inputs.size(),
                 f.outputs.size(), inputs.size(), node.outputs.size());
    Arguments arguments;
    for (const Attribute& a : f.defaults) arguments[a.name] = &a;
    for (const Attribute& a : node.attributes) {
      const Attribute* given = &a;
      if (!a.reference.empty()) {
        const auto found = context.arguments ? context.arguments->find(a.reference) : Arguments::const_iterator();
        if (!context.arguments || found == context.arguments->end()) continue;
        given = found->second;
      }
      arguments[a.name] = given;
    }
    Scope body;
    for (size_t i = 0; i < f.inputs.size(); ++i) {
      // a value that nobody computes: not given
      const Slot slot = i < inputs.size() && inputs[i] != kNoSlot ? inputs[i] : new_slot();
      STRATA_CHECK(body.slots.emplace(f.inputs[i], slot).second, Runtime, "function '{}' has two inputs '{}'", f.name,
                   f.inputs[i]);
    }
    add_nodes(f.nodes, body, block, {f.opsets.empty() ? context.opsets : f.opsets, &arguments, context.depth + 1});
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      const Slot result = find(body, f.outputs[i], "the outputs of a function");
      STRATA_CHECK(scope.slots.emplace(node.outputs[i], result).second, Runtime, "the value '{}' is computed twice",
                   node.outputs[i]);
    }
  }

  void note_unknown(const Node& node, int64_t version) {
    Unknown& u = unknown_[fmt::format("{} (domain '{}', version {})", node.op,
                                      node.domain.empty() ? "ai.onnx" : node.domain, version)];
    constexpr size_t kNames = 3;
    if (++u.count <= kNames) u.names += fmt::format("{}'{}'", u.names.empty() ? "" : ", ", node.name);
    else if (u.count == kNames + 1) u.names += ", ...";
  }
  void refuse_unknown() const {
    if (unknown_.empty()) return;
    std::string list;
    for (const auto& [op, u] : unknown_)
      list += fmt::format("\n  {}: {} node{} {}", op, u.count, u.count == 1 ? "" : "s", u.names);
    fail(ErrorKind::NotImplemented, fmt::format("onnx: '{}' has ops that are not known:{}\nAdd them with "
                                                "strata.onnx.register(domain, op, function)",
                                                n_.model_.file->name(), list));
  }

  // --- lives ---------------------------------------------------------------------------------------------------------
  // All slots that a step reads, its graphs included.
  template <class F> static void for_each_read(const Step& step, F&& f) {
    for (const Slot s : step.inputs)
      if (s != kNoSlot) f(s);
    for (const Block& block : step.blocks) {
      for (const Step& inner : block.steps) for_each_read(inner, f);
      for (const Slot s : block.outputs) f(s);
    }
  }
  void find_dead(Block& block) {
    // Values that steps of this block compute; later reads move the last step.
    std::unordered_map<Slot, size_t> last;
    for (size_t i = 0; i < block.steps.size(); ++i)
      for (const Slot s : block.steps[i].outputs)
        if (s != kNoSlot) last[s] = i;
    for (size_t i = 0; i < block.steps.size(); ++i)
      for_each_read(block.steps[i], [&](Slot s) {
        if (const auto found = last.find(s); found != last.end()) found->second = std::max(found->second, i);
      });
    for (const Slot s : block.outputs) last.erase(s);
    for (const auto& [slot, step] : last) block.steps[step].dead.push_back(slot);
    for (Step& step : block.steps)
      for (Block& inner : step.blocks) find_dead(inner);
  }

  Network& n_;
  ExternalFiles files_;
  std::unordered_map<std::string, const Function*> functions_;
  std::map<std::string, Unknown> unknown_;
  Slot slots_ = 0;
  int64_t steps_ = 0;
};

Network::Network(Model model, Device device, const Limits& limits)
    : model_(std::move(model)), device_(require_available(device)), limits_(limits) {
  NetworkMaker(*this).make();
}

std::shared_ptr<const Network> load(const std::string& path, Device device, const Limits& limits) {
  return std::make_shared<const Network>(read_model(path), device, limits);
}

}  // namespace strata::onnx
