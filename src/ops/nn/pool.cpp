// Pooling ops with PyTorch's names: 1d to 3d forms of the ops in pool_core.cpp.
#include "base/checked.h"
#include "cpu/nn/max_pool.h"
#include "strata/ops.h"

namespace strata {
namespace {

std::vector<int64_t> spread(const char* op, const char* name, IntList l, int dims) {
  STRATA_CHECK(l.size == 1 || static_cast<int>(l.size) == dims, Runtime,
               "{}: {} must be a single int or {} of them, got {}", op, name, dims, to_string(l));
  std::vector<int64_t> out(static_cast<size_t>(dims));
  for (size_t d = 0; d < out.size(); ++d) out[d] = l[l.size == 1 ? 0 : d];
  return out;
}
std::vector<int64_t> stride_or_kernel(const char* op, const OptIntList& stride, IntList kernel, int dims) {
  return spread(op, "stride", stride.given && stride.size ? static_cast<const IntList&>(stride) : kernel, dims);
}

std::array<Tensor, 2> max_pool(const char* op, int dims, const Tensor& x, IntList kernel, const OptIntList& stride,
                               IntList padding, IntList dilation, bool ceil) {
  STRATA_CHECK(x.dim() == dims + 1 || x.dim() == dims + 2, Runtime, "{}: expected {}D or {}D input, got shape {}", op,
               dims + 1, dims + 2, to_string(x.shape()));
  const auto window = spread(op, "kernel_size", kernel, dims);
  return _max_pool(x, window, stride_or_kernel(op, stride, kernel, dims), spread(op, "padding", padding, dims),
                   spread(op, "dilation", dilation, dims), ceil);
}
// Without indices, pooling of lines and planes keeps a byte per window for the gradient. A line is a plane of height 1.
Tensor max_of_lines(const Tensor& x, IntList kernel, const OptIntList& stride, IntList padding, IntList dilation,
                    bool ceil) {
  constexpr const char* op = "max_pool1d";
  STRATA_CHECK(x.dim() == 2 || x.dim() == 3, Runtime, "{}: expected 2D or 3D input, got shape {}", op,
               to_string(x.shape()));
  const int64_t k = spread(op, "kernel_size", kernel, 1)[0], s = stride_or_kernel(op, stride, kernel, 1)[0],
                p = spread(op, "padding", padding, 1)[0], d = spread(op, "dilation", dilation, 1)[0];
  // The general form also reports what is wrong with a window.
  const bool fine = k > 0 && k <= cpu::MaxPool::kMostCodes && s > 0 && d > 0 && p >= 0 && p <= k / 2 &&
                    x.size(-1) > 0 && x.size(-2) > 0 && d <= x.size(-1) && d * (k - 1) < x.size(-1) + 2 * p;
  if (!fine) return max_pool(op, 1, x, kernel, stride, padding, dilation, ceil)[0];
  const Tensor values = _max_pool_codes(unsqueeze(x, -2), {1, k}, {1, s}, {0, p}, {1, d}, ceil)[0];
  return squeeze(values, -2);
}
Tensor max_values(const Tensor& x, IntList kernel, const OptIntList& stride, IntList padding, IntList dilation,
                  bool ceil) {
  constexpr const char* op = "max_pool2d";
  STRATA_CHECK(x.dim() == 3 || x.dim() == 4, Runtime, "{}: expected 3D or 4D input, got shape {}", op,
               to_string(x.shape()));
  const auto window = spread(op, "kernel_size", kernel, 2);
  if (window[0] > cpu::MaxPool::kMostCodes || window[1] > cpu::MaxPool::kMostCodes ||
      window[0] * window[1] > cpu::MaxPool::kMostCodes)
    return max_pool(op, 2, x, kernel, stride, padding, dilation, ceil)[0];
  return _max_pool_codes(x, window, stride_or_kernel(op, stride, kernel, 2), spread(op, "padding", padding, 2),
                         spread(op, "dilation", dilation, 2), ceil)[0];
}
Tensor avg_pool(const char* op, int dims, const Tensor& x, IntList kernel, const OptIntList& stride, IntList padding,
                bool ceil, bool include, std::optional<int64_t> divisor) {
  STRATA_CHECK(x.dim() == dims + 1 || x.dim() == dims + 2, Runtime, "{}: expected {}D or {}D input, got shape {}", op,
               dims + 1, dims + 2, to_string(x.shape()));
  const auto window = spread(op, "kernel_size", kernel, dims);
  return _avg_pool(x, window, stride_or_kernel(op, stride, kernel, dims), spread(op, "padding", padding, dims), ceil,
                   include, divisor);
}

// (x^p summed over windows)^(1/p): a mean times the window's size.
Tensor lp_pool(const char* op, int dims, const Tensor& x, double p, IntList kernel, const OptIntList& stride,
               bool ceil) {
  STRATA_CHECK(p != 0, Value, "{}: norm_type must not be 0", op);
  const auto k = spread(op, "kernel_size", kernel, dims);
  double count = 1;
  for (int64_t n : k) count *= static_cast<double>(n);
  const Tensor means = avg_pool(op, dims, pow(x, p), k, stride, {0}, ceil, true, std::nullopt);
  return pow(mul(mul(sign(means), relu(abs(means))), count), 1.0 / p);
}

Tensor max_unpool(const char* op, int dims, const Tensor& x, const Tensor& indices, IntList kernel,
                  const OptIntList& stride, IntList padding, const OptIntList& output_size) {
  STRATA_CHECK(x.dim() == dims + 1 || x.dim() == dims + 2, Runtime, "{}: expected {}D or {}D input, got shape {}", op,
               dims + 1, dims + 2, to_string(x.shape()));
  const auto k = spread(op, "kernel_size", kernel, dims), s = stride_or_kernel(op, stride, kernel, dims),
             p = spread(op, "padding", padding, dims);
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  const size_t lead = shape.size() - static_cast<size_t>(dims);
  for (size_t d = 0; d < static_cast<size_t>(dims); ++d) {
    STRATA_CHECK(s[d] > 0, Runtime, "{}: strides should be greater than zero, got {}", op, s[d]);
    const int64_t usual = (Checked(shape[lead + d] - 1) * s[d] + k[d] - Checked(2) * p[d]).get();
    shape[lead + d] = usual;
    if (!output_size.given || output_size.size == 0) continue;
    STRATA_CHECK(static_cast<int>(output_size.size) >= dims, Value,
                 "{}: output_size should have {} or {} elements, got {}", op, dims, dims + 2, output_size.size);
    const int64_t wanted = output_size[output_size.size - static_cast<size_t>(dims) + d];
    STRATA_CHECK(wanted > (Checked(usual) - s[d]).get() && wanted < (Checked(usual) + s[d]).get(), Value,
                 "{}: invalid output_size {} (dimension {} must be between {} and {})", op, to_string(output_size), d,
                 usual - s[d], usual + s[d]);
    shape[lead + d] = wanted;
  }
  return _plane_scatter(x, indices, shape, dims, false);
}

std::vector<int64_t> adaptive_size(const char* op, int dims, const Tensor& x, IntList size) {
  STRATA_CHECK(x.dim() > dims || dims == 1, Value, "{}: input dimension should be at least {}, got shape {}", op,
               dims + 1, to_string(x.shape()));
  STRATA_CHECK(x.dim() == dims + 1 || x.dim() == dims + 2, Runtime, "{}: expected {}D or {}D input, got shape {}", op,
               dims + 1, dims + 2, to_string(x.shape()));
  return spread(op, "output_size", size, dims);
}
}  // namespace

STRATA_OP(max_pool1d,
          "max_pool1d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool "
          "ceil_mode=False) -> Tensor")
  .doc("The largest value of each window of [N, C, L].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, IntList k, OptIntList s, IntList p, IntList d, bool ceil) {
    return max_of_lines(x, k, s, p, d, ceil);
  })
  .samples({"f(2,3,8), 2", "f(2,3,9), 3, 2, 1", "f(3,9), 3, 2, padding=1, dilation=2, ceil_mode=True"})
  .error("f(2,3,8), 2, 0", ErrorKind::Runtime, "stride should be greater than zero")
  .error("f(2,3,8), 2, padding=2", ErrorKind::Runtime, "at most half")
  .error("f(8), 2", ErrorKind::Runtime, "expected 2D or 3D input")
  .error("f(0,10), 1", ErrorKind::Runtime, "non-zero size")
  .error("f(2,10,4), 9223372036854775807, 9223372036854775807", ErrorKind::Runtime, "too small");

