// Engines with the names of TensorRT (NvInfer.h, NvOnnxParser.h), for programs that include <strata/nvinfer.h> in their place. What
// has no meaning here (logger, workspace of plugins, streams on the CPU) is accepted. Errors are written to the logger, and the
// function returns null or false, as there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace nvinfer1 {

enum class DataType : int32_t {
  kFLOAT = 0,
  kHALF = 1,
  kINT8 = 2,
  kINT32 = 3,
  kBOOL = 4,
  kUINT8 = 5,
  kBF16 = 7,
  kINT64 = 8
};
enum class BuilderFlag : int32_t { kFP16 = 0, kINT8 = 1, kBF16 = 2, kTF32 = 7 };
enum class NetworkDefinitionCreationFlag : int32_t { kEXPLICIT_BATCH = 0, kSTRONGLY_TYPED = 1 };
enum class MemoryPoolType : int32_t { kWORKSPACE = 0 };
enum class OptProfileSelector : int32_t { kMIN = 0, kOPT = 1, kMAX = 2 };
enum class TensorIOMode : int32_t { kNONE = 0, kINPUT = 1, kOUTPUT = 2 };

struct Dims {
  static constexpr int32_t MAX_DIMS = 8;
  int32_t nbDims = 0;
  int64_t d[MAX_DIMS] = {};
};
struct Dims2 : Dims {
  Dims2(int64_t a, int64_t b) : Dims{2, {a, b}} {}
};
struct Dims3 : Dims {
  Dims3(int64_t a, int64_t b, int64_t c) : Dims{3, {a, b, c}} {}
};
struct Dims4 : Dims {
  Dims4(int64_t a, int64_t b, int64_t c, int64_t e) : Dims{4, {a, b, c, e}} {}
};

class ILogger {
 public:
  enum class Severity : int32_t { kINTERNAL_ERROR = 0, kERROR = 1, kWARNING = 2, kINFO = 3, kVERBOSE = 4 };
  virtual void log(Severity severity, const char* text) noexcept = 0;
  virtual ~ILogger() = default;
};

class STRATA_API IHostMemory {
 public:
  explicit IHostMemory(std::string bytes) : bytes_(std::move(bytes)) {}
  void* data() noexcept { return bytes_.data(); }
  size_t size() const noexcept { return bytes_.size(); }

 private:
  std::string bytes_;
};

class STRATA_API IOptimizationProfile {
 public:
  bool setDimensions(const char* input, OptProfileSelector which, const Dims& dims) noexcept;
  const strata::engine::OptimizationProfile& profile() const { return profile_; }

 private:
  strata::engine::OptimizationProfile profile_;
};

class STRATA_API IBuilderConfig {
 public:
  void setFlag(BuilderFlag flag) noexcept;
  void clearFlag(BuilderFlag flag) noexcept;
  bool getFlag(BuilderFlag flag) const noexcept;
  void setMaxWorkspaceSize(size_t bytes) noexcept { config.workspace_limit = bytes; }
  void setMemoryPoolLimit(MemoryPoolType, size_t bytes) noexcept { config.workspace_limit = bytes; }
  void setBuilderOptimizationLevel(int32_t level) noexcept { config.level = level; }
  int32_t addOptimizationProfile(const IOptimizationProfile* profile) noexcept;

  strata::engine::BuilderConfig config;
};

// The model that a parser has read.
class STRATA_API INetworkDefinition {
 public:
  int32_t getNbInputs() const noexcept { return network ? static_cast<int32_t>(network->inputs().size()) : 0; }
  int32_t getNbOutputs() const noexcept { return network ? static_cast<int32_t>(network->outputs().size()) : 0; }

  std::shared_ptr<const strata::engine::Network> network;
};

class ICudaEngine;

class STRATA_API IExecutionContext {
 public:
  explicit IExecutionContext(const ICudaEngine& engine);
  // An address for each input and output, in the order of the engine; memory on its device.
  bool executeV2(void* const* bindings) noexcept;
  bool setInputShape(const char* input, const Dims& dims) noexcept;
  bool setTensorAddress(const char* name, void* address) noexcept;
  Dims getTensorShape(const char* name) const noexcept;  // of an output: after a run, if it varies
  bool enqueueV3(void* stream) noexcept;                 // in the current stream

