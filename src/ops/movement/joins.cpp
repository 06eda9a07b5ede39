// Joining and reordering: ops that copy elements to other positions.
#include "strata/args/movement/joins.h"
#include "strata/ops/movement/joins.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "cpu/reference.h"
#include "cuda/movement/rows.h"
#include "ops/geometry.h"
#include "ops/transfer.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/repeat.h"
#include "strata/ops/movement/views.h"

namespace strata {
namespace {

// PyTorch skips empty tensors of one dimension, whatever the shape of the others.
bool skipped(const TensorImpl& t) { return t.ndim == 1 && t.shape[0] == 0; }

void infer_cat(const Call& c) {
  const args::cat arg(c);
  const TensorList tensors = arg.tensors();
  STRATA_CHECK(!tensors.empty(), Value, "cat: expected a non-empty list of tensors");
  const TensorImpl* like = nullptr;
  DType dtype = tensors[0].dtype();
  for (const Tensor& t : tensors) {
    STRATA_CHECK(t.dim() > 0, Runtime, "cat: zero-dimensional tensor (at position {}) cannot be concatenated",
                 &t - tensors.data());
    dtype = promote(dtype, t.dtype());
    if (!like && !skipped(*t)) like = t.get();
  }
  if (!like) like = tensors[0].get();
  const int dim = normalize_dim(arg.dim(), like->ndim, "cat");
  Dims shape(like->sizes());
  shape[static_cast<size_t>(dim)] = 0;
  for (const Tensor& t : tensors) {
    if (skipped(*t)) continue;
    STRATA_CHECK(t.dim() == like->ndim, Runtime, "cat: tensors must have same number of dimensions: got {} and {}",
                 like->ndim, t.dim());
    for (int d = 0; d < like->ndim; ++d)
      STRATA_CHECK(d == dim || t->shape[d] == like->shape[d], Runtime,
                   "cat: sizes of tensors must match except in dimension {}. Expected size {} but got size {} for "
                   "tensor number {} in the list",
                   dim, like->shape[d], t->shape[d], &t - tensors.data());
    shape[static_cast<size_t>(dim)] += t->shape[dim];
  }
  c.outs[0]->dtype = dtype;
  c.outs[0]->device = like->device;
  c.outs[0]->set_shape(shape);
  bool alike = !like->contiguous;  // keep channels-last if all agree
  for (const Tensor& t : tensors) alike &= skipped(*t) || (!t->contiguous && t->is_dense());
  set_layout(*c.outs[0], std::nullopt, alike ? like : nullptr, "cat");
}

// The tensors as the columns of `out`, which has as many: an element of each in turn.
template <class T, size_t kCount> void interleave(const TensorImpl& out, const TensorImpl* const* columns) {
  parallel_for(out.numel / static_cast<int64_t>(kCount), 16384, [&](int64_t begin, int64_t end) {
    const T* from[kCount];
    for (size_t k = 0; k < kCount; ++k) from[k] = reinterpret_cast<const T*>(columns[k]->data);
    T* to = reinterpret_cast<T*>(out.data) + begin * static_cast<int64_t>(kCount);
    for (int64_t i = begin; i < end; ++i)
      for (size_t k = 0; k < kCount; ++k) *to++ = from[k][i];
  });
}
template <size_t kCount> void interleave(const TensorImpl& out, const TensorImpl* const* columns) {
  switch (size_of(out.dtype)) {
    case 1: return interleave<uint8_t, kCount>(out, columns);
    case 2: return interleave<uint16_t, kCount>(out, columns);
    case 4: return interleave<uint32_t, kCount>(out, columns);
    case 8: return interleave<uint64_t, kCount>(out, columns);
    default: return interleave<Complex<double>, kCount>(out, columns);
  }
}
// Whether two to four columns were joined so: the copies below would each touch every line of the result.
bool join_columns(const TensorImpl& out, int dim, const TensorList& tensors) {
  const size_t count = tensors.size();
  if (dim != out.ndim - 1 || count < 2 || count > 4 || !out.contiguous) return false;
  const TensorImpl* columns[4];
  for (size_t k = 0; k < count; ++k) {
    const TensorImpl& t = *tensors[k];
    if (t.ndim != out.ndim || t.shape[dim] != 1 || t.dtype != out.dtype || !t.contiguous) return false;
    columns[k] = &t;
  }
  if (count == 2) interleave<2>(out, columns);
  else if (count == 3) interleave<3>(out, columns);
  else interleave<4>(out, columns);
  return true;
}

void run_cat(const Call& c) {
  const args::cat a(c);
  const TensorImpl& out = *c.out();
  const int dim = normalize_dim(a.dim(), out.ndim, "cat");
  if (out.device.type != DeviceType::Cpu) {
    std::vector<const TensorImpl*> parts;
    for (const Tensor& t : a.tensors())
      if (!skipped(*t) && t.numel() > 0) parts.push_back(t.get());
    if (cuda::join_rows(out, dim, parts)) return;
  } else if (join_columns(out, dim, a.tensors())) {
    return;
  }
  int64_t start = 0;
  for (const Tensor& t : a.tensors()) {
    if (skipped(*t)) continue;
    copy_values(*show(c.out(), slice_geometry(Geometry(out), dim, start, start + t->shape[dim], 1)), *t);
    start += t->shape[dim];
  }
}

void plain_cat(const Call& c) {
  const args::cat a(c);
  const auto dim = static_cast<size_t>(normalize_dim(a.dim(), c.out().dim(), "cat"));
  int64_t start = 0;
  for (const Tensor& t : a.tensors()) {
    if (skipped(*t)) continue;
    cpu::each_index(t.shape(), [&](const cpu::Index& at) {
      cpu::Index to = at;
      to[dim] += start;
      cpu::put(*c.out(), to, *t, at);
    });
    start += t->shape[dim];
  }
}

Grads grad_cat(const GradContext& c, const Tensor& g) {
  const grads::cat a(c);
  grads::cat::Result out;
  const int dim = normalize_dim(a.dim(), g.dim(), "cat");
  int64_t start = 0;
  const TensorList tensors = a.meta_of_tensors();
  for (uint32_t k = 0; k < tensors.size(); ++k) {
    const TensorImpl& t = *tensors[k];
    Tensor piece;
    if (skipped(t)) {
      if (c.needs_list(k)) piece = autograd::zeros_for(t);
    } else {
      if (c.needs_list(k)) piece = to(slice(g, dim, start, start + t.shape[dim]), t.dtype);
      start += t.shape[dim];
    }
    out.tensors.push_back(piece);
  }
  return out;
}

DimMask dim_mask(IntList dims, int ndim, const char* op) {
  DimMask mask = 0;
  for (int64_t d : dims) {
    const int at = normalize_dim(d, ndim, op);
    STRATA_CHECK(!(mask >> at & 1), Runtime, "{}: dim {} appears multiple times in the list of dims", op, at);
    mask |= dim_bit(at);
  }
  return mask;
}

void infer_same(const Call& c) {
  const args::flip a(c);
  const TensorImpl& input = a.input();
  c.outs[0]->dtype = input.dtype;
  c.outs[0]->device = input.device;
  c.outs[0]->set_shape(input.sizes());
  set_layout(*c.outs[0], std::nullopt, &input, c.op.name.c_str());
}

void run_flip(const Call& c) {
  const args::flip a(c);
  const TensorImpl& input = a.input();
  Geometry g(input);
  const DimMask mask = dim_mask(a.dims(), input.ndim, "flip");
  if (input.numel == 0) return;
  for (int d = 0; d < input.ndim; ++d)
    if (mask >> d & 1) {
      g.offset += (input.shape[d] - 1) * g.stride[d];
      g.stride[d] = -g.stride[d];
    }
  copy_values(*c.out(), *show(alias(input), g));
}

void plain_flip(const Call& c) {
  const args::flip a(c);
  const TensorImpl& input = a.input();
  const DimMask mask = dim_mask(a.dims(), input.ndim, "flip");
  cpu::each_index(input.sizes(), [&](const cpu::Index& at) {
    cpu::Index to = at;
    for (size_t d = 0; d < input.ndim; ++d)
      if (mask >> d & 1) to[d] = input.shape[d] - 1 - at[d];
    cpu::put(*c.out(), to, input, at);
  });
}
void plain_roll(const Call& c) {
  const args::roll_dims a(c);
  const TensorImpl& input = a.input();
  const IntList shifts = a.shifts(), dims = a.dims();
  cpu::each_index(input.sizes(), [&](const cpu::Index& at) {
    cpu::Index to = at;
    for (size_t i = 0; i < dims.size; ++i) {
      const auto d = static_cast<size_t>(normalize_dim(dims[i], input.ndim, "roll"));
      const int64_t n = input.shape[d];
      to[d] = ((to[d] + shifts[i] % n) % n + n) % n;
    }
    cpu::put(*c.out(), to, input, at);
  });
}

// Every combination of the two pieces into which a roll splits each dimension.
void run_roll(const Call& c) {
  const args::roll_dims a(c);
  const TensorImpl& input = a.input();
  const IntList shifts = a.shifts(), dims = a.dims();
  if (input.numel == 0) return;
  int64_t shift[kMaxDims] = {};
  for (size_t i = 0; i < dims.size; ++i) {
    const int d = normalize_dim(dims[i], input.ndim, "roll");
    const int64_t n = input.shape[d];
    shift[d] = ((shift[d] + shifts[i] % n) % n + n) % n;
  }
  std::vector<int> moved;
  for (int d = 0; d < input.ndim; ++d)
    if (shift[d] != 0) moved.push_back(d);
  const DimMask all = all_dims(static_cast<int>(moved.size()));
  for (DimMask pieces = 0;; ++pieces) {
    Geometry from(input), to(*c.out());
    for (size_t i = 0; i < moved.size(); ++i) {
      const int d = moved[i];
      const int64_t n = input.shape[d], cut = n - shift[d];
      const bool second = pieces >> i & 1;
      from = slice_geometry(from, d, second ? cut : 0, second ? n : cut, 1);
      to = slice_geometry(to, d, second ? 0 : shift[d], second ? shift[d] : n, 1);
    }
    copy_values(*show(c.out(), to), *show(alias(input), from));
    if (pieces == all) break;
  }
}

Tensor to_column(const Tensor& t) { return t.dim() <= 1 ? reshape(t, {t.numel(), 1}) : t; }
void need_tensors(TensorList tensors, const char* op) {
  STRATA_CHECK(!tensors.empty(), Runtime, "{}: expects a non-empty TensorList", op);
}
}  // namespace

STRATA_OP(cat, "cat(Tensor[] tensors, int dim=0) -> Tensor")
  .doc("Tensors joined along a dimension.\n\n>>> strata.cat([strata.zeros(1), strata.ones(2)])\ntensor([0., 1., 1.])")
  .infer(infer_cat)
  .kernel("copies", run_cat)
  .kernel("reference", plain_cat)
  .cuda("copies", run_cat)
  .grad(grad_cat)
  .alias("concat")
  .alias("concatenate")
  .dtypes(kStorageTypes)
  .autocast_cpu(Autocast::Promote)
  .samples({"[f(2,3), f(1,3)]", "[f(2,3), f(2,1), f(2,2)], 1", "[f(2,3), f(0)]", "[f(3)], -1", "[f(2,0), f(2,3)], 1"})
  .error("[]", ErrorKind::Value, "non-empty")
  .error("[f(2,3), f(2,4)]", ErrorKind::Runtime, "must match except in dimension 0")
  .error("[f(2,3), f(3)]", ErrorKind::Runtime, "same number of dimensions")
  .error("[f(), f()]", ErrorKind::Runtime, "zero-dimensional")
  .error("[f(2), f(2)], 1", ErrorKind::Index, "out of range");

STRATA_OP(stack, "stack(Tensor[] tensors, int dim=0) -> Tensor")
  .doc(
    "Tensors of one shape, stacked along a new dimension.\n\n>>> strata.stack([strata.zeros(2), "
    "strata.ones(2)])\ntensor([[0., 0.],\n        [1., 1.]])")
  .composite([](TensorList tensors, int64_t dim) {
    need_tensors(tensors, "stack");
    const int at = normalize_dim(dim, tensors[0].dim() + 1, "stack");
    std::vector<Tensor> parts;
    for (const Tensor& t : tensors) {
      STRATA_CHECK(t->same_shape(*tensors[0]), Runtime,
                   "stack: expects each tensor to be equal size, but got {} at entry 0 and {} at entry {}",
                   to_string(tensors[0].shape()), to_string(t.shape()), &t - tensors.data());
      parts.push_back(unsqueeze(t, at));
    }
    return cat(parts, at);
  })
  .dtypes(kStorageTypes)
  .autocast_cpu(Autocast::Promote)
  .samples({"[f(2,3), f(2,3)]", "[f(2), f(2), f(2)], -1", "[f(), f()]"})
  .error("[f(2), f(3)]", ErrorKind::Runtime, "equal size")
  .error("[]", ErrorKind::Runtime, "non-empty");

STRATA_OP(hstack, "hstack(Tensor[] tensors) -> Tensor")
  .doc(
    "Tensors joined along the second dimension, or the only one.\n\n>>> strata.hstack([strata.zeros(1), "
    "strata.ones(1)])\ntensor([0., 1.])")
  .composite([](TensorList tensors) {
    need_tensors(tensors, "hstack");
    const std::vector<Tensor> parts = atleast_1d(tensors);
    return cat(parts, parts[0].dim() == 1 ? 0 : 1);
  })
  .dtypes(kStorageTypes)
  .samples({"[f(2,3), f(2,1)]", "[f(2), f()]"})
  .error("[]", ErrorKind::Runtime, "non-empty");
STRATA_OP(vstack, "vstack(Tensor[] tensors) -> Tensor")
  .doc(
    "Tensors joined along the first dimension, with at least 2 dimensions.\n\n>>> strata.vstack([strata.zeros(2), "
    "strata.ones(2)])\ntensor([[0., 0.],\n        [1., 1.]])")
  .composite([](TensorList tensors) {
    need_tensors(tensors, "vstack");
    return cat(atleast_2d(tensors), 0);
  })
  .alias("row_stack")
  .dtypes(kStorageTypes)
  .samples({"[f(2,3), f(1,3)]", "[f(2), f(2)]"})
  .error("[]", ErrorKind::Runtime, "non-empty");
STRATA_OP(dstack, "dstack(Tensor[] tensors) -> Tensor")
  .doc(
    "Tensors joined along the third dimension, with at least 3 dimensions.\n\n>>> strata.dstack([strata.zeros(1), "
    "strata.ones(1)]).shape\nstrata.Size([1, 1, 2])")
  .composite([](TensorList tensors) {
    need_tensors(tensors, "dstack");
    return cat(atleast_3d(tensors), 2);
  })
  .dtypes(kStorageTypes)
  .samples({"[f(2,3), f(2,3)]", "[f(2), f(2)]"})
  .error("[]", ErrorKind::Runtime, "non-empty");
STRATA_OP(column_stack, "column_stack(Tensor[] tensors) -> Tensor")
  .doc(
    "Tensors joined along the second dimension, vectors as columns.\n\n>>> strata.column_stack([strata.zeros(2), "
    "strata.ones(2)])\ntensor([[0., 1.],\n        [0., 1.]])")
  .composite([](TensorList tensors) {
    need_tensors(tensors, "column_stack");
    std::vector<Tensor> columns;
    for (const Tensor& t : tensors) columns.push_back(to_column(t));
    return cat(columns, 1);
  })
  .dtypes(kStorageTypes)
  .samples({"[f(2), f(2)]", "[f(2,3), f(2)]"})
  .error("[]", ErrorKind::Runtime, "non-empty");

STRATA_OP(flip, "flip(Tensor input, int[] dims) -> Tensor")
  .doc("A copy with the order of some dimensions reversed.\n\n>>> strata.arange(3).flip(0)\ntensor([2, 1, 0])")
  .infer([](const args::flip& c) {
    dim_mask(c.dims(), c.input().ndim, "flip");
    infer_same(c);
  })
  .kernel("copy", run_flip)
  .kernel("reference", plain_flip)
  .cuda("copy", run_flip)
  .grad([](const grads::flip& c, const Tensor& g) -> Grads { return {flip(g, c.dims())}; })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), [0]", "f(2,3), [0, 1]", "f(3), [-1]", "f(2,3), []", "f(0,3), [0]", "f(), []"})
  .error("f(2,3), [0, 0]", ErrorKind::Runtime, "multiple times")
  .error("f(2,3), [2]", ErrorKind::Index, "out of range");
