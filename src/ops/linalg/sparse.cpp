// Tensors by coordinates (COO): what SparseTensor of both languages is made of. `indices` is [sparse dimensions, count],
// `values` is [count, sizes of the dense dimensions].
#include <algorithm>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "strata/ops.h"

namespace strata {
namespace {

// The sizes of the sparse dimensions, and the position of each element in a flat tensor of these sizes.
struct Flat {
  Shape sizes;
  int64_t numel;
};
Flat flat_sizes(const char* op, const Tensor& indices, Shape size) {
  STRATA_CHECK(indices.dim() == 2 && indices.dtype() == DType::I64, Runtime,
               "{}: expected a matrix of int64 indices, got {} of shape {}", op, name_of(indices.dtype()),
               to_string(indices.shape()));
  STRATA_CHECK(indices.size(0) <= static_cast<int64_t>(size.size()), Runtime,
               "{}: indices for {} dimensions do not fit a tensor of {} dimensions", op, indices.size(0), size.size());
  const Shape sizes = size.first(static_cast<size_t>(indices.size(0)));
  Checked numel = 1;
  for (const int64_t n : sizes) {
    STRATA_CHECK(n >= 0, Runtime, "{}: sizes must not be negative, found {}", op, n);
    numel *= n;
  }
  return {sizes, numel.get()};
}
void check_values(const char* op, const Tensor& indices, const Tensor& values, Shape size) {
  const Shape dense = size.subspan(static_cast<size_t>(indices.size(0)));
  STRATA_CHECK(values.dim() == static_cast<int64_t>(dense.size()) + 1 && values.size(0) == indices.size(1) &&
                 std::ranges::equal(values.shape().subspan(1), dense),
               Runtime, "{}: values of shape {} do not fit {} elements of a sparse tensor of shape {}", op,
               to_string(values.shape()), indices.size(1), to_string(size));
}
Tensor flat_indices(const Tensor& indices, const Flat& flat) {
  Tensor places = zeros({indices.size(1)}, DType::I64);
  for (int64_t d = 0; d < indices.size(0); ++d)
    places = add(mul(places, flat.sizes[static_cast<size_t>(d)]), select(indices, 0, d));
  return places;
}
// Rows of values added by their places, in a tensor of `count` rows. Of bools: whether one of them is true.
Tensor add_by_place(const Tensor& values, const Tensor& places, int64_t count) {
  std::vector<int64_t> shape(values.shape().begin(), values.shape().end());
  shape[0] = count;
  if (values.dtype() == DType::Bool)
    return ne(index_add(zeros(shape, DType::I64), 0, places, to(values, DType::I64)), 0);
  return index_add(zeros(shape, values.dtype()), 0, places, values);
}

// The other sparse dimensions, as one number for each element: which line along `dim` it is in, of how many.
struct Lines {
  Tensor of_each;
  int64_t count;
};
Lines lines_along(const Tensor& indices, Shape sizes, int64_t dim) {
  Tensor key = zeros({indices.size(1)}, DType::I64);
  for (int64_t d = 0; d < indices.size(0); ++d)
    if (d != dim) key = add(mul(key, sizes[static_cast<size_t>(d)]), select(indices, 0, d));
  const auto found = unique(key, true, true);
  return {std::get<1>(found), std::get<0>(found).size(0)};
}
}  // namespace

STRATA_OP(_sparse_coalesce,
          "_sparse_coalesce(Tensor indices, Tensor values, int[] size) -> (Tensor indices, Tensor values)")
  .doc("Coordinates in order, each once; the values of equal ones are added.")
  .helper()
  .composite([](const Tensor& indices, const Tensor& values, IntList size) {
    const Flat flat = flat_sizes("coalesce", indices, size);
    check_values("coalesce", indices, values, size);
    const auto found = unique(flat_indices(indices, flat), true, true);
    Tensor rest = std::get<0>(found);
    const int64_t count = rest.size(0);
    std::vector<Tensor> rows(flat.sizes.size());
    for (size_t d = rows.size(); d-- > 0;) {
      rows[d] = remainder(rest, std::max<int64_t>(1, flat.sizes[d]));
      rest = floor_divide(rest, std::max<int64_t>(1, flat.sizes[d]));
    }
    const Tensor places = rows.empty() ? zeros({0, count}, DType::I64) : stack(rows);
    return std::tuple(places, add_by_place(values, std::get<1>(found), count));
  })
  .samples({"t[[2,0,2], [1,3,1]], f(3), [3, 4]", "t[[2,0,2], [1,3,1]], f(3,2), [3, 4, 2]", "i5(1,0), f(0), [3]"})
  .error("t[[2,0,2], [1,3,1]], f(2), [3, 4]", ErrorKind::Runtime, "do not fit 3 elements")
  .error("t[0,1], f(2), [3]", ErrorKind::Runtime, "a matrix of int64 indices");

STRATA_OP(_sparse_to_dense, "_sparse_to_dense(Tensor indices, Tensor values, int[] size) -> Tensor")
  .doc("The dense tensor with the values at the coordinates; those of equal coordinates are added.")
  .helper()
  .composite([](const Tensor& indices, const Tensor& values, IntList size) {
    const Flat flat = flat_sizes("to_dense", indices, size);
    check_values("to_dense", indices, values, size);
    return reshape(add_by_place(values, flat_indices(indices, flat), flat.numel), size);
  })
  .samples({"t[[2,0,2], [1,3,1]], f(3), [3, 4]", "t[[2,0,2], [1,3,1]], f(3,2), [3, 4, 2]", "i5(1,0), f(0), [3]"})
  .error("t[[2,0], [1,3]], f(2), [3]", ErrorKind::Runtime, "do not fit a tensor of 1 dimensions");

STRATA_OP(_sparse_check, "_sparse_check(Tensor(a) indices, Tensor values, int[] size) -> Tensor(a)")
  .doc("The indices, if they are within the sizes and fit the values; an error otherwise.")
  .helper()
  .composite([](const Tensor& indices, const Tensor& values, IntList size) {
    const Flat flat = flat_sizes("sparse_coo_tensor", indices, size);
    check_values("sparse_coo_tensor", indices, values, size);
    if (indices.is_meta() || indices.size(1) == 0) return indices;
    const Tensor smallest = to(amin(indices, 1), Device()), largest = to(amax(indices, 1), Device());
    for (int64_t d = 0; d < indices.size(0); ++d) {
      const int64_t low = smallest.data<int64_t>()[d], high = largest.data<int64_t>()[d];
      STRATA_CHECK(low >= 0, Runtime, "sparse_coo_tensor: found negative index {} in dimension {}", low, d);
      STRATA_CHECK(high < flat.sizes[static_cast<size_t>(d)], Runtime,
                   "sparse_coo_tensor: size is inconsistent with indices: for dim {}, size is {} but found index {}", d,
                   flat.sizes[static_cast<size_t>(d)], high);
    }
    return indices;
  })
  .samples({"t[[2,0,2], [1,3,1]], f(3), [3, 4]"})
  .error("t[[2,3], [1,3]], f(2), [3, 4]", ErrorKind::Runtime, "for dim 0, size is 3 but found index 3")
  .error("t[[2,-1], [1,3]], f(2), [3, 4]", ErrorKind::Runtime, "found negative index -1");

STRATA_OP(_sparse_product,
          "_sparse_product(Tensor rows, Tensor columns, Tensor values, Tensor starts, Tensor other_columns, Tensor "
          "other_values) -> (Tensor indices, Tensor values)")
  .doc(
    "The terms of the product of two sparse matrices: the first by coordinates, the second in compressed rows. Terms "
    "of "
    "one place are not added.")
  .helper()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& rows, const Tensor& columns, const Tensor& values, const Tensor& starts,
                const Tensor& other_columns, const Tensor& other_values) {
    // Each element of the first matrix meets all elements in one row of the second.
    const Tensor begin = index_select(starts, 0, columns);
    const Tensor length = sub(index_select(starts, 0, add(columns, 1)), begin);
    const Tensor element = repeat_interleave(arange(rows.size(0), DType::I64), length);
    const Tensor before = sub(cumsum(length, 0), length);
    const Tensor other = add(index_select(sub(begin, before), 0, element), arange(element.size(0), DType::I64));
    const Tensor indices = stack({index_select(rows, 0, element), index_select(other_columns, 0, other)});
    return std::tuple(indices, mul(index_select(values, 0, element), index_select(other_values, 0, other)));
  })
  .samples({"t[0,0,2], t[1,2,0], f(3), t[0,2,2,3], t[0,1,3], f(3)", "t[], t[], f(0), t[0,1], t[0], f(1)"});