STRATA_OP(max_pool2d,
          "max_pool2d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool "
          "ceil_mode=False) -> Tensor")
  .doc("The largest value of each window of [N, C, H, W].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, IntList k, OptIntList s, IntList p, IntList d, bool ceil) {
    return max_values(x, k, s, p, d, ceil);
  })
  .samples({"f(2,3,8,6), 2", "f(2,3,7,9), [3,2], 2, 1", "f(3,9,9), 3, 2, padding=1, dilation=2, ceil_mode=True",
            "f(0,3,8,6), 2"})
  .error("f(2,3,4,4), 5", ErrorKind::Runtime, "output size is too small")
  .error("f(2,3,4,4), [2,2,2]", ErrorKind::Runtime, "must be a single int or 2");

STRATA_OP(max_pool3d,
          "max_pool3d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool "
          "ceil_mode=False) -> Tensor")
  .doc("The largest value of each window of [N, C, D, H, W].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, IntList k, OptIntList s, IntList p, IntList d, bool ceil) {
    return max_pool("max_pool3d", 3, x, k, s, p, d, ceil)[0];
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(2,3,4,4,6), 2", "f(2,5,5,6), [3,2,2], 2, 1"})
  .error("f(2,3,4,4,4), 0", ErrorKind::Runtime, "kernel size should be greater than zero");

STRATA_OP(max_pool1d_with_indices,
          "max_pool1d_with_indices(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] "
          "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)")
  .doc("max_pool1d together with the index of each largest value within its plane.")
  .nn()
  .no_method()
  .no_out()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, IntList k, OptIntList s, IntList p, IntList d, bool ceil) {
    return max_pool("max_pool1d", 1, x, k, s, p, d, ceil);
  })
  .samples({"f(2,3,8), 2"})
  .error("f(2,3,8), 2, 0", ErrorKind::Runtime, "stride should be greater than zero");

