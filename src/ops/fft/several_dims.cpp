// strata.fft: transforms over several dimensions, one after the other.
#include "strata/args/fft/several_dims.h"
#include "ops/fft/common.h"
#include "strata/ops.h"

namespace strata {
using namespace fourier;
namespace {

// The dimensions of a transform and the sizes they get; -1 leaves a size as it is.
struct Axes {
  std::vector<int> dims;
  std::vector<int64_t> sizes;
};
Axes axes_of(const Tensor& x, const OptIntList& s, const OptIntList& dim, const char* op) {
  Axes axes;
  STRATA_CHECK(!s.given || !dim.given || s.size == dim.size, Runtime,
               "{}: When given, dim and shape arguments must have the same length, got {} and {}", op, dim.size,
               s.size);
  STRATA_CHECK(!s.given || dim.given || s.size <= static_cast<size_t>(x.dim()), Runtime,
               "{}: Got shape with {} values but input tensor only has {} dimensions", op, s.size, x.dim());
  const size_t count = dim.given ? dim.size : s.given ? s.size : static_cast<size_t>(x.dim());
  DimMask seen = 0;
  for (size_t i = 0; i < count; ++i) {
    const int d = dim.given ? checked_dim(x, dim[i], op) : x.dim() - static_cast<int>(count - i);
    STRATA_CHECK(!(seen >> d & 1), Runtime, "{}: FFT dims must be unique, got {} twice", op, d);
    seen |= dim_bit(d);
    axes.dims.push_back(d);
    axes.sizes.push_back(s.given && s[i] != -1 ? s[i] : x.size(d));
  }
  return axes;
}
// The elements that the transforms read: `last` of the last dimension.
Tensor cut_all(Tensor x, const Axes& axes, int64_t last) {
  for (size_t i = 0; i < axes.dims.size(); ++i)
    x = cut(x, axes.dims[i], i + 1 < axes.dims.size() ? axes.sizes[i] : last);
  return x;
}
Tensor over_dims(Tensor x, const Axes& axes, size_t count, const Norm& norm, bool forward, const char* op) {
  for (size_t i = 0; i < count; ++i) x = transformed(x, axes.sizes[i], axes.dims[i], norm, forward, op);
  return x;
}

Tensor transformed_n(const Tensor& input, const OptIntList& s, const OptIntList& dim, const Norm& norm, bool forward,
                     const char* op) {
  const Axes axes = axes_of(input, s, dim, op);
  const Tensor x = axes.dims.empty() ? input : cut_all(input, axes, axes.sizes.back());
  return over_dims(as_complex(x, op), axes, axes.dims.size(), norm, forward, op);
}
Tensor from_real_n(const Tensor& input, const OptIntList& s, const OptIntList& dim, const Norm& norm, bool forward,
                   const char* op) {
  const Tensor x = as_real(input, op);
  const Axes axes = axes_of(x, s, dim, op);
  STRATA_CHECK(!axes.dims.empty(), Runtime, "{}: must transform at least one axis", op);
  const Tensor read = cut_all(x, axes, axes.sizes.back());
  const Tensor half = from_real(read, axes.sizes.back(), axes.dims.back(), norm, forward, op);
  return over_dims(half, axes, axes.dims.size() - 1, norm, forward, op);
}
Tensor to_real_n(const Tensor& input, const OptIntList& s, const OptIntList& dim, const Norm& norm, bool forward,
                 const char* op) {
  const Axes axes = axes_of(input, s, dim, op);
  STRATA_CHECK(!axes.dims.empty(), Runtime, "{}: must transform at least one axis", op);
  const bool given = s.given && s[s.size - 1] != -1;
  const std::optional<int64_t> last = given ? std::optional(axes.sizes.back()) : std::nullopt;
  const Tensor x = as_complex(given ? cut_all(input, axes, *last / 2 + 1) : cut_all(input, axes, -1), op);
  return to_real(over_dims(x, axes, axes.dims.size() - 1, norm, forward, op), last, axes.dims.back(), norm, forward,
                 op);
}
}  // namespace

STRATA_OP(fft_fft2, "fft.fft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor")
  .doc("The discrete Fourier transform over two dimensions.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, OptIntList s, IntList dim, Norm norm) {
    return transformed_n(input, s, OptIntList(dim), norm, true, "fft2");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'"})
  .error("f(4,4), [0,4]", ErrorKind::Runtime, "Invalid number of data points");

STRATA_OP(fft_fftn, "fft.fftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor")
  .doc("The discrete Fourier transform over the dimensions `dim`; the last ones if only `s` is given, otherwise all.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, OptIntList s, OptIntList dim, Norm norm) {
    return transformed_n(input, s, dim, norm, true, "fftn");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'", "f(3,4), [4,-1], [0,1]"})
  .error("f(4,4), [4], [0,1]", ErrorKind::Runtime, "same length")
  .error("f(4,4), dim=[0,0]", ErrorKind::Runtime, "must be unique");

STRATA_OP(fft_ifft2, "fft.ifft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor")
  .doc("The inverse discrete Fourier transform over two dimensions.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, OptIntList s, IntList dim, Norm norm) {
    return transformed_n(input, s, OptIntList(dim), norm, false, "ifft2");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'"})
  .error("f(4,4), [0,4]", ErrorKind::Runtime, "Invalid number of data points");

STRATA_OP(fft_ifftn, "fft.ifftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor")
  .doc(
    "The inverse discrete Fourier transform over the dimensions `dim`; the last ones if only `s` is given, otherwise "
    "all.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, OptIntList s, OptIntList dim, Norm norm) {
    return transformed_n(input, s, dim, norm, false, "ifftn");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'", "f(3,4), [4,-1], [0,1]"})
  .error("f(4,4), [4], [0,1]", ErrorKind::Runtime, "same length")
  .error("f(4,4), dim=[0,0]", ErrorKind::Runtime, "must be unique");

STRATA_OP(fft_rfft2, "fft.rfft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor")
  .doc("The transform of a real tensor, with the first half of the last dimension, over two dimensions.")
  .dtypes(kRealInputs)
  .composite([](const Tensor& input, OptIntList s, IntList dim, Norm norm) {
    return from_real_n(input, s, OptIntList(dim), norm, true, "rfft2");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'"})
  .error("f(4,4), [0,4]", ErrorKind::Runtime, "Invalid number of data points");

STRATA_OP(fft_rfftn, "fft.rfftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor")
  .doc(
    "The transform of a real tensor, with the first half of the last dimension, over the dimensions `dim`; the last "
    "ones if only `s` is given, otherwise all.")
  .dtypes(kRealInputs)
  .composite([](const Tensor& input, OptIntList s, OptIntList dim, Norm norm) {
    return from_real_n(input, s, dim, norm, true, "rfftn");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'", "f(3,4), [4,-1], [0,1]"})
  .error("f(4,4), [4], [0,1]", ErrorKind::Runtime, "same length")
  .error("f(4,4), dim=[0,0]", ErrorKind::Runtime, "must be unique");

STRATA_OP(fft_irfft2, "fft.irfft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor")
  .doc("The inverse of rfft over two dimensions.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, OptIntList s, IntList dim, Norm norm) {
    return to_real_n(input, s, OptIntList(dim), norm, false, "irfft2");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'"})
  .error("f(4,4), [0,4]", ErrorKind::Runtime, "Invalid number of data points");

STRATA_OP(fft_irfftn, "fft.irfftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor")
  .doc("The inverse of rfft over the dimensions `dim`; the last ones if only `s` is given, otherwise all.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, OptIntList s, OptIntList dim, Norm norm) {
    return to_real_n(input, s, dim, norm, false, "irfftn");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'", "f(3,4), [4,-1], [0,1]"})
  .error("f(4,4), [4], [0,1]", ErrorKind::Runtime, "same length")
  .error("f(4,4), dim=[0,0]", ErrorKind::Runtime, "must be unique");

STRATA_OP(fft_hfft2, "fft.hfft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor")
  .doc("hfft over two dimensions.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, OptIntList s, IntList dim, Norm norm) {
    return to_real_n(input, s, OptIntList(dim), norm, true, "hfft2");
  })
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'"})
  .error("f(4,4), [0,4]", ErrorKind::Runtime, "Invalid number of data points");

STRATA_OP(fft_hfftn, "fft.hfftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor")
  .doc("hfft over the dimensions `dim`; the last ones if only `s` is given, otherwise all.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, OptIntList s, OptIntList dim, Norm norm) {
    return to_real_n(input, s, dim, norm, true, "hfftn");
  })
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'", "f(3,4), [4,-1], [0,1]"})
  .error("f(4,4), [4], [0,1]", ErrorKind::Runtime, "same length")
  .error("f(4,4), dim=[0,0]", ErrorKind::Runtime, "must be unique");

STRATA_OP(fft_ihfft2, "fft.ihfft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor")
  .doc("The inverse of hfft over two dimensions.")
  .dtypes(kRealInputs)
  .composite([](const Tensor& input, OptIntList s, IntList dim, Norm norm) {
    return from_real_n(input, s, OptIntList(dim), norm, false, "ihfft2");
  })
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'"})
  .error("f(4,4), [0,4]", ErrorKind::Runtime, "Invalid number of data points");

STRATA_OP(fft_ihfftn, "fft.ihfftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor")
  .doc("The inverse of hfft over the dimensions `dim`; the last ones if only `s` is given, otherwise all.")
  .dtypes(kRealInputs)
  .composite([](const Tensor& input, OptIntList s, OptIntList dim, Norm norm) {
    return from_real_n(input, s, dim, norm, false, "ihfftn");
  })
  .samples({"f(4,6)", "f(2,5,4), [3,6]", "f(4,3,5), dim=[0,2], norm='ortho'", "f(3,4), [4,-1], [0,1]"})
  .error("f(4,4), [4], [0,1]", ErrorKind::Runtime, "same length")
  .error("f(4,4), dim=[0,0]", ErrorKind::Runtime, "must be unique");

}  // namespace strata
