// Short-time Fourier transforms: the spectra of overlapping frames of a signal, and the signal from them.
#include "strata/args/fft/stft.h"

#include <cmath>

#include "base/checked.h"
#include "cpu/fft/fft.h"
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {
namespace {

constexpr DTypeSet kSignals = DTypeSet{DType::F32, DType::F64} | kComplexTypes;

struct Frames {
  int64_t size, hop;
  Tensor window;  // of `size` elements, or undefined: all ones
};
// The defaults of hop_length and win_length; a shorter window is padded with zeros on both sides.
Frames frames_of(const char* op, int64_t n_fft, std::optional<int64_t> hop, std::optional<int64_t> length,
                 const Tensor& window, const Tensor& beside) {
  const int64_t step = hop.value_or(n_fft / 4), width = length.value_or(n_fft);
  STRATA_CHECK(n_fft > 0, Runtime, "{}: expected n_fft > 0, got {}", op, n_fft);
  STRATA_CHECK(step > 0, Runtime, "{}: expected hop_length > 0, but got hop_length={}", op, step);
  STRATA_CHECK(width > 0 && width <= n_fft, Runtime,
               "{}: expected 0 < win_length <= n_fft, but got win_length={} and n_fft={}", op, width, n_fft);
  STRATA_CHECK(!window || (window.dim() == 1 && window.size(0) == width), Runtime,
               "{}: expected a 1D window tensor of size equal to win_length={}, but got window with size {}", op, width,
               window ? to_string(window.shape()) : "");
  Frames f{n_fft, step, window};
  if (width == n_fft) return f;
  const Tensor inner = window ? window : ones({width}, real_type(beside.dtype()), beside.device());
  const int64_t left = (n_fft - width) / 2;
  f.window = constant_pad_nd(inner, {left, n_fft - width - left}, 0);
  return f;
}

// The sum of the frames at their places: [batch, frames, size] to [batch, length].
Tensor overlap_add(const Tensor& frames, int64_t hop, int64_t length) {
  const Tensor columns = transpose(frames, 1, 2);
  const int64_t size = frames.size(2);
  return reshape(nn::functional::fold(columns, {1, length}, {1, size}, {1, 1}, {0, 0}, {1, hop}),
                 {frames.size(0), length});
}

using FrameTransform = decltype(&cpu::fft_frames);
template <FrameTransform transform> void run_frames(const Call& call) {
  const args::_fft_frames c(call);
  transform(c.signal(), c.window(), c.size(), c.hop(), c.scale(), *c.out());
}
}  // namespace

STRATA_OP(_fft_frames, "_fft_frames(Tensor signal, Tensor? window, int size, int hop, float scale) -> Tensor")
  .doc(
    "The first half of the spectra of the frames of each row of a real signal, times a window: [batch, frequencies, "
    "frames].")
  .helper()
  .no_out()
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::_fft_frames& c) {
    const TensorImpl& x = c.signal();
    const int64_t size = c.size(), hop = c.hop();
    STRATA_CHECK(x.ndim == 2 && size > 0 && hop > 0 && size <= x.shape[1], Runtime,
                 "stft: expected a batch of signals of at least {} elements, got shape {}", size, to_string(x.sizes()));
    const TensorImpl* window = c.window();
    STRATA_CHECK(!window || (window->ndim == 1 && window->shape[0] == size && window->dtype == x.dtype), Runtime,
                 "stft: expected a window of {} elements of the signal's dtype", size);
    const int64_t shape[] = {x.shape[0], size / 2 + 1, (x.shape[1] - size) / hop + 1};
    c.out()->dtype = complex_type(x.dtype);
    c.out()->set_shape(Shape(shape, 3));
  })
  .kernel("lanes", run_frames<cpu::fft_frames>)
  .kernel("reference", run_frames<cpu::fft_frames_reference>)
  .cuda_on_host("frames_on_host")
  .saves({"signal", "window"})
  .grad([](const grads::_fft_frames& c, const Tensor& g) -> Grads {
    const int64_t size = c.size(), length = c.shape_of_signal()[1], covered = (g.size(2) - 1) * c.hop() + size;
    const Tensor half = transpose(g, 1, 2), rest = zeros({g.size(0), g.size(2), size - g.size(1)}, g.dtype());
    const Tensor each = real(_fft_c2c(cat({half, rest}, 2), 2, false, c.scale()));  // of the windowed frames
    grads::_fft_frames::Result out;
    if (c.needs_signal()) {
      const Tensor total = overlap_add(c.has_window() ? mul(each, c.window()) : each, c.hop(), covered);
      out.signal = length == covered ? total : constant_pad_nd(total, {0, length - covered}, 0);
    }
    if (c.has_window() && c.needs_window()) out.window = sum(mul(each, unfold(c.signal(), 1, size, c.hop())), {0, 1});
    return out;
  })
  .samples({"f(1,20), f(8), 8, 3, 1.0", "f(2,21), None, 7, 2, 0.5", "f(2,40), f(6), 6, 1, 1.0",
            "f(1,80), None, 37, 5, 1.0"});

