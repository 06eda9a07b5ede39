#include "engine/nvinfer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "dispatch/settings.h"
#include "engine/builder.h"
#include "engine/plan.h"
#include "strata/ops/movement/copy.h"

namespace strata::engine {
namespace {

// Memory that a program has taken, by its address.
struct Taken {
  std::mutex lock;
  std::map<const std::byte*, Tensor> all;
  std::optional<Device> device;
};
Taken& taken() {
  static auto* table = new Taken;
  return *table;
}

// A tensor over memory of the program: taken here, or its own on the host.
Tensor over(void* address, Shape shape, DType dtype) {
  auto* data = static_cast<std::byte*>(address);
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = dtype;
  t->set_shape(shape);
  t->set_contiguous_strides();
  const size_t bytes = static_cast<size_t>(t->numel) * size_of(dtype);
  const std::lock_guard lock(taken().lock);
  auto found = taken().all.upper_bound(data);
  if (found != taken().all.begin()) {
    const Tensor& block = std::prev(found)->second;
    const size_t inside = static_cast<size_t>(data - block->data);
    if (inside < static_cast<size_t>(block.numel()) || (bytes == 0 && inside == 0)) {
      STRATA_CHECK(inside + bytes <= static_cast<size_t>(block.numel()), Value,
                   "engine: a tensor of {} bytes at byte {} of memory with {} bytes", bytes, inside, block.numel());
      t->device = block.device();
      t->storage = block->storage;
      t->data = data;
      return t;
    }
  }
  t->storage = adopt_memory(
    address, bytes, [](void*) {}, nullptr);
  t->data = data;
  return t;
}

Tensor as_bytes(const void* address, size_t bytes) {
  return over(const_cast<void*>(address), Shape({static_cast<int64_t>(bytes)}), DType::U8);
}

}  // namespace

Device nvinfer_device() {
  const std::lock_guard lock(taken().lock);
  if (!taken().device)
    taken().device = cuda::device_count(DeviceType::Cuda) > 0 ? Device(DeviceType::Cuda, 0) : Device();
  return *taken().device;
}
void set_nvinfer_device(Device device) {
  const Device there = require_available(device);
  const std::lock_guard lock(taken().lock);
  taken().device = there;
}
void* take_memory(size_t bytes) {
  const Tensor t = make_tensor(Shape({static_cast<int64_t>(std::max<size_t>(bytes, 1))}), DType::U8, nvinfer_device());
  const std::lock_guard lock(taken().lock);
  taken().all.emplace(t->data, t);
  return t->data;
}
void give_memory(void* memory) {
  const std::lock_guard lock(taken().lock);
  taken().all.erase(static_cast<const std::byte*>(memory));
}
void copy_memory(void* destination, const void* from, size_t bytes) {
  const Tensor target = as_bytes(destination, bytes);
  copy_(target, as_bytes(from, bytes));
  if (target.device().type != DeviceType::Cpu) cuda::synchronize(target.device());
}

}  // namespace strata::engine

namespace nvinfer1 {
namespace {

using strata::engine::Port;

// Runs f; an error goes to the logger.
template <class F> auto logged(ILogger& logger, F&& f) noexcept -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) { logger.log(ILogger::Severity::kERROR, e.what()); }
  return {};
}

std::vector<int64_t> sizes_of(const Dims& dims) {
  STRATA_CHECK(dims.nbDims >= 0 && dims.nbDims <= Dims::MAX_DIMS, Value, "Dims has {} dimensions", dims.nbDims);
  return {dims.d, dims.d + dims.nbDims};
}
Dims dims_of(const std::vector<int64_t>& sizes) {
  Dims dims;
  if (sizes.size() > static_cast<size_t>(Dims::MAX_DIMS)) {
    dims.nbDims = -1;
    return dims;
  }
  dims.nbDims = static_cast<int32_t>(sizes.size());
  std::ranges::copy(sizes, dims.d);
  return dims;
}
std::vector<int64_t> sizes_of(const Port& port) {
  std::vector<int64_t> sizes;
  for (const Port::Dim& d : port.dims) sizes.push_back(d.size);
  return sizes;
}
bool* flag_of(strata::engine::BuilderConfig& c, BuilderFlag flag) {
  switch (flag) {
    case BuilderFlag::kFP16: return &c.fp16;
    case BuilderFlag::kBF16: return &c.bf16;
    case BuilderFlag::kINT8: return &c.int8;
    case BuilderFlag::kTF32: break;
  }
  return nullptr;
}

}  // namespace

bool IOptimizationProfile::setDimensions(const char* input, OptProfileSelector which, const Dims& dims) noexcept {
  auto& range = profile_.ranges[input];
  if (dims.nbDims < 0 || dims.nbDims > Dims::MAX_DIMS) return false;
  (which == OptProfileSelector::kMIN   ? range.min
   : which == OptProfileSelector::kOPT ? range.opt
                                       : range.max)
    .assign(dims.d, dims.d + dims.nbDims);
  return true;
}

