// Arithmetic, comparisons, activations and reductions as nodes of ONNX.
#include <cmath>
#include <numbers>

#include "onnx/export/exporter.h"
#include "tensor/dtype.h"

namespace strata::onnx::to_math {
namespace {

using E = Exporter;

DType promoted_operands(E& e) {  // of a comparison
  if (!e.is_value("other")) {
    const graph::Argument& a = e.argument("other");
    const bool real = std::holds_alternative<double>(a);
    const DType own = e.dtype("input");
    return real && !is_floating(own)                                  ? DType::F32
           : own == DType::Bool && std::holds_alternative<int64_t>(a) ? DType::I64
                                                                      : own;
  }
  return promote(e.dtype("input"), e.dtype("other"));
}
template <const char* const& op> Names same_type(E& e) {  // operands of the result's type
  const DType t = e.result_dtype();
  return {e.out.node(op, {e.value("input", t), e.value("other", t)})};
}
template <const char* const& op> Names comparison(E& e) {
  const DType t = promoted_operands(e);
  return {e.out.node(op, {e.value("input", t), e.value("other", t)})};
}
template <const char* const& op> Names logical(E& e) {
  return {e.out.node(op, {e.value("input", DType::Bool), e.value("other", DType::Bool)})};
}
constexpr const char *kMul = "Mul", *kMax = "Max", *kMin = "Min", *kEqual = "Equal", *kLess = "Less",
                     *kLessOrEqual = "LessOrEqual", *kGreater = "Greater", *kGreaterOrEqual = "GreaterOrEqual",
                     *kAnd = "And", *kOr = "Or", *kXor = "Xor", *kBitAnd = "BitwiseAnd", *kBitOr = "BitwiseOr",
                     *kBitXor = "BitwiseXor";

// A unary op on the result's type: integers are converted first.
template <const char* const& op> Names unary(E& e) { return {e.out.node(op, {e.value("input", e.result_dtype())})}; }
constexpr const char *kAcos = "Acos", *kAcosh = "Acosh", *kAsin = "Asin", *kAsinh = "Asinh", *kAtan = "Atan",
                     *kAtanh = "Atanh", *kCos = "Cos", *kCosh = "Cosh", *kErf = "Erf", *kExp = "Exp", *kLog = "Log",
                     *kReciprocal = "Reciprocal", *kSigmoid = "Sigmoid", *kSin = "Sin", *kSinh = "Sinh",
                     *kSqrt = "Sqrt", *kTan = "Tan", *kTanh = "Tanh";
std::string input(E& e) { return e.value("input", e.result_dtype()); }
std::string num(E& e, double v) { return e.out.number(v, e.result_dtype()); }
std::string scaled(E& e, const std::string& x, std::string_view factor) {
  return e.number_or(factor, 1) == 1 ? x : e.out.node("Mul", {x, num(e, e.number(factor))});
}

Names with_alpha(E& e, const char* op, std::string_view left, std::string_view right) {
  const DType t = e.result_dtype();
  return {e.out.node(op, {e.value(left, t), scaled(e, e.value(right, t), "alpha")})};
}
Names add(E& e) { return with_alpha(e, "Add", "input", "other"); }
Names sub(E& e) { return with_alpha(e, "Sub", "input", "other"); }
Names rsub(E& e) {
  const DType t = e.result_dtype();
  return {e.out.node("Sub", {e.value("other", t), scaled(e, e.value("input", t), "alpha")})};
}
std::string truncated(E& e, const std::string& x) {
  return e.out.node("Mul", {e.out.node("Sign", {x}), e.out.node("Floor", {e.out.node("Abs", {x})})});
}
std::string floor_quotient(E& e, const std::string& a, const std::string& b) {
  if (is_floating(e.result_dtype())) return e.out.node("Floor", {e.out.node("Div", {a, b})});
  return e.out.node("Div", {e.out.node("Sub", {a, e.out.node("Mod", {a, b})}), b});
}
Names div(E& e) {
  const DType t = e.result_dtype();
  const std::string mode = e.text("rounding_mode"), a = e.value("input", t), b = e.value("other", t);
  if (mode == "floor") return {floor_quotient(e, a, b)};
  const std::string q = e.out.node("Div", {a, b});
  return {mode == "trunc" && is_floating(t) ? truncated(e, q) : q};
}
Names floor_divide(E& e) { return {floor_quotient(e, input(e), e.value("other", e.result_dtype()))}; }
Names remainder(E& e) {
  const std::string a = input(e), b = e.value("other", e.result_dtype());
  if (!is_floating(e.result_dtype())) return {e.out.node("Mod", {a, b})};
  return {e.out.node("Sub", {a, e.out.node("Mul", {b, floor_quotient(e, a, b)})})};
}
Names fmod(E& e) { return {e.out.node("Mod", {input(e), e.value("other", e.result_dtype())}, {{"fmod", int64_t{1}}})}; }
Names pow(E& e) { return {e.out.node("Pow", {input(e), e.value("exponent", e.result_dtype())})}; }
Names ne(E& e) {
  const DType t = promoted_operands(e);
  return {e.out.node("Not", {e.out.node("Equal", {e.value("input", t), e.value("other", t)})})};
}
// Of truth values or of bits.
template <const char* const& truth_op, const char* const& bits_op> Names bitwise(E& e) {
  const DType t = e.result_dtype();
  return {e.out.node(t == DType::Bool ? truth_op : bits_op, {e.value("input", t), e.value("other", t)})};
}
Names bitwise_not(E& e) {
  return {e.out.node(e.result_dtype() == DType::Bool ? "Not" : "BitwiseNot", {e.value("input")})};
}
Names logical_not(E& e) { return {e.out.node("Not", {e.value("input", DType::Bool)})}; }
Names where(E& e) {
  const DType t = e.result_dtype();
  return {e.out.node("Where", {e.value("condition"), e.value("input", t), e.value("other", t)})};
}
Names masked_fill(E& e) {
  const DType t = e.result_dtype();
  return {e.out.node("Where", {e.value("mask", DType::Bool), e.value("value", t), e.value("input", t)})};
}
Names clamp(E& e) {
  const DType t = e.result_dtype();
  std::string x = e.value("input", t);
  if (e.given("min")) x = e.out.node("Max", {x, e.value("min", t)});
  if (e.given("max")) x = e.out.node("Min", {x, e.value("max", t)});
  return {x};
}
Names clamp_min(E& e) { return {e.out.node("Max", {input(e), e.value("min", e.result_dtype())})}; }
Names clamp_max(E& e) { return {e.out.node("Min", {input(e), e.value("max", e.result_dtype())})}; }
Names lerp(E& e) {
  const DType t = e.result_dtype();
  const std::string a = e.value("input", t);
  return {e.out.node("Add", {a, e.out.node("Mul", {e.value("weight", t), e.out.node("Sub", {e.value("end", t), a})})})};
}
Names addc(E& e, const char* op) {
  const DType t = e.result_dtype();
  const std::string p = e.out.node(op, {e.value("tensor1", t), e.value("tensor2", t)});
  return {e.out.node("Add", {e.value("input", t), scaled(e, p, "value")})};
}
Names addcmul(E& e) { return addc(e, "Mul"); }
Names addcdiv(E& e) { return addc(e, "Div"); }

// --- functions of one number ---------------------------------------------------------------------------------------------
Names rsqrt(E& e) { return {e.out.node("Reciprocal", {e.out.node("Sqrt", {input(e)})})}; }
Names square(E& e) {
  const std::string x = input(e);
  return {e.out.node("Mul", {x, x})};
}
Names log_of_base(E& e, double base) {
  return {e.out.node("Mul", {e.out.node("Log", {input(e)}), num(e, 1 / std::log(base))})};
}
Names log2(E& e) { return log_of_base(e, 2); }
Names log10(E& e) { return log_of_base(e, 10); }
Names log1p(E& e) { return {e.out.node("Log", {e.out.node("Add", {input(e), num(e, 1)})})}; }
Names exp2(E& e) { return {e.out.node("Exp", {e.out.node("Mul", {input(e), num(e, std::numbers::ln2)})})}; }
Names expm1(E& e) { return {e.out.node("Sub", {e.out.node("Exp", {input(e)}), num(e, 1)})}; }
Names erfc(E& e) { return {e.out.node("Sub", {num(e, 1), e.out.node("Erf", {input(e)})})}; }
Names trunc(E& e) { return {is_floating(e.result_dtype()) ? truncated(e, input(e)) : input(e)}; }
Names frac(E& e) {
  const std::string x = input(e);
  return {e.out.node("Sub", {x, truncated(e, x)})};
}
Names round(E& e) {
  if (e.integer_or("decimals", 0) != 0) e.refuse("rounding to decimals is not supported");
  return {is_floating(e.result_dtype()) ? e.out.node("Round", {input(e)}) : input(e)};
}
Names isfinite(E& e) {
  const std::string x = e.value("input");
  return {e.out.node("Not", {e.out.node("Or", {e.out.node("IsNaN", {x}), e.out.node("IsInf", {x})})})};
}

template <bool positive> Names infinite(E& e) {
  return {e.out.node("IsInf", {e.value("input", DType::F32)},
                     {{"detect_positive", int64_t{positive}}, {"detect_negative", int64_t{!positive}}})};
}
Names hypot(E& e) {
  const std::string a = input(e), b = e.value("other", e.result_dtype());
  return {e.out.node("Sqrt", {e.out.node("Add", {e.out.node("Mul", {a, a}), e.out.node("Mul", {b, b})})})};
}
Names deg2rad(E& e) { return {e.out.node("Mul", {input(e), num(e, std::numbers::pi / 180)})}; }
Names rad2deg(E& e) { return {e.out.node("Mul", {input(e), num(e, 180 / std::numbers::pi)})}; }

// --- activations ---------------------------------------------------------------------------------------------------------
Names relu6(E& e) { return {e.out.node("Clip", {input(e), num(e, 0), num(e, 6)})}; }
Names hardtanh(E& e) {
  return {e.out.node("Clip", {input(e), num(e, e.number("min_val")), num(e, e.number("max_val"))})};
}
Names silu(E& e) {
  const std::string x = input(e);
  return {e.out.node("Mul", {x, e.out.node("Sigmoid", {x})})};
}
Names gelu(E& e) {
  const std::string x = input(e), mode = e.text("approximate");
  if (e.out.opset() >= 20)
    return {e.out.node("Gelu", {x}, {{"approximate", mode.empty() ? std::string("none") : mode}})};
  std::string inner;
  if (mode == "tanh") {
    const std::string cube = e.out.node("Mul", {e.out.node("Mul", {x, x}), x});
    const std::string sum = e.out.node("Add", {x, e.out.node("Mul", {cube, num(e, 0.044715)})});
    inner = e.out.node("Tanh", {e.out.node("Mul", {sum, num(e, std::sqrt(2 / std::numbers::pi))})});
  } else {
    inner = e.out.node("Erf", {e.out.node("Mul", {x, num(e, 1 / std::numbers::sqrt2)})});
  }
  return {e.out.node("Mul", {e.out.node("Mul", {x, num(e, 0.5)}), e.out.node("Add", {inner, num(e, 1)})})};
}
Names elu(E& e) { return {e.out.node("Elu", {input(e)}, {{"alpha", e.number("alpha")}})}; }
Names celu(E& e) { return {e.out.node("Celu", {input(e)}, {{"alpha", e.number("alpha")}})}; }
Names leaky_relu(E& e) { return {e.out.node("LeakyRelu", {input(e)}, {{"alpha", e.number("negative_slope")}})}; }
Names hardsigmoid(E& e) { return {e.out.node("HardSigmoid", {input(e)}, {{"alpha", 1.0 / 6}, {"beta", 0.5}})}; }
Names softplus(E& e) {
  const double beta = e.number_or("beta", 1), limit = e.number_or("threshold", 20);
  const std::string x = input(e), bx = beta == 1 ? x : e.out.node("Mul", {x, num(e, beta)});
  const std::string y = e.out.node("Softplus", {bx}), scaled_y = beta == 1 ? y : e.out.node("Div", {y, num(e, beta)});
  return {e.out.node("Where", {e.out.node("Greater", {bx, num(e, limit)}), x, scaled_y})};
}
Names logsigmoid(E& e) { return {e.out.node("Neg", {e.out.node("Softplus", {e.out.node("Neg", {input(e)})})})}; }
Names tanhshrink(E& e) {
  const std::string x = input(e);
  return {e.out.node("Sub", {x, e.out.node("Tanh", {x})})};
}
Names softshrink(E& e) {
  return {e.out.node("Shrink", {input(e)}, {{"lambd", e.number("lambd")}, {"bias", e.number("lambd")}})};
}
Names hardshrink(E& e) { return {e.out.node("Shrink", {input(e)}, {{"lambd", e.number("lambd")}, {"bias", 0.0}})}; }
Names threshold(E& e) {
  const std::string x = input(e);
  return {
    e.out.node("Where", {e.out.node("Greater", {x, num(e, e.number("threshold"))}), x, num(e, e.number("value"))})};
}
Names prelu(E& e) {
  std::string slope = e.value("weight");
  if (e.shape("weight").size() == 1 && e.shape("weight")[0] > 1 && e.rank("input") > 2) {
    std::vector<int64_t> axes;
    for (int64_t d = 1; d < e.rank("input") - 1; ++d) axes.push_back(d);
    slope = e.out.node("Unsqueeze", {slope, e.out.ints(axes)});
  }
  return {e.out.node("PRelu", {e.value("input"), slope})};
}
Names softmax_by(E& e, const char* op) {
  const int64_t n = e.rank("input"), implied = n == 0 || n == 1 || n == 3 ? 0 : 1;  // PyTorch's choice without dim
  return {e.out.node(op, {input(e)}, {{"axis", e.given("dim") ? e.axis("dim") : implied}})};
}
Names softmax(E& e) { return softmax_by(e, "Softmax"); }
Names log_softmax(E& e) { return softmax_by(e, "LogSoftmax"); }
Names softmin(E& e) {
  if (!e.given("dim")) e.refuse("give dim");
  return {e.out.node("Softmax", {e.out.node("Neg", {input(e)})}, {{"axis", e.axis("dim")}})};
}
Names glu(E& e) {
  const auto halves = e.out.nodes("Split", {input(e)}, {{"axis", e.axis("dim")}, {"num_outputs", int64_t{2}}}, 2);
  return {e.out.node("Mul", {halves[0], e.out.node("Sigmoid", {halves[1]})})};
}

// --- reductions ------------------------------------------------------------------------------------------------------------
std::string reduced(E& e, const char* op, const std::string& x, const std::vector<int64_t>& axes, bool keep) {
  if (axes.empty()) return x;
  return e.out.node(op, {x, e.out.ints(axes)}, {{"keepdims", int64_t{keep}}});
}
std::vector<int64_t> every_axis(E& e) {
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < e.rank("input"); ++d) axes.push_back(d);
  return axes;
}
template <const char* const& op> Names reduce_all(E& e) { return {reduced(e, op, input(e), every_axis(e), false)}; }
template <const char* const& op> Names reduce_dims(E& e) {
  return {reduced(e, op, input(e), e.axes("dim"), e.flag("keepdim"))};
}
constexpr const char *kReduceSum = "ReduceSum", *kReduceMean = "ReduceMean", *kReduceMax = "ReduceMax",
                     *kReduceMin = "ReduceMin", *kReduceProd = "ReduceProd", *kReduceLogSumExp = "ReduceLogSumExp";
template <bool any> Names truth(E& e, const std::vector<int64_t>& axes, bool keep) {
  const std::string x = e.cast(e.value("input", DType::Bool), DType::Bool, DType::I32);
  return {e.cast(reduced(e, any ? "ReduceMax" : "ReduceMin", x, axes, keep), DType::I32, DType::Bool)};
}
Names any_all(E& e) { return truth<true>(e, every_axis(e), false); }
Names any_dims(E& e) { return truth<true>(e, e.axes("dim"), e.flag("keepdim")); }
Names all_all(E& e) { return truth<false>(e, every_axis(e), false); }
Names all_dims(E& e) { return truth<false>(e, e.axes("dim"), e.flag("keepdim")); }
template <const char* const& op> Names arg(E& e) {
  if (!e.given("dim")) {
    const std::string flat = e.out.node("Reshape", {e.value("input"), e.out.ints({-1})});
    if (e.flag("keepdim")) e.refuse("keepdim without dim is not supported");
    return {e.out.node(op, {flat}, {{"axis", int64_t{0}}, {"keepdims", int64_t{0}}})};
  }
  return {e.out.node(op, {e.value("input")}, {{"axis", e.axis("dim")}, {"keepdims", int64_t{e.flag("keepdim")}}})};
}
constexpr const char *kArgMax = "ArgMax", *kArgMin = "ArgMin";
template <bool largest> Names extreme_dim(E& e) {
  if (e.dtype("input") == DType::Bool) e.refuse("truth values have no order in ONNX");
  const int64_t axis = e.axis("dim"), keep = e.flag("keepdim");
  const std::string x = e.value("input");
  const std::string v = reduced(e, largest ? "ReduceMax" : "ReduceMin", x, {axis}, keep);
  return {v, e.out.node(largest ? "ArgMax" : "ArgMin", {x}, {{"axis", axis}, {"keepdims", keep}})};
}
// The variance with a correction, which divides by n - correction.
std::string variance(E& e, const std::vector<int64_t>& axes, double correction, bool keep,
                     std::string* mean_out = nullptr) {
  double n = 1;
  for (const int64_t a : axes) n *= static_cast<double>(e.shape("input")[static_cast<size_t>(a)]);
  const std::string x = input(e), mean = reduced(e, "ReduceMean", x, axes, true),
                    centred = e.out.node("Sub", {x, mean});
  const std::string v = reduced(e, "ReduceMean", e.out.node("Mul", {centred, centred}), axes, keep);
  if (mean_out) *mean_out = keep ? mean : reduced(e, "ReduceMean", x, axes, false);
  return correction == 0 ? v : e.out.node("Mul", {v, num(e, n / (n - correction))});
}
double correction_of(E& e) { return e.given("correction") ? e.number("correction") : 1; }
Names var_all(E& e) { return {variance(e, every_axis(e), e.flag("unbiased"), false)}; }
Names var_dims(E& e) { return {variance(e, e.axes("dim"), e.flag("unbiased"), e.flag("keepdim"))}; }
Names var_correction(E& e) { return {variance(e, e.axes("dim"), correction_of(e), e.flag("keepdim"))}; }
Names var_mean_of(E& e, const std::vector<int64_t>& axes, double correction, bool keep, bool roots) {
  std::string mean;
  const std::string v = variance(e, axes, correction, keep, &mean);
  return {roots ? e.out.node("Sqrt", {v}) : v, mean};
}
template <bool roots> Names var_mean_all(E& e) {
  return var_mean_of(e, every_axis(e), e.flag("unbiased"), false, roots);
}
template <bool roots> Names var_mean_dims(E& e) {
  return var_mean_of(e, e.axes("dim"), e.flag("unbiased"), e.flag("keepdim"), roots);
}
template <bool roots> Names var_mean_correction(E& e) {
  return var_mean_of(e, e.axes("dim"), correction_of(e), e.flag("keepdim"), roots);
}
Names root(E& e, const Names& v) { return {e.out.node("Sqrt", {v[0]})}; }
Names std_all(E& e) { return root(e, var_all(e)); }
Names std_dims(E& e) { return root(e, var_dims(e)); }
Names std_correction(E& e) { return root(e, var_correction(e)); }
Names cumsum(E& e) { return {e.out.node("CumSum", {input(e), e.out.integer(e.axis("dim"))})}; }
Names topk(E& e) {
  return e.out.nodes("TopK", {e.value("input"), e.sizes("k")},
                     {{"axis", e.axis("dim")}, {"largest", int64_t{e.flag("largest")}}, {"sorted", int64_t{1}}}, 2);
}
Names sorted(E& e) {
  if (e.dtype("input") == DType::Bool) e.refuse("truth values have no order in ONNX");
  const int64_t axis = e.axis("dim");
  const std::string x = e.value("input"), shape = e.out.node("Shape", {x}, {{"start", axis}, {"end", axis + 1}});
  return e.out.nodes("TopK", {x, shape},
                     {{"axis", axis}, {"largest", int64_t{e.flag("descending")}}, {"sorted", int64_t{1}}}, 2);
}
Names argsort(E& e) { return {sorted(e)[1]}; }
Names count_nonzero(E& e) {
  const DType t = e.dtype("input");
  const std::string x = t == DType::Bool
                          ? e.value("input")
                          : e.out.node("Not", {e.out.node("Equal", {e.value("input"), e.out.number(0, t)})});
  return {reduced(e, "ReduceSum", e.cast(x, DType::Bool, DType::I64), e.axes("dim"), false)};
}
Names vector_norm(E& e) {
  if (e.rank("x") == 0) return {e.out.node("Abs", {e.value("x", e.result_dtype())})};
  const double p = e.number_or("ord", 2);
  if (p != 1 && p != 2) e.refuse("norms of another order than 1 and 2 are not supported");
  return {reduced(e, p == 1 ? "ReduceL1" : "ReduceL2", e.value("x", e.result_dtype()), e.axes("dim", "x"),
                  e.flag("keepdim"))};
}

const ExportEntry kEntries[] = {
  {"abs", "Abs"},
  {"bitwise_not", nullptr, bitwise_not},
  {"ceil", "Ceil"},
  {"floor", "Floor"},
  {"isnan", "IsNaN"},
  {"isinf", "IsInf"},
  {"neg", "Neg"},
  {"relu", "Relu"},
  {"sign", "Sign"},
  {"nn.functional.softsign", "Softsign"},
  {"nn.functional.mish", "Mish"},
  {"nn.functional.hardswish", "HardSwish"},
  {"selu", "Selu"},
  {"linalg.det", "Det"},
  {"detach", "Identity"},
  {"positive", "Identity"},
  {"clone", "Identity"},
  {"contiguous", "Identity"},
  {"view_of", "Identity"},
  {"alias_copy", "Identity"},
  {"conj", "Identity"},
  {"acos", nullptr, unary<kAcos>},
  {"acosh", nullptr, unary<kAcosh>},
  {"asin", nullptr, unary<kAsin>},
  {"asinh", nullptr, unary<kAsinh>},
  {"atan", nullptr, unary<kAtan>},
  {"atanh", nullptr, unary<kAtanh>},
  {"cos", nullptr, unary<kCos>},
  {"cosh", nullptr, unary<kCosh>},
  {"erf", nullptr, unary<kErf>},
  {"exp", nullptr, unary<kExp>},
  {"log", nullptr, unary<kLog>},
  {"reciprocal", nullptr, unary<kReciprocal>},
  {"sigmoid", nullptr, unary<kSigmoid>},
  {"sin", nullptr, unary<kSin>},
  {"sinh", nullptr, unary<kSinh>},
  {"sqrt", nullptr, unary<kSqrt>},
  {"tan", nullptr, unary<kTan>},
  {"tanh", nullptr, unary<kTanh>},
  {"add", nullptr, add},
  {"sub", nullptr, sub},
  {"rsub", nullptr, rsub},
  {"mul", nullptr, same_type<kMul>},
  {"div", nullptr, div},
  {"floor_divide", nullptr, floor_divide},
  {"remainder", nullptr, remainder},
  {"fmod", nullptr, fmod},
  {"pow", nullptr, pow},
  {"maximum", nullptr, same_type<kMax>},
  {"minimum", nullptr, same_type<kMin>},
  {"max.other", nullptr, same_type<kMax>},
  {"min.other", nullptr, same_type<kMin>},
  {"eq", nullptr, comparison<kEqual>},
  {"ne", nullptr, ne},
  {"lt", nullptr, comparison<kLess>},
  {"le", nullptr, comparison<kLessOrEqual>},
  {"gt", nullptr, comparison<kGreater>},
  {"ge", nullptr, comparison<kGreaterOrEqual>},
  {"logical_and", nullptr, logical<kAnd>},
  {"logical_or", nullptr, logical<kOr>},
  {"logical_xor", nullptr, logical<kXor>},
  {"logical_not", nullptr, logical_not},
  {"where", nullptr, where},
  {"masked_fill", nullptr, masked_fill},
  {"clamp", nullptr, clamp},
  {"clamp_min", nullptr, clamp_min},
  {"clamp_max", nullptr, clamp_max},
  {"lerp", nullptr, lerp},
  {"addcmul", nullptr, addcmul},
  {"addcdiv", nullptr, addcdiv},
  {"rsqrt", nullptr, rsqrt},
  {"square", nullptr, square},
  {"log2", nullptr, log2},
  {"log10", nullptr, log10},
  {"log1p", nullptr, log1p},
  {"exp2", nullptr, exp2},
  {"expm1", nullptr, expm1},
  {"erfc", nullptr, erfc},
  {"trunc", nullptr, trunc},
  {"frac", nullptr, frac},
  {"round", nullptr, round},
  {"isfinite", nullptr, isfinite},
  {"nn.functional.relu6", nullptr, relu6},
  {"nn.functional.hardtanh", nullptr, hardtanh},
  {"nn.functional.silu", nullptr, silu},
  {"nn.functional.gelu", nullptr, gelu},
  {"nn.functional.elu", nullptr, elu},
  {"celu", nullptr, celu},
  {"nn.functional.leaky_relu", nullptr, leaky_relu},
  {"nn.functional.hardsigmoid", nullptr, hardsigmoid},
  {"nn.functional.softplus", nullptr, softplus},
  {"nn.functional.logsigmoid", nullptr, logsigmoid},
  {"nn.functional.tanhshrink", nullptr, tanhshrink},
  {"nn.functional.softshrink", nullptr, softshrink},
  {"hardshrink", nullptr, hardshrink},
  {"threshold", nullptr, threshold},
  {"softmax", nullptr, softmax},
  {"log_softmax", nullptr, log_softmax},
  {"nn.functional.softmin", nullptr, softmin},
  {"nn.functional.glu", nullptr, glu},
  {"sum", nullptr, reduce_all<kReduceSum>},
  {"sum.dim", nullptr, reduce_dims<kReduceSum>},
  {"mean", nullptr, reduce_all<kReduceMean>},
  {"mean.dim", nullptr, reduce_dims<kReduceMean>},
  {"amax", nullptr, reduce_dims<kReduceMax>},
  {"amin", nullptr, reduce_dims<kReduceMin>},
  {"max", nullptr, reduce_all<kReduceMax>},
  {"min", nullptr, reduce_all<kReduceMin>},
  {"prod", nullptr, reduce_all<kReduceProd>},
  {"prod.dim_int", nullptr, reduce_dims<kReduceProd>},
  {"logsumexp", nullptr, reduce_dims<kReduceLogSumExp>},
  {"max.dim", nullptr, extreme_dim<true>},
  {"min.dim", nullptr, extreme_dim<false>},
  {"any", nullptr, any_all},
  {"any.dim", nullptr, any_dims},
  {"all", nullptr, all_all},
  {"all.dim", nullptr, all_dims},
  {"argmax", nullptr, arg<kArgMax>},
  {"argmin", nullptr, arg<kArgMin>},
  {"var", nullptr, var_all},
  {"var.dim", nullptr, var_dims},
  {"var.correction", nullptr, var_correction},
  {"std", nullptr, std_all},
  {"std.dim", nullptr, std_dims},
  {"std.correction", nullptr, std_correction},
  {"cumsum", nullptr, cumsum},
  {"topk", nullptr, topk},
  {"sort", nullptr, sorted},
  {"linalg.vector_norm", nullptr, vector_norm},
  {"var_mean", nullptr, var_mean_all<false>},
  {"var_mean.dim", nullptr, var_mean_dims<false>},
  {"var_mean.correction", nullptr, var_mean_correction<false>},
  {"std_mean", nullptr, var_mean_all<true>},
  {"std_mean.dim", nullptr, var_mean_dims<true>},
  {"std_mean.correction", nullptr, var_mean_correction<true>},
  {"sort.stable", nullptr, sorted},
  {"argsort", nullptr, argsort},
  {"count_nonzero", nullptr, count_nonzero},
  {"isposinf", nullptr, infinite<true>},
  {"isneginf", nullptr, infinite<false>},
  {"hypot", nullptr, hypot},
  {"deg2rad", nullptr, deg2rad},
  {"rad2deg", nullptr, rad2deg},
  {"prelu", nullptr, prelu},
  {"sgn", "Sign"},
  {"bitwise_and", nullptr, bitwise<kAnd, kBitAnd>},
  {"bitwise_or", nullptr, bitwise<kOr, kBitOr>},
  {"bitwise_xor", nullptr, bitwise<kXor, kBitXor>},
};
}  // namespace

ExportTable table() { return kEntries; }

}  // namespace strata::onnx::to_math
