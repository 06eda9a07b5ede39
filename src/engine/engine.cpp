#include "engine/engine.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/autograd.h"
#include "dispatch/autocast.h"
#include "dispatch/observer.h"
#include "strata/ops/movement/copy.h"

namespace strata::engine {
namespace {

// As many tries to make a graph are enough for a network that never had one.
constexpr size_t kMostFailures = 3;

PassOptions options_of(const BuilderConfig& config) {
  PassOptions options;
  options.fp16 = config.fp16;
  options.bf16 = config.bf16;
  options.int8 = config.int8;
  options.level = config.level;
  if (!config.calibration.values.empty()) options.calibration = &config.calibration;
  return options;
}

bool is_within(const OptimizationProfile::Range& r, Shape shape) {
  if (r.min.size() != shape.size()) return false;
  for (size_t d = 0; d < r.min.size(); ++d)
    if (shape[d] < r.min[d] || shape[d] > r.max[d]) return false;
  return true;
}

}  // namespace

Engine::Engine(std::shared_ptr<const Network> network, BuilderConfig config, TacticTable tactics)
    : network_(std::move(network)),
      config_(std::move(config)),
      tactics_(std::move(tactics)),
      device_key_(device_key(network_->device())) {
  STRATA_CHECK(config_.level >= 0 && config_.level <= 5, Value, "engine: level {}; expected 0 to 5", config_.level);
  STRATA_CHECK(config_.most_specializations > 0, Value, "engine: most_specializations is 0; expected 1 or more");
  for (const OptimizationProfile& p : config_.profiles) check_profile(p, *network_);
}

void Engine::set_tactics(const std::string& key, Tactics tactics) {
  const std::lock_guard lock(lock_);
  tactics_[device_key_][key] = std::move(tactics);
}
Tactics Engine::tactics_for(const std::string& key) const {
  const std::lock_guard lock(lock_);
  const auto device = tactics_.find(device_key_);
  if (device == tactics_.end()) return {};
  const auto found = device->second.find(key);
  return found == device->second.end() ? Tactics() : found->second;
}

std::unique_ptr<ExecutionContext> Engine::create_context() const {
  return std::make_unique<ExecutionContext>(shared_from_this());
}

// --- specialisations --------------------------------------------------------------------------------------------------
std::shared_ptr<const Specialization> Engine::specialization(std::span<const onnx::Value> inputs) const {
  const std::string key = key_of(inputs);
  std::unique_lock lock(lock_);
  const auto [found, is_new] = specializations_.try_emplace(key);
  found->second.used = ++clock_;
  if (!is_new) {  // perhaps another thread is making it
    made_.wait(lock, [&] {
      const auto at = specializations_.find(key);
      return at == specializations_.end() || at->second.ready;
    });
    const auto at = specializations_.find(key);
    if (at != specializations_.end()) return at->second.specialization;
    lock.unlock();
    return specialization(inputs);
  }
  const bool hopeless = successes_ == 0 && failures_ >= kMostFailures;
  PassOptions options = options_of(config_);
  const auto plain = without_passes_.find(key);
  if (plain != without_passes_.end()) options.only_necessary = true;
  lock.unlock();
  Made made;
  made.ready = true;
  if (hopeless) {
    made.reason = "no graph could be made for other sizes";
  } else {
    try {
      made.specialization = specialize(*network_, inputs, options, made.reason, &constants_);
    } catch (...) {
      lock.lock();
      specializations_.erase(key);
      made_.notify_all();
      throw;
    }
  }
  lock.lock();
  ++(made.specialization ? successes_ : failures_);
  made.used = ++clock_;
  Made& kept = specializations_[key];
  kept = std::move(made);
  const auto result = kept.specialization;
  forget_oldest();
  made_.notify_all();
  return result;
}

void Engine::forget_oldest() const {
  while (specializations_.size() > config_.most_specializations) {
    auto oldest = specializations_.end();
    for (auto at = specializations_.begin(); at != specializations_.end(); ++at)
      if (at->second.ready && (oldest == specializations_.end() || at->second.used < oldest->second.used)) oldest = at;
    if (oldest == specializations_.end()) return;
    specializations_.erase(oldest);
  }
}

void Engine::forget_failure(const std::string& key) const {
  const std::lock_guard lock(lock_);
  const auto found = specializations_.find(key);
  if (found == specializations_.end() || !found->second.ready || found->second.specialization) return;
  specializations_.erase(found);
  --failures_;
}

std::string Engine::why_interpreted(const std::string& key) const {
  const std::lock_guard lock(lock_);
  const auto found = specializations_.find(key);
  return found == specializations_.end() || found->second.specialization ? std::string() : found->second.reason;
}
void Engine::give_up(const Specialization& failed, const std::string& reason) const {
  constexpr size_t kMostKept = 1024;
  const std::lock_guard lock(lock_);
  const auto found = specializations_.find(failed.key);
  if (found != specializations_.end() && found->second.specialization.get() != &failed) return;  // known already
  if (without_passes_.size() >= kMostKept) without_passes_.clear();
  if (without_passes_.emplace(failed.key, reason).second) {
    if (found != specializations_.end()) specializations_.erase(found);
    return;
  }
  Made& made = specializations_[failed.key];
  made.specialization = nullptr;
  made.reason = reason;
  made.ready = true;
  made.used = ++clock_;
}
std::vector<std::string> Engine::keys() const {
  const std::lock_guard lock(lock_);
  std::vector<std::string> keys;
  for (const auto& [key, made] : specializations_)
    if (made.specialization) keys.push_back(key);
  return keys;
}

// --- checks -----------------------------------------------------------------------------------------------------------
void Engine::check_input(const Port& port, const onnx::Value& v) const {
  STRATA_CHECK(v.defined() || port.optional || port.kind == onnx::TypeInfo::Kind::Optional, Value,
               "engine: the input '{}' is missing", port.name);
  if (!v.tensor || port.kind != onnx::TypeInfo::Kind::Tensor) return;
  STRATA_CHECK(onnx::element_type(v) == port.element, Type, "engine: the input '{}' is {}; expected a tensor of {}",
               port.name, onnx::kind_of(v), onnx::name_of(port.element));
  if (!port.has_shape) return;
  bool fits = static_cast<size_t>(v.tensor.dim()) == port.dims.size();
  for (size_t d = 0; fits && d < port.dims.size(); ++d)
    fits = port.dims[d].size < 0 || port.dims[d].size == v.tensor->shape[d];
  STRATA_CHECK(fits, Value, "engine: the input '{}' has the shape {}; the network has {}", port.name,
               strata::to_string(v.tensor.shape()), to_string(port));
}

void Engine::check_ranges(std::span<const onnx::Value> inputs) const {
  if (config_.profiles.empty()) return;
  const auto fits = [&](const OptimizationProfile& p) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto range = p.ranges.find(network_->inputs()[i].name);
      if (inputs[i].tensor && range != p.ranges.end() && !is_within(range->second, inputs[i].tensor.shape()))
        return false;
    }
    return true;
  };
  if (std::ranges::any_of(config_.profiles, fits)) return;
  std::string found, known;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].tensor)
      found += fmt::format("{}{}: {}", found.empty() ? "" : ", ", network_->inputs()[i].name,
                           fmt::join(inputs[i].tensor.shape(), "x"));
  for (size_t i = 0; i < config_.profiles.size(); ++i)
    known += fmt::format("\n  profile {}: {}", i, to_string(config_.profiles[i]));
  fail(ErrorKind::Value, fmt::format("engine: the sizes of the inputs ({}) are in no profile; build the engine with a "
                                     "profile for them. It has:{}",
                                     found, known));
}