void IBuilderConfig::setFlag(BuilderFlag flag) noexcept {
  if (bool* value = flag_of(config, flag)) *value = true;
}
void IBuilderConfig::clearFlag(BuilderFlag flag) noexcept {
  if (bool* value = flag_of(config, flag)) *value = false;
}
bool IBuilderConfig::getFlag(BuilderFlag flag) const noexcept {
  const bool* value = flag_of(const_cast<IBuilderConfig*>(this)->config, flag);
  return value && *value;
}
int32_t IBuilderConfig::addOptimizationProfile(const IOptimizationProfile* profile) noexcept {
  config.profiles.push_back(profile->profile());
  return static_cast<int32_t>(config.profiles.size()) - 1;
}

// --- builder ----------------------------------------------------------------------------------------------------------
IBuilder* createInferBuilder(ILogger& logger) noexcept { return new IBuilder(logger); }
IRuntime* createInferRuntime(ILogger& logger) noexcept { return new IRuntime(logger); }
INetworkDefinition* IBuilder::createNetworkV2(uint32_t) noexcept { return new INetworkDefinition; }
IBuilderConfig* IBuilder::createBuilderConfig() noexcept { return new IBuilderConfig; }
IOptimizationProfile* IBuilder::createOptimizationProfile() noexcept {
  return profiles_.emplace_back(std::make_unique<IOptimizationProfile>()).get();
}
ICudaEngine* IBuilder::buildEngineWithConfig(INetworkDefinition& network, IBuilderConfig& config) noexcept {
  return logged(*logger_, [&] {
    STRATA_CHECK(network.network, Value, "the network is empty: read a model with a parser first");
    return new ICudaEngine(strata::engine::build(network.network, config.config), *logger_);
  });
}
IHostMemory* IBuilder::buildSerializedNetwork(INetworkDefinition& network, IBuilderConfig& config) noexcept {
  const std::unique_ptr<ICudaEngine> engine(buildEngineWithConfig(network, config));
  return engine ? engine->serialize() : nullptr;
}
ICudaEngine* IRuntime::deserializeCudaEngine(const void* data, size_t size) noexcept {
  return logged(*logger_, [&] {
    const auto file = strata::FileBytes::copy({static_cast<const std::byte*>(data), size}, "<plan>");
    return new ICudaEngine(strata::engine::read_plan(file), *logger_);
  });
}

// --- engine -----------------------------------------------------------------------------------------------------------
IExecutionContext* ICudaEngine::createExecutionContext() const noexcept {
  return logged(*logger_, [&] { return new IExecutionContext(*this); });
}
IHostMemory* ICudaEngine::serialize() const noexcept {
  return logged(*logger_, [&] { return new IHostMemory(strata::engine::plan_bytes(*engine)); });
}
int32_t ICudaEngine::getNbIOTensors() const noexcept {
  return static_cast<int32_t>(engine->inputs().size() + engine->outputs().size());
}
const Port& ICudaEngine::port(int32_t i) const {
  const auto at = static_cast<size_t>(i), inputs = engine->inputs().size();
  STRATA_CHECK(i >= 0 && i < getNbIOTensors(), Index, "there is no binding {}; there are {}", i, getNbIOTensors());
  return at < inputs ? engine->inputs()[at] : engine->outputs()[at - inputs];
}
int32_t ICudaEngine::find(const char* name) const noexcept {
  for (int32_t i = 0; i < getNbIOTensors(); ++i)
    if (port(i).name == name) return i;
  return -1;
}
const char* ICudaEngine::getIOTensorName(int32_t i) const noexcept {
  return logged(*logger_, [&] { return port(i).name.c_str(); });
}
bool ICudaEngine::bindingIsInput(int32_t i) const noexcept {
  return i >= 0 && static_cast<size_t>(i) < engine->inputs().size();
}
TensorIOMode ICudaEngine::getTensorIOMode(const char* name) const noexcept {
  const int32_t i = find(name);
  return i < 0 ? TensorIOMode::kNONE : bindingIsInput(i) ? TensorIOMode::kINPUT : TensorIOMode::kOUTPUT;
}
Dims ICudaEngine::getBindingDimensions(int32_t i) const noexcept {
  return logged(*logger_, [&] { return dims_of(sizes_of(port(i))); });
}
Dims ICudaEngine::getTensorShape(const char* name) const noexcept { return getBindingDimensions(find(name)); }
DataType ICudaEngine::getBindingDataType(int32_t i) const noexcept {
  return logged(*logger_, [&] {
    using Type = strata::onnx::ElementType;
    switch (port(i).element) {
      case Type::Float16: return DataType::kHALF;
      case Type::BFloat16: return DataType::kBF16;
      case Type::Int8: return DataType::kINT8;
      case Type::UInt8: return DataType::kUINT8;
      case Type::Int32: return DataType::kINT32;
      case Type::Int64: return DataType::kINT64;
      case Type::Bool: return DataType::kBOOL;
      default: return DataType::kFLOAT;
    }
  });
}
DataType ICudaEngine::getTensorDataType(const char* name) const noexcept { return getBindingDataType(find(name)); }

