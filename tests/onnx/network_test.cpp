// ONNX from C++: loading, running, ops of the user; and the seeds and past findings of the fuzz target.
#include "onnx/network.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "strata/strata.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace strata {
namespace {

const std::string kCorpus = std::string(STRATA_CORPUS) + "/onnx/";

TEST(OnnxNetwork, RunsOnEveryDeviceWithTheSameResult) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, kFloat32);
  for (const char* device : {"cpu", "vgpu"}) {
    const auto network = onnx::load(kCorpus + "product", device);
    EXPECT_EQ(network->inputs()[0].name, "x");
    const onnx::Values outputs = network->run(onnx::Values{x.to(network->device())});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_TRUE(outputs[0].tensor.cpu().equal(tensor({{6, 6, 6}, {15, 15, 15}}, kFloat32))) << device;
  }
}

TEST(OnnxNetwork, TakesBranchesAndCallsFunctions) {
  const Tensor x = tensor({{-1, 2, -3}}, kFloat32);
  const auto run = [&](const char* name) { return onnx::load(kCorpus + name)->run(onnx::Values{x})[0].tensor; };
  EXPECT_TRUE(run("branches").equal(tensor({{0, 2, 0}}, kFloat32)));
  EXPECT_TRUE(run("function").equal(tensor({{1, -2, 3}}, kFloat32)));
}

TEST(OnnxNetwork, UsesOpsOfTheUser) {
  onnx::register_op("f", "Own", [](onnx::NodeCall& c) { return onnx::Values{onnx::Value(mul(c.tensor(0), 7))}; });
  const auto network = onnx::load(kCorpus + "own");
  EXPECT_TRUE(
    network->run(onnx::Values{tensor({{1, 2, 3}}, kFloat32)})[0].tensor.equal(tensor({{7, 14, 21}}, kFloat32)));
}

TEST(OnnxNetwork, RefusesExternalDataOutsideOfItsFolder) {
  EXPECT_ERROR(Runtime, "leads out of the folder", onnx::load(kCorpus + "external"));
}

TEST(OnnxSave, WritesWhatItReadsBack) {
  nn::Sequential layers(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  const Tensor x = randn({3, 4});
  const auto program = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{layers(in[0])}; };
  autograd::NoGrad off;
  const graph::Graph captured = graph::capture(program, {x}, {.input_names = {"x"}});
  const testing::TempFolder folder;
  onnx::save(captured, folder / "m.onnx", {.output_names = {"y"}, .external_data = true});
  const auto network = onnx::load(folder / "m.onnx");
  EXPECT_EQ(network->outputs()[0].name, "y");
  EXPECT_TRUE(network->run(onnx::Values{x})[0].tensor.equal(layers(x)));
}

TEST(OnnxNetwork, CorpusIsReadOrRefused) {
  int good = 0, all = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    ++all;
    try {
      onnx::load(entry.path().string());
      ++good;
    } catch (const Error& e) { EXPECT_NE(e.kind(), ErrorKind::Internal) << entry.path() << e.what(); }
  }
  EXPECT_GE(all, 5);
  EXPECT_GE(good, 4);
}
}  // namespace
}  // namespace strata
