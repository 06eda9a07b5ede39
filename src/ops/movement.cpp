// Joining, repeating and reordering: ops that copy elements to other places.
#include "strata/ops/movement.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "cpu/copy.h"
#include "ops/geometry.h"
#include "ops/indexing.h"
#include "strata/ops/copy.h"
#include "strata/ops/indexing.h"
#include "strata/ops/reduce_sums.h"
#include "strata/ops/splits.h"
#include "strata/ops/views.h"

namespace strata {
namespace {

// PyTorch skips empty tensors of one dimension, whatever the shape of the others.
bool skipped(const TensorImpl& t) { return t.ndim == 1 && t.shape[0] == 0; }

void infer_cat(const Call& c) {
  const TensorList tensors = c.args[0].tensor_list();
  STRATA_CHECK(!tensors.empty(), Runtime, "cat: expected a non-empty list of tensors");
  const TensorImpl* like = nullptr;
  DType dtype = tensors[0].dtype();
  for (const Tensor& t : tensors) {
    STRATA_CHECK(t.dim() > 0, Runtime, "cat: zero-dimensional tensor (at position {}) cannot be concatenated", &t - tensors.data());
    dtype = promote(dtype, t.dtype());
    if (!like && !skipped(*t)) like = t.get();
  }
  if (!like) like = tensors[0].get();
  const int dim = normalize_dim(c.args[1].integer(), like->ndim, "cat");
  Dims shape(like->sizes());
  shape[static_cast<size_t>(dim)] = 0;
  for (const Tensor& t : tensors) {
    if (skipped(*t)) continue;
    STRATA_CHECK(t.dim() == like->ndim, Runtime, "cat: tensors must have same number of dimensions: got {} and {}", like->ndim, t.dim());
    for (int d = 0; d < like->ndim; ++d)
      STRATA_CHECK(d == dim || t->shape[d] == like->shape[d], Runtime, "cat: sizes of tensors must match except in dimension {}. Expected size {} but got size {} for tensor number {} in the list", dim,
                   like->shape[d], t->shape[d], &t - tensors.data());
    shape[static_cast<size_t>(dim)] += t->shape[dim];
  }
  c.outs[0]->dtype = dtype, c.outs[0]->device = like->device;
  c.outs[0]->set_shape(shape);
  bool alike = !like->contiguous;  // channels-last stays, if all agree
  for (const Tensor& t : tensors) alike &= skipped(*t) || (!t->contiguous && t->is_dense());
  set_layout(*c.outs[0], std::nullopt, alike ? like : nullptr, "cat");
}

void run_cat(const Call& c) {
  const TensorImpl& out = *c.out();
  const int dim = normalize_dim(c.args[1].integer(), out.ndim, "cat");
  int64_t start = 0;
  for (const Tensor& t : c.args[0].tensor_list()) {
    if (skipped(*t)) continue;
    cpu::copy(*show(c.out(), slice_geometry(Geometry(out), dim, start, start + t->shape[dim], 1)), *t);
    start += t->shape[dim];
  }
}

Grads grad_cat(const GradContext& c, const Tensor& g) {
  Grads out;
  const int dim = normalize_dim(c.arg(1).integer(), g.dim(), "cat");
  int64_t start = 0;
  const TensorList tensors = c.arg(0).tensor_list();
  for (uint32_t k = 0; k < tensors.size(); ++k) {
    const TensorImpl& t = *tensors[k];
    Tensor piece;
    if (skipped(t)) {
      if (c.needs_list(k)) piece = autograd::zeros_for(t);
    } else {
      if (c.needs_list(k)) piece = to(slice(g, dim, start, start + t.shape[dim]), t.dtype);
      start += t.shape[dim];
    }
    out.list.push_back(piece);
  }
  return out;
}

uint32_t dim_mask(IntList dims, int ndim, const char* op) {
  uint32_t mask = 0;
  for (int64_t d : dims) {
    const int at = normalize_dim(d, ndim, op);
    STRATA_CHECK(!(mask >> at & 1), Runtime, "{}: dim {} appears multiple times in the list of dims", op, at);
    mask |= 1u << at;
  }
  return mask;
}

void infer_same(const Call& c) {
  const TensorImpl& input = c.args.tensor(0);
  c.outs[0]->dtype = input.dtype, c.outs[0]->device = input.device;
  c.outs[0]->set_shape(input.sizes());
  set_layout(*c.outs[0], std::nullopt, &input, c.op.name.c_str());
}

void run_flip(const Call& c) {
  const TensorImpl& input = c.args.tensor(0);
  Geometry g(input);
  const uint32_t mask = dim_mask(c.args[1].int_list(), input.ndim, "flip");
  if (input.numel == 0) return;
  for (int d = 0; d < input.ndim; ++d)
    if (mask >> d & 1) g.offset += (input.shape[d] - 1) * g.stride[d], g.stride[d] = -g.stride[d];
  cpu::copy(*c.out(), *show(alias(input), g));
}

// Every combination of the two pieces that each rolled dimension falls into.
void run_roll(const Call& c) {
  const TensorImpl& input = c.args.tensor(0);
  const IntList shifts = c.args[1].int_list(), dims = c.args[2].int_list();
  if (input.numel == 0) return;
  int64_t shift[kMaxDims] = {};
  for (size_t i = 0; i < dims.size; ++i) {
    const int d = normalize_dim(dims[i], input.ndim, "roll");
    const int64_t n = input.shape[d];
    shift[d] = ((shift[d] + shifts[i] % n) % n + n) % n;
  }
  for (uint32_t pieces = 0; pieces < 1u << input.ndim; ++pieces) {
    Geometry from(input), to(*c.out());
    bool empty = false;
    for (int d = 0; d < input.ndim; ++d) {
      const int64_t n = input.shape[d], cut = n - shift[d];
      const bool second = pieces >> d & 1;
      empty |= second && shift[d] == 0;
      if (empty) break;
      from = slice_geometry(from, d, second ? cut : 0, second ? n : cut, 1);
      to = slice_geometry(to, d, second ? 0 : shift[d], second ? shift[d] : n, 1);
    }
    if (!empty) cpu::copy(*show(c.out(), to), *show(alias(input), from));
  }
}

// The first copy is written once; then each dimension, from the last on, repeats what is there.
void run_repeat(const Call& c) {
  const TensorImpl &input = c.args.tensor(0), &out = *c.out();
  if (out.numel == 0) return;
  const int lead = out.ndim - input.ndim;
  const auto size = [&](int d) { return d < lead ? 1 : input.shape[d - lead]; };
  Geometry done(out);
  for (int d = 0; d < out.ndim; ++d) done = slice_geometry(done, d, 0, size(d), 1);
  cpu::copy(*show(c.out(), done), input);
  for (int d = out.ndim; d-- > 0;) {
    for (int64_t at = size(d); at < out.shape[d]; at += size(d)) {
      Geometry next = done;
      next.offset += at * out.strides[d];
      cpu::copy(*show(c.out(), next), *show(c.out(), done));
    }
    done.size[static_cast<size_t>(d)] = out.shape[d];
  }
}

std::vector<Tensor> map(TensorList tensors, Tensor (*f)(const Tensor&)) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(f(t));
  return out;
}
Tensor to_1d(const Tensor& t) { return t.dim() == 0 ? reshape(t, 1) : t; }
Tensor to_2d(const Tensor& t) { return t.dim() == 0 ? reshape(t, {1, 1}) : t.dim() == 1 ? unsqueeze(t, 0) : t; }
Tensor to_3d(const Tensor& t) { return t.dim() == 0 ? reshape(t, {1, 1, 1}) : t.dim() == 1 ? unsqueeze(unsqueeze(t, 0), -1) : t.dim() == 2 ? unsqueeze(t, -1) : t; }
Tensor to_column(const Tensor& t) { return t.dim() <= 1 ? reshape(t, {t.numel(), 1}) : t; }
void need_tensors(TensorList tensors, const char* op) { STRATA_CHECK(!tensors.empty(), Runtime, "{}: expects a non-empty TensorList", op); }
}  // namespace

