#include "ops/geometry.h"

#include <algorithm>

namespace strata {

Geometry Geometry::contiguous(Shape shape) {
  Geometry g;
  g.size = Dims(shape);
  g.stride = g.size;
  int64_t n = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    g.stride[d] = n;
    n *= std::max<int64_t>(shape[d], 1);
  }
  return g;
}

void Geometry::erase(int dim) {
  for (size_t d = static_cast<size_t>(dim); d + 1 < size.n; ++d) {
    size[d] = size[d + 1];
    stride[d] = stride[d + 1];
  }
  --size.n;
  --stride.n;
}

Tensor show(const Tensor& t, const Geometry& g) {
  Tensor out = begin_view(*t, g.offset);
  out->set_ndim(static_cast<int>(g.size.n));
  std::copy_n(g.size.at, g.size.n, out->shape);
  std::copy_n(g.stride.at, g.stride.n, out->strides);
  return finish_view(std::move(out));
}

Geometry select_geometry(Geometry g, int64_t dim, int64_t index) {
  STRATA_CHECK(g.size.n > 0, Index, "select: cannot be applied to a 0-dim tensor");
  const int d = normalize_dim(dim, static_cast<int>(g.size.n), "select");
  const int64_t n = g.size[d];
  STRATA_CHECK(index >= -n && index < n, Index, "select: index {} is out of range for dimension {} with size {}", index,
               d, n);
  g.offset += (index < 0 ? index + n : index) * g.stride[d];
  g.erase(d);
  return g;
}

Geometry slice_geometry(Geometry g, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
                        int64_t step) {
  STRATA_CHECK(g.size.n > 0, Runtime, "slice: cannot be applied to a 0-dim tensor");
  const int d = normalize_dim(dim, static_cast<int>(g.size.n), "slice");
  STRATA_CHECK(step > 0, Value, "slice: step must be greater than zero, got {}", step);
  const int64_t n = g.size[d];
  const auto bound = [n](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
  const int64_t from = bound(start.value_or(0)), to = std::max(from, bound(end.value_or(n)));
  g.offset += from * g.stride[d];
  g.size[d] = (to - from) / step + ((to - from) % step != 0);
  if (g.size[d] > 1) g.stride[d] *= step;
  return g;
}

Geometry diagonal_geometry(Geometry g, int64_t offset, int64_t dim1, int64_t dim2) {
  const int a = normalize_dim(dim1, static_cast<int>(g.size.n), "diagonal"),
            b = normalize_dim(dim2, static_cast<int>(g.size.n), "diagonal");
  STRATA_CHECK(a != b, Runtime, "diagonal: dimensions cannot be identical, got {} and {}", dim1, dim2);
  const int64_t length = offset >= 0 ? std::min(g.size[a], g.size[b] - std::min(offset, g.size[b]))
                                     : std::min(g.size[a] + std::max(offset, -g.size[a]), g.size[b]);
  if (length > 0) g.offset += offset >= 0 ? offset * g.stride[b] : -offset * g.stride[a];
  const int64_t stride = g.stride[a] + g.stride[b];
  g.erase(std::max(a, b));
  g.erase(std::min(a, b));
  g.size.push(std::max<int64_t>(length, 0));
  g.stride.push(stride);
  return g;
}

Geometry unfold_geometry(Geometry g, int64_t dim, int64_t size, int64_t step) {
  const int d = normalize_dim(dim, static_cast<int>(g.size.n), "unfold");
  const int64_t n = g.size.n ? g.size[d] : 1;
  STRATA_CHECK(size >= 0, Runtime, "unfold: size is {} but must be >= 0", size);
  STRATA_CHECK(size <= n, Runtime, "unfold: maximum size for tensor at dimension {} is {} but size is {}", d, n, size);
  STRATA_CHECK(step > 0, Runtime, "unfold: step is {} but must be > 0", step);
  if (g.size.n == 0) {
    g.size.push(size);
    g.stride.push(1);
    return g;
  }
  g.size.push(size);
  g.stride.push(g.stride[d]);
  g.size[d] = (n - size) / step + 1;
  if (g.size[d] > 1) g.stride[d] *= step;
  return g;
}

bool may_overlap(Shape size, Shape stride) {
  int order[kMaxDims], m = 0;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 0) return false;
    if (size[d] == 1) continue;
    int k = m++;
    for (; k > 0 && stride[static_cast<size_t>(order[k - 1])] > stride[d]; --k) order[k] = order[k - 1];
    order[k] = static_cast<int>(d);
  }
  int64_t reach = 0;  // the last element that the faster dimensions reach
  for (int k = 0; k < m; ++k) {
    const auto d = static_cast<size_t>(order[k]);
    if (stride[d] <= reach) return true;
    reach += (size[d] - 1) * stride[d];
  }
  return false;
}

}  // namespace strata
