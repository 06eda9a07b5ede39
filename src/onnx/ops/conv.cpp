// Convolutions and matrix products.
#include "onnx/ops/windows.h"

namespace strata::onnx {

Windows windows_of(const NodeCall& c, const Tensor& x, Ints kernel) {
  const size_t n = kernel.size();
  STRATA_CHECK(n >= 1 && x.dim() == static_cast<int>(n) + 2, Value, "an input {} for a kernel {}", to_string(x.shape()),
               to_string(Shape(kernel)));
  Windows w{std::move(kernel), c.ints("strides"), c.ints("dilations"), Ints(n), Ints(n)};
  if (w.strides.empty()) w.strides.assign(n, 1);
  if (w.dilations.empty()) w.dilations.assign(n, 1);
  const Ints pads = c.ints("pads");
  STRATA_CHECK(w.strides.size() == n && w.dilations.size() == n && (pads.empty() || pads.size() == 2 * n), Value,
               "{} strides, {} dilations and {} pads for a kernel of {} dimensions", w.strides.size(),
               w.dilations.size(), pads.size(), n);
  const std::string_view automatic = c.text("auto_pad", "NOTSET");
  STRATA_CHECK(automatic == "NOTSET" || automatic == "VALID" || automatic == "SAME_UPPER" || automatic == "SAME_LOWER",
               Value, "auto_pad is '{}'", automatic);
  for (size_t d = 0; d < n; ++d) {
    STRATA_CHECK(w.kernel[d] > 0 && w.strides[d] > 0 && w.dilations[d] > 0, Value,
                 "kernel {}, stride {} and dilation {} must be positive", w.kernel[d], w.strides[d], w.dilations[d]);
    if (automatic == "NOTSET" && !pads.empty()) {
      w.before[d] = pads[d];
      w.after[d] = pads[n + d];
    } else if (automatic.starts_with("SAME")) {
      const int64_t size = x.size(static_cast<int64_t>(d) + 2), out = (size + w.strides[d] - 1) / w.strides[d];
      const Checked span = (Checked(w.kernel[d]) - 1) * w.dilations[d] + 1;
      const int64_t total = std::max<int64_t>(0, ((Checked(out) - 1) * w.strides[d] + span - size).get());
      w.before[d] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.after[d] = total - w.before[d];
    }
    STRATA_CHECK(w.before[d] >= 0 && w.after[d] >= 0, Value, "pads {} and {} are negative", w.before[d], w.after[d]);
  }
  return w;
}

Tensor pad_spatial(const Tensor& x, const Ints& before, const Ints& after, Scalar value) {
  Ints amounts;
  for (size_t d = before.size(); d-- > 0;) {
    amounts.push_back(before[d]);
    amounts.push_back(after[d]);
  }
  return constant_pad_nd(x, amounts, value);
}

namespace {

Ints kernel_of(const NodeCall& c, const Tensor& weight) {
  STRATA_CHECK(weight.dim() >= 3, Value, "a weight {}; expected 3 dimensions or more", to_string(weight.shape()));
  Ints kernel(weight.shape().begin() + 2, weight.shape().end());
  const Ints given = c.ints("kernel_shape");
  STRATA_CHECK(given.empty() || given == kernel, Value, "kernel_shape is {}, the weight has {}",
               to_string(Shape(given)), to_string(Shape(kernel)));
  return kernel;
}
// Strata's convolutions have one to three dimensions: more become sums over the first of them.
Tensor convolve(Tensor x, const Tensor& weight, const Tensor& bias, Windows w, int64_t groups, Scalar fill = 0) {
  STRATA_CHECK(w.dims() <= 3, NotImplemented, "convolutions of {} dimensions are not supported; at most 3", w.dims());
  if (!w.symmetric() || fill.to_double() != 0) {
    x = pad_spatial(x, w.before, w.after, fill);
    w.before.assign(w.dims(), 0);
  }
  return convolution(x, weight, bias, w.strides, w.before, w.dilations, false, Ints(w.dims(), 0), groups);
}
Values conv(NodeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1);
  return one(convolve(x, weight, c.maybe(2), windows_of(c, x, kernel_of(c, weight)), c.integer("group", 1)));
}

Values conv_transpose(NodeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1);
  const size_t n = static_cast<size_t>(std::max(x.dim() - 2, 0));
  const int64_t groups = c.integer("group", 1);
  Windows w = windows_of(c, x, kernel_of(c, weight));
  Ints extra = c.ints("output_padding");
  if (extra.empty()) extra.assign(n, 0);
  const Ints shape = c.ints("output_shape");
  STRATA_CHECK(extra.size() == n && n <= 3 && (shape.empty() || shape.size() == n), Value,
               "output_padding {} and output_shape {} for {} dimensions (at most 3)", extra.size(), shape.size(), n);
  const std::string_view automatic = c.text("auto_pad", "NOTSET");
  Ints full_size, low(n), high(n);
  for (size_t d = 0; d < n; ++d) {
    STRATA_CHECK(extra[d] >= 0, Value, "an output_padding is {}", extra[d]);
    const Checked span = (Checked(w.kernel[d]) - 1) * w.dilations[d] + 1;
    const Checked whole = (Checked(x.size(static_cast<int64_t>(d) + 2)) - 1) * w.strides[d] + span + extra[d];
    full_size.push_back(whole.get());
    low[d] = w.before[d];
    high[d] = w.after[d];
    if (!shape.empty() || automatic.starts_with("SAME")) {
      const int64_t want =
        shape.empty() ? (Checked(x.size(static_cast<int64_t>(d) + 2)) * w.strides[d]).get() : shape[d];
      const int64_t total = whole.get() - want;
      low[d] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      if (automatic == "NOTSET") low[d] = total / 2;
      high[d] = total - low[d];
    }
  }
  // Computed whole, without pads; then cut. The bias goes also where a negative pad adds zeros.
  const bool plain = low == high && std::all_of(low.begin(), low.end(), [](int64_t v) { return v >= 0; }) && [&] {
    for (size_t d = 0; d < n; ++d)
      if (extra[d] >= std::max(w.strides[d], w.dilations[d])) return false;
    return true;
  }();
  Tensor y =
    convolution(x, weight, {}, w.strides, plain ? low : Ints(n), w.dilations, true, plain ? extra : Ints(n), groups);
  for (size_t d = 0; d < n; ++d) {
    low[d] = -low[d];
    high[d] = extra[d] - high[d];
  }
  if (!plain) y = pad_spatial(y, low, high, 0);
  if (!c.has(size_t{2})) return one(y);
  Ints per_channel(n + 2, 1);
  per_channel[1] = y.size(1);
  return one(add(y, reshape(c.tensor(2), per_channel)));
}