STRATA_OP(cat, "cat(Tensor[] tensors, int dim=0) -> Tensor")
    .doc("Tensors joined along a dimension.\n\n>>> strata.cat([strata.zeros(1), strata.ones(2)])\ntensor([0., 1., 1.])")
    .infer(infer_cat).kernel("copies", run_cat).grad(grad_cat)
    .alias("concat").alias("concatenate").dtypes(kStorageTypes)
    .samples({"[f(2,3), f(1,3)]", "[f(2,3), f(2,1), f(2,2)], 1", "[f(2,3), f(0)]", "[f(3)], -1", "[f(2,0), f(2,3)], 1"})
    .error("[]", ErrorKind::Runtime, "non-empty")
    .error("[f(2,3), f(2,4)]", ErrorKind::Runtime, "must match except in dimension 0")
    .error("[f(2,3), f(3)]", ErrorKind::Runtime, "same number of dimensions")
    .error("[f(), f()]", ErrorKind::Runtime, "zero-dimensional")
    .error("[f(2), f(2)], 1", ErrorKind::Index, "out of range");

STRATA_OP(stack, "stack(Tensor[] tensors, int dim=0) -> Tensor")
    .doc("Tensors of one shape along a new dimension.\n\n>>> strata.stack([strata.zeros(2), strata.ones(2)])\ntensor([[0., 0.],\n        [1., 1.]])")
    .composite([](TensorList tensors, int64_t dim) {
      need_tensors(tensors, "stack");
      const int at = normalize_dim(dim, tensors[0].dim() + 1, "stack");
      std::vector<Tensor> parts;
      for (const Tensor& t : tensors) {
        STRATA_CHECK(t->same_shape(*tensors[0]), Runtime, "stack: expects each tensor to be equal size, but got {} at entry 0 and {} at entry {}", to_string(tensors[0].shape()),
                     to_string(t.shape()), &t - tensors.data());
        parts.push_back(unsqueeze(t, at));
      }
      return cat(parts, at);
    })
    .dtypes(kStorageTypes).samples({"[f(2,3), f(2,3)]", "[f(2), f(2), f(2)], -1", "[f(), f()]"})
    .error("[f(2), f(3)]", ErrorKind::Runtime, "equal size").error("[]", ErrorKind::Runtime, "non-empty");

