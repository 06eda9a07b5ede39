// Parameter initializers: fill a tensor in place, without recording.
#include "ops/nn/init.h"
#include "ops/check_dtype.h"

#include <fmt/core.h>

#include <cmath>

#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata {
namespace {

struct Fans {
  double in, out;
};

// fan_in and fan_out: a weight is [out, in, kernel...].
Fans fans_of(const Tensor& t, const char* op) {
  STRATA_CHECK(t.dim() >= 2, Value,
               "{}: Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, got shape {}", op,
               to_string(t.shape()));
  double field = 1;
  for (int d = 2; d < t.dim(); ++d) field *= static_cast<double>(t.size(d));
  return {static_cast<double>(t.size(1)) * field, static_cast<double>(t.size(0)) * field};
}

double kaiming_std(const Tensor& t, double a, std::string_view mode, std::string_view nonlinearity, const char* op) {
  STRATA_CHECK(mode == "fan_in" || mode == "fan_out", Value, "{}: mode must be 'fan_in' or 'fan_out', got '{}'", op,
               mode);
  const Fans fans = fans_of(t, op);
  return nn::init::calculate_gain(nonlinearity, a) / std::sqrt(mode == "fan_in" ? fans.in : fans.out);
}

double xavier_std(const Tensor& t, double gain, const char* op) {
  const Fans fans = fans_of(t, op);
  return gain * std::sqrt(2.0 / (fans.in + fans.out));
}

Tensor fill_uniform(const Tensor& t, double a, double b, Generator* generator) {
  const autograd::NoGrad off;
  return uniform_(t, a, b, generator);
}
Tensor fill_normal(const Tensor& t, double mean, double std, Generator* generator) {
  const autograd::NoGrad off;
  return normal_(t, mean, std, generator);
}
Tensor fill_constant(const Tensor& t, Scalar value) {
  const autograd::NoGrad off;
  return fill_(t, value);
}
Tensor write(const Tensor& t, const Tensor& values) {
  const autograd::NoGrad off;
  return copy_(t, values);
}
double normal_cdf(double x) { return (1 + std::erf(x / std::sqrt(2.0))) / 2; }

}  // namespace

double nn::init::calculate_gain(std::string_view name, std::optional<double> param) {
  for (const char* linear :
       {"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"})
    if (name == linear) return 1;
  if (name == "tanh") return 5.0 / 3;
  if (name == "relu") return std::sqrt(2.0);
  if (name == "leaky_relu") return std::sqrt(2.0 / (1 + param.value_or(0.01) * param.value_or(0.01)));
  if (name == "selu") return 0.75;
  fail(ErrorKind::Value, fmt::format("calculate_gain: Unsupported nonlinearity {}", name));
}

STRATA_OP(init_uniform,
          "nn.init.uniform_(Tensor(a!) tensor, float a=0.0, float b=1.0, Generator? generator=None) -> Tensor(a!)")
  .doc("Uniform random numbers in [a, b).")
  .composite([](const Tensor& t, double a, double b, Generator* g) { return fill_uniform(t, a, b, g); })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3), -1.0, 1.0"});

STRATA_OP(init_normal,
          "nn.init.normal_(Tensor(a!) tensor, float mean=0.0, float std=1.0, Generator? generator=None) -> Tensor(a!)")
  .doc("Normal random numbers.")
  .composite([](const Tensor& t, double mean, double std, Generator* g) { return fill_normal(t, mean, std, g); })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3), 1.0, 2.0"});

