// Where two tensors differ: for checks of what was computed in two ways.
#pragma once
#include <string>

#include "tensor/tensor.h"

namespace strata {

// Empty if all elements have the same bits or are both NaN. Otherwise "3 of 48 elements, most at [0, 5]: 2.5 instead of 2.25
// (difference 0.25)". The tensors have the same shape and dtype, and computed values.
std::string value_difference(const Tensor& got, const Tensor& want);

}  // namespace strata