STRATA_OP(hstack, "hstack(Tensor[] tensors) -> Tensor")
    .doc("Tensors side by side: along the second dimension, or the only one.\n\n>>> strata.hstack([strata.zeros(1), strata.ones(1)])\ntensor([0., 1.])")
    .composite([](TensorList tensors) {
      need_tensors(tensors, "hstack");
      const std::vector<Tensor> parts = map(tensors, to_1d);
      return cat(parts, parts[0].dim() == 1 ? 0 : 1);
    })
    .dtypes(kStorageTypes).samples({"[f(2,3), f(2,1)]", "[f(2), f()]"}).error("[]", ErrorKind::Runtime, "non-empty");
STRATA_OP(vstack, "vstack(Tensor[] tensors) -> Tensor")
    .doc("Tensors on top of each other.\n\n>>> strata.vstack([strata.zeros(2), strata.ones(2)])\ntensor([[0., 0.],\n        [1., 1.]])")
    .composite([](TensorList tensors) { return need_tensors(tensors, "vstack"), cat(map(tensors, to_2d), 0); })
    .alias("row_stack").dtypes(kStorageTypes).samples({"[f(2,3), f(1,3)]", "[f(2), f(2)]"}).error("[]", ErrorKind::Runtime, "non-empty");
STRATA_OP(dstack, "dstack(Tensor[] tensors) -> Tensor")
    .doc("Tensors along the third dimension.\n\n>>> strata.dstack([strata.zeros(1), strata.ones(1)]).shape\nstrata.Size([1, 1, 2])")
    .composite([](TensorList tensors) { return need_tensors(tensors, "dstack"), cat(map(tensors, to_3d), 2); })
    .dtypes(kStorageTypes).samples({"[f(2,3), f(2,3)]", "[f(2), f(2)]"}).error("[]", ErrorKind::Runtime, "non-empty");
STRATA_OP(column_stack, "column_stack(Tensor[] tensors) -> Tensor")
    .doc("Tensors side by side, vectors as columns.\n\n>>> strata.column_stack([strata.zeros(2), strata.ones(2)])\ntensor([[0., 1.],\n        [0., 1.]])")
    .composite([](TensorList tensors) { return need_tensors(tensors, "column_stack"), cat(map(tensors, to_column), 1); })
    .dtypes(kStorageTypes).samples({"[f(2), f(2)]", "[f(2,3), f(2)]"}).error("[]", ErrorKind::Runtime, "non-empty");