STRATA_OP(init_trunc_normal,
          "nn.init.trunc_normal_(Tensor(a!) tensor, float mean=0.0, float std=1.0, float a=-2.0, float b=2.0, "
          "Generator? generator=None) -> Tensor(a!)")
  .doc("Normal random numbers, truncated to [a, b].")
  .composite([](const Tensor& t, double mean, double std, double a, double b, Generator* g) {
    const autograd::NoGrad off;
    refuse_integers(t, "trunc_normal_");
    STRATA_CHECK(a <= b, Value, "trunc_normal_: expected a <= b, got {} and {}", a, b);
    STRATA_CHECK(std > 0, Value, "trunc_normal_: expected std > 0, got {}", std);
    const double low = normal_cdf((a - mean) / std), high = normal_cdf((b - mean) / std);
    // By the inverse of the distribution function, in double precision, which its tails require.
    const Tensor u = uniform_(empty(t.shape(), DType::F64), 2 * low - 1, 2 * high - 1, g);
    return copy_(t, clamp(add(mul(erfinv(u), std * std::sqrt(2.0)), mean), a, b));
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes)
  .samples({"f(2,3)"})
  .error("f(2), 0.0, 1.0, 2.0, 1.0", ErrorKind::Value, "expected a <= b");

STRATA_OP(init_constant, "nn.init.constant_(Tensor(a!) tensor, Scalar val) -> Tensor(a!)")
  .doc("A constant.")
  .composite([](const Tensor& t, Scalar value) { return fill_constant(t, value); })
  .draws()
  .no_out()
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3), 1"});

STRATA_OP(init_ones, "nn.init.ones_(Tensor(a!) tensor) -> Tensor(a!)")
  .doc("Ones.")
  .composite([](const Tensor& t) { return fill_constant(t, 1); })
  .draws()
  .no_out()
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3)"});

STRATA_OP(init_zeros, "nn.init.zeros_(Tensor(a!) tensor) -> Tensor(a!)")
  .doc("Zeros.")
  .composite([](const Tensor& t) { return fill_constant(t, 0); })
  .draws()
  .no_out()
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3)"});

