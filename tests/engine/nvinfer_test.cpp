// A program of TensorRT, with another include.
#include <gtest/gtest.h>

#include <strata/nvinfer.h>
#include <cstring>
#include <fstream>
#include <iostream>

#include "compile/capture.h"
#include "onnx/save.h"
#include "strata/strata.h"
#include "tests/temp_folder.h"

namespace {

using namespace nvinfer1;

class Logger : public ILogger {
 public:
  void log(Severity severity, const char* text) noexcept override {
    if (severity <= Severity::kERROR) errors += text;
  }
  std::string errors;
} gLogger;

size_t volume(const Dims& dims) {
  size_t product = 1;
  for (int i = 0; i < dims.nbDims; ++i) product *= static_cast<size_t>(dims.d[i]);
  return product;
}

// A model in a file, and what it computes.
struct Model {
  strata::testing::TempFolder folder;
  std::string path = folder / "model.onnx";
  strata::nn::Sequential layers{strata::nn::Linear(4, 8), strata::nn::ReLU(), strata::nn::Linear(8, 2)};
  strata::Tensor operator()(const strata::Tensor& x) {
    const strata::autograd::NoGrad off;
    return layers(x);
  }
  explicit Model(bool varies = false) {
    using strata::graph::Graph;
    const strata::autograd::NoGrad off;
    const auto follow = [&](int64_t n) {
      return strata::graph::capture(
        [&](const std::vector<strata::Tensor>& in) { return std::vector<strata::Tensor>{layers(in[0])}; },
        {strata::ones({n, 4})}, {.input_names = {"x"}});
    };
    Graph g = follow(3);
    if (varies)
      g = strata::graph::generalize({follow(2), follow(3), follow(4), follow(5), follow(1)}, {{2}, {3}, {4}, {5}, {1}},
                                    {{"n", 1, 64}}, {{0, 0, 0}});
    strata::onnx::save(g, path, {.output_names = {"y"}});
  }
};

class Nvinfer : public ::testing::TestWithParam<const char*> {
 protected:
  Nvinfer() {
    strata::engine::set_nvinfer_device(GetParam());
    gLogger.errors.clear();
  }
};

TEST_P(Nvinfer, BuildsAndRunsAsTheirListingDoes) {
  Model model;
  const std::string model_onnx = model.path;
  // --- the listing ---
  // 1) Create builder and network
  auto builder = createInferBuilder(gLogger);
  auto network = builder->createNetworkV2(1U << (int)NetworkDefinitionCreationFlag::kEXPLICIT_BATCH);

  // 2) Parse model (ONNX example)
  auto parser = nvonnxparser::createParser(*network, gLogger);
  parser->parseFromFile(model_onnx.c_str(), 0);

  // 3) Configure builder
  auto config = builder->createBuilderConfig();
  config->setMaxWorkspaceSize(1 << 30);
  config->setFlag(BuilderFlag::kFP16);
  config->setFlag(BuilderFlag::kINT8);

  // 4) Build engine
  auto built = builder->buildEngineWithConfig(*network, *config);
  if (!built) { std::cerr << "Engine build failed\n"; }
  ASSERT_TRUE(built) << gLogger.errors;
  IHostMemory* plan = built->serialize();
  const void* engineData = plan->data();
  const size_t size = plan->size();

  // Deserialize engine (or load from file)
  auto runtime = createInferRuntime(gLogger);
  auto engine = runtime->deserializeCudaEngine(engineData, size);
  auto context = engine->createExecutionContext();

  // Allocate GPU buffers for inputs/outputs
  std::vector<void*> buffers(engine->getNbBindings());
  for (int i = 0; i < engine->getNbBindings(); ++i) {
    size_t bytes = volume(engine->getBindingDimensions(i)) * sizeof(float);
    cudaMalloc(&buffers[i], bytes);
  }
  // Copy input data to GPU (omitted)
  const strata::Tensor x = strata::randn({3, 4});
  cudaMemcpy(buffers[0], x.data_ptr(), x.nbytes(), cudaMemcpyHostToDevice);
  // Run inference
  ASSERT_TRUE(context->executeV2(buffers.data())) << gLogger.errors;
  // Copy outputs back (omitted)
  strata::Tensor y = strata::zeros({3, 2});
  cudaMemcpy(y.data_ptr(), buffers[1], y.nbytes(), cudaMemcpyDeviceToHost);
  // --- end of the listing ---
  EXPECT_TRUE(y.allclose(model(x), 1e-2, 1e-2));
  EXPECT_STREQ(engine->getBindingName(0), "x");
  EXPECT_TRUE(engine->bindingIsInput(0) && !engine->bindingIsInput(1));
  for (void* b : buffers) cudaFree(b);
  for (auto* memory : {plan}) delete memory;
  delete context;
  delete engine;
  delete runtime;
  delete built;
  delete config;
  delete parser;
  delete network;
  delete builder;
}

TEST_P(Nvinfer, RunsSizesOfAProfileWithTheNewerNames) {
  Model model(true);
  const std::unique_ptr<IBuilder> builder(createInferBuilder(gLogger));
  const std::unique_ptr<INetworkDefinition> network(builder->createNetworkV2(0));
  const std::unique_ptr<nvonnxparser::IParser> parser(nvonnxparser::createParser(*network, gLogger));
  ASSERT_TRUE(parser->parseFromFile(model.path.c_str(), 0)) << gLogger.errors;
  const std::unique_ptr<IBuilderConfig> config(builder->createBuilderConfig());
  IOptimizationProfile* profile = builder->createOptimizationProfile();
  profile->setDimensions("x", OptProfileSelector::kMIN, Dims2(1, 4));
  profile->setDimensions("x", OptProfileSelector::kOPT, Dims2(2, 4));
  profile->setDimensions("x", OptProfileSelector::kMAX, Dims2(8, 4));
  config->addOptimizationProfile(profile);
  config->setMemoryPoolLimit(MemoryPoolType::kWORKSPACE, 1 << 20);
  const std::unique_ptr<IHostMemory> plan(builder->buildSerializedNetwork(*network, *config));
  ASSERT_TRUE(plan) << gLogger.errors;
  const std::unique_ptr<IRuntime> runtime(createInferRuntime(gLogger));
  const std::unique_ptr<ICudaEngine> engine(runtime->deserializeCudaEngine(plan->data(), plan->size()));
  const std::unique_ptr<IExecutionContext> context(engine->createExecutionContext());
  EXPECT_EQ(engine->getTensorShape("x").d[0], -1);
  void *in = nullptr, *out = nullptr;
  cudaMalloc(&in, 9 * 4 * 4);
  cudaMalloc(&out, 9 * 2 * 4);
  for (const int64_t n : {1, 5, 8}) {
    const strata::Tensor x = strata::randn({n, 4});
    cudaMemcpy(in, x.data_ptr(), x.nbytes(), cudaMemcpyHostToDevice);
    ASSERT_TRUE(context->setInputShape("x", Dims2(n, 4)));
    context->setTensorAddress("x", in);
    context->setTensorAddress("y", out);
    ASSERT_TRUE(context->enqueueV3(nullptr)) << gLogger.errors;
    EXPECT_EQ(context->getTensorShape("y").d[0], n);
    strata::Tensor y = strata::zeros({n, 2});
    cudaMemcpy(y.data_ptr(), out, y.nbytes(), cudaMemcpyDeviceToHost);
    EXPECT_TRUE(y.allclose(model(x), 1e-4, 1e-5));
  }
  context->setInputShape("x", Dims2(9, 4));
  EXPECT_FALSE(context->enqueueV3(nullptr));
  EXPECT_NE(gLogger.errors.find("in no profile"), std::string::npos);
  cudaFree(in);
  cudaFree(out);
}

TEST_P(Nvinfer, ErrorsGoToTheLogger) {
  const std::unique_ptr<IBuilder> builder(createInferBuilder(gLogger));
  const std::unique_ptr<INetworkDefinition> network(builder->createNetworkV2(0));
  const std::unique_ptr<nvonnxparser::IParser> parser(nvonnxparser::createParser(*network, gLogger));
  EXPECT_FALSE(parser->parseFromFile("/nothing.onnx", 0));
  EXPECT_NE(gLogger.errors.find("/nothing.onnx"), std::string::npos);
  const std::unique_ptr<IBuilderConfig> config(builder->createBuilderConfig());
  EXPECT_FALSE(builder->buildEngineWithConfig(*network, *config));
  const std::unique_ptr<IRuntime> runtime(createInferRuntime(gLogger));
  EXPECT_FALSE(runtime->deserializeCudaEngine("no plan", 7));
  Model model;
  ASSERT_TRUE(parser->parseFromFile(model.path.c_str(), 0));
  const std::unique_ptr<ICudaEngine> engine(builder->buildEngineWithConfig(*network, *config));
  const std::unique_ptr<IExecutionContext> context(engine->createExecutionContext());
  void* none[2] = {};
  EXPECT_FALSE(context->executeV2(none));
  EXPECT_NE(gLogger.errors.find("has no address"), std::string::npos);
  void* small = nullptr;
  cudaMalloc(&small, 4);
  void* buffers[2] = {small, small};
  EXPECT_FALSE(context->executeV2(buffers));
  cudaFree(small);
}

INSTANTIATE_TEST_SUITE_P(Devices, Nvinfer, ::testing::Values("cpu", "vgpu"));

}  // namespace