STRATA_OP(flip, "flip(Tensor input, int[] dims) -> Tensor")
    .doc("A copy with the order of some dimensions reversed.\n\n>>> strata.arange(3).flip(0)\ntensor([2, 1, 0])")
    .infer([](const Call& c) { dim_mask(c.args[1].int_list(), c.args.tensor(0).ndim, "flip"), infer_same(c); })
    .kernel("copy", run_flip)
    .grad([](const GradContext& c, const Tensor& g) -> Grads { return {flip(g, c.arg(1).int_list())}; })
    .no_out().dtypes(kStorageTypes).samples({"f(2,3), [0]", "f(2,3), [0, 1]", "f(3), [-1]", "f(2,3), []", "f(0,3), [0]", "f(), []"})
    .error("f(2,3), [0, 0]", ErrorKind::Runtime, "multiple times").error("f(2,3), [2]", ErrorKind::Index, "out of range");
STRATA_OP(fliplr, "fliplr(Tensor input) -> Tensor")
    .doc("A copy with the columns reversed.\n\n>>> strata.tensor([[1, 2]]).fliplr()\ntensor([[2, 1]])")
    .composite([](const Tensor& input) {
      STRATA_CHECK(input.dim() >= 2, Runtime, "fliplr: input must be >= 2-d, got {}-d", input.dim());
      return flip(input, 1);
    })
    .no_out().dtypes(kStorageTypes).samples({"f(2,3)"}).error("f(3)", ErrorKind::Runtime, ">= 2-d");
STRATA_OP(flipud, "flipud(Tensor input) -> Tensor")
    .doc("A copy with the rows reversed.\n\n>>> strata.arange(2).flipud()\ntensor([1, 0])")
    .composite([](const Tensor& input) {
      STRATA_CHECK(input.dim() >= 1, Runtime, "flipud: input must be >= 1-d, got {}-d", input.dim());
      return flip(input, 0);
    })
    .no_out().dtypes(kStorageTypes).samples({"f(2,3)", "f(3)"}).error("f()", ErrorKind::Runtime, ">= 1-d");

STRATA_OP(roll_dims, "roll_dims(Tensor input, int[] shifts, int[] dims) -> Tensor")
    .doc("roll with a dimension for each shift.")
    .infer(infer_same).kernel("copies", run_roll)
    .grad([](const GradContext& c, const Tensor& g) -> Grads {
      std::vector<int64_t> back;
      for (int64_t s : c.arg(1).int_list()) back.push_back(-s);
      return {roll_dims(g, back, c.arg(2).int_list())};
    })
    .helper().no_out().dtypes(kStorageTypes).samples({"f(4,3), [1], [0]", "f(4,3), [-1, 2], [0, 1]"});
STRATA_OP(roll, "roll(Tensor input, int[] shifts, int[] dims=[]) -> Tensor")
    .doc("Elements moved along dimensions (or in order of the elements, when none is given); what leaves at the end comes back at the front.\n\n"
         ">>> strata.arange(4).roll(1)\ntensor([3, 0, 1, 2])")
    .composite([](const Tensor& input, IntList shifts, IntList dims) {
      if (dims.size == 0 && shifts.size == 1) return reshape(roll_dims(reshape(input, -1), shifts, 0), input.shape());
      STRATA_CHECK(shifts.size > 0, Runtime, "roll: `shifts` required");
      STRATA_CHECK(shifts.size == dims.size, Runtime, "roll: shifts and dimensions must align; shifts: {}, dims: {}", shifts.size, dims.size);
      for (int64_t d : dims) normalize_dim(d, input.dim(), "roll");
      return roll_dims(input, shifts, dims);
    })
    .no_out().dtypes(kStorageTypes).samples({"f(4,3), 1", "f(4,3), [1], [0]", "f(4,3), [-1, 2], [0, 1]", "f(4), 9, 0", "f(0,3), 1, 0", "f(), 1"})
    .error("f(4,3), [1, 2], [0]", ErrorKind::Runtime, "must align").error("f(4), 1, 1", ErrorKind::Index, "out of range");

