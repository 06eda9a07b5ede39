#include "ops/nn/epilogue.h"

#include <fmt/core.h>

#include <cmath>

#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {
namespace {

struct Named {
  std::string_view name;
  size_t numbers;
};
// In the order of Activation.
constexpr Named kActivations[] = {{"none", 0},        {"relu", 0},      {"clamp", 2},   {"leaky_relu", 1}, {"elu", 1},
                                  {"hardsigmoid", 2}, {"hardswish", 0}, {"sigmoid", 0}, {"silu", 0},       {"gelu", 0},
                                  {"gelu_tanh", 0},   {"tanh", 0},      {"mish", 0}};

Tensor activated(const Tensor& x, const Epilogue& e) {
  namespace F = nn::functional;
  switch (e.activation) {
    case Activation::None: return x;
    case Activation::Relu: return relu(x);
    case Activation::Clamp: return clamp(x, e.first, e.second);
    case Activation::LeakyRelu: return F::leaky_relu(x, e.first);
    case Activation::Elu: return F::elu(x, e.first);
    case Activation::HardSigmoid: return clamp(add(mul(x, e.first), e.second), 0, 1);
    case Activation::HardSwish: return F::hardswish(x);
    case Activation::Sigmoid: return sigmoid(x);
    case Activation::Silu: return F::silu(x);
    case Activation::Gelu: return F::gelu(x);
    case Activation::GeluTanh: return F::gelu(x, "tanh");
    case Activation::Tanh: return tanh(x);
    case Activation::Mish: return F::mish(x);
  }
  return x;
}

// The ops whose results may be written to their input.
void activate_(Tensor& x, const Epilogue& e) {
  const auto in_place = [&](const OpRecord& op) {
    STRATA_ASSERT(op.has_inplace);
    call_inplace(op, Args(x));
  };
  switch (e.activation) {
    case Activation::None: return;
    case Activation::Relu: return in_place(op_relu);
    case Activation::Sigmoid: return in_place(op_sigmoid);
    case Activation::Tanh: return in_place(op_tanh);
    default: copy_values(*x, *activated(x, e));
  }
}
}  // namespace

Epilogue epilogue_of(const char* op, std::string_view activation, std::span<const double> numbers, bool add_last) {
  for (size_t i = 0; i < std::size(kActivations); ++i) {
    if (activation != kActivations[i].name) continue;
    STRATA_CHECK(numbers.size() == kActivations[i].numbers, Value, "{}: activation '{}' takes {} numbers, got {}", op,
                 activation, kActivations[i].numbers, numbers.size());
    Epilogue e{.activation = static_cast<Activation>(i), .add_last = add_last};
    if (!numbers.empty()) e.first = numbers[0];
    if (numbers.size() > 1) e.second = numbers[1];
    return e;
  }
  std::string names;
  for (const Named& known : kActivations) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", known.name);
  fail(ErrorKind::Value, fmt::format("{}: activation '{}' is unknown; expected one of {}", op, activation, names));
}

Tensor after_sum(const Tensor& sum, const Tensor& other, const Epilogue& e) {
  const Tensor before = other && !e.add_last ? add(sum, other) : sum;
  const Tensor after = activated(before, e);
  return other && e.add_last ? add(after, other) : after;
}
void after_sum_(Tensor& sum, const Tensor& other, const Epilogue& e) {
  if (other && !e.add_last) add_(sum, other);
  activate_(sum, e);
  if (other && e.add_last) add_(sum, other);
}

ByteScales byte_scales_of(const char* op, std::span<const double> numbers) {
  STRATA_CHECK(numbers.size() == 6, Value,
               "{}: expected 6 numbers: the scale and the zero of input, other and result; got {}", op, numbers.size());
  ByteScales s;
  double* scales[] = {&s.input, &s.other, &s.result};
  int32_t* zeros[] = {&s.input_zero, &s.other_zero, &s.result_zero};
  for (size_t i = 0; i < 3; ++i) {
    const double scale = numbers[2 * i], zero = numbers[2 * i + 1];
    STRATA_CHECK(static_cast<float>(scale) > 0 && std::isfinite(static_cast<float>(scale)), Value,
                 "{}: a scale must be positive and finite in float32, got {}", op, scale);
    STRATA_CHECK(zero >= -128 && zero <= 255 && zero == std::floor(zero), Value,
                 "{}: a zero must be an integer of 8 bits, got {}", op, zero);
    *scales[i] = scale;
    *zeros[i] = static_cast<int32_t>(zero);
  }
  return s;
}

void check_other(const char* op, const TensorImpl* other, const TensorImpl& out, bool bytes) {
  if (!other) return;
  const bool fits = other->same_shape(out);
  STRATA_CHECK(fits, Runtime, "{}: other must have the shape of the result, {}, but got {}", op, to_string(out.sizes()),
               to_string(other->sizes()));
  const bool is_byte = other->dtype == DType::I8 || other->dtype == DType::U8;
  STRATA_CHECK(bytes ? is_byte || other->dtype == DType::F32 : other->dtype == out.dtype, Runtime,
               "{}: other must be of {}, got {}", op, bytes ? "int8, uint8 or float32" : name_of(out.dtype),
               name_of(other->dtype));
}

void check_byte_tensors(const char* op, const TensorImpl& input, const TensorImpl& weight, const TensorImpl& scales,
                        const TensorImpl* bias, DType result) {
  STRATA_CHECK(input.dtype == DType::I8 || input.dtype == DType::U8, Runtime,
               "{}: input must be int8 or uint8, got {}; quantize it first", op, name_of(input.dtype));
  STRATA_CHECK(weight.dtype == DType::I8, Runtime, "{}: weight must be int8, got {}", op, name_of(weight.dtype));
  STRATA_CHECK(weight.ndim > 0 && scales.ndim <= 1 && (scales.numel == 1 || scales.numel == weight.shape[0]), Runtime,
               "{}: weight_scales must be one number or one per channel of the result ({}), got shape {}", op,
               weight.ndim ? weight.shape[0] : 0, to_string(scales.sizes()));
  STRATA_CHECK(scales.dtype == DType::F32, Runtime, "{}: weight_scales must be float32, got {}", op,
               name_of(scales.dtype));
  STRATA_CHECK(!bias || bias->dtype == DType::F32, Runtime, "{}: bias must be float32, got {}", op,
               bias ? name_of(bias->dtype) : "");
  STRATA_CHECK(result == DType::F32 || result == DType::I8 || result == DType::U8, Runtime,
               "{}: the result may be float32, int8 or uint8, not {}", op, name_of(result));
}

void finish_bytes(const Tensor& sums, const Tensor& weight_scales, const Tensor& bias, const Tensor& other, int channel,
                  const Epilogue& e, const ByteScales& s, const Tensor& out) {
  std::vector<int64_t> shape(static_cast<size_t>(sums.dim()), 1);
  const auto spread = [&](const Tensor& t) {
    shape[static_cast<size_t>(channel)] = t.numel();
    return reshape(t, shape);
  };
  Tensor y = mul(to(sums, DType::F32), mul(spread(weight_scales), s.input));
  if (bias) y = add(y, spread(bias));
  const Tensor added = other && other.dtype() != DType::F32 ? _dequantize(other, s.other, s.other_zero) : other;
  y = after_sum(y, added, e);
  if (out.dtype() != DType::F32) y = _quantize(y, s.result, s.result_zero, out.dtype());
  copy_(out, y);
}

}  // namespace strata