void Engine::check_inputs(std::span<const onnx::Value> inputs) const {
  STRATA_CHECK(inputs.size() == network_->inputs().size(), Value, "engine: {} inputs were given; the network has {}",
               inputs.size(), network_->inputs().size());
  for (size_t i = 0; i < inputs.size(); ++i) check_input(network_->inputs()[i], inputs[i]);
  check_ranges(inputs);
}

// --- contexts ---------------------------------------------------------------------------------------------------------
ExecutionContext::ExecutionContext(std::shared_ptr<const Engine> engine)
    : engine_(std::move(engine)),
      bound_inputs_(engine_->inputs().size()),
      bound_outputs_(engine_->outputs().size()),
      results_(engine_->outputs().size()) {}
ExecutionContext::~ExecutionContext() = default;

size_t ExecutionContext::bytes() const {
  size_t sum = 0;
  for (const auto& r : runners_) sum += r->bytes();
  return sum;
}

void ExecutionContext::forget_oldest() {
  const BuilderConfig& config = engine_->config();
  while (runners_.size() > 1 && (runners_.size() > config.most_specializations || bytes() > config.most_bytes))
    runners_.pop_back();
}

Runner* ExecutionContext::runner_for(std::span<const onnx::Value> inputs) {
  const std::string key = key_of(inputs);
  const auto found = std::ranges::find_if(runners_, [&](const auto& r) { return r->what().key == key; });
  if (found != runners_.end()) {
    runners_.splice(runners_.begin(), runners_, found);
    return runners_.front().get();
  }
  const auto specialization = engine_->specialization(inputs);
  if (!specialization) return nullptr;
  runners_.push_front(std::make_unique<Runner>(specialization, engine_->tactics_for(key)));
  forget_oldest();
  return runners_.front().get();
}