STRATA_OP(rot90, "rot90(Tensor input, int k=1, int[] dims=[0, 1]) -> Tensor")
    .doc("A copy turned k times by 90 degrees in the plane of two dimensions.\n\n>>> strata.tensor([[1, 2], [3, 4]]).rot90()\ntensor([[2, 4],\n        [1, 3]])")
    .composite([](const Tensor& input, int64_t k, IntList dims) {
      STRATA_CHECK(dims.size == 2, Runtime, "rot90: expected total rotation dims == 2, but got dims = {}", dims.size);
      STRATA_CHECK(input.dim() >= 2, Runtime, "rot90: expected total dims >= 2, but got total dims = {}", input.dim());
      const int64_t a = normalize_dim(dims[0], input.dim(), "rot90"), b = normalize_dim(dims[1], input.dim(), "rot90");
      STRATA_CHECK(a != b, Runtime, "rot90: expected rotation dims to be different, but got dim0 = {} and dim1 = {}", a, b);
      switch ((k % 4 + 4) % 4) {
        case 1: return transpose(flip(input, b), a, b);
        case 2: return flip(input, {a, b});
        case 3: return transpose(flip(input, a), a, b);
        default: return clone(input);
      }
    })
    .no_out().dtypes(kStorageTypes).samples({"f(2,3)", "f(2,3), 2", "f(2,3), -1", "f(2,3,4), 1, [1, 2]", "f(2,3), 4"})
    .error("f(3)", ErrorKind::Runtime, "total dims >= 2").error("f(2,3), 1, [0, 0]", ErrorKind::Runtime, "different");

STRATA_OP(repeat, "repeat(Tensor input, int[] repeats) -> Tensor")
    .doc("Copies of input beside each other, that many times along each dimension.\n\n>>> strata.tensor([1, 2]).repeat(2)\ntensor([1, 2, 1, 2])")
    .infer([](const Call& c) {
      const TensorImpl& input = c.args.tensor(0);
      const IntList repeats = c.args[1].int_list();
      const int lead = static_cast<int>(repeats.size) - input.ndim;
      STRATA_CHECK(lead >= 0, Runtime, "repeat: number of dimensions of repeat dims ({}) can not be smaller than number of dimensions of tensor ({})", repeats.size, input.ndim);
      Dims shape(repeats);
      for (int d = 0; d < static_cast<int>(shape.n); ++d) {
        STRATA_CHECK(repeats[d] >= 0, Runtime, "repeat: trying to create tensor with negative dimension, got repeats {}", to_string(repeats));
        STRATA_CHECK(d < lead || !__builtin_mul_overflow(shape[d], input.shape[d - lead], &shape[d]), Runtime, "repeat: repeats {} of shape {} are larger than can be addressed",
                     to_string(repeats), to_string(input.sizes()));
      }
      c.outs[0]->dtype = input.dtype, c.outs[0]->device = input.device;
      c.outs[0]->set_shape(shape);
    })
    .kernel("copies", run_repeat)
    .grad([](const GradContext& c, const Tensor& g) -> Grads {
      const Shape shape = c.shape(0);
      const IntList repeats = c.arg(1).int_list();
      if (g.numel() == 0) return {autograd::zeros_for(c.meta(0))};
      Tensor out = g;
      const int lead = g.dim() - static_cast<int>(shape.size());
      for (int d = 0; d < g.dim(); ++d)
        if (repeats[d] != 1 && d >= lead) out = sum(unflatten(out, d, {repeats[d], shape[d - lead]}), d);
      for (int d = 0; d < lead; ++d) out = sum(out, 0);
      return {out};
    })
    .no_out().dtypes(kStorageTypes).samples({"f(2,3), [2, 1]", "f(3), [2, 2]", "f(), [3]", "f(2), [0]", "f(2,3), [1, 1]", "f(2,3), [2, 3, 2]"})
    .error("f(2,3), [2]", ErrorKind::Runtime, "can not be smaller").error("f(2), [-1]", ErrorKind::Runtime, "negative");
