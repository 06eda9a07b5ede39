// Views: other shapes and strides over the same memory. Nothing is copied, except by reshape if necessary.
#include "strata/args/movement/views.h"
#include "strata/ops/movement/views.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "ops/geometry.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/strided.h"
#include "strata/ops/pointwise/complex.h"

namespace strata {
namespace {

Tensor with_shape(const Tensor& input, Shape shape, const int64_t* strides) {
  Tensor out = begin_view(*input);
  out->set_shape(shape);
  std::copy_n(strides, shape.size(), out->strides);
  return finish_view(std::move(out));
}

// The gradient of a view that shows a part: zeros with g in that part.
Tensor spread(const GradContext& c, const Tensor& g, const Geometry& part) {
  const grads::select a(c);
  return unview(g, a.shape_of_input(), part.stride, part.offset);
}

std::optional<int64_t> optional_int(const Value& v) { return v ? std::optional(v.integer()) : std::nullopt; }

Dims squeezed(const TensorImpl& t, DimMask dims) {
  Dims kept;
  for (int d = 0; d < t.ndim; ++d)
    if (!(dims >> d & 1) || t.shape[d] != 1) kept.push(d);
  return kept;
}
Tensor keep_dims(const Tensor& input, Shape kept) {
  Tensor out = begin_view(*input);
  out->set_ndim(static_cast<int>(kept.size()));
  for (size_t d = 0; d < kept.size(); ++d) {
    out->shape[d] = input->shape[kept[d]];
    out->strides[d] = input->strides[kept[d]];
  }
  return finish_view(std::move(out));
}
Grads grad_reshape(const GradContext& c, const Tensor& g) {
  const grads::view a(c);
  return {reshape(g, a.shape_of_input())};
}

Dims permutation(IntList dims, int ndim, const char* op) {
  STRATA_CHECK(
    static_cast<int>(dims.size) == ndim, Runtime,
    "{}: number of dimensions in the tensor input does not match the length of the desired ordering: {} and {}", op,
    ndim, dims.size);
  Dims out;
  DimMask seen = 0;
  for (int64_t d : dims) {
    const int at = normalize_dim(d, ndim, op);
    STRATA_CHECK(!(seen >> at & 1), Runtime, "{}: duplicate dims are not allowed, got {}", op, to_string(dims));
    seen |= dim_bit(at);
    out.push(at);
  }
  return out;
}
}  // namespace

STRATA_OP(view, "view(Tensor(a) input, int[] size) -> Tensor(a)")
  .doc(
    "The same elements in another shape, without a copy; one size may be -1.\n\n>>> strata.arange(6).view(2, "
    "3)\ntensor([[0, 1, 2],\n        [3, 4, 5]])")
  .view([](const Tensor& input, IntList size) {
    const Dims shape = infer_size(size, input.numel(), "view");
    int64_t strides[kMaxDims];
    STRATA_CHECK(view_strides(*input, shape, strides), Runtime,
                 "view: size {} is not compatible with the input's shape {} and strides {} (at least one dimension "
                 "spans across two contiguous subspaces); "
                 "use reshape(...) instead",
                 to_string(shape), to_string(input.shape()), to_string(input.strides()));
    return with_shape(input, shape, strides);
  })
  .grad(grad_reshape)
  .dtypes(kStorageTypes)
  .samples({"f(2,3), [3, 2]", "f(2,3), [-1]", "f(4), [2, 2]", "f(), [1, 1]", "f(0,3), [3, 0]", "f(1), []"})
  .error("f(2,3), [4]", ErrorKind::Runtime, "invalid for input of size 6")
  .error("f(2,3), [-1, -1]", ErrorKind::Runtime, "only one dimension can be inferred");

STRATA_OP(view_dtype, "view.dtype(Tensor(a) input, dtype dtype) -> Tensor(a)")
  .doc(
    "The same bytes read as another dtype; the last dimension grows or shrinks with the element size.\n\n"
    ">>> strata.ones(1).view(strata.int32)\ntensor([1065353216], dtype=strata.int32)")
  .composite([](const Tensor& input, DType dtype) {
    Tensor out = alias(*input);
    const auto from = static_cast<int64_t>(size_of(input.dtype())), to = static_cast<int64_t>(size_of(dtype));
    out->dtype = dtype;
    if (from == to) return out;
    const int last = out->ndim - 1;
    STRATA_CHECK(last >= 0, Runtime, "view: self.dim() cannot be 0 to view {} as {} (different element sizes)",
                 name_of(input.dtype()), name_of(dtype));
    STRATA_CHECK(out->strides[last] == 1 || out->shape[last] <= 1, Runtime,
                 "view: self.stride(-1) must be 1 to view {} as {} (different element sizes), but got {}",
                 name_of(input.dtype()), name_of(dtype), out->strides[last]);
    if (from > to) {
      const int64_t ratio = from / to;
      out->shape[last] *= ratio;
      for (int d = 0; d < last; ++d) out->strides[d] *= ratio;
    } else {
      const int64_t ratio = to / from;
      bool fits = out->shape[last] % ratio == 0 && input->storage_offset() % ratio == 0;
      for (int d = 0; d < last; ++d) fits &= out->strides[d] % ratio == 0;
      STRATA_CHECK(fits, Runtime,
                   "view: the last dimension, the strides and the offset of shape {} with strides {} must be divisible "
                   "by {} to view {} as {}",
                   to_string(input.shape()), to_string(input.strides()), ratio, name_of(input.dtype()), name_of(dtype));
      out->shape[last] /= ratio;
      for (int d = 0; d < last; ++d) out->strides[d] /= ratio;
    }
    out->strides[last] = 1;
    return finish_view(std::move(out));
  })
  .no_out()
  .dtypes({kFloat32, kInt32})
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3), 'int32'", "f(2,3), 'uint8'", "f(2,4), 'float64'"})
  .error("f(3), 'float64'", ErrorKind::Runtime, "divisible")
  .error("f(), 'float64'", ErrorKind::Runtime, "cannot be 0");

