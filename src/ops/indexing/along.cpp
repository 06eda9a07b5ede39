// Indexing along one dimension by a vector of indices, and by flat indices or masks.
#include "strata/args/indexing/along.h"
#include "strata/ops/indexing/along.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>

#include "autograd/autograd.h"
#include "cpu/indexing/indexing.h"
#include "cpu/movement/copy.h"
#include "cpu/reference.h"
#include "cuda/indexing/indexing.h"
#include "ops/indexing/indexing.h"
#include "ops/layout.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/indexing/indexing.h"
#include "strata/ops/indexing/scatter.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/pad.h"
#include "strata/ops/movement/views.h"
#include "strata/ops/pointwise/arithmetic.h"
#include "strata/ops/pointwise/compare.h"

namespace strata {
namespace {

// A vector of indices along dim; negative ones, which these ops do not accept, are rejected.
std::vector<Tensor> along(const Tensor& input, int dim, const Tensor& index, const char* op) {
  STRATA_CHECK(index.dim() <= 1, Index, "{}: index is supposed to be a vector, got shape {}", op,
               to_string(index.shape()));
  Tensor t = reshape(as_index(index, op), -1);
  check_positions(t, input.dim() ? input->shape[dim] : 1, false, dim, op);
  return {t};
}
// A zero-dimensional tensor is treated as one of one element.
Tensor line(const Tensor& t) { return t.dim() == 0 ? reshape(t, 1) : t; }
Tensor back(const Tensor& out, const Tensor& input) { return input.dim() == 0 ? reshape(out, {}) : out; }

// source in the shape of input with dim replaced by the number of indices.
Tensor fitting(const Tensor& input, int dim, const Tensor& index, const Tensor& source, const char* op) {
  const Tensor s = line(source);
  const Tensor x = line(input);
  bool fits = s.dim() == x.dim();
  for (int d = 0; fits && d < s.dim(); ++d) fits = s->shape[d] == (d == dim ? index.numel() : x->shape[d]);
  const bool adds = std::string_view(op).starts_with("index_add");  // PyTorch: RuntimeError here, IndexError elsewhere
  if (!fits)
    fail(adds ? ErrorKind::Runtime : ErrorKind::Index,
         fmt::format("{}: source of shape {} does not fit input of shape {} with {} indices at dimension {}", op,
                     to_string(source.shape()), to_string(input.shape()), index.numel(), dim));
  STRATA_CHECK(source.dtype() == input.dtype(), Runtime, "{}: self ({}) and source ({}) must have the same dtype", op,
               name_of(input.dtype()), name_of(source.dtype()));
  return s;
}

Tensor put_along(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source, bool accumulate,
                 bool in_place, const char* op) {
  const int d = normalize_dim(dim, input.dim(), op);
  const std::vector<Tensor> at = along(input, d, index, op);
  const Tensor values = fitting(input, d, index, source, op);
  if (!in_place) return back(index_put_at(line(input), at, values, accumulate, d), input);
  index_put_at_(line(input), at, values, accumulate, d);
  return input;
}
Tensor scaled(const Tensor& source, Scalar alpha) { return alpha.to_double() == 1 ? source : mul(source, alpha); }

// Writes the value without reading the index on the host. Only its gradient needs each position once: a mask.
Tensor fill_slices(const Tensor& input, int d, const Tensor& index, const Tensor& value, bool in_place) {
  if (!value.requires_grad()) {
    if (!in_place) return back(index_put_at(line(input), {index}, value, false, d), input);
    index_put_at_(line(input), {index}, value, false, d);
    return input;
  }
  const Tensor x = line(input), mark = zeros(x->shape[d], DType::Bool);
  if (x->shape[d] > 0) index_put_at_(mark, {index}, full({}, true, DType::Bool), false, 0);
  Dims shape;
  for (int k = 0; k < x.dim(); ++k) shape.push(k == d ? x->shape[d] : 1);
  const Tensor filled = where(reshape(mark, shape), value, x);
  if (!in_place) return back(filled, input);
  copy_(input, back(filled, input));
  return input;
}

Tensor fill_along(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& value, bool in_place,
                  const char* op) {
  STRATA_CHECK(value.dim() == 0, Runtime,
               "{}: only supports a 0-dimensional value tensor, but got tensor with {} dimension(s)", op, value.dim());
  const int d = normalize_dim(dim, input.dim(), op);
  STRATA_CHECK(index.dim() <= 1, Index, "{}: index has to be a vector or scalar, got shape {}", op,
               to_string(index.shape()));
  // Negative indices count from the end here. Each position is written once, or the value's gradient would count it
  // twice.
  const Tensor given = reshape(as_index(index, op), -1);
  const int64_t n = input.dim() ? input->shape[d] : 1;
  check_positions(given, n, true, d, op);
  if (value.dtype() != input.dtype() && value.device().type == DeviceType::Cpu)  // on a device the kernel converts it
    check_in_range(value.item(), input.dtype(), op);
  const Tensor v = to(value, input.dtype());
  if (input.device().type != DeviceType::Cpu) return fill_slices(input, d, given, v, in_place);
  std::set<int64_t> once;
  for (int64_t i = 0; i < given.numel(); ++i) {
    const int64_t at = given.data<int64_t>()[i];
    once.insert(at < 0 ? at + n : at);
  }
  const std::vector<Tensor> at{index_tensor({once.begin(), once.end()})};
  if (!in_place) return back(index_put_at(line(input), at, v, false, d), input);
  index_put_at_(line(input), at, v, false, d);
  return input;
}

Tensor put_flat(const Tensor& input, const Tensor& index, const Tensor& source, bool accumulate) {
  STRATA_CHECK(index.numel() == source.numel(), Runtime,
               "put: expected source and index to have the same number of elements, but got source.numel() = {}, "
               "index.numel() = {}",
               source.numel(), index.numel());
  STRATA_CHECK(source.dtype() == input.dtype(), Runtime,
               "put: expected self and source to have the same dtype, but got {} and {}", name_of(input.dtype()),
               name_of(source.dtype()));
  return reshape(
    index_put_at(reshape(input, -1), {reshape(as_index(index, "put"), -1)}, reshape(source, -1), accumulate, 0),
    input.shape());
}
}  // namespace

STRATA_OP(index_select, "index_select(Tensor input, int dim, Tensor index) -> Tensor")
  .doc(
    "The slices of input at the given indices along a dimension.\n\n>>> strata.tensor([[1, 2], [3, "
    "4]]).index_select(1, strata.tensor([1]))\ntensor([[2],\n        [4]])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index) {
    const int d = normalize_dim(dim, input.dim(), "index_select");
    const std::vector<Tensor> at = along(input, d, index, "index_select");
    STRATA_CHECK(input.dim() > 0 || index.numel() == 1, Index,
                 "index_select: index to scalar can have only 1 value, got {}", index.numel());
    return back(index_at(line(input), at, d), input);
  })
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 0, i5(4)", "f(5,3), -1, i3(2)", "f(5), 0, i5()", "f(), 0, i1(1)", "f(5,0), 0, i5(2)"})
  .error("f(2,3), 0, i9(50)", ErrorKind::Index, "out of range for dimension 0 with size 2")
  .error("f(2,3), 0, i2(2,2)", ErrorKind::Index, "vector")
  .error("f(2,3), 0, f(2)", ErrorKind::Index, "int64 or int32");