STRATA_OP(max_pool2d_with_indices,
          "max_pool2d_with_indices(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] "
          "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)")
  .doc("max_pool2d together with the index of each largest value within its plane.")
  .nn()
  .no_method()
  .no_out()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, IntList k, OptIntList s, IntList p, IntList d, bool ceil) {
    return max_pool("max_pool2d", 2, x, k, s, p, d, ceil);
  })
  .samples({"f(2,3,8,6), 2", "f(2,3,7,9), [3,2], 2, 1"})
  .error("f(2,3,8,6), 2, 0", ErrorKind::Runtime, "stride should be greater than zero");

STRATA_OP(max_pool3d_with_indices,
          "max_pool3d_with_indices(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] "
          "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)")
  .doc("max_pool3d together with the index of each largest value within its plane.")
  .nn()
  .no_method()
  .no_out()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, IntList k, OptIntList s, IntList p, IntList d, bool ceil) {
    return max_pool("max_pool3d", 3, x, k, s, p, d, ceil);
  })
  .samples({"f(2,3,4,4,6), 2"})
  .error("f(2,3,4,4,6), 2, 0", ErrorKind::Runtime, "stride should be greater than zero");

STRATA_OP(avg_pool1d,
          "avg_pool1d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, bool ceil_mode=False, bool "
          "count_include_pad=True) -> Tensor")
  .doc("The mean of each window of [N, C, L].")
  .nn()
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, IntList k, OptIntList s, IntList p, bool ceil, bool include) {
    return avg_pool("avg_pool1d", 1, x, k, s, p, ceil, include, std::nullopt);
  })
  .samples({"f(2,3,8), 2", "f(2,3,9), 3, 2, 1, True, False"})
  .error("f(2,3,8), 2, padding=2", ErrorKind::Runtime, "at most half");

