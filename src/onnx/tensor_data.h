// Tensors made of the TensorProtos of a model.
#pragma once
#include <map>

#include "onnx/model.h"
#include "onnx/value.h"

namespace strata::onnx {

// Files beside a model that hold weights, each mapped once.
class ExternalFiles {
 public:
  explicit ExternalFiles(const Model& model) : model_(model) {}
  const std::shared_ptr<FileBytes>& model_file() const { return model_.file; }
  const std::shared_ptr<FileBytes>& open(const std::string& name);
  bool are_attached() const { return !model_.attached.empty(); }
  const Tensor& attached(std::string_view location) const;

 private:
  const Model& model_;
  std::map<std::string, std::shared_ptr<FileBytes>> open_;
};

// The value of a TensorProto: over the mapped bytes if they are aligned. Checks the type, the shape and that there are as
// many bytes or numbers as they need.
STRATA_API Value make_value(const TensorData& data, ExternalFiles& files);

// The bytes of external data of a type of less than 8 bits.
Tensor external_codes(const TensorData& data, ExternalFiles& files);

// Codes of the small floats and integers of ONNX, one per byte, as a tensor that carries their values.
STRATA_API Tensor decode_codes(const uint8_t* codes, Shape shape, ElementType type);
// Rounds to the nearest value of a small float type with sign, exponent and mantissa; ties to even. What is too large
// becomes the largest value, or infinity or NaN if not `saturate` and the type has it.
STRATA_API void round_to(float* values, int64_t n, ElementType type, bool saturate);

}  // namespace strata::onnx