// Integers are exact in f64 as long as the sums stay below 2^53, which 8-bit products do.
Tensor shifted(const NodeCall& c, size_t input, size_t zero_point, bool rows) {
  Tensor x = cast(c.tensor(input), DType::F64);
  if (!c.has(zero_point)) return x;
  Tensor zero = cast(c.tensor(zero_point), DType::F64);
  if (zero.dim() == 1 && zero.numel() > 1 && rows) zero = unsqueeze(zero, 1);
  return sub(x, zero);
}
Values conv_integer(NodeCall& c) {
  const Tensor x = shifted(c, 0, 2, false);
  Tensor weight = cast(c.tensor(1), DType::F64);
  if (c.has(size_t{3})) {
    Tensor zero = cast(c.tensor(3), DType::F64);
    if (zero.numel() > 1) zero = reshape(zero, Ints{zero.numel(), 1, 1, 1});
    weight = sub(weight, zero);
  }
  return one(cast(convolve(x, weight, {}, windows_of(c, x, kernel_of(c, weight)), c.integer("group", 1)), DType::I32));
}
Values matmul_integer(NodeCall& c) {
  return one(cast(matmul(shifted(c, 0, 2, true), shifted(c, 1, 3, false)), DType::I32));
}
Values matmul_of(NodeCall& c) { return one(matmul(c.tensor(0), c.tensor(1))); }

