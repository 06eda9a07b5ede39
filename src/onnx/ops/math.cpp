// Arithmetic, comparisons, activations: one result per element.
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

Tensor divide(const Tensor& a, const Tensor& b) { return is_floating(a.dtype()) ? div(a, b) : div(a, b, "trunc"); }
// The base decides the dtype.
Tensor power(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() || is_floating(a.dtype())) return cast(pow(a, cast(b, a.dtype())), a.dtype());
  return cast(pow(a, b), a.dtype());
}
Tensor modulo(const NodeCall& c, const Tensor& a, const Tensor& b) {
  return c.flag("fmod") ? fmod(a, b) : remainder(a, b);
}

// Ops with a broadcast of two inputs.
template <Binary f> Values binary(NodeCall& c) { return one(f(c.tensor(0), c.tensor(1))); }

// Before opset 7 the second input was broadcast only on demand: at the end, or from an axis on.
template <Binary f> Values old_binary(NodeCall& c) {
  const Tensor a = c.tensor(0);
  Tensor b = c.tensor(1);
  if (c.flag("broadcast") && c.has("axis")) {
    const int64_t axis = axis_of(c.integer("axis"), a.dim()), rest = a.dim() - axis - b.dim();
    Ints shape = sizes_of(b);
    shape.insert(shape.end(), static_cast<size_t>(std::max<int64_t>(rest, 0)), 1);
    b = reshape(b, shape);
  }
  return one(f(a, b));
}