STRATA_OP(stft,
          "stft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
          "center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None) "
          "-> Tensor")
  .doc(
    "The spectra of frames of n_fft elements, hop_length apart, times a window: [(batch,) frequencies, frames]. With "
    "center, frame t is centred at element t * hop_length, and the signal is padded by pad_mode.")
  .dtypes(kSignals)
  .composite([](const Tensor& input, int64_t n_fft, std::optional<int64_t> hop_length,
                std::optional<int64_t> win_length, const Tensor& window, bool center, std::string_view pad_mode,
                bool normalized, std::optional<bool> onesided, std::optional<bool> return_complex) {
    STRATA_CHECK(input.dim() == 1 || input.dim() == 2, Runtime, "stft: expected a 1D or 2D tensor, got {} dimensions",
                 input.dim());
    STRATA_CHECK(kSignals.has(input.dtype()), Runtime, "stft: expected a tensor of floating point or complex values");
    const bool complex_in = is_complex(input.dtype()) || (window && is_complex(window.dtype()));
    STRATA_CHECK(return_complex || complex_in, Runtime,
                 "stft requires the return_complex parameter be given for real inputs, and will further require that "
                 "return_complex=True in a future PyTorch release.");
    const bool half = onesided.value_or(!complex_in);
    STRATA_CHECK(!half || !complex_in, Runtime,
                 "Cannot have onesided output if window or input is complex. Please set onesided=False.");
    Tensor x = input.dim() == 1 ? unsqueeze(input, 0) : input;
    if (center) {
      const int64_t side = n_fft / 2;
      x = squeeze(nn::functional::pad(unsqueeze(x, 1), {side, side}, pad_mode), 1);
    }
    const Frames f = frames_of("stft", n_fft, hop_length, win_length, window, input);
    STRATA_CHECK(n_fft <= x.size(1), Runtime, "stft: expected 0 < n_fft <= {}, but got n_fft={}", x.size(1), n_fft);
    Tensor out;
    if (half && on_host(x) && (!f.window || f.window.dtype() == x.dtype())) {  // in one pass over memory
      out = _fft_frames(x, f.window, f.size, f.hop, normalized ? 1 / std::sqrt(static_cast<double>(f.size)) : 1);
    } else {
      Tensor frames = unfold(x, 1, f.size, f.hop);
      if (f.window) frames = mul(frames, f.window);
      const std::optional<std::string_view> norm = normalized ? std::optional<std::string_view>("ortho") : std::nullopt;
      out = half ? fft::rfft(frames, std::nullopt, -1, norm) : fft::fft(frames, std::nullopt, -1, norm);
      out = transpose(out, 1, 2);
    }
    if (input.dim() == 1) out = squeeze(out, 0);
    return return_complex.value_or(true) ? out : view_as_real(contiguous(out));
  })
  .no_out()
  .autocast_cpu(Autocast::Float32)
  .samples({"f(20), 8, return_complex=True", "f(2,24), 8, 3, 6, f(6), return_complex=True",
            "f(20), 8, 4, center=False, normalized=True, return_complex=True",
            "f(20), 6, 2, pad_mode='constant', onesided=False, return_complex=True"})
  .error("f(2,2,20), 8, return_complex=True", ErrorKind::Runtime, "1D or 2D")
  .error("f(20), 8, 0, return_complex=True", ErrorKind::Runtime, "hop_length > 0");