STRATA_OP(index_add, "index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor")
  .doc(
    "A copy of input with the slices of source added at the given positions.\n\n>>> strata.zeros(2).index_add(0, "
    "strata.tensor([1, 1]), strata.ones(2))\ntensor([0., 2.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source, Scalar alpha) {
    return put_along(input, dim, index, scaled(source, alpha), true, false, "index_add");
  })
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .samples({"f(5,3), 0, i5(4), f(4,3)", "f(2,3), 1, i3(2), f(2,2), alpha=2", "f(), 0, i1(1), f()"})
  .error("f(2,3), 0, i2(2), f(2,2)", ErrorKind::Runtime, "does not fit")
  .error("f(2,3), 0, i9(50), f(50,3)", ErrorKind::Index, "out of range");
STRATA_OP(index_add_inplace,
          "index_add_(Tensor(a!) input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!)")
  .doc(
    "Adds the slices of source at the given positions.\n\n>>> strata.zeros(2).index_add_(0, strata.tensor([1, 1]), "
    "strata.ones(2))\ntensor([0., 2.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source, Scalar alpha) {
    return put_along(input, dim, index, scaled(source, alpha), true, true, "index_add_");
  })
  .no_out()
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .samples({"f(5,3), 0, i5(4), f(4,3)"})
  .error("f(2,3), 0, i2(2), f(2,2)", ErrorKind::Runtime, "does not fit");

