// Conversion between any two element types of ONNX.
#pragma once
#include "onnx/ops/common.h"

namespace strata::onnx {

// `saturate`: what is too large for a small float becomes its largest value. `mode` rounds to powers of two (float8e8m0):
// up, down or nearest.
Value convert(const Value& v, ElementType type, bool saturate = true, std::string_view mode = "up");

}  // namespace strata::onnx
