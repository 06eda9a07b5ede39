// Random permutations on a device.
#pragma once
#include "record/kernel.h"
#include "tensor/generator.h"

namespace strata::cuda {

// The order of as many random numbers of 64 bits as out has elements: int64, contiguous.
void fill_permutation(const TensorImpl& out, Generator& generator, Workspace& workspace);

}  // namespace strata::cuda