STRATA_OP(tile, "tile(Tensor input, int[] dims) -> Tensor")
    .doc("Like repeat; missing leading numbers count as 1.\n\n>>> strata.tensor([[1, 2]]).tile(2)\ntensor([[1, 2, 1, 2]])")
    .composite([](const Tensor& input, IntList dims) {
      Dims all;
      for (int d = static_cast<int>(dims.size); d < input.dim(); ++d) all.push(1);
      for (int64_t r : dims) all.push(r);
      return repeat(input, all);
    })
    .no_out().dtypes(kStorageTypes).samples({"f(2,3), [2]", "f(3), [2, 2]", "f(2), []"}).error("f(2), [-1]", ErrorKind::Runtime, "negative");

STRATA_OP(repeat_interleave, "repeat_interleave(Tensor repeats, *, int? output_size=None) -> Tensor")
    .doc("Each index as often as repeats says.\n\n>>> strata.repeat_interleave(strata.tensor([1, 2]))\ntensor([0, 1, 1])")
    .composite([](const Tensor& repeats, std::optional<int64_t> output_size) {
      STRATA_CHECK(repeats.dim() == 1, Runtime, "repeat_interleave: only accepts 1D vectors as repeat, got shape {}", to_string(repeats.shape()));
      const Tensor counts = as_index(repeats, "repeat_interleave");
      std::vector<int64_t> index;
      for (int64_t i = 0; i < counts.numel(); ++i) {
        const int64_t n = counts.data<int64_t>()[i];
        STRATA_CHECK(n >= 0, Runtime, "repeat_interleave: repeats can not be negative, got {}", n);
        index.insert(index.end(), static_cast<size_t>(n), i);
      }
      STRATA_CHECK(!output_size || *output_size == static_cast<int64_t>(index.size()), Runtime, "repeat_interleave: allocated size {} does not match required size {}",
                   output_size.value_or(0), index.size());
      return to(index_tensor(index), repeats.dtype());
    })
    .no_out().samples({"i3(4)"}).error("i3(2,2)", ErrorKind::Runtime, "1D vectors").error("f(3)", ErrorKind::Index, "int64 or int32");
STRATA_OP(repeat_interleave_tensor, "repeat_interleave.self_Tensor(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor")
    .doc("Each element along a dimension repeated as often as repeats says.\n\n>>> strata.tensor([5, 6]).repeat_interleave(strata.tensor([1, 2]))\ntensor([5, 6, 6])")
    .composite([](const Tensor& input, const Tensor& repeats, std::optional<int64_t> dim, std::optional<int64_t> output_size) {
      const Tensor x = dim ? input : reshape(input, -1);
      const int d = normalize_dim(dim.value_or(0), x.dim(), "repeat_interleave");
      const int64_t n = x.dim() ? x->shape[d] : 1;
      Tensor counts = to_1d(repeats);
      STRATA_CHECK(counts.numel() == 1 || counts.numel() == n, Runtime, "repeat_interleave: repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({}) = {}",
                   counts.numel(), d, n);
      if (counts.numel() == 1) counts = expand(counts, n);
      return index_at(to_1d(x), {to(repeat_interleave(counts, output_size), DType::I64)}, d);
    })
    .no_out().dtypes(kStorageTypes).samples({"f(3,2), i3(3), 0", "f(2,2), i3(4)", "f(2,3), i3(1), 1"}).error("f(3,2), i3(2), 0", ErrorKind::Runtime, "same size as input");
STRATA_OP(repeat_interleave_int, "repeat_interleave.self_int(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> Tensor")
    .doc("Each element along a dimension repeated a number of times.\n\n>>> strata.tensor([5, 6]).repeat_interleave(2)\ntensor([5, 5, 6, 6])")
    .composite([](const Tensor& input, int64_t repeats, std::optional<int64_t> dim, std::optional<int64_t>) {
      STRATA_CHECK(repeats >= 0, Runtime, "repeat_interleave: repeats must be non-negative, got {}", repeats);
      const Tensor x = to_1d(dim ? input : reshape(input, -1));
      const int d = normalize_dim(dim.value_or(0), x.dim(), "repeat_interleave");
      Dims shape(x.shape());
      shape.push(0);
      for (int k = x.dim(); k > d + 1; --k) shape[k] = shape[k - 1];
      shape[d + 1] = repeats;
      return flatten(clone(expand(unsqueeze(x, d + 1), shape), "contiguous_format"), d, d + 1);
    })
    .no_out().dtypes(kStorageTypes).samples({"f(3,2), 2", "f(3,2), 3, 1", "f(3), 0", "f(3), 1, 0"}).error("f(3), -1", ErrorKind::Runtime, "non-negative");

