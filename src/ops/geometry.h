// The geometry of a view: sizes, strides and an offset, all in elements. Each kind of view is one function from the
// geometry of the tensor to that of the view; both the view and its gradient are derived from it.
#pragma once
#include "ops/layout.h"

namespace strata {

struct Geometry {
  Dims size, stride;
  int64_t offset = 0;

  Geometry() = default;
  explicit Geometry(const TensorImpl& t) : size(t.sizes()), stride(Shape(t.strides, t.ndim)) {}
  static Geometry contiguous(Shape shape);
  void erase(int dim);
};

Geometry select_geometry(Geometry g, int64_t dim, int64_t index);
Geometry slice_geometry(Geometry g, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
                        int64_t step);
Geometry diagonal_geometry(Geometry g, int64_t offset, int64_t dim1, int64_t dim2);
Geometry unfold_geometry(Geometry g, int64_t dim, int64_t size, int64_t step);

STRATA_API Tensor show(const Tensor& t, const Geometry& g);  // the view; without history
bool may_overlap(Shape size, Shape stride);                  // two positions may refer to one element

}  // namespace strata