STRATA_OP(_sparse_softmax,
          "_sparse_softmax(Tensor indices, Tensor values, int[] size, int dim, bool log=False) -> Tensor")
  .doc("The values of the softmax along a sparse dimension, over the stored elements of each line.")
  .helper()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& indices, const Tensor& values, IntList size, int64_t dim, bool log) {
    const Flat flat = flat_sizes("softmax", indices, size);
    check_values("softmax", indices, values, size);
    STRATA_CHECK(dim >= 0 && dim < indices.size(0), Index, "softmax: expected one of {} sparse dimensions, got {}",
                 indices.size(0), dim);
    if (values.numel() == 0) return mul(values, 1);
    const Lines lines = lines_along(indices, flat.sizes, dim);
    std::vector<int64_t> shape(values.shape().begin(), values.shape().end());
    shape[0] = lines.count;
    const Tensor none = full(shape, -std::numeric_limits<double>::infinity(), values.dtype());
    const Tensor largest = index_reduce(none, 0, lines.of_each, autograd::detach(values), "amax");
    const Tensor shifted = sub(values, index_select(largest, 0, lines.of_each));
    const Tensor powers = exp(shifted);
    const Tensor sums = index_select(add_by_place(powers, lines.of_each, lines.count), 0, lines.of_each);
    return log ? sub(shifted, strata::log(sums)) : div(powers, sums);
  })
  .samples({"t[[2,0,2], [1,3,2]], f(3), [3, 4], 1", "t[[2,0,2], [1,3,2]], f(3,2), [3, 4, 2], 0, True",
            "i5(2,0), f(0), [3, 4], 1"})
  .error("t[[2,0,2], [1,3,2]], f(3), [3, 4], 2", ErrorKind::Index, "one of 2 sparse dimensions");

}  // namespace strata