template <Binary f> Values fold(NodeCall& c) {
  Tensor sum = c.tensor(0);
  for (size_t i = 1; i < c.inputs(); ++i) sum = f(sum, c.tensor(i));
  return one(sum);
}
Tensor plus(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor minus(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor times(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor larger(const Tensor& a, const Tensor& b) { return maximum(a, b); }
Tensor smaller(const Tensor& a, const Tensor& b) { return minimum(a, b); }

Values mean_of(NodeCall& c) {
  Tensor sum = c.tensor(0);
  for (size_t i = 1; i < c.inputs(); ++i) sum = add(sum, c.tensor(i));
  return one(div(sum, static_cast<double>(c.inputs())));
}
Values equal(NodeCall& c) {
  const Value &a = c.value(0), &b = c.value(1);
  if (!a.strings && !b.strings) return one(eq(c.tensor(0), c.tensor(1)));
  STRATA_CHECK(a.strings && b.strings, Type, "compared are {} and {}", kind_of(a), kind_of(b));
  // numbers stand for the texts, and broadcast as tensors do
  std::map<std::string_view, int64_t> numbers;
  const auto coded = [&](const Strings& s) {
    Ints codes;
    for (const std::string& item : s.items)
      codes.push_back(numbers.emplace(item, static_cast<int64_t>(numbers.size())).first->second);
    return reshape(host_ints(codes), s.shape);
  };
  const Tensor left = coded(*a.strings);
  return one(eq(left, coded(*b.strings)));
}

Values shift(NodeCall& c) {
  const std::string_view direction = c.text("direction");
  STRATA_CHECK(direction == "LEFT" || direction == "RIGHT", Value, "direction is '{}'; expected LEFT or RIGHT",
               direction);
  const Tensor x = c.tensor(0), y = c.tensor(1);
  if (x.dtype() == DType::U64) {  // the same bits, but for the sign
    const Tensor bits = view(x, DType::I64), by = view(y, DType::I64);
    Tensor out = direction == "LEFT" ? bitwise_left_shift(bits, by) : bitwise_right_shift(bits, by);
    if (direction == "RIGHT") {  // clear what the sign filled
      const Tensor mask = sub(bitwise_left_shift(full({}, int64_t{1}, like(bits)), rsub(by, 64)), 1);
      out = where(gt(by, 0), bitwise_and(out, mask), out);
    }
    return one(view(out, DType::U64));
  }
  return one(direction == "LEFT" ? bitwise_left_shift(x, y) : bitwise_right_shift(x, y));
}

Values round_even(NodeCall& c) { return one(round(c.tensor(0))); }
Values modulo_of(NodeCall& c) { return one(modulo(c, c.tensor(0), c.tensor(1))); }
Values where_of(NodeCall& c) {
  if (c.value(1).strings || c.value(2).strings) c.refuse("Where with strings is not supported");
  return one(where(c.tensor(0), c.tensor(1), c.tensor(2)));
}
Values clip_inputs(NodeCall& c) {
  Tensor x = c.tensor(0);
  if (c.has(1)) x = maximum(x, c.tensor(1));
  if (c.has(2)) x = minimum(x, c.tensor(2));
  return one(x);
}
Values clip_attributes(NodeCall& c) {
  Tensor x = c.tensor(0);
  if (c.has("min")) x = clamp_min(x, c.number("min"));
  if (c.has("max")) x = clamp_max(x, c.number("max"));
  return one(x);
}
Values is_infinite(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const bool positive = c.flag("detect_positive", true), negative = c.flag("detect_negative", true);
  if (positive && negative) return one(isinf(x));
  if (!positive && !negative) return one(zeros_like(x, TensorOptions(DType::Bool).device(x.device())));
  return one(positive ? isposinf(x) : isneginf(x));
}
Values identity(NodeCall& c) { return {c.has(0) ? c.value(0) : Value()}; }

// --- activations ---------------------------------------------------------------------------------------------------------
Values leaky(NodeCall& c) { return one(F::leaky_relu(c.tensor(0), c.number("alpha", 0.01))); }
Values elu_of(NodeCall& c) { return one(elu_scaled(c.tensor(0), c.number("alpha", 1), 1, 1)); }
Values selu_of(NodeCall& c) {
  return one(elu_scaled(c.tensor(0), c.number("alpha", 1.67326319217681884765625),
                        c.number("gamma", 1.05070102214813232421875), 1));
}
Values celu_of(NodeCall& c) { return one(celu(c.tensor(0), c.number("alpha", 1))); }
Values thresholded(NodeCall& c) { return one(threshold(c.tensor(0), c.number("alpha", 1), 0)); }
Values hard_sigmoid(NodeCall& c) {
  return one(clamp(add(mul(c.tensor(0), c.number("alpha", 0.2)), c.number("beta", 0.5)), 0, 1));
}
Values softplus_of(NodeCall& c) { return one(F::softplus(c.tensor(0), 1, 30)); }
Values gelu_of(NodeCall& c) { return one(F::gelu(c.tensor(0), c.text("approximate", "none"))); }
Tensor swished(const Tensor& x, double alpha) { return alpha == 1 ? F::silu(x) : mul(x, sigmoid(mul(x, alpha))); }
Values swish(NodeCall& c) { return one(swished(c.tensor(0), c.number("alpha", 1))); }
Values swiglu(NodeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  STRATA_CHECK(a->same_shape(*b), Value, "the shapes of A {} and B {} differ", to_string(a.shape()),
               to_string(b.shape()));
  return one(mul(swished(a, c.number("alpha", 1)), b));
}
Values shrink(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const double bias = c.number("bias", 0), lambd = c.number("lambd", 0.5);
  const Tensor zero = zeros_like(x);
  const Tensor down = cast(sub(x, bias), x.dtype()), up = cast(add(x, bias), x.dtype());
  return one(where(lt(x, -lambd), up, where(gt(x, lambd), down, zero)));
}
Values prelu_of(NodeCall& c) {
  const Tensor x = c.tensor(0);
  return one(where(lt(x, 0), mul(x, c.tensor(1)), x));
}
// Before opset 7: one slope, or one per channel.
Values old_prelu(NodeCall& c) {
  const Tensor x = c.tensor(0);
  Tensor slope = c.tensor(1);
  if (slope.numel() > 1 && slope.dim() == 1 && x.dim() > 1) {
    Ints shape(static_cast<size_t>(x.dim()), 1);
    shape[1] = slope.numel();
    slope = reshape(slope, shape);
  }
  return one(where(lt(x, 0), mul(x, slope), x));
}
Values softmax_last(NodeCall& c) { return one(softmax(c.tensor(0), c.integer("axis", -1))); }
Values log_softmax_last(NodeCall& c) { return one(log_softmax(c.tensor(0), c.integer("axis", -1))); }
Tensor hardmax_along(const Tensor& x, int64_t axis) {
  const Tensor best = argmax(x, axis, true);
  return scatter(zeros_like(x), axis, best, 1);
}
Values hardmax_last(NodeCall& c) { return one(hardmax_along(c.tensor(0), c.integer("axis", -1))); }
// Before opset 13 these saw a matrix: the dimensions before the axis and those from it on.
template <class F> Values as_matrix(NodeCall& c, F&& f) {
  const Tensor x = c.tensor(0);
  const int64_t axis = x.dim() ? axis_of(c.integer("axis", 1), x.dim()) : 0;
  int64_t rows = 1;
  for (int64_t d = 0; d < axis; ++d) rows *= x.size(d);
  const int64_t columns = rows ? x.numel() / rows : 0;
  return one(reshape(f(reshape(x, {rows, columns})), x.shape()));
}
Values softmax_matrix(NodeCall& c) {
  return as_matrix(c, [](const Tensor& x) { return softmax(x, 1); });
}
Values log_softmax_matrix(NodeCall& c) {
  return as_matrix(c, [](const Tensor& x) { return log_softmax(x, 1); });
}
Values hardmax_matrix(NodeCall& c) {
  return as_matrix(c, [](const Tensor& x) { return hardmax_along(x, 1); });
}

// --- scans ---------------------------------------------------------------------------------------------------------------
template <class F> Values scan(NodeCall& c, Scalar neutral, F&& f) {
  Tensor x = c.tensor(0);
  const int64_t axis = axis_of(c.integer(size_t{1}), x.dim());
  const bool reverse = c.flag("reverse");
  if (reverse) x = flip(x, {axis});
  if (c.flag("exclusive") && x.size(axis)) {
    Ints first = sizes_of(x);
    first[static_cast<size_t>(axis)] = 1;
    const Tensor parts[] = {full(first, neutral, like(x)), narrow(x, axis, 0, x.size(axis) - 1)};
    x = cat(parts, axis);
  }
  const Tensor out = f(x, axis);
  return one(reverse ? flip(out, {axis}) : out);
}
Values cumulative_sum(NodeCall& c) {
  return scan(c, 0, [](const Tensor& x, int64_t axis) { return cumsum(x, axis, x.dtype()); });
}
Values cumulative_product(NodeCall& c) {
  return scan(c, 1, [](const Tensor& x, int64_t axis) { return cumprod(x, axis, x.dtype()); });
}

const OpEntry kMath[] = {
  {"Abs", 1, 1, 1, &op_abs},
  {"Acos", 7, 1, 1, &op_acos},
  {"Acosh", 9, 1, 1, &op_acosh},
  {"Asin", 7, 1, 1, &op_asin},
  {"Asinh", 9, 1, 1, &op_asinh},
  {"Atan", 7, 1, 1, &op_atan},
  {"Atanh", 9, 1, 1, &op_atanh},
  {"BitwiseNot", 18, 1, 1, &op_bitwise_not},
  {"Ceil", 1, 1, 1, &op_ceil},
  {"Cos", 7, 1, 1, &op_cos},
  {"Cosh", 9, 1, 1, &op_cosh},
  {"Det", 11, 1, 1, &op_linalg_det},
  {"Erf", 9, 1, 1, &op_erf},
  {"Exp", 1, 1, 1, &op_exp},
  {"Floor", 1, 1, 1, &op_floor},
  {"HardSwish", 14, 1, 1, &op_hardswish},
  {"IsNaN", 9, 1, 1, &op_isnan},
  {"Log", 1, 1, 1, &op_log},
  {"Mish", 18, 1, 1, &op_mish},
  {"Neg", 1, 1, 1, &op_neg},
  {"Not", 1, 1, 1, &op_logical_not},
  {"Reciprocal", 1, 1, 1, &op_reciprocal},
  {"Relu", 1, 1, 1, &op_relu},
  {"Sigmoid", 1, 1, 1, &op_sigmoid},
  {"Sign", 9, 1, 1, &op_sign},
  {"Sin", 7, 1, 1, &op_sin},
  {"Sinh", 9, 1, 1, &op_sinh},
  {"Softsign", 1, 1, 1, &op_softsign},
  {"Sqrt", 1, 1, 1, &op_sqrt},
  {"Tan", 7, 1, 1, &op_tan},
  {"Tanh", 1, 1, 1, &op_tanh},
  {"And", 7, 2, 2, &op_logical_and},
  {"Or", 7, 2, 2, &op_logical_or},
  {"Xor", 7, 2, 2, &op_logical_xor},
  {"BitwiseAnd", 18, 2, 2, &op_bitwise_and},
  {"BitwiseOr", 18, 2, 2, &op_bitwise_or},
  {"BitwiseXor", 18, 2, 2, &op_bitwise_xor},
  {"Less", 7, 2, 2, &op_lt},
  {"LessOrEqual", 12, 2, 2, &op_le},
  {"Greater", 7, 2, 2, &op_gt},
  {"GreaterOrEqual", 12, 2, 2, &op_ge},
  {"Add", 1, 2, 2, nullptr, old_binary<plus>},
  {"Add", 7, 2, 2, nullptr, binary<plus>},
  {"Sub", 1, 2, 2, nullptr, old_binary<minus>},
  {"Sub", 7, 2, 2, nullptr, binary<minus>},
  {"Mul", 1, 2, 2, nullptr, old_binary<times>},
  {"Mul", 7, 2, 2, nullptr, binary<times>},
  {"Div", 1, 2, 2, nullptr, old_binary<divide>},
  {"Div", 7, 2, 2, nullptr, binary<divide>},
  {"Pow", 1, 2, 2, nullptr, old_binary<power>},
  {"Pow", 7, 2, 2, nullptr, binary<power>},
  {"Mod", 10, 2, 2, nullptr, modulo_of},
  {"BitShift", 11, 2, 2, nullptr, shift},
  {"Equal", 7, 2, 2, nullptr, equal},
  {"Max", 6, 1, -1, nullptr, fold<larger>},
  {"Min", 6, 1, -1, nullptr, fold<smaller>},
  {"Sum", 6, 1, -1, nullptr, fold<plus>},
  {"Mean", 6, 1, -1, nullptr, mean_of},
  {"Where", 9, 3, 3, nullptr, where_of},
  {"Round", 11, 1, 1, nullptr, round_even},
  {"Clip", 6, 1, 1, nullptr, clip_attributes},
  {"Clip", 11, 1, 3, nullptr, clip_inputs},
  {"IsInf", 10, 1, 1, nullptr, is_infinite},
  {"Identity", 1, 1, 1, nullptr, identity},
  {"LeakyRelu", 6, 1, 1, nullptr, leaky},
  {"Elu", 6, 1, 1, nullptr, elu_of},
  {"Selu", 6, 1, 1, nullptr, selu_of},
  {"Celu", 12, 1, 1, nullptr, celu_of},
  {"ThresholdedRelu", 10, 1, 1, nullptr, thresholded},
  {"HardSigmoid", 6, 1, 1, nullptr, hard_sigmoid},
  {"Softplus", 1, 1, 1, nullptr, softplus_of},
  {"Gelu", 20, 1, 1, nullptr, gelu_of},
  {"Swish", 24, 1, 1, nullptr, swish},
  {"SwiGLU", 28, 2, 2, nullptr, swiglu},
  {"Shrink", 9, 1, 1, nullptr, shrink},
  {"PRelu", 1, 2, 2, nullptr, old_prelu},
  {"PRelu", 7, 2, 2, nullptr, prelu_of},
  {"Softmax", 1, 1, 1, nullptr, softmax_matrix},
  {"Softmax", 13, 1, 1, nullptr, softmax_last},
  {"LogSoftmax", 1, 1, 1, nullptr, log_softmax_matrix},
  {"LogSoftmax", 13, 1, 1, nullptr, log_softmax_last},
  {"Hardmax", 1, 1, 1, nullptr, hardmax_matrix},
  {"Hardmax", 13, 1, 1, nullptr, hardmax_last},
  {"CumSum", 11, 2, 2, nullptr, cumulative_sum},
  {"CumProd", 26, 2, 2, nullptr, cumulative_product},
};
}  // namespace

OpTable math_ops() { return kMath; }

}  // namespace strata::onnx
