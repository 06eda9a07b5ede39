// Scans on a device, with the interface of cpu/reduce/scan.h.
#pragma once
#include "record/kinds.h"
#include "tensor/tensor.h"

namespace strata::cuda {

void scan(Scan kind, const TensorImpl& x, int dim, const TensorImpl& out);
void scan_extremes(bool largest, const TensorImpl& x, int dim, const TensorImpl& values, const TensorImpl& indices);

}  // namespace strata::cuda