STRATA_OP(index_copy, "index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor")
  .doc(
    "A copy of input with the slices of source written at the given positions; later ones win.\n\n>>> "
    "strata.zeros(2).index_copy(0, strata.tensor([1]), strata.ones(1))\ntensor([0., 1.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source) {
    return put_along(input, dim, index, source, false, false, "index_copy");
  })
  .dtypes(kStorageTypes)
  .autocast_cpu(Autocast::Promote)
  .samples({"f(5,3), 0, i1(1), f(1,3)", "f(2,3), 1, i1(1), f(2,1)"})
  .error("f(2,3), 0, i2(2), f(2,2)", ErrorKind::Index, "does not fit");
STRATA_OP(index_copy_inplace, "index_copy_(Tensor(a!) input, int dim, Tensor index, Tensor source) -> Tensor(a!)")
  .doc(
    "Writes the slices of source at the given positions.\n\n>>> strata.zeros(2).index_copy_(0, strata.tensor([1]), "
    "strata.ones(1))\ntensor([0., 1.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source) {
    return put_along(input, dim, index, source, false, true, "index_copy_");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 0, i1(1), f(1,3)"})
  .error("f(2,3), 0, i2(2), f(2,2)", ErrorKind::Index, "does not fit");

STRATA_OP(index_fill, "index_fill(Tensor input, int dim, Tensor index, Scalar value) -> Tensor")
  .doc(
    "A copy of input with a number written into the slices at the given positions.\n\n>>> "
    "strata.zeros(3).index_fill(0, strata.tensor([1]), 5)\ntensor([0., 5., 0.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, Scalar value) {
    return fill_along(input, dim, index, full({}, value, input.dtype()), false, "index_fill");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 0, i5(2), 1", "f(2,3), -1, i3(1), 1", "f(), 0, i1(1), 1"})
  .error("f(2,3), 0, i9(50), 1", ErrorKind::Index, "out of range");
STRATA_OP(index_fill_tensor, "index_fill.Tensor(Tensor input, int dim, Tensor index, Tensor value) -> Tensor")
  .doc(
    "The same with a zero-dimensional tensor.\n\n>>> strata.zeros(2).index_fill(0, strata.tensor([1]), "
    "strata.tensor(5.))\ntensor([0., 5.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& value) {
    return fill_along(input, dim, index, value, false, "index_fill");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 0, i5(2), f()"})
  .error("f(2,3), 0, i2(2), f(2)", ErrorKind::Runtime, "0-dimensional");
STRATA_OP(index_fill_inplace, "index_fill_(Tensor(a!) input, int dim, Tensor index, Scalar value) -> Tensor(a!)")
  .doc(
    "Writes a number into the slices at the given positions.\n\n>>> strata.zeros(3).index_fill_(0, strata.tensor([1]), "
    "5)\ntensor([0., 5., 0.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, Scalar value) {
    return fill_along(input, dim, index, full({}, value, input.dtype()), true, "index_fill_");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 0, i5(2), 1"})
  .error("f(2,3), 0, i9(50), 1", ErrorKind::Index, "out of range");
STRATA_OP(index_fill_inplace_tensor,
          "index_fill_.Tensor(Tensor(a!) input, int dim, Tensor index, Tensor value) -> Tensor(a!)")
  .doc(
    "The same with a zero-dimensional tensor.\n\n>>> strata.zeros(2).index_fill_(0, strata.tensor([1]), "
    "strata.tensor(5.))\ntensor([0., 5.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& value) {
    return fill_along(input, dim, index, value, true, "index_fill_");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 0, i5(2), f()"})
  .error("f(2,3), 0, i2(2), f(2)", ErrorKind::Runtime, "0-dimensional");

STRATA_OP(
  index_reduce,
  "index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor")
  .doc(
    "A copy of input with the slices of source combined into it by prod, mean, amax or amin.\n\n>>> "
    "strata.ones(2).index_reduce(0, strata.tensor([1, 1]), strata.tensor([2., 3.]), 'prod')\ntensor([1., 6.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                bool include_self) {
    STRATA_CHECK(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin", Runtime,
                 "index_reduce: reduce argument must be either prod, mean, amax or amin, got {}", reduce);
    const int d = normalize_dim(dim, input.dim(), "index_reduce");
    const Tensor at = along(input, d, index, "index_reduce")[0],
                 values = fitting(input, d, index, source, "index_reduce");
    Dims shape;
    for (int k = 0; k < values.dim(); ++k) shape.push(k == d ? at.numel() : 1);
    return back(
      scatter_reduce(line(input), d, expand(reshape(at, shape), values.shape()), values, reduce, include_self), input);
  })
  .inplace()
  .dtypes(kNumericTypes)
  .samples({"p(5,3), 0, i5(4), p(4,3), 'prod'", "f(5,3), 1, i3(4), f(5,4), 'amax'",
            "f(5), 0, i5(9), f(9), 'mean', include_self=False"})
  .error("f(5), 0, i5(2), f(2), 'sum'", ErrorKind::Runtime, "reduce argument");

STRATA_OP(take, "take(Tensor input, Tensor index) -> Tensor")
  .doc(
    "The elements at flat positions, in the shape of index.\n\n>>> strata.tensor([[1, 2], [3, "
    "4]]).take(strata.tensor([0, -1]))\ntensor([1, 4])")
  .composite([](const Tensor& input, const Tensor& index) {
    STRATA_CHECK(input.numel() > 0 || index.numel() == 0, Index, "take: tried to take from an empty tensor");
    const Tensor at = as_index(index, "take");
    if (input->contiguous || !input.is_cpu() || at.numel() > input.numel() / 16)
      return index_at(reshape(input, -1), {at}, 0);
    // A few elements of a view: by an index of each dimension, without a copy of the view.
    check_positions(at, input.numel(), true, 0, "take");
    Tensor rest = where(lt(at, 0), add(at, input.numel()), at);
    std::vector<Tensor> places(static_cast<size_t>(input.dim()));
    for (int d = input.dim(); d-- > 0;) {
      places[static_cast<size_t>(d)] = contiguous(remainder(rest, input.size(d)));
      rest = div(rest, input.size(d), "floor");
    }
    return index_at(input, TensorList(places), 0);
  })
  .dtypes(kStorageTypes)
  .samples({"f(4,3), i9(2,2)", "f(5), i5(0)", "f(), i1()"})
  .error("f(2), i9(50)", ErrorKind::Index, "out of range");

STRATA_OP(put, "put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor")
  .doc(
    "A copy of input with the elements of source written (or added) at flat positions.\n\n>>> strata.zeros(2, "
    "2).put(strata.tensor([3]), strata.ones(1))\ntensor([[0., 0.],\n        [0., 1.]])")
  .composite([](const Tensor& input, const Tensor& index, const Tensor& source, bool accumulate) {
    return put_flat(input, index, source, accumulate);
  })
  .inplace()
  .no_out()
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .samples({"f(4,3), i9(2,2), f(2,2), True", "f(5), i1(1), f(1)"})
  .error("f(5), i5(2), f(3)", ErrorKind::Runtime, "same number of elements");

STRATA_OP(take_along_dim, "take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor")
  .doc(
    "gather with broadcasting; without a dim, over the flattened input.\n\n>>> strata.tensor([[3, 1, "
    "2]]).take_along_dim(strata.tensor([[1]]), 1)\ntensor([[1]])")
  .composite([](const Tensor& input, const Tensor& indices, std::optional<int64_t> dim) {
    STRATA_CHECK(indices.dtype() == DType::I64 || indices.dtype() == DType::I32, Runtime,
                 "take_along_dim: dtype of indices should be Long but got {}", name_of(indices.dtype()));
    if (!dim) return gather(reshape(input, -1), 0, reshape(indices, -1));
    STRATA_CHECK(input.dim() == indices.dim(), Runtime,
                 "take_along_dim: input and indices should have the same number of dimensions, but got {} and {}",
                 input.dim(), indices.dim());
    const int d = normalize_dim(*dim, input.dim(), "take_along_dim");
    Dims a(input.shape()), b(indices.shape());
    if (input.dim()) a[d] = b[d] = 1;
    const Dims both = broadcast_shapes(a, b, "take_along_dim");
    a = b = both;
    if (input.dim()) {
      a[d] = input->shape[d];
      b[d] = indices->shape[d];
    }
    const Tensor wrapped = where(lt(indices, 0), add(indices, input.dim() ? input->shape[d] : 1), indices);
    return gather(expand(input, a), d, expand(wrapped, b));
  })
  .dtypes(kStorageTypes)
  .samples({"f(4,3), i4(2,3), 0", "f(4,3), i3(1,5), 1", "f(4,3), i9(5)", "f(1,3), i1(4,3), 0"})
  .error("f(4,3), i3(5), 1", ErrorKind::Runtime, "same number of dimensions")
  .error("f(2,3), i9(50,3), 0", ErrorKind::Runtime, "out of bounds");

STRATA_OP(masked_elements, "_masked_select(Tensor input, Tensor mask) -> Tensor")
  .doc("masked_select of an input and a mask of one shape.")
  .infer([](const args::masked_elements& c) {
    const TensorImpl &input = c.input(), &mask = c.mask();
    STRATA_CHECK(mask.dtype == DType::Bool, Runtime, "masked_select: expected BoolTensor for mask, got {}",
                 name_of(mask.dtype));
    STRATA_CHECK(std::ranges::equal(input.sizes(), mask.sizes()), Runtime,
                 "masked_select: expected an input and a mask of one shape, got {} and {}", to_string(input.sizes()),
                 to_string(mask.sizes()));
    if (mask.device.type == DeviceType::Meta) refuse_shape_from_values("masked_select");
    c.out()->dtype = input.dtype;
    c.out()->set_shape(Shape(std::array{number_of_nonzero(mask)}));
  })
  .kernel("chunks", [](const args::masked_elements& c) { cpu::masked_select(*c.out(), c.input(), c.mask()); })
  .kernel("reference",
          [](const args::masked_elements& c) {
            int64_t next = 0;
            cpu::each_index(c.mask().sizes(), [&](const cpu::Index& at) {
              if (cpu::get<bool>(c.mask(), at)) cpu::put(*c.out(), {next++}, c.input(), at);
            });
          })
  .cuda("tiles", [](const args::masked_elements& c,
                    Workspace& workspace) { cuda::masked_select(*c.out(), c.input(), c.mask(), workspace); })
  .saves({"mask"})
  .grad([](const grads::masked_elements& c, const Tensor& g) -> Grads {
    return {masked_scatter(autograd::zeros_for(c.meta_of_input()), c.mask(), g)};
  })
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4,3), b(4,3)", "f(), b()", "f(0,3), b(0,3)"})
  .error("f(2), b(3)", ErrorKind::Runtime, "of one shape")
  .error("f(2), i2(2)", ErrorKind::Runtime, "BoolTensor");

STRATA_OP(masked_select, "masked_select(Tensor input, Tensor mask) -> Tensor")
  .doc(
    "The elements where a mask is true, in one dimension.\n\n>>> strata.tensor([1, 2, "
    "3]).masked_select(strata.tensor([True, False, True]))\ntensor([1, 3])")
  .composite([](const Tensor& input, const Tensor& mask) {
    STRATA_CHECK(input.device() == mask.device(), Runtime,
                 "masked_select: expected input and mask on one device, found {} and {}", to_string(input.device()),
                 to_string(mask.device()));
    const Dims shape = broadcast_shapes(input.shape(), mask.shape(), "masked_select");
    return _masked_select(expand(input, shape), expand(mask, shape));
  })
  .dtypes(kStorageTypes)
  .samples({"f(4,3), b(4,3)", "f(4,3), b(3)", "f(3), b(4,3)", "f(), b()"})
  .error("f(2), b(3)", ErrorKind::Runtime, "cannot be broadcast")
  .error("f(2), i2(2)", ErrorKind::Runtime, "BoolTensor");

STRATA_OP(masked_put, "_masked_put(Tensor input, Tensor mask, Tensor source) -> Tensor")
  .doc("masked_scatter of an input and a mask of one shape.")
  .infer([](const args::masked_put& c) {
    const TensorImpl &input = c.input(), &mask = c.mask();
    STRATA_CHECK(mask.dtype == DType::Bool && std::ranges::equal(input.sizes(), mask.sizes()), Runtime,
                 "masked_scatter: expected an input and a BoolTensor of one shape, got {} and {}",
                 to_string(input.sizes()), to_string(mask.sizes()));
    STRATA_CHECK(c.source().dtype == input.dtype, Runtime,
                 "masked_scatter: expected self and source to have same dtypes but got {} and {}", name_of(input.dtype),
                 name_of(c.source().dtype));
    c.out()->dtype = input.dtype;
    c.out()->set_shape(input.sizes());
  })
  .kernel("chunks", [](const args::masked_put& c) { cpu::masked_put(*c.out(), c.input(), c.mask(), c.source()); })
  .kernel("reference",
          [](const args::masked_put& c) {
            int64_t next = 0;
            cpu::copy_reference(*c.out(), c.input());
            const TensorImpl& source = c.source();
            cpu::each_index(c.mask().sizes(), [&](const cpu::Index& at) {
              if (!cpu::get<bool>(c.mask(), at)) return;
              STRATA_CHECK(
                next < source.numel, Runtime,
                "masked_scatter: expected the number of elements in source ({}) to be at least the number of "
                "ones in mask",
                source.numel);
              cpu::Index from{};
              for (int64_t d = source.ndim, rest = next++; d-- > 0; rest /= source.shape[d])
                from[static_cast<size_t>(d)] = rest % source.shape[d];
              cpu::put(*c.out(), at, source, from);
            });
          })
  .cuda_on_host("masked_put_on_host")
  .saves({"mask"})
  .grad([](const grads::masked_put& c, const Tensor& g) -> Grads {
    grads::masked_put::Result out;
    if (c.needs_input()) out.input = masked_fill(g, c.mask(), 0);
    if (c.needs_source() && g.is_meta()) {
      out.source = autograd::zeros_for(c.meta_of_source());  // without values, the number of used elements is unknown
    } else if (c.needs_source()) {
      const Tensor used = _masked_select(g, c.mask());
      const int64_t unused = c.meta_of_source().numel - used.numel();
      out.source = reshape(constant_pad_nd(used, {0, unused}), c.shape_of_source());
    }
    return out;
  })
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4,3), b(4,3), f(12)", "f(4,3), b(4,3), f(4,4)", "f(), b(), f(1)", "f(0,3), b(0,3), f(0)"})
  .error("f(40), b(40), f(1)", ErrorKind::Runtime, "at least the number of ones")
  .error("f(2), b(3), f(3)", ErrorKind::Runtime, "of one shape");

STRATA_OP(masked_scatter, "masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor")
  .doc(
    "A copy of input whose elements under the mask are replaced by those of source, in order.\n\n>>> "
    "strata.zeros(3).masked_scatter(strata.tensor([True, False, True]), strata.tensor([1., 2.]))\ntensor([1., 0., 2.])")
  .composite([](const Tensor& input, const Tensor& mask, const Tensor& source) {
    STRATA_CHECK(mask.dtype() == DType::Bool, Runtime, "masked_scatter: expected BoolTensor for mask, got {}",
                 name_of(mask.dtype()));
    STRATA_CHECK(source.dtype() == input.dtype(), Runtime,
                 "masked_scatter: expected self and source to have same dtypes but got {} and {}",
                 name_of(input.dtype()), name_of(source.dtype()));
    const Dims shape = broadcast_shapes(input.shape(), mask.shape(), "masked_scatter");
    if (input.is_cpu()) return _masked_put(expand(input, shape), expand(mask, shape), source);
    const Tensor flat = reshape(expand(input, shape), -1);
    // Without values, the maximum number of positions: the shapes are the same for any number.
    const Tensor at = mask.is_meta() ? empty({std::min(source.numel(), flat.numel())}, DType::I64)
                                     : contiguous(positions_of(expand(mask, shape)));
    STRATA_CHECK(
      source.numel() >= at.numel(), Runtime,
      "masked_scatter: expected the number of elements in source ({}) to be at least the number of ones in mask ({})",
      source.numel(), at.numel());
    return reshape(index_put_at(flat, {at}, slice(reshape(source, -1), 0, 0, at.numel()), false, 0), shape);
  })
  .inplace()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4,3), b(4,3), f(12)", "f(4,3), b(3), f(4,3)"})
  .error("f(40), b(40), f(1)", ErrorKind::Runtime, "at least the number of ones");

}  // namespace strata