STRATA_OP(broadcast_to, "broadcast_to(Tensor input, int[] size) -> Tensor")
    .doc("A view of input repeated to a shape.\n\n>>> strata.tensor([1]).broadcast_to((3,))\ntensor([1, 1, 1])")
    .composite([](const Tensor& input, IntList size) { return expand(input, size); })
    .no_out().dtypes(kStorageTypes).samples({"f(3,1), [3, 4]", "f(3), [2, 3]"}).error("f(3), [2]", ErrorKind::Runtime, "must match the existing size");
STRATA_OP(broadcast_tensors, "broadcast_tensors(Tensor[] tensors) -> Tensor[]")
    .doc("Views of all tensors in the shape they broadcast to.\n\n>>> strata.broadcast_tensors([strata.ones(2, 1), strata.ones(3)])[0].shape\nstrata.Size([2, 3])")
    .composite([](TensorList tensors) {
      Dims shape;
      for (const Tensor& t : tensors) shape = broadcast_shapes(shape, t.shape(), "broadcast_tensors");
      std::vector<Tensor> out;
      for (const Tensor& t : tensors) out.push_back(expand(t, shape));
      return out;
    })
    .dtypes(kStorageTypes).samples({"[f(2,1), f(3)]", "[f(2)]"}).error("[f(2), f(3)]", ErrorKind::Runtime, "cannot be broadcast");

STRATA_OP(atleast_1d, "atleast_1d(Tensor input) -> Tensor")
    .doc("A view with at least 1 dimension.\n\n>>> strata.atleast_1d(strata.tensor(1.)).dim()\n1")
    .composite([](const Tensor& input) { return to_1d(input); })
    .no_method().no_out().dtypes(kStorageTypes).samples({"f()", "f(3)", "f(2,3)", "f(2,3,4)"});
STRATA_OP(atleast_1d_sequence, "atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]")
    .doc("Views of all tensors with at least 1 dimension.\n\n>>> strata.atleast_1d([strata.tensor(1.)])[0].dim()\n1")
    .composite([](TensorList tensors) { return map(tensors, to_1d); })
    .dtypes(kStorageTypes).samples({"[f(), f(3)]"});
STRATA_OP(atleast_2d, "atleast_2d(Tensor input) -> Tensor")
    .doc("A view with at least 2 dimensions.\n\n>>> strata.atleast_2d(strata.tensor(1.)).dim()\n2")
    .composite([](const Tensor& input) { return to_2d(input); })
    .no_method().no_out().dtypes(kStorageTypes).samples({"f()", "f(3)", "f(2,3)", "f(2,3,4)"});
STRATA_OP(atleast_2d_sequence, "atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]")
    .doc("Views of all tensors with at least 2 dimensions.\n\n>>> strata.atleast_2d([strata.tensor(1.)])[0].dim()\n2")
    .composite([](TensorList tensors) { return map(tensors, to_2d); })
    .dtypes(kStorageTypes).samples({"[f(), f(3)]"});
STRATA_OP(atleast_3d, "atleast_3d(Tensor input) -> Tensor")
    .doc("A view with at least 3 dimensions.\n\n>>> strata.atleast_3d(strata.tensor(1.)).dim()\n3")
    .composite([](const Tensor& input) { return to_3d(input); })
    .no_method().no_out().dtypes(kStorageTypes).samples({"f()", "f(3)", "f(2,3)", "f(2,3,4)"});
STRATA_OP(atleast_3d_sequence, "atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]")
    .doc("Views of all tensors with at least 3 dimensions.\n\n>>> strata.atleast_3d([strata.tensor(1.)])[0].dim()\n3")
    .composite([](TensorList tensors) { return map(tensors, to_3d); })
    .dtypes(kStorageTypes).samples({"[f(), f(3)]"});

}  // namespace strata