 private:
  void run();
  const ICudaEngine& engine_;
  std::unique_ptr<strata::engine::ExecutionContext> context_;
  std::vector<std::vector<int64_t>> shapes_;  // of inputs; empty: not set
  std::vector<void*> addresses_;
  std::vector<std::vector<int64_t>> output_shapes_;
};

class STRATA_API ICudaEngine {
 public:
  ICudaEngine(std::shared_ptr<const strata::engine::Engine> made, ILogger& logger)
      : engine(std::move(made)), logger_(&logger) {}
  IExecutionContext* createExecutionContext() const noexcept;
  IHostMemory* serialize() const noexcept;
  int32_t getNbBindings() const noexcept { return getNbIOTensors(); }
  int32_t getNbIOTensors() const noexcept;
  const char* getBindingName(int32_t i) const noexcept { return getIOTensorName(i); }
  const char* getIOTensorName(int32_t i) const noexcept;
  bool bindingIsInput(int32_t i) const noexcept;
  TensorIOMode getTensorIOMode(const char* name) const noexcept;
  Dims getBindingDimensions(int32_t i) const noexcept;  // -1 for sizes that vary
  Dims getTensorShape(const char* name) const noexcept;
  DataType getBindingDataType(int32_t i) const noexcept;
  DataType getTensorDataType(const char* name) const noexcept;

  int32_t find(const char* name) const noexcept;  // -1: there is none
  const strata::engine::Port& port(int32_t i) const;
  ILogger& logger() const { return *logger_; }
  std::shared_ptr<const strata::engine::Engine> engine;

 private:
  ILogger* logger_;
};

class STRATA_API IRuntime {
 public:
  explicit IRuntime(ILogger& logger) : logger_(&logger) {}
  ICudaEngine* deserializeCudaEngine(const void* data, size_t size) noexcept;

 private:
  ILogger* logger_;
};

class STRATA_API IBuilder {
 public:
  explicit IBuilder(ILogger& logger) : logger_(&logger) {}
  INetworkDefinition* createNetworkV2(uint32_t flags) noexcept;
  IBuilderConfig* createBuilderConfig() noexcept;
  IOptimizationProfile* createOptimizationProfile() noexcept;
  ICudaEngine* buildEngineWithConfig(INetworkDefinition& network, IBuilderConfig& config) noexcept;
  IHostMemory* buildSerializedNetwork(INetworkDefinition& network, IBuilderConfig& config) noexcept;
  bool platformHasFastFp16() const noexcept { return true; }
  bool platformHasFastInt8() const noexcept { return true; }

 private:
  std::vector<std::unique_ptr<IOptimizationProfile>> profiles_;  // they belong to the builder
  ILogger* logger_;
};

STRATA_API IBuilder* createInferBuilder(ILogger& logger) noexcept;
STRATA_API IRuntime* createInferRuntime(ILogger& logger) noexcept;

}  // namespace nvinfer1

namespace nvonnxparser {

class STRATA_API IParser {
 public:
  IParser(nvinfer1::INetworkDefinition& network, nvinfer1::ILogger& logger) : network_(&network), logger_(&logger) {}
  bool parseFromFile(const char* path, int verbosity) noexcept;
  bool parse(const void* data, size_t size, const char* path = nullptr) noexcept;
  int getNbErrors() const noexcept { return error_.empty() ? 0 : 1; }

 private:
  nvinfer1::INetworkDefinition* network_;
  nvinfer1::ILogger* logger_;
  std::string error_;
};

STRATA_API IParser* createParser(nvinfer1::INetworkDefinition& network, nvinfer1::ILogger& logger) noexcept;

}  // namespace nvonnxparser

namespace strata::engine {

// The device of engines that these names build: cuda if there is one, else the CPU, unless it is set.
STRATA_API Device nvinfer_device();
STRATA_API void set_nvinfer_device(Device device);
// Memory on that device, and copies; for the functions of the CUDA runtime that such programs call.
STRATA_API void* take_memory(size_t bytes);
STRATA_API void give_memory(void* memory);
STRATA_API void copy_memory(void* to, const void* from, size_t bytes);

}  // namespace strata::engine
