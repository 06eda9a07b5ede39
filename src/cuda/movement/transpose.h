// Copies that transpose, with the kernels of cuda/movement/transpose.cu.
#pragma once
#include "record/walk.h"

namespace strata::cuda {

// Copies view 1 of a collapsed walk to view 0, both of one element size, if that is a matrix transposition. Otherwise
// returns false and does nothing.
bool transpose(const Walk& w, Device device);

}  // namespace strata::cuda