STRATA_OP(istft,
          "istft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
          "center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> "
          "Tensor")
  .doc(
    "The inverse of stft: the frames are transformed back, multiplied by the window, added, and divided by the sum of "
    "the "
    "squared windows. `length` cuts off or pads the signal.")
  .dtypes(kComplexTypes)
  .composite([](const Tensor& input, int64_t n_fft, std::optional<int64_t> hop_length,
                std::optional<int64_t> win_length, const Tensor& window, bool center, bool normalized,
                std::optional<bool> onesided, std::optional<int64_t> length, bool return_complex) {
    STRATA_CHECK(
      is_complex(input.dtype()), Runtime,
      "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.");
    STRATA_CHECK(input.dim() == 2 || input.dim() == 3, Runtime,
                 "istft: expected a tensor with 2 or 3 dimensions, but got {}", input.dim());
    STRATA_CHECK(input.numel() > 0, Runtime, "istft: input tensor cannot be empty.");
    const Tensor spectra = transpose(input.dim() == 2 ? unsqueeze(input, 0) : input, 1, 2);
    const int64_t bins = spectra.size(2);
    const bool half = onesided.value_or(bins != n_fft);
    STRATA_CHECK(bins == (half ? n_fft / 2 + 1 : n_fft), Runtime,
                 "istft: expected the frequency dimension (3rd to the last) of the input tensor to match {} when "
                 "onesided={}, but got {}",
                 half ? "n_fft / 2 + 1" : "n_fft", half ? "True" : "False", bins);
    STRATA_CHECK(!half || !return_complex, Runtime, "Cannot have onesided output if window or input is complex.");
    const Frames f = frames_of("istft", n_fft, hop_length, win_length, window, input);
    STRATA_CHECK(f.hop <= win_length.value_or(n_fft), Runtime, "istft: expected 0 < hop_length <= win_length, got {}",
                 f.hop);
    const std::optional<std::string_view> norm = normalized ? std::optional<std::string_view>("ortho") : std::nullopt;
    Tensor frames = half ? fft::irfft(spectra, n_fft, -1, norm) : fft::ifft(spectra, std::nullopt, -1, norm);
    if (!half && !return_complex) frames = real(frames);
    const Tensor w = f.window ? f.window : ones({n_fft}, real_type(input.dtype()), input.device());
    frames = mul(frames, w);
    const int64_t total = (Checked(f.hop) * (frames.size(1) - 1) + n_fft).get();
    const auto added = [&](const Tensor& t) { return overlap_add(t, f.hop, total); };
    Tensor y = is_complex(frames.dtype()) ? complex(added(real(frames)), added(imag(frames))) : added(frames);
    const Tensor energy = is_complex(w.dtype()) ? square(abs(w)) : square(w);
    Tensor envelope = added(expand(reshape(energy, {1, 1, n_fft}), {1, frames.size(1), n_fft}));
    const int64_t start = center ? n_fft / 2 : 0;
    const int64_t end = length ? (Checked(start) + *length).get() : center ? total - n_fft / 2 : total;
    const int64_t stop = std::min(end, total);
    STRATA_CHECK(stop > start, Runtime, "istft: the signal has {} elements, of which none are left", total);
    y = narrow(y, 1, start, stop - start);
    envelope = narrow(envelope, 1, start, stop - start);
    if (!envelope.is_meta())
      STRATA_CHECK(min(abs(envelope)).item<double>() > 1e-11, Runtime,
                   "istft: window overlap add min: the squared windows add up to 0 somewhere; use a window that covers "
                   "each element");
    y = div(y, envelope);
    if (end > total) y = constant_pad_nd(y, {0, end - total}, 0);
    return input.dim() == 2 ? squeeze(y, 0) : y;
  })
  .no_out()
  .samples({"f(5,6), 8", "f(2,5,7), 8, 3, 6, p(6)", "f(5,6), 8, 2, length=9", "f(8,6), 8, 2, onesided=False"})
  .error("f(5,6), 8", ErrorKind::Runtime, "complex-valued input");

}  // namespace strata
