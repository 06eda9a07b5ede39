// strata.fft: transforms along one dimension, frequencies and their orders, as in torch.fft.
#include "strata/args/fft/fft.h"
#include "ops/fft/common.h"
#include "strata/ops.h"

namespace strata {
using namespace fourier;

STRATA_OP(fft_fft, "fft.fft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor")
  .doc("The discrete Fourier transform along a dimension.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
    return transformed(input, n, dim, norm, true, "fft");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(8)", "f(3,5), 7", "f(3,6), 4, 0, 'ortho'", "f(3,4), norm='forward'"})
  .error("f(4), 0", ErrorKind::Runtime, "Invalid number of data points")
  .error("f(4), norm='none'", ErrorKind::Runtime, "Invalid normalization mode")
  .error("f(4), dim=1", ErrorKind::Index, "out of range");

STRATA_OP(fft_ifft, "fft.ifft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor")
  .doc("The inverse discrete Fourier transform along a dimension.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
    return transformed(input, n, dim, norm, false, "ifft");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(8)", "f(3,5), 7", "f(3,6), 4, 0, 'ortho'", "f(3,4), norm='forward'"})
  .error("f(4), 0", ErrorKind::Runtime, "Invalid number of data points")
  .error("f(4), norm='none'", ErrorKind::Runtime, "Invalid normalization mode")
  .error("f(4), dim=1", ErrorKind::Index, "out of range");

STRATA_OP(fft_rfft, "fft.rfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor")
  .doc("The first half of the transform of a real tensor; the other elements are conjugates of these.")
  .dtypes(kRealInputs)
  .composite([](const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
    return from_real(input, n, dim, norm, true, "rfft");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(8)", "f(3,5), 7", "f(3,6), 4, 0, 'ortho'"})
  .error("f(4), 0", ErrorKind::Runtime, "Invalid number of data points")
  .error("f(4), norm='none'", ErrorKind::Runtime, "Invalid normalization mode")
  .error("f(4), dim=1", ErrorKind::Index, "out of range");

STRATA_OP(fft_irfft, "fft.irfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor")
  .doc("The inverse of rfft: n real numbers, 2 (m - 1) unless given, from m elements.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
    return to_real(input, n, dim, norm, false, "irfft");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(5)", "f(3,5), 7", "f(3,6), 4, 0, 'ortho'"})
  .error("f(4), 0", ErrorKind::Runtime, "Invalid number of data points")
  .error("f(4), norm='none'", ErrorKind::Runtime, "Invalid normalization mode")
  .error("f(4), dim=1", ErrorKind::Index, "out of range");

STRATA_OP(fft_hfft, "fft.hfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor")
  .doc("The real transform of a signal whose second half are the conjugates of the first.")
  .dtypes(kInputs)
  .composite([](const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
    return to_real(input, n, dim, norm, true, "hfft");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(5)", "f(3,5), 7", "f(3,6), 4, 0, 'ortho'"})
  .error("f(4), 0", ErrorKind::Runtime, "Invalid number of data points")
  .error("f(4), norm='none'", ErrorKind::Runtime, "Invalid normalization mode")
  .error("f(4), dim=1", ErrorKind::Index, "out of range");

STRATA_OP(fft_ihfft, "fft.ihfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor")
  .doc("The inverse of hfft.")
  .dtypes(kRealInputs)
  .composite([](const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
    return from_real(input, n, dim, norm, false, "ihfft");
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(8)", "f(3,5), 7", "f(3,6), 4, 0, 'ortho'"})
  .error("f(4), 0", ErrorKind::Runtime, "Invalid number of data points")
  .error("f(4), norm='none'", ErrorKind::Runtime, "Invalid normalization mode")
  .error("f(4), dim=1", ErrorKind::Index, "out of range");

// --- frequencies and orders ------------------------------------------------------------------------------------------

namespace {
Tensor frequencies(const Tensor& steps, int64_t n, double d, bool requires_grad) {
  Tensor out = mul(steps, 1.0 / (static_cast<double>(n) * d));
  if (requires_grad) out.set_requires_grad();
  return out;
}
DType frequency_dtype(const std::optional<DType>& dtype) { return dtype.value_or(default_dtype()); }

Tensor shifted(const Tensor& input, const OptIntList& dim, bool back) {
  std::vector<int64_t> dims, shifts;
  for (int d = 0; d < input.dim(); ++d)
    if (!dim.given) dims.push_back(d);
  for (size_t i = 0; dim.given && i < dim.size; ++i) dims.push_back(normalize_dim(dim[i], input.dim(), "fftshift"));
  if (dims.empty()) return input;
  for (const int64_t d : dims) shifts.push_back(back ? (input.size(d) + 1) / 2 : input.size(d) / 2);
  return roll(input, shifts, dims);
}
}  // namespace

STRATA_OP(fft_fftfreq,
          "fft.fftfreq(int n, float d=1.0, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> "
          "Tensor")
  .doc(
    "The frequencies of the elements of fft() for samples at a distance of d.\n\n>>> strata.fft.fftfreq(4)\n"
    "tensor([ 0.0000,  0.2500, -0.5000, -0.2500])")
  .composite([](int64_t n, double d, std::optional<DType> dtype, std::optional<Device> device, bool requires_grad) {
    check_size(n, "fftfreq");
    const DType t = frequency_dtype(dtype);
    const Tensor up = arange(0, n - n / 2, 1, t, device), down = arange(-(n / 2), 0, 1, t, device);
    return frequencies(cat({up, down}, 0), n, d, requires_grad);
  })
  .samples({"8", "5, 0.5", "1"})
  .error("0", ErrorKind::Runtime, "Invalid number of data points");

STRATA_OP(fft_rfftfreq,
          "fft.rfftfreq(int n, float d=1.0, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> "
          "Tensor")
  .doc(
    "The frequencies of the elements of rfft() for samples at a distance of d.\n\n>>> strata.fft.rfftfreq(4)\n"
    "tensor([0.0000, 0.2500, 0.5000])")
  .composite([](int64_t n, double d, std::optional<DType> dtype, std::optional<Device> device, bool requires_grad) {
    check_size(n, "rfftfreq");
    return frequencies(arange(0, n / 2 + 1, 1, frequency_dtype(dtype), device), n, d, requires_grad);
  })
  .samples({"8", "5, 0.5", "1"})
  .error("0", ErrorKind::Runtime, "Invalid number of data points");

STRATA_OP(fft_fftshift, "fft.fftshift(Tensor input, int[]? dim=None) -> Tensor")
  .doc("The elements in the order of rising frequencies, along the given dimensions or all.")
  .dtypes(kStorageTypes)
  .composite([](const Tensor& input, OptIntList dim) { return shifted(input, dim, false); })
  .samples({"f(6)", "f(3,5)", "f(3,4), 1", "f(2,3,4), [0,2]"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(fft_ifftshift, "fft.ifftshift(Tensor input, int[]? dim=None) -> Tensor")
  .doc("The inverse of fftshift.")
  .dtypes(kStorageTypes)
  .composite([](const Tensor& input, OptIntList dim) { return shifted(input, dim, true); })
  .samples({"f(6)", "f(3,5)", "f(3,4), 1", "f(2,3,4), [0,2]"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

}  // namespace strata