STRATA_OP(reshape, "reshape(Tensor(a) input, int[] shape) -> Tensor(a)")
  .doc(
    "The same elements in another shape: a view where the layout allows it, otherwise a copy.\n\n"
    ">>> strata.arange(4).reshape(2, -1)\ntensor([[0, 1],\n        [2, 3]])")
  .composite([](const Tensor& input, IntList shape) {
    const Dims size = infer_size(shape, input.numel(), "reshape");
    int64_t strides[kMaxDims];
    if (view_strides(*input, size, strides)) return view(input, size);
    return view(clone(input, "contiguous_format"), size);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), [3, 2]", "f(2,3), [-1]", "f(4), [2, 2]", "f(), [1, 1]", "f(0,3), [3, 0]"})
  .error("f(2,3), [4]", ErrorKind::Runtime, "invalid for input of size 6")
  .error("f(0,3), [0, -1]", ErrorKind::Runtime, "ambiguous");

STRATA_OP(view_as, "view_as(Tensor(a) input, Tensor other) -> Tensor(a)")
  .doc(
    "A view in the shape of another tensor.\n\n>>> strata.arange(4).view_as(strata.ones(2, 2))\ntensor([[0, 1],\n      "
    "  [2, 3]])")
  .composite([](const Tensor& input, const Tensor& other) { return view(input, other.shape()); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(6), f(2,3)"})
  .error("f(6), f(4)", ErrorKind::Runtime, "invalid for input of size 6");

STRATA_OP(reshape_as, "reshape_as(Tensor(a) input, Tensor other) -> Tensor(a)")
  .doc(
    "input in the shape of another tensor.\n\n>>> strata.arange(4).reshape_as(strata.ones(2, 2))\ntensor([[0, 1],\n    "
    "    [2, 3]])")
  .composite([](const Tensor& input, const Tensor& other) { return reshape(input, other.shape()); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(6), f(2,3)"})
  .error("f(6), f(4)", ErrorKind::Runtime, "invalid for input of size 6");

STRATA_OP(expand, "expand(Tensor(a) input, int[] size, *, bool implicit=False) -> Tensor(a)")
  .doc(
    "A view that repeats dimensions of size 1 (and adds leading ones) without copying; -1 keeps a size.\n\n"
    ">>> strata.tensor([[1], [2]]).expand(2, 3)\ntensor([[1, 1, 1],\n        [2, 2, 2]])")
  .view([](const Tensor& input, IntList size, bool) {
    const int lead = static_cast<int>(size.size) - input.dim();
    STRATA_CHECK(lead >= 0, Runtime,
                 "expand: the number of sizes provided ({}) must be greater or equal to the number of dimensions in "
                 "the tensor ({})",
                 size.size, input.dim());
    Dims shape(size);
    Dims strides;
    for (int d = 0; d < static_cast<int>(shape.n); ++d) {
      const bool own = d >= lead;
      STRATA_CHECK(shape[d] >= 0 || (own && shape[d] == -1), Runtime,
                   "expand: the expanded size ({}) isn't allowed in dimension {}", shape[d], d);
      if (shape[d] == -1) shape[d] = input->shape[d - lead];
      const bool same = own && input->shape[d - lead] == shape[d];
      STRATA_CHECK(same || !own || input->shape[d - lead] == 1, Runtime,
                   "expand: the expanded size of the tensor ({}) must match the existing size ({}) at non-singleton "
                   "dimension {}; target sizes {}, tensor sizes {}",
                   shape[d], input->shape[d - lead], d, to_string(size), to_string(input.shape()));
      strides.push(same ? input->strides[d - lead] : 0);
    }
    checked_numel(shape);
    return with_shape(input, shape, strides.at);
  })
  .grad([](const GradContext&, const Tensor& g) -> Grads { return {g}; })  // the engine sums to the input's shape
  .dtypes(kStorageTypes)
  .samples({"f(3,1), [3, 4]", "f(3), [2, 3]", "f(), [2]", "f(1,3), [2, -1]", "f(1,3), [0, 3]"})
  .error("f(3), [2]", ErrorKind::Runtime, "must match the existing size")
  .error("f(2,3), [3]", ErrorKind::Runtime, "number of sizes")
  .error("f(3), [-1, 3]", ErrorKind::Runtime, "isn't allowed");

STRATA_OP(expand_as, "expand_as(Tensor(a) input, Tensor other) -> Tensor(a)")
  .doc(
    "input expanded to the shape of another tensor.\n\n>>> strata.tensor([1, 2]).expand_as(strata.ones(2, "
    "2))\ntensor([[1, 2],\n        [1, 2]])")
  .composite([](const Tensor& input, const Tensor& other) { return expand(input, other.shape()); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(3), f(2,3)"})
  .error("f(3), f(2,4)", ErrorKind::Runtime, "must match the existing size");

STRATA_OP(permute, "permute(Tensor(a) input, int[] dims) -> Tensor(a)")
  .doc(
    "A view with the dimensions in another order.\n\n>>> strata.ones(2, 3, 4).permute(2, 0, 1).shape\nstrata.Size([4, "
    "2, 3])")
  .view([](const Tensor& input, IntList dims) { return keep_dims(input, permutation(dims, input.dim(), "permute")); })
  .grad([](const grads::permute& c, const Tensor& g) -> Grads {
    const Dims forward = permutation(c.dims(), g.dim(), "permute");
    Dims back = forward;
    for (size_t d = 0; d < forward.n; ++d) back[static_cast<size_t>(forward[d])] = static_cast<int64_t>(d);
    return {permute(g, back)};
  })
  .dtypes(kStorageTypes)
  .samples({"f(2,3,4), [2, 0, 1]", "f(2,3), [-1, 0]", "f(), []", "f(2,0,3), [2, 1, 0]"})
  .error("f(2,3), [0]", ErrorKind::Runtime, "does not match the length")
  .error("f(2,3), [0, 0]", ErrorKind::Runtime, "duplicate")
  .error("f(2,3), [0, 2]", ErrorKind::Index, "out of range");

STRATA_OP(transpose, "transpose(Tensor(a) input, int dim0, int dim1) -> Tensor(a)")
  .doc(
    "A view with two dimensions exchanged.\n\n>>> strata.tensor([[1, 2], [3, 4]]).transpose(0, 1)\ntensor([[1, 3],\n   "
    "     [2, 4]])")
  .view([](const Tensor& input, int64_t dim0, int64_t dim1) {
    const int a = normalize_dim(dim0, input.dim(), "transpose"), b = normalize_dim(dim1, input.dim(), "transpose");
    Tensor out = begin_view(*input);
    if (a == b) return out;
    std::swap(out->shape[a], out->shape[b]);
    std::swap(out->strides[a], out->strides[b]);
    return finish_view(std::move(out));
  })
  .grad([](const grads::transpose& c, const Tensor& g) -> Grads { return {transpose(g, c.dim0(), c.dim1())}; })
  .alias("swapaxes")
  .alias("swapdims")
  .dtypes(kStorageTypes)
  .samples({"f(2,3), 0, 1", "f(2,3,4), -1, 0", "f(), 0, 0", "f(0,3), 0, 1"})
  .error("f(2,3), 0, 2", ErrorKind::Index, "out of range");

STRATA_OP(t, "t(Tensor(a) input) -> Tensor(a)")
  .doc(
    "The transpose of a matrix; vectors and numbers stay as they are.\n\n>>> strata.ones(2, "
    "3).t().shape\nstrata.Size([3, 2])")
  .composite([](const Tensor& input) {
    STRATA_CHECK(input.dim() <= 2, Runtime, "t: expects a tensor with <= 2 dimensions, but self is {}D", input.dim());
    return transpose(input, 0, input.dim() < 2 ? 0 : 1);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(3)", "f()"})
  .error("f(2,3,4)", ErrorKind::Runtime, "<= 2 dimensions");

STRATA_OP(mT, "mT(Tensor(a) input) -> Tensor(a)")
  .doc("The last two dimensions exchanged.\n\n>>> strata.ones(5, 2, 3).mT.shape\nstrata.Size([5, 3, 2])")
  .composite([](const Tensor& input) {
    STRATA_CHECK(input.dim() >= 2, Runtime, "mT: only supported on matrices or batches of matrices, got a {}-D tensor",
                 input.dim());
    return transpose(input, -2, -1);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(2,3,4)"})
  .error("f(3)", ErrorKind::Runtime, "only supported on matrices");

STRATA_OP(adjoint, "adjoint(Tensor(a) input) -> Tensor(a)")
  .doc(
    "The last two dimensions exchanged, and complex numbers conjugated.\n\n>>> strata.ones(2, "
    "3).adjoint().shape\nstrata.Size([3, 2])")
  .composite([](const Tensor& input) {
    if (input.dim() == 0) return input;  // as in PyTorch
    STRATA_CHECK(input.dim() >= 2, Runtime,
                 "adjoint: only supported on matrices or batches of matrices, got a {}-D tensor", input.dim());
    const Tensor turned = transpose(input, -2, -1);
    return is_complex(input.dtype()) ? conj(turned) : turned;
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(2,3,4)"})
  .error("f(3)", ErrorKind::Runtime, "only supported on matrices");

STRATA_OP(squeeze, "squeeze(Tensor(a) input) -> Tensor(a)")
  .doc("A view without the dimensions of size 1.\n\n>>> strata.ones(1, 3, 1).squeeze().shape\nstrata.Size([3])")
  .view([](const Tensor& input) { return keep_dims(input, squeezed(*input, all_dims(kMaxDims))); })
  .grad(grad_reshape)
  .dtypes(kStorageTypes)
  .samples({"f(1,3,1)", "f()", "f(2,3)", "f(1,0)"});

STRATA_OP(squeeze_dim, "squeeze.dim(Tensor(a) input, int dim) -> Tensor(a)")
  .doc(
    "A view without one dimension, if its size is 1.\n\n>>> strata.ones(1, 3, 1).squeeze(0).shape\nstrata.Size([3, 1])")
  .view([](const Tensor& input, int64_t dim) {
    return keep_dims(input, squeezed(*input, dim_bit(normalize_dim(dim, input.dim(), "squeeze"))));
  })
  .grad(grad_reshape)
  .dtypes(kStorageTypes)
  .samples({"f(1,3,1), 0", "f(1,3,1), 1", "f(), 0", "f(1,3,1), -1"})
  .error("f(2,3), 2", ErrorKind::Index, "out of range");

STRATA_OP(squeeze_dims, "squeeze.dims(Tensor(a) input, int[] dim) -> Tensor(a)")
  .doc(
    "A view without those of the given dimensions whose size is 1.\n\n>>> strata.ones(1, 3, 1).squeeze((0, "
    "2)).shape\nstrata.Size([3])")
  .view([](const Tensor& input, IntList dim) {
    DimMask mask = 0;
    for (int64_t d : dim) mask |= dim_bit(normalize_dim(d, input.dim(), "squeeze"));
    return keep_dims(input, squeezed(*input, mask));
  })
  .grad(grad_reshape)
  .dtypes(kStorageTypes)
  .samples({"f(1,3,1), [0, 2]", "f(1,3,1), []", "f(1,3,1), [1]"})
  .error("f(2,3), [2]", ErrorKind::Index, "out of range");

STRATA_OP(unsqueeze, "unsqueeze(Tensor(a) input, int dim) -> Tensor(a)")
  .doc("A view with a dimension of size 1 added.\n\n>>> strata.ones(3).unsqueeze(0).shape\nstrata.Size([1, 3])")
  .view([](const Tensor& input, int64_t dim) {
    const int n = input.dim(), at = normalize_dim(dim, n + 1, "unsqueeze");
    Dims shape(input.shape()), strides(input.strides());
    shape.push(0);
    strides.push(0);
    for (int d = n; d > at; --d) {
      shape[d] = shape[d - 1];
      strides[d] = strides[d - 1];
    }
    strides[at] = at < n ? input->shape[at] * input->strides[at] : 1;
    shape[at] = 1;
    return with_shape(input, shape, strides.at);
  })
  .grad(grad_reshape)
  .dtypes(kStorageTypes)
  .samples({"f(3), 0", "f(2,3), -1", "f(2,3), 1", "f(), 0", "f(0,3), 0"})
  .error("f(2,3), 3", ErrorKind::Index, "out of range");

STRATA_OP(select, "select(Tensor(a) input, int dim, int index) -> Tensor(a)")
  .doc(
    "A view of one index along a dimension, which disappears.\n\n>>> strata.tensor([[1, 2], [3, 4]]).select(0, "
    "1)\ntensor([3, 4])")
  .view([](const Tensor& input, int64_t dim, int64_t index) {
    return show(input, select_geometry(Geometry(*input), dim, index));
  })
  .shows_part()
  .grad([](const grads::select& c, const Tensor& g) -> Grads {
    return {spread(c, g, select_geometry(Geometry::contiguous(c.shape_of_input()), c.dim(), c.index()))};
  })
  .dtypes(kStorageTypes)
  .samples({"f(2,3), 0, 1", "f(2,3), -1, -1", "f(3), 0, 2", "f(2,0,3), 0, 1"})
  .error("f(2,3), 1, 3", ErrorKind::Index, "index 3 is out of range for dimension 1 with size 3")
  .error("f(2,3), 2, 0", ErrorKind::Index, "out of range")
  .error("f(), 0, 0", ErrorKind::Index, "0-dim");

STRATA_OP(slice, "slice(Tensor(a) input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)")
  .doc("A view of every step-th index from start up to end along a dimension; bounds are clamped as in Python.")
  .view([](const Tensor& input, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
    return show(input, slice_geometry(Geometry(*input), dim, start, end, step));
  })
  .shows_part()
  .grad([](const grads::slice& c, const Tensor& g) -> Grads {
    return {spread(c, g,
                   slice_geometry(Geometry::contiguous(c.shape_of_input()), c.dim(), optional_int(c.start_value()),
                                  optional_int(c.end_value()), c.step()))};
  })
  .helper()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 0, 1, 4", "f(5,3), 1, -2", "f(5), 0, None, None, 2", "f(5), 0, 3, 1", "f(5), 0, -9, 99, 3"})
  .error("f(5), 0, 0, 5, 0", ErrorKind::Value, "step must be greater than zero")
  .error("f(5), 1", ErrorKind::Index, "out of range");

STRATA_OP(narrow, "narrow(Tensor(a) input, int dim, int start, int length) -> Tensor(a)")
  .doc("A view of a range of indices along a dimension.\n\n>>> strata.arange(5).narrow(0, 1, 3)\ntensor([1, 2, 3])")
  .composite([](const Tensor& input, int64_t dim, int64_t start, int64_t length) {
    STRATA_CHECK(input.dim() > 0, Runtime, "narrow: cannot be applied to a 0-dim tensor");
    const int d = normalize_dim(dim, input.dim(), "narrow");
    const int64_t n = input->shape[d], from = start < 0 ? start + n : start;
    STRATA_CHECK(start >= -n && start <= n, Index, "narrow: start {} is out of range for dimension {} with size {}",
                 start, d, n);
    STRATA_CHECK(length >= 0, Runtime, "narrow: length must be non-negative, got {}", length);
    STRATA_CHECK(length <= n - from, Runtime, "narrow: start ({}) + length ({}) exceeds dimension size ({})", from,
                 length, n);
    return slice(input, d, from, from + length);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 0, 1, 3", "f(5,3), 1, -2, 2", "f(5), 0, 5, 0"})
  .error("f(5), 0, 3, 3", ErrorKind::Runtime, "exceeds dimension size")
  .error("f(5), 0, 6, 0", ErrorKind::Index, "out of range")
  .error("f(5), 0, 0, -1", ErrorKind::Runtime, "non-negative");

STRATA_OP(diagonal, "diagonal(Tensor(a) input, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)")
  .doc(
    "A view of a diagonal of two dimensions; it becomes the last dimension.\n\n>>> strata.tensor([[1, 2], [3, "
    "4]]).diagonal()\ntensor([1, 4])")
  .view([](const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2) {
    return show(input, diagonal_geometry(Geometry(*input), offset, dim1, dim2));
  })
  .shows_part()
  .grad([](const grads::diagonal& c, const Tensor& g) -> Grads {
    return {spread(c, g, diagonal_geometry(Geometry::contiguous(c.shape_of_input()), c.offset(), c.dim1(), c.dim2()))};
  })
  .dtypes(kStorageTypes)
  .samples({"f(3,3)", "f(3,4), 1", "f(3,4), -2", "f(2,3,4), 0, 0, 2", "f(3,3), 5", "f(0,3)", "f(3,4), -7"})
  .error("f(3)", ErrorKind::Index, "out of range")
  .error("f(3,3), 0, 1, 1", ErrorKind::Runtime, "cannot be identical")
  .error("f(3,3), 0, 0, 2", ErrorKind::Index, "out of range");

STRATA_OP(unfold, "unfold(Tensor(a) input, int dimension, int size, int step) -> Tensor(a)")
  .doc(
    "A view of all windows of a size along a dimension, a step apart; the window becomes the last dimension.\n\n"
    ">>> strata.arange(4).unfold(0, 2, 1)\ntensor([[0, 1],\n        [1, 2],\n        [2, 3]])")
  .view([](const Tensor& input, int64_t dimension, int64_t size, int64_t step) {
    return show(input, unfold_geometry(Geometry(*input), dimension, size, step));
  })
  .grad([](const grads::unfold& c, const Tensor& g) -> Grads {
    return {spread(c, g, unfold_geometry(Geometry::contiguous(c.shape_of_input()), c.dimension(), c.size(), c.step()))};
  })
  .dtypes(kStorageTypes)
  .samples({"f(7), 0, 3, 2", "f(3,5), 1, 2, 1", "f(4), 0, 4, 1", "f(), 0, 1, 1", "f(5), 0, 2, 3"})
  .error("f(3), 0, 4, 1", ErrorKind::Runtime, "maximum size")
  .error("f(3), 0, 1, 0", ErrorKind::Runtime, "must be > 0");

STRATA_OP(view_of, "view_of(Tensor(a) input) -> Tensor(a)")
  .doc("A view of all of input.")
  .view([](const Tensor& input) { return begin_view(*input); })
  .grad([](const GradContext&, const Tensor& g) -> Grads { return {g}; })
  .helper()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)"});

STRATA_OP(detach, "detach(Tensor(a) input) -> Tensor(a)")
  .doc(
    "The same memory without history: no gradient flows through it.\n\n>>> strata.ones(2, "
    "requires_grad=True).detach().requires_grad\nFalse")
  .composite([](const Tensor& input) { return autograd::detach(input); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"i5(2,3)"});

}  // namespace strata
