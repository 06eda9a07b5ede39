#include "cli/network_inputs.h"

#include "nn/files/checkpoint.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata::cli {

SizesByName sizes_by_name(const std::vector<std::string>& given, const char* option) {
  SizesByName sizes;
  for (const std::string& list : given)
    for (size_t begin = 0; begin <= list.size();) {
      const size_t comma = std::min(list.find(',', begin), list.size());
      const std::string text = list.substr(begin, comma - begin);
      begin = comma + 1;
      const size_t mark = text.find_last_of(":=");
      STRATA_CHECK(mark != std::string::npos && mark > 0, Value, "{} {}: expected NAME=1x3x224x224", option, text);
      std::vector<int64_t>& dims = sizes[text.substr(0, mark)];
      for (size_t at = mark + 1; at < text.size();) {
        const size_t end = std::min(text.find('x', at), text.size());
        const std::string number = text.substr(at, end - at);
        STRATA_CHECK(
          !number.empty() && number.size() < 12 && number.find_first_not_of("0123456789") == std::string::npos, Value,
          "{} {}: '{}' is not a size", option, text, number);
        dims.push_back(std::stoll(number));
        at = end + 1;
      }
    }
  return sizes;
}

onnx::Values make_inputs(const std::vector<engine::Port>& ports, Device device, const GivenInputs& given) {
  std::map<std::string, Tensor> tensors;
  if (!given.file.empty())
    for (auto& [name, t] : load_safetensors(given.file).tensors) tensors.emplace(name, t);
  onnx::Values values;
  Generator generator(0);
  for (const engine::Port& p : ports) {
    if (const auto found = tensors.find(p.name); found != tensors.end()) {
      values.emplace_back(to(found->second, device));
      tensors.erase(found);
      continue;
    }
    if (p.optional) {
      values.emplace_back();
      continue;
    }
    STRATA_CHECK(p.kind == onnx::TypeInfo::Kind::Tensor, NotImplemented,
                 "the input '{}' is no tensor, so it cannot be random", p.name);
    std::vector<int64_t> shape;
    for (const engine::Port::Dim& d : p.dims) shape.push_back(d.size >= 0 ? d.size : 1);
    if (const auto found = given.sizes.find(p.name); found != given.sizes.end()) shape = found->second;
    const DType dtype = onnx::storage_dtype(p.element);
    const Tensor x = is_floating(dtype) ? to(randn(shape, &generator, TensorOptions(DType::F32)), dtype)
                                        : zeros(shape, TensorOptions(dtype));
    values.emplace_back(to(x, device));
  }
  STRATA_CHECK(tensors.empty(), Value, "the network has no input '{}'", tensors.begin()->first);
  for (const auto& [name, sizes] : given.sizes) {
    const auto known = [&name = name](const engine::Port& p) { return p.name == name; };
    STRATA_CHECK(std::ranges::any_of(ports, known), Value, "the network has no input '{}'", name);
  }
  return values;
}

}  // namespace strata::cli