void ExecutionContext::interpret(std::span<const onnx::Value> inputs, std::span<Tensor> outputs, onnx::Values* values) {
  const autograd::NoGrad off;
  const autocast::Off same_dtypes;
  onnx::Values here(inputs.begin(), inputs.end());
  for (onnx::Value& v : here)
    if (v.tensor && v.tensor.device() != engine_->device()) v.tensor = to(v.tensor, engine_->device());
  onnx::Values all = engine_->network().run(here);
  last_mode_ = "interpreter";
  if (values) {
    *values = std::move(all);
    return;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const std::string& name = engine_->outputs()[o].name;
    STRATA_CHECK(all[o].tensor, Type, "engine: the output '{}' is {}, not a tensor", name, onnx::kind_of(all[o]));
    if (!outputs[o]) {
      outputs[o] = all[o].tensor;
      continue;
    }
    STRATA_CHECK(outputs[o].dtype() == all[o].tensor.dtype() &&
                   std::ranges::equal(outputs[o].shape(), all[o].tensor.shape()) && !outputs[o].requires_grad(),
                 Value, "engine: the tensor given for output '{}' is {} {}; the output is {} {}", name,
                 strata::name_of(outputs[o].dtype()), strata::to_string(outputs[o].shape()),
                 strata::name_of(all[o].tensor.dtype()), strata::to_string(all[o].tensor.shape()));
    copy_(outputs[o], all[o].tensor);
  }
}

void ExecutionContext::run_into(std::span<const onnx::Value> inputs, std::span<Tensor> outputs) {
  const auto held = hold();
  engine_->check_inputs(inputs);
  STRATA_CHECK(outputs.size() == engine_->outputs().size(), Value, "engine: {} outputs were given; the network has {}",
               outputs.size(), engine_->outputs().size());
  Runner* runner = current_observer() ? nullptr : runner_for(inputs);  // who follows the program sees its ops
  if (!runner) return interpret(inputs, outputs, nullptr);
  const std::vector<Tensor> given = runner->what().inputs_of(inputs);
  try {
    const bool as_graph = engine_->config().cuda_graphs && engine_->device().type != DeviceType::Cpu;
    const bool done = as_graph && runner->run_as_graph(given, outputs);
    if (!done) runner->run(given, outputs);
    last_mode_ = done && runner->has_graph() ? "cuda graph" : "graph";
  } catch (const graph::OtherResult& e) {
    engine_->give_up(runner->what(), e.what());
    runners_.pop_front();
    return run_into(inputs, outputs);
  }
}

onnx::Values ExecutionContext::run(std::span<const onnx::Value> inputs) {
  const auto held = hold();
  engine_->check_inputs(inputs);
  Runner* runner = current_observer() ? nullptr : runner_for(inputs);
  onnx::Values values;
  if (!runner) {
    interpret(inputs, {}, &values);
    return values;
  }
  std::vector<Tensor> outputs(engine_->outputs().size());
  const std::vector<onnx::ElementType> carried = runner->what().carried;
  run_into(inputs, outputs);
  for (size_t o = 0; o < outputs.size(); ++o) values.emplace_back(outputs[o], carried[o]);
  return values;
}

std::vector<Tensor> ExecutionContext::run(const std::vector<Tensor>& inputs) {
  onnx::Values values(inputs.begin(), inputs.end());
  values.resize(std::max(values.size(), engine_->inputs().size()));
  std::vector<Tensor> outputs(engine_->outputs().size());
  run_into(values, outputs);
  return outputs;
}

size_t ExecutionContext::place_of(const std::vector<Port>& ports, const std::string& name, const char* what) const {
  const auto found = std::ranges::find(ports, name, &Port::name);
  if (found != ports.end()) return static_cast<size_t>(found - ports.begin());
  std::string names;
  for (const Port& p : ports) names += (names.empty() ? "" : ", ") + p.name;
  fail(ErrorKind::Value, fmt::format("engine: there is no {} '{}'; there are {}", what, name, names));
}
void ExecutionContext::set_input(const std::string& name, Tensor t) {
  bound_inputs_[place_of(engine_->inputs(), name, "input")] = onnx::Value(std::move(t));
}
void ExecutionContext::set_output(const std::string& name, Tensor t) {
  bound_outputs_[place_of(engine_->outputs(), name, "output")] = std::move(t);
}
void ExecutionContext::run() {
  const auto held = hold();
  results_ = bound_outputs_;
  run_into(bound_inputs_, results_);
}
const Tensor& ExecutionContext::output(const std::string& name) const {
  return results_[place_of(engine_->outputs(), name, "output")];
}

}  // namespace strata::engine
