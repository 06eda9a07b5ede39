// Groups of equal neighbours on a device.
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

struct Groups {
  Tensor first;    // where each group begins
  Tensor inverse;  // the group of each element; undefined unless wanted
};
// Groups of equal neighbours of the vector x or, if it is bool and `given`, the groups that begin where x is true. Element
// i is number order[i] of `inverse`, if there is an order. Waits for the device.
Groups group_neighbours(const Tensor& x, bool given, const Tensor& order, bool inverse);

}  // namespace strata::cuda
