// Launches the kernels of cuda/fft/fft.cu: passes for lengths with small factors, Bluestein's method for others.
#include "cuda/fft/fft.h"

#include <algorithm>
#include <vector>

#include "cuda/common/tensors.h"
#include "cuda/fft/fft_params.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr int kMaxRadix = 31;

struct Pair {
  Function f32, f64;
  explicit Pair(const std::string& name) : f32("fft", name + "_f32"), f64("fft", name + "_f64") {}
};
void launch(const Pair& kernel, const TensorImpl& data, int64_t threads, const FftParams& p) {
  const auto blocks = static_cast<uint32_t>(std::clamp<int64_t>((threads + kThreads - 1) / kThreads, 1, 1 << 16));
  stream_of(data.device).launch(data.dtype == DType::C64 ? kernel.f32 : kernel.f64, {blocks}, {kThreads}, 0, p);
}

// The radices of the passes; empty if a prime factor is too large.
std::vector<int> factors_of(int64_t n) {
  std::vector<int> factors;
  for (; n % 4 == 0; n /= 4) factors.push_back(4);
  for (int r = 2; r <= kMaxRadix; ++r)
    for (; n % r == 0; n /= r) factors.push_back(r);
  if (n != 1) factors.clear();
  return factors;
}

// Lines of n elements in `data`; `other` is as large. Returns the one that holds the result.
const TensorImpl* run_passes(const TensorImpl& data, const TensorImpl& other, int64_t n, int sign, double scale) {
  static const Pair pass("fft_pass");
  const TensorImpl *from = &data, *to = &other;
  const std::vector<int> factors = factors_of(n);
  int64_t length = n, stride = 1;
  for (size_t k = 0; k < factors.size(); ++k) {
    FftParams p{};
    p.in = address(*from);
    p.out = address(*to);
    p.lines = data.numel / n;
    p.n = n;
    p.radix = factors[k];
    p.groups = length / factors[k];
    p.stride = stride;
    p.sign = sign;
    p.scale = k + 1 == factors.size() ? scale : 1;
    launch(pass, data, p.lines * p.groups * p.stride, p);
    length /= factors[k];
    stride *= factors[k];
    std::swap(from, to);
  }
  return from;
}

// A transform of contiguous lines, with the memory it needs.
class Lines {
 public:
  Lines(int64_t count, int64_t n, DType dtype, Workspace& workspace) : n_(n), count_(count) {
    data = workspace.take(count * n, dtype);
    other_ = workspace.take(count * n, dtype);
    if (n > 1 && factors_of(n).empty()) {
      while (padded_ < 2 * n - 1) padded_ *= 2;
      wide_ = workspace.take(count * padded_, dtype);
      wide_other_ = workspace.take(count * padded_, dtype);
      filter_ = workspace.take(padded_, dtype);
      filter_other_ = workspace.take(padded_, dtype);
    }
  }
  Tensor data;  // the lines before the transform

  Tensor run(bool forward, double scale) const {
    const int sign = forward ? -1 : 1;
    if (!wide_ && n_ > 1) return alias(*run_passes(*data, *other_, n_, sign, scale));
    static const Pair in("chirp_in"), filter("chirp_filter"), multiply("multiply_lines"), out("chirp_out");
    FftParams p{};
    p.sign = sign;
    p.scale = scale;
    p.lines = count_;
    if (n_ == 1) {  // only the factor
      p.in = address(*data);
      p.out = address(*other_);
      p.n = p.groups = 1;
      launch(out, *data, count_, p);
      return other_;
    }
    p.in = address(*data);
    p.out = address(*wide_);
    p.n = padded_;
    p.groups = n_;
    launch(in, *data, count_ * padded_, p);
    p.out = address(*filter_);
    launch(filter, *data, padded_, p);
    const TensorImpl& spectrum = *run_passes(*filter_, *filter_other_, padded_, -1, 1 / static_cast<double>(padded_));
    const TensorImpl& product = *run_passes(*wide_, *wide_other_, padded_, -1, 1);
    p.in = address(spectrum);
    p.out = address(product);
    launch(multiply, *data, count_ * padded_, p);
    const TensorImpl& result = *run_passes(product, &product == wide_.get() ? *wide_other_ : *wide_, padded_, 1, 1);
    p.in = address(result);
    p.out = address(*other_);
    p.n = n_;
    p.groups = padded_;
    launch(out, *data, count_ * n_, p);
    return other_;
  }

 private:
  int64_t n_, count_, padded_ = 1;
  Tensor other_, wide_, wide_other_, filter_, filter_other_;
};

// A view with dimension dim moved to the end.
Tensor moved(const TensorImpl& t, int dim) {
  Tensor view = alias(t);
  for (int d = dim; d + 1 < t.ndim; ++d) {
    std::swap(view->shape[d], view->shape[d + 1]);
    std::swap(view->strides[d], view->strides[d + 1]);
  }
  view->update_contiguous();
  return view;
}
// Contiguous memory in the shape of a tensor, whose last dimension may be longer in memory.
Tensor shaped(const Tensor& memory, const TensorImpl& like, int64_t last) {
  Tensor view = alias(*memory);
  view->set_shape(like.sizes());
  view->shape[like.ndim - 1] = last;
  view->set_contiguous_strides();
  return view;
}
}  // namespace

void fft_complex(const TensorImpl& in, int dim, bool forward, double scale, const TensorImpl& out,
                 Workspace& workspace) {
  if (out.numel == 0) return;
  const int64_t n = out.shape[dim];
  const Lines lines(out.numel / n, n, out.dtype, workspace);
  if (workspace.planning()) return;
  const Tensor source = moved(in, dim), target = moved(out, dim);
  copy(*shaped(lines.data, *source, n), *source);
  copy(*target, *shaped(lines.run(forward, scale), *target, n));
}

void fft_real(const TensorImpl& in, int dim, double scale, const TensorImpl& out, Workspace& workspace) {
  if (out.numel == 0) return;
  const int64_t n = in.shape[dim];
  const Lines lines(in.numel / n, n, out.dtype, workspace);
  if (workspace.planning()) return;
  const Tensor source = moved(in, dim), target = moved(out, dim);
  copy(*shaped(lines.data, *source, n), *source);
  const Tensor whole = shaped(lines.run(true, scale), *source, n);
  whole->shape[whole->ndim - 1] = n / 2 + 1;
  whole->update_contiguous();
  copy(*target, *whole);
}

void fft_to_real(const TensorImpl& in, int dim, double scale, const TensorImpl& out, Workspace& workspace) {
  if (out.numel == 0) return;
  static const Pair hermitian("hermitian");
  const int64_t n = out.shape[dim], bins = n / 2 + 1, count = out.numel / n;
  const Tensor half = workspace.take(count * bins, in.dtype);
  const Lines lines(count, n, in.dtype, workspace);
  if (workspace.planning()) return;
  const Tensor source = moved(in, dim), target = moved(out, dim);
  copy(*shaped(half, *source, bins), *source);
  FftParams p{};
  p.in = address(*half);
  p.out = address(*lines.data);
  p.lines = count;
  p.n = n;
  launch(hermitian, *lines.data, count * n, p);
  copy(*target, *shaped(lines.run(false, scale), *target, n));  // takes the real parts
}

}  // namespace strata::cuda
