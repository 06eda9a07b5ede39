// Rearranges channels and windows: pixel_shuffle, channel_shuffle, unfold and fold.
#include "strata/args/nn/shuffle.h"
#include "autograd/autograd.h"
#include "base/checked.h"
#include "cpu/nn/convolution.h"
#include "cpu/reference.h"
#include "cpu/staging.h"
#include "cuda/nn/resample.h"
#include "ops/device_inputs.h"

namespace strata {
namespace {

std::vector<int64_t> lead_of(const Tensor& t, int keep) { return {t.shape().begin(), t.shape().end() - keep}; }
std::vector<int64_t> joined(std::vector<int64_t> a, std::initializer_list<int64_t> b) {
  a.insert(a.end(), b);
  return a;
}
std::vector<int64_t> permuted(size_t lead, std::initializer_list<int64_t> rest) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < lead; ++d) dims.push_back(static_cast<int64_t>(d));
  for (int64_t d : rest) dims.push_back(static_cast<int64_t>(lead) + d);
  return dims;
}

// Windows of an image of [c, h, w]. V: the view of unfold or fold.
template <class V> ConvShape windows(const char* op, int64_t h, int64_t w, const V& a) {
  ConvShape s;
  constexpr const char* names[] = {"kernel_size", "dilation", "padding", "stride"};
  const IntList given[] = {a.kernel_size(), a.dilation(), a.padding(), a.stride()};
  int64_t* to[] = {s.kernel, s.dilation, s.padding, s.stride};
  for (size_t i = 0; i < 4; ++i) {
    const IntList l = given[i];
    STRATA_CHECK(l.size == 1 || l.size == 2, Runtime, "{}: {} must be a single int or 2 of them, got {}", op, names[i],
                 to_string(l));
    for (size_t d = 0; d < 2; ++d) {
      to[i][d] = l[l.size == 1 ? 0 : d];
      STRATA_CHECK(to[i][d] >= (i == 2 ? 0 : 1), Runtime, "{}: {} should be {}, but got {}", op, names[i],
                   i == 2 ? "non-negative" : "greater than zero", to_string(l));
    }
  }
  s.in[0] = h;
  s.in[1] = w;
  for (int d = 0; d < 2; ++d) {
    const int64_t room =
      (Checked(s.in[d]) + Checked(2) * s.padding[d] - Checked(s.dilation[d]) * (s.kernel[d] - 1) - 1).get();
    STRATA_CHECK(room >= 0, Runtime,
                 "{}: the window of {} (dilation {}) does not fit an input of size {} with padding {}", op, s.kernel[d],
                 s.dilation[d], s.in[d], s.padding[d]);
    s.out[d] = room / s.stride[d] + 1;
  }
  return s;
}

void infer_unfold(const Call& c) {
  const args::unfold_windows a(c);
  const TensorImpl& x = a.input();
  STRATA_CHECK(x.ndim == 3 || x.ndim == 4, Runtime,
               "unfold: expected 3D or 4D (batch mode) tensor, got input of size {}", to_string(x.sizes()));
  const auto s = windows("unfold", x.shape[x.ndim - 2], x.shape[x.ndim - 1], a);
  const Checked rows = Checked(x.shape[x.ndim - 3]) * s.kernel[0] * s.kernel[1], columns = Checked(s.out[0]) * s.out[1];
  const int64_t shape[] = {x.shape[0], rows.get(), columns.get()};
  c.out()->dtype = x.dtype;
  c.out()->set_shape(Shape(x.ndim == 4 ? shape : shape + 1, x.ndim == 4 ? 3 : 2));
}
void infer_fold(const Call& c) {
  const args::fold arg(c);
  const TensorImpl& x = arg.input();
  STRATA_CHECK(x.ndim == 2 || x.ndim == 3, Runtime, "fold: expected 2D or 3D (batch mode) tensor, got input of size {}",
               to_string(x.sizes()));
  const IntList size = arg.output_size();
  STRATA_CHECK(size.size == 1 || size.size == 2, Runtime, "fold: output_size must be a single int or 2 of them, got {}",
               to_string(size));
  const int64_t h = size[0], w = size[size.size - 1];
  const auto s = windows("fold", h, w, arg);
  const int64_t k = (Checked(s.kernel[0]) * s.kernel[1]).get(), columns = (Checked(s.out[0]) * s.out[1]).get();
  const int64_t rows = x.shape[x.ndim - 2], l = x.shape[x.ndim - 1];
  STRATA_CHECK(
    rows % k == 0, Runtime,
    "fold: expected size of input's dimension 1 to be divisible by the product of kernel_size ({}), but got {}", k,
    rows);
  STRATA_CHECK(
    l == columns, Runtime,
    "fold: given output_size {}, expected size of input's dimension 2 to match the number of windows {}, but got {}",
    to_string(size), columns, l);
  const int64_t shape[] = {x.shape[0], rows / k, h, w};
  c.out()->dtype = x.dtype;
  c.out()->set_shape(Shape(x.ndim == 3 ? shape : shape + 1, x.ndim == 3 ? 4 : 3));
}

