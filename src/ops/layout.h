// Layouts and options shared by op definitions: memory formats, factory options, manually built views.
#pragma once
#include <algorithm>

#include "record/op.h"
#include "record/promotion.h"

namespace strata {

// Strides of `out` (shape set) for a memory format; "preserve_format" (or none) follows `like`.
STRATA_API void set_layout(TensorImpl& out, std::optional<std::string_view> format, const TensorImpl* like,
                           const char* op);
STRATA_API bool has_layout(const TensorImpl& t, std::string_view format, const char* op);

// A view of t: the same memory offset by `offset` elements. Set shape and strides, then call finish_view().
STRATA_API Tensor begin_view(const TensorImpl& t, int64_t offset = 0);
inline Tensor finish_view(Tensor t) {
  t->update_contiguous();
  return t;
}

// The strides that show t in another shape without a copy; false if there are none.
STRATA_API bool view_strides(const TensorImpl& t, Shape shape, int64_t* strides);
// A shape in which one entry may be -1; throws if it does not have `numel` elements.
struct Dims {
  int64_t at[kMaxDims];
  size_t n = 0;
  Dims() = default;
  Dims(Shape s);
  Dims(const Dims& o) : n(o.n) { std::copy_n(o.at, n, at); }  // not the unused entries
  Dims& operator=(const Dims& o) {
    n = o.n;
    std::copy_n(o.at, n, at);
    return *this;
  }
  void push(int64_t v);
  operator Shape() const { return {at, n}; }
  operator IntList() const { return Shape(at, n); }
  int64_t& operator[](size_t i) { return at[i]; }
  int64_t operator[](size_t i) const { return at[i]; }
};
STRATA_API Dims infer_size(Shape shape, int64_t numel, const char* op);
STRATA_API Dims broadcast_shapes(Shape a, Shape b, const char* op);

// dtype, device and requires_grad of a new tensor.
void set_options(const Call& c, DType dtype, const Value& device, const Value& requires_grad);
inline DType scalar_dtype(Scalar s) {
  if (s.is_complex()) return complex_type(default_dtype());
  return s.kind == Scalar::Kind::Bool ? DType::Bool : s.kind == Scalar::Kind::Int ? DType::I64 : default_dtype();
}

}  // namespace strata