STRATA_OP(init_eye, "nn.init.eye_(Tensor(a!) tensor) -> Tensor(a!)")
  .doc("The identity matrix.")
  .composite([](const Tensor& t) {
    STRATA_CHECK(t.dim() == 2, Value, "eye_: Only tensors with 2 dimensions are supported, got shape {}",
                 to_string(t.shape()));
    return write(t, eye(t.size(0), t.size(1)));
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3)"})
  .error("f(2)", ErrorKind::Value, "2 dimensions");

STRATA_OP(init_dirac, "nn.init.dirac_(Tensor(a!) tensor, int groups=1) -> Tensor(a!)")
  .doc("The weight of a convolution that preserves its input channels.")
  .composite([](const Tensor& t, int64_t groups) {
    STRATA_CHECK(t.dim() >= 3 && t.dim() <= 5, Value,
                 "dirac_: Only tensors with 3, 4, or 5 dimensions are supported, got shape {}", to_string(t.shape()));
    STRATA_CHECK(groups > 0 && t.size(0) % groups == 0, Value, "dirac_: dim 0 ({}) must be divisible by groups ({})",
                 t.size(0), groups);
    const autograd::NoGrad off;
    fill_(t, 0);
    const int64_t per = t.size(0) / groups, channels = std::min(per, t.size(1));
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t c = 0; c < channels; ++c) {
        Tensor at = select(select(t, 0, g * per + c), 0, c);
        while (at.dim() > 0) at = select(at, 0, at.size(0) / 2);
        fill_(at, 1);
      }
    return t;
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,2,3)", "f(4,2,3,3), 2"})
  .error("f(2,3)", ErrorKind::Value, "3, 4, or 5 dimensions");

STRATA_OP(init_xavier_uniform,
          "nn.init.xavier_uniform_(Tensor(a!) tensor, float gain=1.0, Generator? generator=None) -> Tensor(a!)")
  .doc("Uniform in [-b, b] with b = gain * sqrt(6 / (fan_in + fan_out)).")
  .composite([](const Tensor& t, double gain, Generator* g) {
    const double bound = std::sqrt(3.0) * xavier_std(t, gain, "xavier_uniform_");
    return fill_uniform(t, -bound, bound, g);
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3)"})
  .error("f(2)", ErrorKind::Value, "fewer than 2 dimensions");

STRATA_OP(init_xavier_normal,
          "nn.init.xavier_normal_(Tensor(a!) tensor, float gain=1.0, Generator? generator=None) -> Tensor(a!)")
  .doc("Normal with std = gain * sqrt(2 / (fan_in + fan_out)).")
  .composite([](const Tensor& t, double gain, Generator* g) {
    return fill_normal(t, 0, xavier_std(t, gain, "xavier_normal_"), g);
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3)"});

STRATA_OP(init_kaiming_uniform,
          "nn.init.kaiming_uniform_(Tensor(a!) tensor, float a=0, str mode='fan_in', str nonlinearity='leaky_relu', "
          "Generator? generator=None) -> Tensor(a!)")
  .doc("Uniform in [-b, b] with b = gain * sqrt(3 / fan).")
  .composite([](const Tensor& t, double a, std::string_view mode, std::string_view nonlinearity, Generator* g) {
    if (t.numel() == 0) return t;
    const double bound = std::sqrt(3.0) * kaiming_std(t, a, mode, nonlinearity, "kaiming_uniform_");
    return fill_uniform(t, -bound, bound, g);
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3)"})
  .error("f(2,3), 0.0, 'fan'", ErrorKind::Value, "'fan_in' or 'fan_out'");

STRATA_OP(init_kaiming_normal,
          "nn.init.kaiming_normal_(Tensor(a!) tensor, float a=0, str mode='fan_in', str nonlinearity='leaky_relu', "
          "Generator? generator=None) -> Tensor(a!)")
  .doc("Normal with std = gain / sqrt(fan).")
  .composite([](const Tensor& t, double a, std::string_view mode, std::string_view nonlinearity, Generator* g) {
    if (t.numel() == 0) return t;
    return fill_normal(t, 0, kaiming_std(t, a, mode, nonlinearity, "kaiming_normal_"), g);
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(2,3)"});

STRATA_OP(init_orthogonal,
          "nn.init.orthogonal_(Tensor(a!) tensor, float gain=1, Generator? generator=None) -> Tensor(a!)")
  .doc(
    "A matrix (further dimensions flattened) whose rows or columns, whichever are fewer, are orthonormal, times gain.")
  .composite([](const Tensor& t, double gain, Generator* g) {
    refuse_integers(t, "orthogonal_");
    STRATA_CHECK(t.dim() >= 2, Value, "orthogonal_: Only tensors with 2 or more dimensions are supported, got shape {}",
                 to_string(t.shape()));
    if (t.numel() == 0) return t;
    const autograd::NoGrad off;
    const int64_t rows = t.size(0), columns = t.numel() / rows;
    Tensor flat = normal_(empty({rows, columns}, DType::F64), 0, 1, g);
    if (rows < columns) flat = strata::t(flat);
    const auto qr = linalg::qr(flat);
    Tensor q = mul(qr[0], sgn(diagonal(qr[1])));  // with a positive diagonal of R the distribution is uniform
    if (rows < columns) q = strata::t(q);
    return copy_(t, mul(reshape(q, t.shape()), gain));
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes)
  .samples({"f(2,3)", "f(4,2)"})
  .error("f(2)", ErrorKind::Value, "2 or more dimensions");

STRATA_OP(init_sparse,
          "nn.init.sparse_(Tensor(a!) tensor, float sparsity, float std=0.01, Generator? generator=None) -> Tensor(a!)")
  .doc("Normal random numbers, with the given fraction of each column set to zero.")
  .composite([](const Tensor& t, double sparsity, double std, Generator* g) {
    STRATA_CHECK(t.dim() == 2, Value, "sparse_: Only tensors with 2 dimensions are supported, got shape {}",
                 to_string(t.shape()));
    STRATA_CHECK(sparsity >= 0 && sparsity <= 1, Value, "sparse_: sparsity must be in [0, 1], got {}", sparsity);
    const autograd::NoGrad off;
    const int64_t zeros = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(t.size(0))));
    normal_(t, 0, std, g);
    for (int64_t c = 0; c < t.size(1); ++c)
      index_fill_(select(t, 1, c), 0, narrow(randperm(t.size(0), g), 0, 0, zeros), 0);
    return t;
  })
  .draws()
  .no_out()
  .dtypes(kFloatingTypes | kComplexTypes)
  .samples({"f(4,3), 0.5"})
  .error("f(4), 0.5", ErrorKind::Value, "2 dimensions");

}  // namespace strata
