// ptx: compute_80
// Convolutions of float16 on tensor cores; see convolution_mma.cuh.
#include "cuda/nn/convolution_mma.cuh"

namespace strata::cuda::mma {

STRATA_CONV_MMAS(false)

}  // namespace strata::cuda::mma
