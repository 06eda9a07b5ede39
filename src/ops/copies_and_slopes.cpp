#include "ops/copies_and_slopes.h"

#include "ops/geometry.h"
#include "strata/ops.h"

namespace strata {
namespace {

std::vector<int64_t> sizes_of(const Tensor& t) { return {t.shape().begin(), t.shape().end()}; }

// The slopes along one dimension, from the distances between its elements [n - 1].
Tensor slopes_along(const Tensor& input, int d, const Tensor& distances, int64_t edge_order) {
  const int64_t n = input.size(d);
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[static_cast<size_t>(d)] = n - 1;
  const Tensor gaps = reshape(distances, shape), slopes = div(diff(input, 1, d), gaps);
  const Tensor before = narrow(gaps, d, 0, n - 2), after = narrow(gaps, d, 1, n - 2);
  const Tensor inner =
    div(add(mul(narrow(slopes, d, 0, n - 2), after), mul(narrow(slopes, d, 1, n - 2), before)), add(before, after));
  Tensor first = narrow(slopes, d, 0, 1), last = narrow(slopes, d, n - 2, 1);
  if (edge_order == 2) {  // the parabola through three points
    const auto curved = [&](const Tensor& end, int64_t at, int64_t next) {
      const Tensor near = narrow(gaps, d, at, 1), far = narrow(gaps, d, next, 1);
      return add(end, div(mul(sub(end, narrow(slopes, d, next, 1)), near), add(near, far)));
    };
    first = curved(first, 0, 1);
    last = curved(last, n - 2, n - 3);
  }
  return cat({first, inner, last}, d);
}

std::vector<int> dims_of_gradient(const Tensor& input, const OptIntList& dim) {
  std::vector<int> dims;
  if (!dim.given)
    for (int d = 0; d < input.dim(); ++d) dims.push_back(d);
  for (size_t k = 0; dim.given && k < dim.size; ++k) dims.push_back(normalize_dim(dim[k], input.dim(), "gradient"));
  return dims;
}
void check_gradient(const Tensor& input, int d, int64_t edge_order) {
  STRATA_CHECK(edge_order == 1 || edge_order == 2, Runtime, "gradient: edge_order must be 1 or 2, found {}",
               edge_order);
  STRATA_CHECK(input.size(d) > edge_order, Runtime,
               "gradient: expected at least {} elements along dimension {}, found {}", edge_order + 1, d,
               input.size(d));
}
}  // namespace

Tensor view_copy(const Tensor& input, IntList size) { return clone(reshape(input, size)); }
Tensor view_copy(const Tensor& input, DType dtype) { return clone(view(input, dtype)); }

std::vector<Tensor> split_with_sizes_copy(const Tensor& input, IntList split_sizes, int64_t dim) {
  std::vector<Tensor> pieces = split_with_sizes(input, split_sizes, dim);
  for (Tensor& piece : pieces) piece = clone(piece);
  return pieces;
}

Tensor _chunk_cat(const std::vector<Tensor>& tensors, int64_t dim, int64_t num_chunks) {
  STRATA_CHECK(num_chunks > 0, Runtime, "_chunk_cat expects positive num_chunks, got {}", num_chunks);
  std::vector<Tensor> pieces;
  for (const Tensor& t : tensors) {
    const int d = normalize_dim(dim, t.dim(), "_chunk_cat");
    const int64_t size = (t.size(d) + num_chunks - 1) / num_chunks;
    std::vector<int64_t> rest = sizes_of(t), shape = sizes_of(t);
    rest[static_cast<size_t>(d)] = size * num_chunks - t.size(d);
    shape.resize(static_cast<size_t>(d));
    shape.push_back(num_chunks);
    shape.push_back(-1);
    const Tensor full = rest[static_cast<size_t>(d)] ? cat({t, new_zeros(t, rest)}, d) : t;
    pieces.push_back(reshape(full, shape));
  }
  return cat(pieces, -1);
}

std::vector<Tensor> gradient(const Tensor& input, double spacing, const OptIntList& dim, int64_t edge_order) {
  std::vector<Tensor> out;
  for (const int d : dims_of_gradient(input, dim)) {
    check_gradient(input, d, edge_order);
    const DType type = is_differentiable(input.dtype()) ? input.dtype() : default_dtype();
    out.push_back(slopes_along(input, d, full({input.size(d) - 1}, spacing, type, input.device()), edge_order));
  }
  return out;
}

std::vector<Tensor> gradient(const Tensor& input, const std::vector<Tensor>& coordinates, const OptIntList& dim,
                             int64_t edge_order) {
  const std::vector<int> dims = dims_of_gradient(input, dim);
  STRATA_CHECK(coordinates.size() == dims.size(), Runtime,
               "gradient: expected coordinates for each of {} dimensions, found {} tensors", dims.size(),
               coordinates.size());
  std::vector<Tensor> out;
  for (size_t k = 0; k < dims.size(); ++k) {
    check_gradient(input, dims[k], edge_order);
    STRATA_CHECK(coordinates[k].dim() == 1 && coordinates[k].size(0) == input.size(dims[k]), Runtime,
                 "gradient: expected {} coordinates along dimension {}, found shape {}", input.size(dims[k]), dims[k],
                 to_string(coordinates[k].shape()));
    out.push_back(slopes_along(input, dims[k], diff(coordinates[k]), edge_order));
  }
  return out;
}

}  // namespace strata
