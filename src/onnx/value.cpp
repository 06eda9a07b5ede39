#include "onnx/value.h"

#include <fmt/core.h>

#include <iterator>

namespace strata::onnx {
namespace {

struct Info {
  const char* name;
  DType storage;
  bool carried;
};
// By the number of the type.
constexpr Info kInfo[] = {
  {"undefined", DType::F32, true},
  {"float", DType::F32, false},
  {"uint8", DType::U8, false},
  {"int8", DType::I8, false},
  {"uint16", DType::U16, false},
  {"int16", DType::I16, false},
  {"int32", DType::I32, false},
  {"int64", DType::I64, false},
  {"string", DType::F32, true},
  {"bool", DType::Bool, false},
  {"float16", DType::F16, false},
  {"double", DType::F64, false},
  {"uint32", DType::U32, false},
  {"uint64", DType::U64, false},
  {"complex64", DType::C64, false},
  {"complex128", DType::C128, false},
  {"bfloat16", DType::BF16, false},
  {"float8e4m3fn", DType::F8E4M3, false},
  {"float8e4m3fnuz", DType::F32, true},
  {"float8e5m2", DType::F8E5M2, false},
  {"float8e5m2fnuz", DType::F32, true},
  {"uint4", DType::U8, true},
  {"int4", DType::I8, true},
  {"float4e2m1", DType::F32, true},
  {"float8e8m0", DType::F32, true},
  {"uint2", DType::U8, true},
  {"int2", DType::I8, true},
  {"float6e2m3", DType::F32, true},
  {"float6e3m2", DType::F32, true},
};
const Info* info_of(ElementType type) {
  const auto i = static_cast<size_t>(type);
  return i < std::size(kInfo) ? &kInfo[i] : nullptr;
}
}  // namespace

const char* name_of(ElementType type) { return info_of(type) ? info_of(type)->name : "unknown"; }
bool is_carried(ElementType type) { return !info_of(type) || info_of(type)->carried; }

DType storage_dtype(ElementType type) {
  STRATA_CHECK(info_of(type) && type != ElementType::Undefined && type != ElementType::String, NotImplemented,
               "the element type {} ({}) is not one of a tensor of numbers", name_of(type), static_cast<int>(type));
  return info_of(type)->storage;
}

ElementType element_type(DType dtype) {
  for (size_t i = 1; i < std::size(kInfo); ++i)
    if (!kInfo[i].carried && kInfo[i].storage == dtype) return static_cast<ElementType>(i);
  return ElementType::Undefined;
}

ElementType element_type(const Value& v) {
  if (v.strings) return ElementType::String;
  if (!v.tensor) return ElementType::Undefined;
  return v.carried != ElementType::Undefined ? v.carried : element_type(v.tensor.dtype());
}

std::string kind_of(const Value& v) {
  if (v.sequence) return fmt::format("a sequence of {}", v.sequence->size());
  if (v.strings) return fmt::format("strings {}", to_string(Shape(v.strings->shape)));
  if (!v.tensor) return "nothing";
  return fmt::format("a tensor {}{}", name_of(element_type(v)), to_string(v.tensor.shape()));
}

}  // namespace strata::onnx
