// Fuzz target: plans of engines, behind the sum of their bytes, which a writer of hostile files can compute.
#include "engine/plan_format.h"

#include "onnx/tensor_data.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  const auto file = FileBytes::copy(fuzz::bytes_of(data, size), "fuzz");
  fuzz::expect_typed_errors([&] { engine::check_plan_bytes(*file); });
  fuzz::expect_typed_errors([&] {
    engine::PlanContents plan = engine::parse_plan(file);
    if (plan.is_graph) return;
    const Bytes network(reinterpret_cast<const std::byte*>(plan.network.data()), plan.network.size());
    onnx::Model model = onnx::read_model(FileBytes::copy(network, "fuzz"), "");
    for (auto& [name, t] : plan.weights) model.attached.emplace(name, std::move(t));
    onnx::ExternalFiles files(model);
    for (const onnx::TensorData& weight : model.graph.initializers)
      fuzz::expect_typed_errors([&] { onnx::make_value(weight, files); });
  });
  return 0;
}