STRATA_OP(avg_pool2d,
          "nn.functional.avg_pool2d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, bool "
          "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor")
  .doc("The mean of each window of [N, C, H, W].")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, IntList k, OptIntList s, IntList p, bool ceil, bool include,
                std::optional<int64_t> divisor) {
    return avg_pool("avg_pool2d", 2, x, k, s, p, ceil, include, divisor);
  })
  .samples({"f(2,3,8,6), 2", "f(2,3,7,9), [3,2], 2, 1, True, False", "f(3,7,9), 3, divisor_override=2"})
  .error("f(2,3,8,6), 2, divisor_override=0", ErrorKind::Runtime, "divisor must be not zero");

STRATA_OP(avg_pool3d,
          "nn.functional.avg_pool3d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, bool "
          "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor")
  .doc("The mean of each window of [N, C, D, H, W].")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, IntList k, OptIntList s, IntList p, bool ceil, bool include,
                std::optional<int64_t> divisor) {
    return avg_pool("avg_pool3d", 3, x, k, s, p, ceil, include, divisor);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(2,3,4,4,6), 2", "f(2,5,5,6), [3,2,2], 2, 1, True, False"})
  .error("f(2,3,4,4,4), 2, 0", ErrorKind::Runtime, "stride should be greater than zero");

STRATA_OP(adaptive_avg_pool1d, "adaptive_avg_pool1d(Tensor input, int[] output_size) -> Tensor")
  .doc("The mean over output_size windows of [N, C, L].")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, IntList size) {
    return _adaptive_avg_pool(x, adaptive_size("adaptive_avg_pool1d", 1, x, size));
  })
  .samples({"f(2,3,8), 3", "f(3,8), 5"})
  .error("f(2,3,8), -1", ErrorKind::Runtime, "non-negative");

STRATA_OP(adaptive_avg_pool2d, "nn.functional.adaptive_avg_pool2d(Tensor input, int[] output_size) -> Tensor")
  .doc("The mean over output_size windows of [N, C, H, W].")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, IntList size) {
    return _adaptive_avg_pool(x, adaptive_size("adaptive_avg_pool2d", 2, x, size));
  })
  .samples({"f(2,3,8,6), 3", "f(3,8,7), [5,2]"})
  .error("f(8,6), 3", ErrorKind::Value, "at least 3")
  .error("f(1,3,8,7), 4294967296", ErrorKind::OutOfMemory, "not enough memory");

STRATA_OP(adaptive_avg_pool3d, "nn.functional.adaptive_avg_pool3d(Tensor input, int[] output_size) -> Tensor")
  .doc("The mean over output_size windows of [N, C, D, H, W].")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, IntList size) {
    return _adaptive_avg_pool(x, adaptive_size("adaptive_avg_pool3d", 3, x, size));
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(2,3,4,6,5), 3", "f(2,4,3,7), [2,2,3]"})
  .error("f(8,6), 3", ErrorKind::Value, "at least 4");

STRATA_OP(adaptive_max_pool1d, "adaptive_max_pool1d(Tensor input, int[] output_size) -> (Tensor, Tensor)")
  .doc("The largest value of output_size windows of [N, C, L], and its index.")
  .alias("nn.functional.adaptive_max_pool1d_with_indices")
  .no_method()
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, IntList size) {
    return _adaptive_max_pool(x, adaptive_size("adaptive_max_pool1d", 1, x, size));
  })
  .samples({"f(2,3,8), 3"})
  .error("f(2,3,8), -1", ErrorKind::Runtime, "non-negative");

STRATA_OP(adaptive_max_pool2d_with_indices,
          "nn.functional.adaptive_max_pool2d_with_indices(Tensor input, int[] output_size) -> (Tensor, Tensor)")
  .doc("The largest value of output_size windows of [N, C, H, W], and its index.")
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, IntList size) {
    return _adaptive_max_pool(x, adaptive_size("adaptive_max_pool2d", 2, x, size));
  })
  .samples({"f(2,3,8,6), 3", "f(3,8,7), [5,2]"})
  .error("f(8,6), 3", ErrorKind::Value, "at least 3");

