// Windows for the spectra of signals. A periodic window is one element of the next period shorter than a symmetric one.
#include <cmath>

#include "base/checked.h"
#include "strata/args/creation/windows.h"
#include "strata/ops.h"

namespace strata {
namespace {

using Opt = std::optional<DType>;
using OptDevice = std::optional<Device>;

// formula(n, N - 1) for n = 0, 1, …, N - 1, in double precision.
template <class F>
Tensor window(const char* op, int64_t length, bool periodic, const Opt& dtype, const OptDevice& device,
              bool requires_grad, const F& formula) {
  STRATA_CHECK(length >= 0, Runtime, "{}: requires non-negative window_length, got window_length={}", op, length);
  const DType type = dtype.value_or(default_dtype());
  STRATA_CHECK(is_floating(type), Runtime, "{}: expected a floating-point dtype, got {}", op, name_of(type));
  Tensor out;
  if (length <= 1) {
    out = ones({length}, type, device);
  } else {
    const int64_t count = periodic ? (Checked(length) + 1).get() : length;
    out =
      to(narrow(formula(arange(0, count, 1, DType::F64, device), static_cast<double>(count - 1)), 0, 0, length), type);
  }
  if (requires_grad) out.set_requires_grad();
  return out;
}
// a - b cos(2 pi n / m) + c cos(4 pi n / m)
Tensor cosines(const Tensor& n, double m, double a, double b, double c) {
  const Tensor one = sub(full({}, a, n.dtype(), n.device()), mul(cos(mul(n, 2 * M_PI / m)), b));
  return c == 0 ? one : add(one, mul(cos(mul(n, 4 * M_PI / m)), c));
}
}  // namespace

STRATA_OP(hann_window,
          "hann_window(int window_length, bool periodic=True, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("0.5 - 0.5 cos(2 pi n / (N - 1)).\n\n>>> strata.hann_window(4)\ntensor([0.0000, 0.5000, 1.0000, 0.5000])")
  .composite([](int64_t window_length, bool periodic, Opt dtype, OptDevice device, bool requires_grad) {
    return window("hann_window", window_length, periodic, dtype, device, requires_grad,
                  [](const Tensor& n, double m) { return cosines(n, m, 0.5, 0.5, 0); });
  })
  .samples({"8", "5, False", "1", "0"})
  .error("-1", ErrorKind::Runtime, "non-negative");

STRATA_OP(hamming_window,
          "hamming_window(int window_length, bool periodic=True, float alpha=0.54, float beta=0.46, *, dtype? "
          "dtype=None, device? device=None, bool requires_grad=False) -> Tensor")
  .doc("alpha - beta cos(2 pi n / (N - 1)).")
  .composite([](int64_t window_length, bool periodic, double alpha, double beta, Opt dtype, OptDevice device,
                bool requires_grad) {
    return window("hamming_window", window_length, periodic, dtype, device, requires_grad,
                  [&](const Tensor& n, double m) { return cosines(n, m, alpha, beta, 0); });
  })
  .samples({"8", "5, False, 0.6, 0.4", "1"})
  .error("-1", ErrorKind::Runtime, "non-negative");

STRATA_OP(blackman_window,
          "blackman_window(int window_length, bool periodic=True, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("0.42 - 0.5 cos(2 pi n / (N - 1)) + 0.08 cos(4 pi n / (N - 1)).")
  .composite([](int64_t window_length, bool periodic, Opt dtype, OptDevice device, bool requires_grad) {
    return window("blackman_window", window_length, periodic, dtype, device, requires_grad,
                  [](const Tensor& n, double m) { return abs(cosines(n, m, 0.42, 0.5, 0.08)); });
  })
  .samples({"8", "5, False", "1"})
  .error("-1", ErrorKind::Runtime, "non-negative");

STRATA_OP(bartlett_window,
          "bartlett_window(int window_length, bool periodic=True, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("A triangle: 1 - |2 n / (N - 1) - 1|.")
  .composite([](int64_t window_length, bool periodic, Opt dtype, OptDevice device, bool requires_grad) {
    return window("bartlett_window", window_length, periodic, dtype, device, requires_grad,
                  [](const Tensor& n, double m) { return rsub(abs(sub(mul(n, 2 / m), 1)), 1); });
  })
  .samples({"8", "5, False", "1"})
  .error("-1", ErrorKind::Runtime, "non-negative");

STRATA_OP(kaiser_window,
          "kaiser_window(int window_length, bool periodic=True, float beta=12.0, *, dtype? dtype=None, device? "
          "device=None, bool requires_grad=False) -> Tensor")
  .doc("I0(beta sqrt(1 - (2 n / (N - 1) - 1)^2)) / I0(beta), where I0 is the modified Bessel function of order 0.")
  .composite([](int64_t window_length, bool periodic, double beta, Opt dtype, OptDevice device, bool requires_grad) {
    return window("kaiser_window", window_length, periodic, dtype, device, requires_grad,
                  [&](const Tensor& n, double m) {
                    const Tensor x = sub(mul(n, 2 / m), 1), inside = clamp(rsub(square(x), 1), 0, std::nullopt);
                    return div(i0(mul(sqrt(inside), beta)), i0(full({}, beta, n.dtype(), n.device())));
                  });
  })
  .samples({"8", "5, False, 3.0", "1", "0"})
  .error("-1", ErrorKind::Runtime, "non-negative");

}  // namespace strata
