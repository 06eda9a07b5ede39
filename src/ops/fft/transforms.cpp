// The transforms that all functions of strata.fft are made of: along one dimension, with a factor.
#include "strata/args/fft/transforms.h"
#include "cpu/fft/fft.h"
#include "cuda/fft/fft.h"
#include "ops/complex_parts.h"
#include "strata/ops.h"

namespace strata {
namespace {

int dim_of(const TensorImpl& x, int64_t dim) {
  STRATA_CHECK(x.ndim > 0, Runtime, "fft: expected a tensor with at least one dimension");
  return normalize_dim(dim, x.ndim, "fft");
}
void infer(const Call& c, const TensorImpl& x, int dim, int64_t n, DType dtype) {
  c.out()->dtype = dtype;
  c.out()->set_shape(x.sizes());
  c.out()->shape[dim] = n;
}
}  // namespace

STRATA_OP(fft_c2c, "_fft_c2c(Tensor input, int dim, bool forward, float scale) -> Tensor")
  .doc("The discrete Fourier transform of a complex tensor along a dimension, times a factor.")
  .dtypes(kComplexTypes)
  .infer([](const args::fft_c2c& c) {
    const TensorImpl& x = c.input();
    STRATA_CHECK(is_complex(x.dtype), Runtime, "fft: expected a complex tensor, got {}", name_of(x.dtype));
    const int dim = dim_of(x, c.dim());
    infer(c, x, dim, x.shape[dim], x.dtype);
  })
  .kernel("stockham",
          [](const args::fft_c2c& c) {
            cpu::fft_complex(c.input(), dim_of(c.input(), c.dim()), c.forward(), c.scale(), *c.out());
          })
  .kernel("reference",
          [](const args::fft_c2c& c) {
            cpu::fft_complex_reference(c.input(), dim_of(c.input(), c.dim()), c.forward(), c.scale(), *c.out());
          })
  .grad([](const grads::fft_c2c& c, const Tensor& g) -> Grads {
    return {_fft_c2c(g, c.dim(), !c.forward(), c.scale())};
  })
  .helper()
  .cuda("stockham",
        [](const args::fft_c2c& c, Workspace& workspace) {
          cuda::fft_complex(c.input(), dim_of(c.input(), c.dim()), c.forward(), c.scale(), *c.out(), workspace);
        })
  .handles_complex()
  .samples({"f(8), 0, True, 1.0", "f(3,5), 0, False, 0.5", "f(2,6,3), 1, True, 1.0", "f(3,7), -1, True, 1.0",
            "f(2,37), 1, False, 1.0", "f(0,4), 1, True, 1.0", "f(3,16), 1, True, 1.0", "f(15,30), 0, True, 2.0"});

STRATA_OP(fft_r2c, "_fft_r2c(Tensor input, int dim, float scale) -> Tensor")
  .doc("The first half of the forward transform of a real tensor: n / 2 + 1 elements.")
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::fft_r2c& c) {
    const TensorImpl& x = c.input();
    STRATA_CHECK(x.dtype == DType::F32 || x.dtype == DType::F64, Runtime, "rfft: expected a real input tensor, got {}",
                 name_of(x.dtype));
    const int dim = dim_of(x, c.dim());
    STRATA_CHECK(x.shape[dim] > 0, Runtime, "rfft: expected a dimension with elements, got size 0 at dimension {}",
                 dim);
    infer(c, x, dim, x.shape[dim] / 2 + 1, complex_type(x.dtype));
  })
  .kernel("stockham",
          [](const args::fft_r2c& c) { cpu::fft_real(c.input(), dim_of(c.input(), c.dim()), c.scale(), *c.out()); })
  .kernel("reference",
          [](const args::fft_r2c& c) {
            cpu::fft_real_reference(c.input(), dim_of(c.input(), c.dim()), c.scale(), *c.out());
          })
  .grad([](const grads::fft_r2c& c, const Tensor& g) -> Grads {
    // The sum of g[k] exp(+…) over the elements that were computed.
    const int dim = normalize_dim(c.dim(), c.meta_of_input().ndim, "fft");
    const int64_t n = c.shape_of_input()[static_cast<size_t>(dim)];
    std::vector<int64_t> shape(c.shape_of_input().begin(), c.shape_of_input().end());
    shape[static_cast<size_t>(dim)] = n - (n / 2 + 1);
    const Tensor whole = cat({g, zeros(shape, g.dtype())}, dim);
    return {real(_fft_c2c(whole, dim, false, c.scale()))};
  })
  .helper()
  .cuda("stockham",
        [](const args::fft_r2c& c, Workspace& workspace) {
          cuda::fft_real(c.input(), dim_of(c.input(), c.dim()), c.scale(), *c.out(), workspace);
        })
  .handles_complex()
  .samples({"f(8), 0, 1.0", "f(3,5), 0, 0.5", "f(2,6,3), 1, 1.0", "f(3,7), -1, 1.0", "f(2,74), 1, 1.0",
            "f(0,4), 1, 1.0", "f(17,64), 1, 1.0"});

