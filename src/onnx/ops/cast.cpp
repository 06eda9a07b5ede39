// Conversions between element types, and bits read as another type.
#include <cmath>

#include "base/host_memory.h"
#include "onnx/ops/convert.h"
#include "onnx/tensor_data.h"

namespace strata::onnx {
namespace {

bool is_small_float(ElementType t) {
  switch (t) {
    case ElementType::Float8E4M3FN:
    case ElementType::Float8E4M3FNUZ:
    case ElementType::Float8E5M2:
    case ElementType::Float8E5M2FNUZ:
    case ElementType::Float4E2M1:
    case ElementType::Float6E2M3:
    case ElementType::Float6E3M2: return true;
    default: return false;
  }
}
int integer_bits(ElementType t) {
  switch (t) {
    case ElementType::UInt4:
    case ElementType::Int4: return 4;
    case ElementType::UInt2:
    case ElementType::Int2: return 2;
    default: return 0;
  }
}
// The lowest bits, as a conversion between integers keeps them.
Tensor wrapped(const Tensor& x, ElementType type) {
  const int bits = integer_bits(type);
  const int64_t range = int64_t{1} << bits;
  Tensor low = remainder(cast(x, DType::I64), range);
  if (type == ElementType::Int4 || type == ElementType::Int2) low = where(ge(low, range / 2), sub(low, range), low);
  return cast(low, storage_dtype(type));
}
// A power of two, by its exponent alone.
float power_of_two(float x, std::string_view mode) {
  if (!std::isfinite(x)) return std::nanf("");
  int exponent = 0;
  const float fraction = std::frexp(std::abs(x), &exponent);  // in [0.5, 1)
  --exponent;
  if (x == 0 || exponent < -127) return std::ldexp(1.0F, -127);
  const bool up = mode == "up" ? fraction > 0.5F : mode == "nearest" && fraction >= 0.75F;
  return std::ldexp(1.0F, std::min(exponent + (up ? 1 : 0), 127));
}
Tensor host_floats(const Tensor& x) { return contiguous(to(x, Device(), DType::F32, false, true)); }

std::string number_text(double v, DType dtype) {
  if (!is_floating(dtype)) return std::to_string(static_cast<int64_t>(v));
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {  // the shortest that reads back as the same number
    (void)std::snprintf(text, sizeof text, "%.*g", digits, v);
    const double back = std::strtod(text, nullptr);
    if (dtype == DType::F64 ? back == v : static_cast<float>(back) == static_cast<float>(v)) break;
  }
  return text;
}
Value to_strings(const Tensor& x) {
  const Tensor t = contiguous(to(x, Device(), DType::F64));
  Strings out{sizes_of(x), {}};
  for (int64_t i = 0; i < t.numel(); ++i) out.items.push_back(number_text(t.data<double>()[i], x.dtype()));
  return Value::of(std::move(out));
}
Value from_strings(const Strings& s, ElementType type) {
  std::vector<double> numbers;
  for (const std::string& text : s.items) {
    char* end = nullptr;
    numbers.push_back(std::strtod(text.c_str(), &end));
    STRATA_CHECK(end != text.c_str() && *end == 0, Value, "'{}' is not a number", text);
  }
  return convert(Value(reshape(tensor(numbers), s.shape)), type);
}
}  // namespace

Value convert(const Value& v, ElementType type, bool saturate, std::string_view mode) {
  if (v.strings) return type == ElementType::String ? v : from_strings(*v.strings, type);
  STRATA_CHECK(v.tensor, Type, "{} cannot be converted", kind_of(v));
  if (element_type(v) == type) return v;
  const Tensor& x = v.tensor;
  if (type == ElementType::String) return to_strings(x);
  if (integer_bits(type))
    return {wrapped(is_floating(x.dtype()) ? trunc(cast(x, wide_type(x.dtype()))) : x, type), type};
  if (is_small_float(type)) {
    const Tensor host = host_floats(x);
    round_to(host.data<float>(), host.numel(), type, saturate);
    const Tensor back = moved(host, x.device());
    return is_carried(type) ? Value(back, type) : Value(cast(back, storage_dtype(type)));
  }
  if (type == ElementType::Float8E8M0) {
    const Tensor host = host_floats(x);
    for (int64_t i = 0; i < host.numel(); ++i) host.data<float>()[i] = power_of_two(host.data<float>()[i], mode);
    return {moved(host, x.device()), type};
  }
  return {cast(x, storage_dtype(type))};
}

namespace {

Values cast_of(NodeCall& c) {
  return {
    convert(c.value(0), c.type("to", ElementType::Undefined), c.flag("saturate", true), c.text("round_mode", "up"))};
}
Values cast_like(NodeCall& c) {
  return {convert(c.value(0), element_type(c.value(1)), c.flag("saturate", true), c.text("round_mode", "up"))};
}
Values bit_cast(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const ElementType to_type = c.type("to", ElementType::Undefined);
  if (is_carried(to_type)) c.refuse("BitCast to " + std::string(name_of(to_type)) + " is not supported");
  const DType to_dtype = storage_dtype(to_type);
  STRATA_CHECK(size_of(to_dtype) == x.element_size(), Value, "{} and {} have different sizes", name_of(x.dtype()),
               name_of(to_dtype));
  return one(view(contiguous(x), to_dtype));
}

const OpEntry kCast[] = {
  {"Cast", 6, 1, 1, nullptr, cast_of},
  {"CastLike", 15, 2, 2, nullptr, cast_like},
  {"BitCast", 26, 1, 1, nullptr, bit_cast},
};
}  // namespace

OpTable cast_ops() { return kCast; }

}  // namespace strata::onnx