STRATA_OP(fliplr, "fliplr(Tensor input) -> Tensor")
  .doc("A copy with the columns reversed.\n\n>>> strata.tensor([[1, 2]]).fliplr()\ntensor([[2, 1]])")
  .composite([](const Tensor& input) {
    STRATA_CHECK(input.dim() >= 2, Runtime, "fliplr: input must be >= 2-d, got {}-d", input.dim());
    return flip(input, 1);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)"})
  .error("f(3)", ErrorKind::Runtime, ">= 2-d");
STRATA_OP(flipud, "flipud(Tensor input) -> Tensor")
  .doc("A copy with the rows reversed.\n\n>>> strata.arange(2).flipud()\ntensor([1, 0])")
  .composite([](const Tensor& input) {
    STRATA_CHECK(input.dim() >= 1, Runtime, "flipud: input must be >= 1-d, got {}-d", input.dim());
    return flip(input, 0);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(3)"})
  .error("f()", ErrorKind::Runtime, ">= 1-d");

STRATA_OP(roll_dims, "roll_dims(Tensor input, int[] shifts, int[] dims) -> Tensor")
  .doc("roll with a dimension for each shift.")
  .infer([](const args::roll_dims& c) {
    const TensorImpl& input = c.input();
    const IntList shifts = c.shifts(), dims = c.dims();
    STRATA_CHECK(shifts.size == dims.size && (input.ndim > 0 || dims.size == 0), Runtime,
                 "roll: {} shifts and {} dimensions for a tensor of shape {}", shifts.size, dims.size,
                 to_string(input.sizes()));
    for (int64_t d : dims) normalize_dim(d, input.ndim, "roll");
    infer_same(c);
  })
  .kernel("copies", run_roll)
  .kernel("reference", plain_roll)
  .cuda("copies", run_roll)
  .grad([](const grads::roll_dims& c, const Tensor& g) -> Grads {
    std::vector<int64_t> back;
    for (int64_t s : c.shifts()) back.push_back(s == INT64_MIN ? INT64_MIN : -s);
    return {roll_dims(g, back, c.dims())};
  })
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4,3), [1], [0]", "f(4,3), [-1, 2], [0, 1]"});
STRATA_OP(roll, "roll(Tensor input, int[] shifts, int[] dims=[]) -> Tensor")
  .doc(
    "Elements shifted along dimensions (or in the flattened tensor, if none is given); elements that leave at the end "
    "reappear at the front.\n\n>>> strata.arange(4).roll(1)\ntensor([3, 0, 1, 2])")
  .composite([](const Tensor& input, IntList shifts, IntList dims) {
    if (dims.size == 0 && shifts.size == 1) return reshape(roll_dims(reshape(input, -1), shifts, 0), input.shape());
    STRATA_CHECK(shifts.size > 0, Runtime, "roll: `shifts` required");
    STRATA_CHECK(shifts.size == dims.size, Runtime, "roll: shifts and dimensions must align; shifts: {}, dims: {}",
                 shifts.size, dims.size);
    for (int64_t d : dims) {
      STRATA_CHECK(input.dim() > 0, Index, "roll: dimension specified as {} but tensor has no dimensions", d);
      normalize_dim(d, input.dim(), "roll");
    }
    return roll_dims(input, shifts, dims);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4,3), 1", "f(4,3), [1], [0]", "f(4,3), [-1, 2], [0, 1]", "f(4), 9, 0", "f(0,3), 1, 0", "f(), 1"})
  .error("f(4,3), [1, 2], [0]", ErrorKind::Runtime, "must align")
  .error("f(4), 1, 1", ErrorKind::Index, "out of range")
  .error("f(), 1, 0", ErrorKind::Index, "no dimensions");

STRATA_OP(rot90, "rot90(Tensor input, int k=1, int[] dims=[0, 1]) -> Tensor")
  .doc(
    "A copy rotated k times by 90 degrees in the plane of two dimensions.\n\n>>> strata.tensor([[1, 2], [3, "
    "4]]).rot90()\ntensor([[2, 4],\n        [1, 3]])")
  .composite([](const Tensor& input, int64_t k, IntList dims) {
    STRATA_CHECK(dims.size == 2, Runtime, "rot90: expected total rotation dims == 2, but got dims = {}", dims.size);
    STRATA_CHECK(input.dim() >= 2, Runtime, "rot90: expected total dims >= 2, but got total dims = {}", input.dim());
    const int64_t a = normalize_dim(dims[0], input.dim(), "rot90"), b = normalize_dim(dims[1], input.dim(), "rot90");
    STRATA_CHECK(a != b, Runtime, "rot90: expected rotation dims to be different, but got dim0 = {} and dim1 = {}", a,
                 b);
    switch ((k % 4 + 4) % 4) {
      case 1: return transpose(flip(input, b), a, b);
      case 2: return flip(input, {a, b});
      case 3: return transpose(flip(input, a), a, b);
      default: return clone(input);
    }
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(2,3), 2", "f(2,3), -1", "f(2,3,4), 1, [1, 2]", "f(2,3), 4"})
  .error("f(3)", ErrorKind::Runtime, "total dims >= 2")
  .error("f(2,3), 1, [0, 0]", ErrorKind::Runtime, "different");

}  // namespace strata