STRATA_OP(adaptive_max_pool3d_with_indices,
          "nn.functional.adaptive_max_pool3d_with_indices(Tensor input, int[] output_size) -> (Tensor, Tensor)")
  .doc("The largest value of output_size windows of [N, C, D, H, W], and its index.")
  .no_out()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, IntList size) {
    return _adaptive_max_pool(x, adaptive_size("adaptive_max_pool3d", 3, x, size));
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(2,3,4,6,5), 3"})
  .error("f(8,6), 3", ErrorKind::Value, "at least 4");

STRATA_OP(lp_pool1d,
          "nn.functional.lp_pool1d(Tensor input, float norm_type, int[] kernel_size, int[]? stride=None, bool "
          "ceil_mode=False) -> Tensor")
  .doc("The p-norm of each window of [N, C, L].")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, double p, IntList k, OptIntList s, bool ceil) {
    return lp_pool("lp_pool1d", 1, x, p, k, s, ceil);
  })
  .samples({"p(2,3,8), 2, 3", "p(3,9), 3, 2, 1, True"})
  .error("f(2,3,8), 0, 3", ErrorKind::Value, "must not be 0");

STRATA_OP(lp_pool2d,
          "nn.functional.lp_pool2d(Tensor input, float norm_type, int[] kernel_size, int[]? stride=None, bool "
          "ceil_mode=False) -> Tensor")
  .doc("The p-norm of each window of [N, C, H, W].")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, double p, IntList k, OptIntList s, bool ceil) {
    return lp_pool("lp_pool2d", 2, x, p, k, s, ceil);
  })
  .samples({"p(2,3,8,7), 2, 3", "p(2,3,7,9), 3, [2,3], 1"})
  .error("f(2,3,8,7), 0, 3", ErrorKind::Value, "must not be 0");

STRATA_OP(lp_pool3d,
          "nn.functional.lp_pool3d(Tensor input, float norm_type, int[] kernel_size, int[]? stride=None, bool "
          "ceil_mode=False) -> Tensor")
  .doc("The p-norm of each window of [N, C, D, H, W].")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x, double p, IntList k, OptIntList s, bool ceil) {
    return lp_pool("lp_pool3d", 3, x, p, k, s, ceil);
  })
  .samples({"p(2,3,4,4,4), 2, 2"})
  .error("f(2,3,4,4,4), 0, 2", ErrorKind::Value, "must not be 0");

STRATA_OP(max_unpool1d,
          "nn.functional.max_unpool1d(Tensor input, Tensor indices, int[] kernel_size, int[]? stride=None, int[] "
          "padding=0, int[]? output_size=None) -> Tensor")
  .doc("Puts the values of max_pool1d back at their indices; zeros elsewhere.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, const Tensor& i, IntList k, OptIntList s, IntList p, OptIntList size) {
    return max_unpool("max_unpool1d", 1, x, i, k, s, p, size);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(1,1,4), t[[[0,3,4,7]]], 2"})
  .error("f(1,2,4), i8(1,2,3), 2", ErrorKind::Runtime, "shape of indices");

STRATA_OP(max_unpool2d,
          "nn.functional.max_unpool2d(Tensor input, Tensor indices, int[] kernel_size, int[]? stride=None, int[] "
          "padding=0, int[]? output_size=None) -> Tensor")
  .doc("Puts the values of max_pool2d back at their indices; zeros elsewhere.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, const Tensor& i, IntList k, OptIntList s, IntList p, OptIntList size) {
    return max_unpool("max_unpool2d", 2, x, i, k, s, p, size);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(1,1,1,1), i4(1,1,1,1), 2"})
  .error("f(1,2,4,4), i8(1,2,3,4), 2", ErrorKind::Runtime, "shape of indices");

STRATA_OP(max_unpool3d,
          "nn.functional.max_unpool3d(Tensor input, Tensor indices, int[] kernel_size, int[]? stride=None, int[] "
          "padding=0, int[]? output_size=None) -> Tensor")
  .doc("Puts the values of max_pool3d back at their indices; zeros elsewhere.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, const Tensor& i, IntList k, OptIntList s, IntList p, OptIntList size) {
    return max_unpool("max_unpool3d", 3, x, i, k, s, p, size);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(1,1,1,1,1), i8(1,1,1,1,1), 2"})
  .error("f(1,2,4,4,4), i8(1,2,3,4,4), 2", ErrorKind::Runtime, "shape of indices")
  .error("f(1,1,4,4,4), i8(1,1,4,4,4), 3, 0", ErrorKind::Runtime, "strides should be greater than zero");

}  // namespace strata
