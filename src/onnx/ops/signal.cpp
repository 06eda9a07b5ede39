// Fourier transforms of signals, windows, mel weights.
#include <cmath>
#include <numbers>

#include "base/host_memory.h"
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

// [..., 1] or [..., 2] as real or complex numbers without the last dimension.
Tensor from_parts(const Tensor& x, DType dtype) {
  STRATA_CHECK(x.dim() >= 1 && (x.size(-1) == 1 || x.size(-1) == 2), Value,
               "the input is {}; its last dimension is 1 (real) or 2 (complex)", to_string(x.shape()));
  const Tensor wide = cast(x, dtype);
  return wide.size(-1) == 1 ? squeeze(wide, -1) : view_as_complex(contiguous(wide));
}
Tensor spectrum(const Tensor& x, int64_t n, int64_t axis, bool inverse, bool onesided) {
  STRATA_CHECK(n > 0, Value, "the length of the transform is {}", n);
  check_host_memory(n, sizeof(double), "DFT");
  if (inverse) return onesided ? unsqueeze(fft::irfft(x, n, axis), -1) : view_as_real(fft::ifft(x, n, axis));
  if (!onesided) return view_as_real(fft::fft(x, n, axis));
  if (!is_complex(x.dtype())) return view_as_real(fft::rfft(x, n, axis));
  return view_as_real(narrow(fft::fft(x, n, axis), axis, 0, n / 2 + 1));
}
Values dft(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t given = c.version() < 20 ? c.integer("axis", 1) : c.has(size_t{2}) ? c.integer(size_t{2}) : -2;
  const int64_t axis = axis_of(given, x.dim());
  STRATA_CHECK(axis < x.dim() - 1, Value, "axis {} is that of the real and imaginary parts", axis);
  const bool inverse = c.flag("inverse"), onesided = c.flag("onesided");
  const int64_t own = inverse && onesided ? 2 * (x.size(axis) - 1) : x.size(axis);
  const int64_t n = c.has(size_t{1}) ? c.integer(size_t{1}) : own;
  // in double: callers compare parts that cancel
  return one(cast(spectrum(from_parts(x, DType::F64), n, axis, inverse, onesided), x.dtype()));
}
Values stft_of(NodeCall& c) {
  Tensor x = c.tensor(0);
  if (x.dim() == 2) x = unsqueeze(x, 2);
  const int64_t step = c.integer(size_t{1});
  const Tensor window = c.maybe(2);
  const int64_t length = c.has(size_t{3}) ? c.integer(size_t{3}) : window ? window.numel() : 0;
  STRATA_CHECK(x.dim() == 3 && step > 0 && length > 0 && length <= x.size(1) && (!window || window.numel() == length),
               Value, "a signal {} in frames of {} by {}", to_string(c.tensor(0).shape()), length, step);
  Tensor frames = unfold(from_parts(x, wide_type(x.dtype())), int64_t{1}, length, step);  // [batch, frames, length]
  if (window) frames = mul(frames, cast(window, wide_type(window.dtype())));
  return one(cast(spectrum(frames, length, 2, false, c.flag("onesided", true)), x.dtype()));
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)
Values window_of(NodeCall& c, double a0, double a1, double a2) {
  const int64_t size = c.integer(size_t{0});
  STRATA_CHECK(size >= 0, Value, "the size is {}", size);
  const double n = static_cast<double>(c.flag("periodic", true) ? size : size - 1);
  const Tensor angle =
    mul(arange(size, TensorOptions(DType::F64).device(c.network().device())), n > 0 ? 2 * std::numbers::pi / n : 0);
  Tensor w = rsub(mul(cos(angle), a1), a0);
  if (a2 != 0) w = add(w, mul(cos(mul(angle, 2)), a2));
  return one(cast(w, storage_dtype(c.type("output_datatype", ElementType::Float))));
}
Values hann(NodeCall& c) { return window_of(c, 0.5, 0.5, 0); }
Values hamming(NodeCall& c) { return window_of(c, 25.0 / 46, 21.0 / 46, 0); }
Values blackman(NodeCall& c) { return window_of(c, 0.42, 0.5, 0.08); }

Values mel_weights(NodeCall& c) {
  const int64_t bins = c.integer(size_t{0}), length = c.integer(size_t{1}), rate = c.integer(size_t{2});
  const double low = c.numbers(size_t{3}).at(0), high = c.numbers(size_t{4}).at(0);
  STRATA_CHECK(bins > 0 && length > 0 && rate > 0, Value, "{} mel bins of a transform of {} at {} Hz", bins, length,
               rate);
  const int64_t rows = length / 2 + 1;
  check_host_memory((Checked(rows) * bins).get(), sizeof(double), "MelWeightMatrix");
  check_host_memory(bins, 64, "MelWeightMatrix");
  const auto mel = [](double f) { return 2595 * std::log10(1 + f / 700); };
  const double first = mel(low), step = (mel(high) - first) / static_cast<double>(bins + 2);
  Ints edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + first) / 2595) - 1);
    edges.push_back(
      static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  std::vector<double> w(static_cast<size_t>(rows * bins));
  const auto put = [&](int64_t row, int64_t bin, double v) {
    if (row >= 0 && row < rows) w[static_cast<size_t>(row * bins + bin)] = v;
  };
  for (int64_t b = 0; b < bins; ++b) {
    const auto i = static_cast<size_t>(b);
    const int64_t begin = edges[i], top = edges[i + 1], end = edges[i + 2];
    if (top == begin) put(top, b, 1);
    for (int64_t j = begin; j <= top && top > begin; ++j)
      put(j, b, static_cast<double>(j - begin) / static_cast<double>(top - begin));
    for (int64_t j = top; j < end; ++j) put(j, b, static_cast<double>(end - j) / static_cast<double>(end - top));
  }
  const Tensor m = reshape(tensor(w), {rows, bins});
  return one(moved(cast(m, storage_dtype(c.type("output_datatype", ElementType::Float))), c.network().device()));
}

const OpEntry kSignal[] = {
  {"DFT", 17, 1, 3, nullptr, dft},
  {"STFT", 17, 2, 4, nullptr, stft_of},
  {"HannWindow", 17, 1, 1, nullptr, hann},
  {"HammingWindow", 17, 1, 1, nullptr, hamming},
  {"BlackmanWindow", 17, 1, 1, nullptr, blackman},
  {"MelWeightMatrix", 17, 5, 5, nullptr, mel_weights},
};
}  // namespace

OpTable signal_ops() { return kSignal; }

}  // namespace strata::onnx