template <bool unfold> using WindowArgs = std::conditional_t<unfold, args::unfold_windows, args::fold>;

template <bool unfold> void run_windows(const Call& c) {
  const WindowArgs<unfold> a(c);
  const TensorImpl &x = a.input(), &image = unfold ? x : *c.out(), &columns = unfold ? *c.out() : x;
  const auto s = windows(unfold ? "unfold" : "fold", image.shape[image.ndim - 2], image.shape[image.ndim - 1], a);
  const int64_t n = image.ndim == 4 ? image.shape[0] : 1, channels = image.shape[image.ndim - 3];
  if (c.out().numel() == 0) return;
  dispatch_compute(x.dtype, [&]<class T>() {
    const cpu::In<T> in(x);
    const cpu::Out<T> out(c.out());
    const int64_t size = image.numel / n, width = columns.numel / n;
    for (int64_t i = 0; i < n; ++i)
      if constexpr (unfold) cpu::im2col<T>(s, channels, in + i * size, out + i * width);
      else cpu::col2im<T>(s, channels, in + i * width, out + i * size);
    out.finish();
  });
}

template <bool unfold> void windows_on_device(const Call& c, Workspace& workspace) {
  const WindowArgs<unfold> a(c);
  const Tensor x = dense(a.share_input(), workspace);
  if (workspace.planning()) return;
  const TensorImpl& image = unfold ? *x : *c.out();
  const auto s = windows(unfold ? "unfold" : "fold", image.shape[image.ndim - 2], image.shape[image.ndim - 1], a);
  cuda::WindowSizes sizes{};
  sizes.planes = 1;
  for (int d = 0; d + 2 < image.ndim; ++d) sizes.planes *= image.shape[d];
  for (int d = 0; d < 2; ++d) {
    sizes.in[d] = s.in[d];
    sizes.out[d] = s.out[d];
    sizes.kernel[d] = s.kernel[d];
    sizes.stride[d] = s.stride[d];
    sizes.padding[d] = s.padding[d];
    sizes.dilation[d] = s.dilation[d];
  }
  if (unfold) cuda::unfold(sizes, *x, *c.out());
  else cuda::fold(sizes, *x, *c.out());
}

