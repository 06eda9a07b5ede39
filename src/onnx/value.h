// What flows between the nodes of a network: tensors, strings, sequences, or nothing.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "onnx/fields.h"
#include "tensor/tensor.h"

namespace strata::onnx {

struct Strings {
  std::vector<int64_t> shape;
  std::vector<std::string> items;
};

// A value. Element types that Strata's tensors do not have are carried by tensors of another dtype: the integers of 2 and 4
// bits by int8 and uint8, small floats by float32, which holds each of their values.
struct Value {
  Tensor tensor;
  ElementType carried = ElementType::Undefined;  // what the tensor carries, if it is not of its own type
  std::shared_ptr<const std::vector<Value>> sequence;
  std::shared_ptr<const Strings> strings;

  Value() = default;
  Value(Tensor t, ElementType what = ElementType::Undefined) : tensor(std::move(t)), carried(what) {}
  static Value of(std::vector<Value> items) {
    Value v;
    v.sequence = std::make_shared<const std::vector<Value>>(std::move(items));
    return v;
  }
  static Value of(Strings s) {
    Value v;
    v.strings = std::make_shared<const Strings>(std::move(s));
    return v;
  }
  bool defined() const { return tensor.defined() || sequence || strings; }
};
using Values = std::vector<Value>;

// The element type that a value of a network shows to the outside; Undefined for sequences.
STRATA_API ElementType element_type(const Value& v);
STRATA_API ElementType element_type(DType dtype);
// The dtype of tensors that hold or carry the type. Throws NotImplemented for strings and unknown types.
STRATA_API DType storage_dtype(ElementType type);
STRATA_API bool is_carried(ElementType type);      // not a type of Strata's tensors
STRATA_API const char* name_of(ElementType type);  // as ONNX writes it: "float16"
STRATA_API std::string kind_of(const Value& v);    // for messages: "a tensor float32[2, 3]"

}  // namespace strata::onnx
