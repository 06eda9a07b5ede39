// Discrete Fourier transforms along one dimension of a tensor, of float32 and float64 or their complex types.
#pragma once
#include "tensor/tensor.h"

namespace strata::cpu {

// out[k] = scale * the sum of in[j] exp(-2 pi i j k / n) forward, exp(+…) backward. Both are complex.
void fft_complex(const TensorImpl& in, int dim, bool forward, double scale, const TensorImpl& out);
// The first n / 2 + 1 elements of the forward transform of a real tensor: the others are their conjugates.
void fft_real(const TensorImpl& in, int dim, double scale, const TensorImpl& out);
// The first n / 2 + 1 elements of the transforms of frames of n elements of each row of a real [batch, length] signal, `hop`
// apart, times a window if there is one: [batch, n / 2 + 1, frames].
void fft_frames(const TensorImpl& signal, const TensorImpl* window, int64_t n, int64_t hop, double scale,
                const TensorImpl& out);
// The backward transform to a real tensor of n = out.shape[dim] elements, from the first n / 2 + 1.
void fft_to_real(const TensorImpl& in, int dim, double scale, const TensorImpl& out);
// The same by direct summation in double precision.
void fft_complex_reference(const TensorImpl& in, int dim, bool forward, double scale, const TensorImpl& out);
void fft_real_reference(const TensorImpl& in, int dim, double scale, const TensorImpl& out);
void fft_frames_reference(const TensorImpl& signal, const TensorImpl* window, int64_t n, int64_t hop, double scale,
                          const TensorImpl& out);
void fft_to_real_reference(const TensorImpl& in, int dim, double scale, const TensorImpl& out);

}  // namespace strata::cpu