STRATA_OP(fft_c2r, "_fft_c2r(Tensor input, int dim, int n, float scale) -> Tensor")
  .doc("The backward transform to n real numbers, from the first half (n / 2 + 1 elements) of their spectrum.")
  .dtypes(kComplexTypes)
  .infer([](const args::fft_c2r& c) {
    const TensorImpl& x = c.input();
    STRATA_CHECK(is_complex(x.dtype), Runtime, "irfft: expected a complex tensor, got {}", name_of(x.dtype));
    const int dim = dim_of(x, c.dim());
    STRATA_CHECK(c.n() >= 1 && x.shape[dim] == c.n() / 2 + 1, Runtime,
                 "irfft: {} elements cannot be the spectrum of {} real numbers", x.shape[dim], c.n());
    infer(c, x, dim, c.n(), real_type(x.dtype));
  })
  .kernel("stockham",
          [](const args::fft_c2r& c) { cpu::fft_to_real(c.input(), dim_of(c.input(), c.dim()), c.scale(), *c.out()); })
  .kernel("reference",
          [](const args::fft_c2r& c) {
            cpu::fft_to_real_reference(c.input(), dim_of(c.input(), c.dim()), c.scale(), *c.out());
          })
  .grad([](const grads::fft_c2r& c, const Tensor& g) -> Grads {
    // Elements that stand for two, themselves and a conjugate, count twice.
    const int dim = normalize_dim(c.dim(), c.meta_of_input().ndim, "fft");
    const Tensor half = _fft_r2c(contiguous(g), dim, c.scale());
    const int64_t bins = half.size(dim), twice = bins - 1 - (c.n() % 2 == 0 ? 1 : 0);
    if (twice <= 0) return {half};
    std::vector<int64_t> shape(static_cast<size_t>(half.dim()), 1);
    shape[static_cast<size_t>(dim)] = bins;
    const DType dtype = real_type(half.dtype());
    const Tensor inner = full({twice}, 2, dtype), end = ones({1}, dtype);
    const Tensor weight = c.n() % 2 == 0 ? cat({end, inner, end}, 0) : cat({end, inner}, 0);
    return {mul(half, reshape(weight, shape))};
  })
  .helper()
  .cuda("stockham",
        [](const args::fft_c2r& c, Workspace& workspace) {
          cuda::fft_to_real(c.input(), dim_of(c.input(), c.dim()), c.scale(), *c.out(), workspace);
        })
  .handles_complex()
  .samples({"f(5), 0, 8, 1.0", "f(3,5), 0, 5, 0.5", "f(2,4,3), 1, 6, 1.0", "f(3,4), -1, 7, 1.0", "f(2,38), 1, 74, 1.0",
            "f(0,3), 1, 4, 1.0", "f(2,1), 1, 1, 1.0"})
  .error("f(3), 0, 8, 1.0", ErrorKind::Runtime, "expected a complex tensor");

}  // namespace strata
