// Fuzz target: ONNX models and the values of all their tensors.
#include "onnx/model.h"

#include "onnx/tensor_data.h"
#include "tests/fuzz/target.h"

namespace {

void read_tensors(const strata::onnx::Graph& graph, strata::onnx::ExternalFiles& files, size_t size) {
  using namespace strata;
  const auto read = [&](const onnx::TensorData& data) {
    fuzz::expect_typed_errors([&] {
      const onnx::Value v = onnx::make_value(data, files);
      if (v.tensor && !onnx::is_carried(onnx::element_type(v)) && v.tensor.nbytes() > 8 * size) __builtin_trap();
    });
  };
  for (const onnx::TensorData& data : graph.initializers) read(data);
  for (const onnx::Node& node : graph.nodes)
    for (const onnx::Attribute& a : node.attributes) {
      for (const onnx::TensorData& data : a.tensors) read(data);
      for (const onnx::Graph& inner : a.graphs) read_tensors(inner, files, size);
    }
}
}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  fuzz::expect_typed_errors([&] {
    const onnx::Model model = onnx::read_model(FileBytes::copy(fuzz::bytes_of(data, size), "fuzz"), "");
    onnx::ExternalFiles files(model);
    read_tensors(model.graph, files, size);
  });
  return 0;
}
