// Discrete Fourier transforms along one dimension on a device; the same functions as in cpu/fft/fft.h.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

void fft_complex(const TensorImpl& in, int dim, bool forward, double scale, const TensorImpl& out,
                 Workspace& workspace);
void fft_real(const TensorImpl& in, int dim, double scale, const TensorImpl& out, Workspace& workspace);
void fft_to_real(const TensorImpl& in, int dim, double scale, const TensorImpl& out, Workspace& workspace);

}  // namespace strata::cuda