// --- context ----------------------------------------------------------------------------------------------------------
IExecutionContext::IExecutionContext(const ICudaEngine& engine)
    : engine_(engine),
      context_(engine.engine->create_context()),
      shapes_(engine.engine->inputs().size()),
      addresses_(static_cast<size_t>(engine.getNbIOTensors())),
      output_shapes_(engine.engine->outputs().size()) {}

bool IExecutionContext::setInputShape(const char* input, const Dims& dims) noexcept {
  return logged(engine_.logger(), [&] {
    const int32_t i = engine_.find(input);
    STRATA_CHECK(engine_.bindingIsInput(i), Value, "there is no input '{}'", input);
    shapes_[static_cast<size_t>(i)] = sizes_of(dims);
    return true;
  });
}
bool IExecutionContext::setTensorAddress(const char* name, void* address) noexcept {
  return logged(engine_.logger(), [&] {
    const int32_t i = engine_.find(name);
    STRATA_CHECK(i >= 0, Value, "there is no input or output '{}'", name);
    addresses_[static_cast<size_t>(i)] = address;
    return true;
  });
}
Dims IExecutionContext::getTensorShape(const char* name) const noexcept {
  const int32_t i = engine_.find(name);
  if (i < 0) return engine_.getTensorShape(name);
  const auto at = static_cast<size_t>(i);
  const auto& known = at < shapes_.size() ? shapes_[at] : output_shapes_[at - shapes_.size()];
  return known.empty() ? engine_.getTensorShape(name) : dims_of(known);
}
void IExecutionContext::run() {
  const auto& e = *engine_.engine;
  strata::onnx::Values inputs;
  for (size_t i = 0; i < e.inputs().size(); ++i) {
    const Port& port = e.inputs()[i];
    STRATA_CHECK(addresses_[i], Value, "the input '{}' has no address", port.name);
    const std::vector<int64_t> sizes = shapes_[i].empty() ? sizes_of(port) : shapes_[i];
    STRATA_CHECK(std::ranges::find(sizes, -1) == sizes.end(), Value,
                 "the sizes of the input '{}' vary: call setInputShape first", port.name);
    inputs.emplace_back(strata::engine::over(addresses_[i], sizes, strata::onnx::storage_dtype(port.element)));
  }
  // The outputs are computed, then copied where the program wants them: only then their sizes are known.
  const strata::onnx::Values outputs = context_->run(inputs);
  for (size_t o = 0; o < outputs.size(); ++o) {
    STRATA_CHECK(outputs[o].tensor, NotImplemented, "the output '{}' is no tensor", e.outputs()[o].name);
    const strata::Tensor& t = outputs[o].tensor;
    output_shapes_[o].assign(t.shape().begin(), t.shape().end());
    void* address = addresses_[inputs.size() + o];
    STRATA_CHECK(address, Value, "the output '{}' has no address", e.outputs()[o].name);
    strata::copy_(strata::engine::over(address, t.shape(), t.dtype()), t);
  }
}
bool IExecutionContext::executeV2(void* const* bindings) noexcept {
  return logged(engine_.logger(), [&] {
    addresses_.assign(bindings, bindings + addresses_.size());
    run();
    if (engine_.engine->device().type != strata::DeviceType::Cpu) strata::cuda::synchronize(engine_.engine->device());
    return true;
  });
}
bool IExecutionContext::enqueueV3(void*) noexcept {
  return logged(engine_.logger(), [&] {
    run();
    return true;
  });
}

}  // namespace nvinfer1

namespace nvonnxparser {

IParser* createParser(nvinfer1::INetworkDefinition& network, nvinfer1::ILogger& logger) noexcept {
  return new IParser(network, logger);
}
bool IParser::parseFromFile(const char* path, int) noexcept {
  return nvinfer1::logged(*logger_, [&] {
    network_->network =
      std::make_shared<strata::engine::OnnxNetwork>(strata::onnx::read_model(path), strata::engine::nvinfer_device());
    return true;
  });
}
bool IParser::parse(const void* data, size_t size, const char*) noexcept {
  return nvinfer1::logged(*logger_, [&] {
    auto file = strata::FileBytes::copy({static_cast<const std::byte*>(data), size}, "<model>");
    network_->network = std::make_shared<strata::engine::OnnxNetwork>(strata::onnx::read_model(std::move(file), ""),
                                                                      strata::engine::nvinfer_device());
    return true;
  });
}

}  // namespace nvonnxparser
