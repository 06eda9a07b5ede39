// A model without its weights, for files that keep weights as tensors of their own.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "onnx/model.h"

namespace strata::onnx {

// The bytes of the model with all but its small weights taken out, and those, by name. In their place is external data, whose
// location is the name; Model::attached has them again when the bytes are read.
STRATA_API std::string without_weights(const Model& model, std::vector<std::pair<std::string, Tensor>>& weights);

}  // namespace strata::onnx