// Row (channel, i, j) and column (y, x) of the windows are the pixel at (y * stride + i * dilation - padding, …).
template <bool unfold> void plain_windows(const Call& c) {
  const WindowArgs<unfold> a(c);
  const TensorImpl &x = a.input(), &image = unfold ? x : *c.out(), &columns = unfold ? *c.out() : x;
  const int64_t h = image.shape[image.ndim - 2], w = image.shape[image.ndim - 1];
  const auto s = windows(unfold ? "unfold" : "fold", h, w, a);
  const int64_t n = image.ndim == 4 ? image.shape[0] : 1, channels = image.shape[image.ndim - 3];
  cpu::dispatch_wide(x.dtype, [&]<class T>() {
    const cpu::In<T> in(x);
    const cpu::Out<T> out(c.out());
    out.fill(0);
    const int64_t shape[] = {n, channels, s.kernel[0], s.kernel[1], s.out[0], s.out[1]};
    int64_t column = 0;
    cpu::each_index(columns.numel ? Shape(shape) : Shape(std::array{int64_t{0}}), [&](const cpu::Index& at) {
      const int64_t row = at[4] * s.stride[0] + at[2] * s.dilation[0] - s.padding[0],
                    col = at[5] * s.stride[1] + at[3] * s.dilation[1] - s.padding[1];
      const bool inside = row >= 0 && row < h && col >= 0 && col < w;
      const int64_t pixel = ((at[0] * channels + at[1]) * h + row) * w + col;
      if (inside && unfold) out[column] = in[pixel];
      if (inside && !unfold) out[pixel] += in[column];
      ++column;
    });
    out.finish();
  });
}
}  // namespace

STRATA_OP(
  unfold_windows,
  "nn.functional.unfold(Tensor input, int[] kernel_size, int[] dilation=1, int[] padding=0, int[] stride=1) -> Tensor")
  .doc("Sliding windows of [N, C, H, W] as columns: [N, C * KH * KW, windows].")
  .dtypes(kNumericTypes)
  .infer(infer_unfold)
  .kernel("columns", run_windows<true>)
  .kernel("reference", plain_windows<true>)
  .cuda("columns", windows_on_device<true>)
  .grad([](const grads::unfold_windows& c, const Tensor& g) -> Grads {
    const Shape x = c.shape_of_input();
    return {nn::functional::fold(g, {x[x.size() - 2], x[x.size() - 1]}, c.kernel_size(), c.dilation(), c.padding(),
                                 c.stride())};
  })
  .complex_by_parts()
  .samples({"f(2,3,5,6), 2", "f(3,5,6), [3,2], 1, [1,0], 2", "f(1,2,7,7), 3, dilation=2"})
  .error("f(2,3,2,2), 3", ErrorKind::Runtime, "does not fit")
  .error("f(2,3), 2", ErrorKind::Runtime, "expected 3D or 4D")
  .error("f(2,3,5,6), 2, stride=0", ErrorKind::Runtime, "stride should be greater than zero")
  .error("f(2,3,5,6), 2, padding=9223372036854775807", ErrorKind::Runtime, "does not fit into 64 bits");

STRATA_OP(fold,
          "nn.functional.fold(Tensor input, int[] output_size, int[] kernel_size, int[] dilation=1, int[] padding=0, "
          "int[] stride=1) -> Tensor")
  .doc("Adds columns of windows back into an image; the adjoint of unfold.")
  .dtypes(kNumericTypes)
  .infer(infer_fold)
  .kernel("columns", run_windows<false>)
  .kernel("reference", plain_windows<false>)
  .cuda("columns", windows_on_device<false>)
  .grad([](const grads::fold& c, const Tensor& g) -> Grads {
    return {nn::functional::unfold(g, c.kernel_size(), c.dilation(), c.padding(), c.stride())};
  })
  .complex_by_parts()
  .samples({"f(2,12,20), [5,6], 2", "f(12,20), [5,6], 2"})
  .error("f(2,11,20), [5,6], 2", ErrorKind::Runtime, "divisible by the product of kernel_size")
  .error("f(2,12,19), [5,6], 2", ErrorKind::Runtime, "number of windows");