Values gemm(NodeCall& c) {
  Tensor a = c.tensor(0), b = c.tensor(1);
  STRATA_CHECK(a.dim() == 2 && b.dim() == 2, Value, "A {} and B {}; expected matrices", to_string(a.shape()),
               to_string(b.shape()));
  const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  if (c.flag("transA")) a = transpose(a, 0, 1);
  if (c.flag("transB") && alpha == 1 && beta == 1 && is_floating(a.dtype())) {
    // the layout of a linear layer
    const Tensor bias = c.maybe(2);
    if (!bias || (bias.dim() == 1 && bias.numel() == b.size(0))) return one(F::linear(a, b, bias));
  }
  if (c.flag("transB")) b = transpose(b, 0, 1);
  Tensor y = matmul(a, b);
  if (alpha != 1) y = cast(mul(y, alpha), a.dtype());
  if (!c.has(size_t{2})) return one(y);
  const Tensor bias = c.tensor(2);
  return one(cast(add(y, beta == 1 ? bias : mul(bias, beta)), a.dtype()));
}
Values einsum_of(NodeCall& c) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < c.inputs(); ++i) operands.push_back(c.tensor(i));
  return one(einsum(c.text("equation"), operands));
}

// 0: the last result; the state are the inputs that come before it.
Values causal_conv(NodeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1);
  STRATA_CHECK(x.dim() == 3 && weight.dim() == 3 && weight.size(0) == x.size(1) && weight.size(2) >= 1, Value,
               "an input {} and a weight {}", to_string(x.shape()), to_string(weight.shape()));
  const int64_t channels = x.size(1), past = weight.size(2) - 1;
  const Tensor state = c.has(size_t{3}) ? c.tensor(3) : zeros({x.size(0), channels, past}, like(x));
  const Tensor parts[] = {state, x};
  const Tensor all = cat(parts, 2);
  Tensor y = convolution(all, weight, c.maybe(2), {1}, {0}, {1}, false, {0}, channels);
  const std::string_view activation = c.text("activation", "none");
  STRATA_CHECK(activation == "none" || activation == "silu" || activation == "swish", Value, "activation is '{}'",
               activation);
  if (activation != "none") y = F::silu(y);
  return {Value(y), Value(narrow(all, 2, all.size(2) - past, past))};
}

Values deform(NodeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1), offset = c.tensor(2), mask = c.maybe(4);
  const Windows w = windows_of(c, x, kernel_of(c, weight));
  STRATA_CHECK(w.dims() == 2 && w.symmetric(), NotImplemented,
               "deformable convolutions take two dimensions and equal pads");
  // the number of offset groups follows from the channels of the offsets
  return one(vision::ops::deform_conv2d(x, offset, weight, c.maybe(3), w.strides, w.before, w.dilations, mask));
}

const OpEntry kConv[] = {
  {"Conv", 1, 2, 3, nullptr, conv},
  {"ConvTranspose", 1, 2, 3, nullptr, conv_transpose},
  {"ConvInteger", 10, 2, 4, nullptr, conv_integer},
  {"MatMulInteger", 10, 2, 4, nullptr, matmul_integer},
  {"MatMul", 1, 2, 2, nullptr, matmul_of},
  {"Gemm", 1, 2, 3, nullptr, gemm},
  {"Einsum", 12, 1, -1, nullptr, einsum_of},
  {"CausalConvWithState", 27, 2, 4, nullptr, causal_conv},
  {"DeformConv", 19, 3, 5, nullptr, deform},
};
}  // namespace

OpTable nn_ops() { return kConv; }

}  // namespace strata::onnx