STRATA_OP(pixel_shuffle, "pixel_shuffle(Tensor input, int upscale_factor) -> Tensor")
  .doc("[..., C * r * r, H, W] to [..., C, H * r, W * r].")
  .nn()
  .no_method()
  .dtypes(kAllTypes)
  .composite([](const Tensor& input, int64_t r) {
    STRATA_CHECK(input.dim() >= 3, Runtime,
                 "pixel_shuffle: expected input to have at least 3 dimensions, but got shape {}",
                 to_string(input.shape()));
    STRATA_CHECK(r > 0, Runtime, "pixel_shuffle: expected a positive upscale_factor, but got {}", r);
    STRATA_CHECK(r <= INT32_MAX, Value,
                 "pixel_shuffle: upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={}", r);
    const int64_t c = input.size(-3), h = input.size(-2), w = input.size(-1);
    STRATA_CHECK(c % (r * r) == 0, Runtime,
                 "pixel_shuffle: expected the channel dimension to be divisible by the square of upscale_factor, but "
                 "input.size(-3)={} is not divisible by {}",
                 c, r * r);
    const auto lead = lead_of(input, 3);
    const Tensor parts = reshape(input, joined(lead, {c / (r * r), r, r, h, w}));
    return reshape(permute(parts, permuted(lead.size(), {0, 3, 1, 4, 2})),
                   joined(lead, {c / (r * r), (Checked(h) * r).get(), (Checked(w) * r).get()}));
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(2,8,2,3), 2", "f(4,2,3), 2"})
  .error("f(2,3,2,3), 2", ErrorKind::Runtime, "divisible by the square")
  .error("f(1,4,2,2), 4294967296", ErrorKind::Value, "upscale factor is too large");

STRATA_OP(pixel_unshuffle, "pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor")
  .doc("[..., C, H * r, W * r] to [..., C * r * r, H, W].")
  .nn()
  .no_method()
  .dtypes(kAllTypes)
  .composite([](const Tensor& input, int64_t r) {
    STRATA_CHECK(input.dim() >= 3, Runtime,
                 "pixel_unshuffle: expected input to have at least 3 dimensions, but got shape {}",
                 to_string(input.shape()));
    STRATA_CHECK(r > 0, Runtime, "pixel_unshuffle: expected a positive downscale_factor, but got {}", r);
    const int64_t c = input.size(-3), h = input.size(-2), w = input.size(-1);
    STRATA_CHECK(
      h % r == 0 && w % r == 0, Runtime,
      "pixel_unshuffle: expected height and width to be divisible by downscale_factor {}, but they are {} and {}", r, h,
      w);
    const auto lead = lead_of(input, 3);
    const Tensor parts = reshape(input, joined(lead, {c, h / r, r, w / r, r}));
    return reshape(permute(parts, permuted(lead.size(), {0, 2, 4, 1, 3})),
                   joined(lead, {(Checked(c) * r * r).get(), h / r, w / r}));
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(2,2,4,6), 2", "f(1,4,6), 2"})
  .error("f(2,2,3,6), 2", ErrorKind::Runtime, "divisible by downscale_factor")
  .error("f(2,0,0), 1099511627776", ErrorKind::Runtime, "does not fit into 64 bits");

STRATA_OP(channel_shuffle, "channel_shuffle(Tensor input, int groups) -> Tensor")
  .doc("Splits the channels of [N, C, ...] into groups and interleaves them.")
  .nn()
  .no_method()
  .alias("native_channel_shuffle")
  .dtypes(kAllTypes)
  .composite([](const Tensor& input, int64_t groups) {
    STRATA_CHECK(input.dim() > 2, Runtime,
                 "channel_shuffle: expects input with more than 2 dimensions, but got shape {}",
                 to_string(input.shape()));
    STRATA_CHECK(groups > 0, Runtime,
                 "channel_shuffle: number of groups to divide channels in must be positive, got {}", groups);
    const int64_t n = input.size(0), c = input.size(1);
    STRATA_CHECK(c % groups == 0, Runtime,
                 "channel_shuffle: number of channels must be divisible by groups, got {} channels and {} groups", c,
                 groups);
    int64_t rest = 1;
    for (int d = 2; d < input.dim(); ++d) rest *= input.size(d);
    return reshape(transpose(reshape(input, {n, groups, c / groups, rest}), 1, 2), input.shape());
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(2,6,3), 2", "f(2,6,3,2), 3"})
  .error("f(2,5,3), 2", ErrorKind::Runtime, "divisible by groups");

}  // namespace strata
