// gather, scatter and related ops along one dimension.
#include "strata/args/indexing/scatter.h"
#include "strata/ops/indexing/scatter.h"
#include "strata/ops/indexing/scatter_inplace.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "autograd/autograd.h"
#include "cpu/indexing/indexing.h"
#include "cpu/movement/copy.h"
#include "cpu/reference.h"
#include "cuda/indexing/indexing.h"
#include "cuda/movement/dense.h"
#include "ops/indexing/indexing.h"
#include "ops/layout.h"
#include "ops/transfer.h"
#include "record/precision.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/views.h"
#include "strata/ops/pointwise/arithmetic.h"
#include "strata/ops/pointwise/compare.h"

namespace strata {
namespace {

int64_t size_along(const TensorImpl& t, int dim) { return t.ndim ? t.shape[dim] : 1; }

void check_index(const TensorImpl& input, const TensorImpl& index, int dim, const char* op) {
  if (index.numel == 0) return;
  STRATA_CHECK(index.dtype == DType::I64 || index.dtype == DType::I32, Runtime,
               "{}: expected dtype int64 or int32 for index, got {}", op, name_of(index.dtype));
  const int n = std::max<int>(input.ndim, 1), m = std::max<int>(index.ndim, 1);
  STRATA_CHECK(n == m, Runtime,
               "{}: index tensor must have the same number of dimensions as input tensor, got {} and {}", op,
               index.ndim, input.ndim);
  for (int d = 0; d < index.ndim; ++d)
    STRATA_CHECK(
      d == dim || index.shape[d] <= input.shape[d], Runtime,
      "{}: size does not match at dimension {}: expected index {} to be no larger than self {} apart from dimension {}",
      op, d, to_string(index.sizes()), to_string(input.sizes()), dim);
}

// The index as int64, with at least one dimension.
Tensor line_index(const TensorImpl& index) {
  Tensor t = alias(index);
  if (index.dtype != DType::I64) {
    t = make_tensor(index.sizes(), DType::I64);
    cpu::copy(*t, index);
  }
  return t;
}
// A zero-dimensional tensor is treated as one of one element.
Tensor line(const TensorImpl& x) {
  Tensor t = alias(x);
  if (t->ndim == 0) {
    t->ndim = 1;
    t->shape[0] = t->strides[0] = 1;
  }
  return t;
}

void infer_gather(const Call& c) {
  const args::gather a(c);
  const TensorImpl &input = a.input(), &index = a.index();
  check_index(input, index, normalize_dim(a.dim(), input.ndim, "gather"), "gather");
  c.outs[0]->dtype = input.dtype;
  c.outs[0]->device = input.device;
  c.outs[0]->set_shape(index.sizes());
}
void run_gather(const Call& c) {
  const args::gather a(c);
  const TensorImpl& input = a.input();
  const int dim = normalize_dim(a.dim(), input.ndim, "gather");
  if (c.out().numel() == 0) return;
  const Tensor index = line(*line_index(a.index()));
  cpu::check_indices(*index, size_along(input, dim), dim, "gather");
  cpu::gather(*line(*c.out()), *line(input), dim, *index);
}

void gather_on_device(const Call& c, Workspace& workspace) {
  const args::gather a(c);
  const TensorImpl& input = a.input();
  const int dim = normalize_dim(a.dim(), input.ndim, "gather");
  cuda::gather(*line(*c.out()), *line(input), dim, *line(a.index()), workspace);
}

cpu::Scatter mode_of(std::string_view reduce, const char* op) {
  if (reduce == "assign") return cpu::Scatter::Assign;
  if (reduce == "sum" || reduce == "add" || reduce == "mean") return cpu::Scatter::Add;
  if (reduce == "prod" || reduce == "multiply") return cpu::Scatter::Multiply;
  if (reduce == "amax") return cpu::Scatter::Max;
  if (reduce == "amin") return cpu::Scatter::Min;
  fail(ErrorKind::Runtime,
       fmt::format("{}: reduce argument must be either sum, prod, mean, amax or amin, got {}", op, reduce));
}

// scatter_core(input, dim, index, src, reduce)
void infer_scatter(const Call& c) {
  const args::scatter_core a(c);
  const TensorImpl &input = a.input(), &index = a.index(), &src = a.src();
  const int dim = normalize_dim(a.dim(), input.ndim, "scatter");
  const cpu::Scatter how = mode_of(a.reduce(), "scatter");
  STRATA_CHECK(!is_complex(input.dtype) || how == cpu::Scatter::Assign || how == cpu::Scatter::Add, NotImplemented,
               "scatter: reduce='{}' is not supported for {}", a.reduce(), name_of(input.dtype));
  check_index(input, index, dim, "scatter");
  STRATA_CHECK(src.dtype == input.dtype, Runtime,
               "scatter: expected self.dtype to be equal to src.dtype, got {} and {}", name_of(input.dtype),
               name_of(src.dtype));
  if (index.numel && !(src.numel == 1 && src.ndim == 0)) {
    STRATA_CHECK(std::max<int>(src.ndim, 1) == std::max<int>(index.ndim, 1), Runtime,
                 "scatter: index tensor must have the same number of dimensions as src tensor, got {} and {}",
                 index.ndim, src.ndim);
    for (int d = 0; d < index.ndim; ++d)
      STRATA_CHECK(src.ndim == 0 || index.shape[d] <= src.shape[d], Runtime,
                   "scatter: expected index {} to be no larger than src {}", to_string(index.sizes()),
                   to_string(src.sizes()));
  }
  c.outs[0]->dtype = input.dtype;
  c.outs[0]->device = input.device;
  c.outs[0]->set_shape(input.sizes());
  set_layout(*c.outs[0], std::nullopt, &input, "scatter");
}
void run_scatter(const Call& c) {
  const args::scatter_core a(c);
  const TensorImpl &input = a.input(), &out = *c.out();
  const int dim = normalize_dim(a.dim(), input.ndim, "scatter");
  Tensor index = line_index(a.index()), src = alias(a.src());
  if (index.numel()) cpu::check_indices(*line(*index), size_along(input, dim), dim, "scatter");
  if (out.data != input.data) {
    cpu::copy(out, input);
  } else {  // in place: the inputs must not overlap the output
    for (Tensor* t : {&index, &src})
      if ((*t)->storage.get() == out.storage.get()) {
        Tensor fresh = make_tensor(t->shape(), t->dtype());
        cpu::copy(*fresh, **t);
        *t = fresh;
      }
  }
  if (index.numel())
    cpu::scatter(*line(out), dim, *line(*index), *(src.dim() == 0 ? src : line(*src)), mode_of(a.reduce(), "scatter"));
}
template <bool any_order> void scatter_on_device(const Call& c, Workspace& workspace) {
  const args::scatter_core a(c);
  const TensorImpl &input = a.input(), &out = *c.out();
  const int dim = normalize_dim(a.dim(), input.ndim, "scatter");
  const bool in_place = out.data == input.data;
  const auto apart = [&](const TensorImpl& t) {
    const bool overlaps = in_place && t.storage.get() == out.storage.get();
    return overlaps ? cuda::copied(t, t.dtype, workspace) : alias(t);
  };
  const Tensor index = apart(a.index()), src = apart(a.src());
  if (!in_place && !workspace.planning()) copy_values(out, input);
  cuda::scatter(*line(out), dim, *line(*index), *(src.dim() == 0 ? src : line(*src)), mode_of(a.reduce(), "scatter"),
                any_order, workspace);
}
const char* why_not_scatter_in_any_order(const Call& c) {
  const args::scatter_core a(c);
  if (is_deterministic()) return kWhyNotInAnyOrder;
  const Scatter how = mode_of(a.reduce(), "scatter");
  if (how == Scatter::Assign) return nullptr;
  return how == Scatter::Add && cuda::adds_in_any_order(a.input().dtype)
           ? nullptr
           : "only sums of float32 and float64 are computed by atomics";
}

// Element `at` of the index gives the position along dim; the other coordinates are those of `at`.
cpu::Index along(const cpu::Index& at, int dim, const TensorImpl& index) {
  cpu::Index place = at;
  place[static_cast<size_t>(dim)] = cpu::get<int64_t>(index, at);
  return place;
}
void plain_gather(const Call& c) {
  const args::gather a(c);
  const TensorImpl &input = a.input(), &index = a.index();
  const int dim = normalize_dim(a.dim(), input.ndim, "gather");
  if (index.numel) cpu::check_indices(*line(*line_index(index)), size_along(input, dim), dim, "gather");
  cpu::each_index(index.sizes(), [&](const cpu::Index& at) { cpu::put(*c.out(), at, input, along(at, dim, index)); });
}
template <class T> T combined(cpu::Scatter how, T a, T b) {
  switch (how) {
    case cpu::Scatter::Assign: return b;
    case cpu::Scatter::Add: return a + b;
    case cpu::Scatter::Multiply: return a * b;
    case cpu::Scatter::Max: return a != a || a > b ? a : b;
    case cpu::Scatter::Min: return a != a || a < b ? a : b;
  }
  return b;
}
void plain_scatter(const Call& c) {
  const args::scatter_core a(c);
  const TensorImpl &input = a.input(), &index = a.index(), &src = a.src();
  const int dim = normalize_dim(a.dim(), input.ndim, "scatter");
  if (index.numel) cpu::check_indices(*line(*line_index(index)), size_along(input, dim), dim, "scatter");
  cpu::dispatch_wide(input.dtype, [&]<class T>() {
    const Tensor sums = make_tensor(input.sizes(), dtype_of<T>);  // narrow floats are rounded once, at the end
    cpu::copy_reference(*sums, input);
    cpu::each_index(index.sizes(), [&](const cpu::Index& at) {
      const cpu::Index place = along(at, dim, index);
      const T value = cpu::get<T>(src, src.ndim == 0 ? cpu::Index{} : at);
      cpu::set<T>(*sums, place, combined<T>(mode_of(a.reduce(), "scatter"), cpu::get<T>(*sums, place), value));
    });
    cpu::copy_reference(*c.out(), *sums);
  });
}

Tensor at_index(const Tensor& t, Shape index_shape) {  // the part of src that index covers
  Tensor out = t;
  for (size_t d = 0; d < index_shape.size(); ++d)
    if (out->shape[d] != index_shape[d]) out = slice(out, static_cast<int64_t>(d), 0, index_shape[d]);
  return out;
}
// The adjoint of at_index: zeros outside of index.
Tensor grad_of_src(const Tensor& g, const TensorImpl& src) {
  if (g->same_shape(src) || src.ndim == 0) return g;
  return copy_into_corner(g, src.sizes());
}

// The identity of a reduction in src's dtype.
Scalar identity(std::string_view reduce, DType t) {
  if (reduce == "prod") return 1;
  if (reduce != "amax" && reduce != "amin") return 0;
  const bool low = reduce == "amax";
  if (is_floating(t)) return low ? -HUGE_VAL : HUGE_VAL;
  if (t == DType::Bool) return !low;
  const int bits = static_cast<int>(size_of(t)) * 8;
  const int64_t high =
    is_signed(t) ? (bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1) : (int64_t{1} << bits) - 1;
  return low ? (is_signed(t) ? -high - 1 : 0) : high;
}

Tensor wrap(Scalar value, DType dtype) { return full({}, value, dtype); }

void run_scatter_reduce(const Call& c) {
  const args::scatter_reduce a(c);
  const Tensor input = a.share_input(), index = a.share_index(), src = a.share_src();
  const std::string_view reduce = a.reduce();
  const int64_t dim = a.dim();
  const bool include_self = a.include_self();
  autograd::NoGrad no_grad;
  const OnDeviceOf there(input.device());
  const Tensor& out = c.out();
  copy_values(*out, *input);
  if (!include_self) scatter_core_(out, dim, index, wrap(identity(reduce, input.dtype()), input.dtype()), "assign");
  scatter_core_(out, dim, index, src, reduce);
  if (reduce != "mean") return;
  Tensor count = scatter_add(full_like(out, include_self ? 1 : 0), dim, index, ones_like(src));
  count = clamp_min(count, 1);
  copy_values(*out, is_floating(out.dtype()) ? *div(out, count) : *div(out, count, "floor"));
}

void run_corner(const Call& c) {
  const args::copy_into_corner a(c);
  const TensorImpl& input = a.input();
  fill_values(*c.out(), 0);
  Tensor corner = alias(*c.out());
  corner->set_shape(input.sizes());
  corner->update_contiguous();
  copy_values(*corner, input);
}
}  // namespace

STRATA_OP(gather, "gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor")
  .doc(
    "Elements picked along a dimension: out[i][j] = input[index[i][j]][j] for dim 0.\n\n>>> strata.tensor([[1, 2], [3, "
    "4]]).gather(1, strata.tensor([[0], [1]]))\ntensor([[1],\n        [4]])")
  .infer(infer_gather)
  .kernel("lines", run_gather)
  .kernel("reference", plain_gather)
  .cuda("elements", gather_on_device)
  .grad([](const grads::gather& c, const Tensor& g) -> Grads {
    return {scatter_add_(autograd::zeros_for(c.meta_of_input()), c.dim(), c.index(), g)};
  })
  .saves({"index"})
  .dtypes(kStorageTypes)
  .samples({"f(4,3), 0, i4(2,3)", "f(4,3), 1, i3(4,5)", "f(5), -1, i5(7)", "f(), 0, i1()", "f(2,3,4), 1, i3(2,2,3)",
            "f(4,3), 0, i4(0,3)"})
  .error("f(2,3), 0, i9(50,3)", ErrorKind::Runtime, "out of bounds for dimension 0 with size 2")
  .error("f(2,3), 0, i2(2)", ErrorKind::Runtime, "same number of dimensions")
  .error("f(2,3), 0, i2(2,4)", ErrorKind::Runtime, "no larger than self")
  .error("f(2,3), 0, f(2,3)", ErrorKind::Runtime, "int64");

STRATA_OP(scatter_core, "scatter_core(Tensor input, int dim, Tensor index, Tensor src, str reduce) -> Tensor")
  .doc(
    "A copy of input with src (one element, or a tensor as large as index) combined into it at index along dim: "
    "'assign', 'sum', 'multiply', 'amax', 'amin'.")
  .infer(infer_scatter)
  .kernel("lines", run_scatter)
  .kernel("reference", plain_scatter)
  .cuda("any_order", scatter_on_device<true>, why_not_scatter_in_any_order)
  .numerics({.deterministic = false})
  .cuda("lines", scatter_on_device<false>)
  .grad([](const grads::scatter_core& c, const Tensor& g) -> Grads {
    const std::string_view reduce = c.reduce();
    const int64_t dim = c.dim();
    STRATA_CHECK(reduce == "assign" || reduce == "sum" || reduce == "add", NotImplemented,
                 "scatter: the derivative for reduce='{}' is not implemented", reduce);
    grads::scatter_core::Result out;
    if (c.needs_input())
      out.input = reduce == "assign" ? scatter_core(g, dim, c.index(), wrap(0, g.dtype()), "assign") : g;
    if (c.needs_src()) out.src = grad_of_src(gather(g, dim, c.index()), c.meta_of_src());
    return out;
  })
  .saves({"index"})
  .helper()
  .updates()
  .no_out()
  .dtypes(kStorageTypes)
  .complex_by_parts()
  .samples({"f(4,3), 0, i4(2,3), f(2,3), 'sum'", "f(5), 0, i5(3), f(4), 'sum'"})
  .error("f(4), 0, i4(3), f(2), 'sum'", ErrorKind::Runtime, "no larger than src");

STRATA_OP(copy_into_corner, "copy_into_corner(Tensor input, int[] size) -> Tensor")
  .doc("Zeros of a size with input at the front of every dimension.")
  .infer([](const args::copy_into_corner& c) {
    const TensorImpl& input = c.input();
    const IntList size = c.size();
    bool fits = size.size == input.ndim;
    for (int d = 0; fits && d < input.ndim; ++d) fits = input.shape[d] <= size[static_cast<size_t>(d)];
    STRATA_CHECK(fits, Runtime, "copy_into_corner: shape {} does not fit into {}", to_string(input.sizes()),
                 to_string(size));
    c.out()->dtype = input.dtype;
    c.out()->set_shape(size);
  })
  .kernel("copy", run_corner)
  .kernel("reference",
          [](const args::copy_into_corner& c) {
            const TensorImpl& input = c.input();
            cpu::fill_reference(*c.out(), 0);
            cpu::each_index(input.sizes(), [&](const cpu::Index& at) { cpu::put(*c.out(), at, input, at); });
          })
  .cuda("copy", run_corner)
  .grad([](const grads::copy_into_corner& c, const Tensor& g) -> Grads { return {at_index(g, c.shape_of_input())}; })
  .helper()
  .no_out()
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .handles_complex()
  .samples({"f(2,3), [4, 3]"});

STRATA_OP(scatter, "scatter(Tensor input, int dim, Tensor index, Tensor src) -> Tensor")
  .doc(
    "A copy of input with the elements of src written at index along a dimension; later ones win.\n\n"
    ">>> strata.zeros(3).scatter(0, strata.tensor([2, 0]), strata.tensor([5., 6.]))\ntensor([6., 0., 5.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src) {
    return scatter_core(input, dim, index, src.dim() == 0 ? to(src, input.dtype()) : src,
                        "assign");  // a number wrapped as a tensor is converted
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4,3), 0, i1(1,3), f(1,3)", "f(5), 0, i1(1), f(4)", "f(4,3), 1, i1(4,1), f(4,2)"})
  .error("f(2,3), 0, i9(50,3), f(50,3)", ErrorKind::Runtime, "out of bounds")
  .error("f(2,3), 0, i2(2,3), f(1,3)", ErrorKind::Runtime, "no larger than src");
STRATA_OP(scatter_value, "scatter.value(Tensor input, int dim, Tensor index, Scalar value) -> Tensor")
  .doc(
    "A copy of input with a number written at index along a dimension.\n\n>>> strata.zeros(3).scatter(0, "
    "strata.tensor([2, 0]), 1.)\ntensor([1., 0., 1.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, Scalar value) {
    return scatter_core(input, dim, index, wrap(value, input.dtype()), "assign");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4,3), 0, i4(2,3), 1", "f(5), 0, i5(0), 1", "f(), 0, i1(), 1"})
  .error("f(2,3), 0, i9(50,3), 1", ErrorKind::Runtime, "out of bounds");
STRATA_OP(scatter_reduce_src,
          "scatter.reduce(Tensor input, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor")
  .doc(
    "A copy of input with the elements of src added ('add') or multiplied ('multiply') into it.\n\n>>> "
    "strata.ones(2).scatter(0, strata.tensor([1]), strata.tensor([5.]), reduce='add')\ntensor([1., 6.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce) {
    STRATA_CHECK(reduce == "add" || reduce == "multiply", Runtime,
                 "scatter: reduce argument must be either add or multiply, got {}", reduce);
    return scatter_core(input, dim, index, src.dim() == 0 ? to(src, input.dtype()) : src, reduce);
  })
  .no_out()
  .dtypes(kNumericTypes)
  .samples({"f(4,3), 0, i4(2,3), f(2,3), reduce='add'"})
  .error("f(2,3), 0, i2(2,3), f(2,3), reduce='max'", ErrorKind::Runtime, "add or multiply");
STRATA_OP(scatter_reduce_value,
          "scatter.value_reduce(Tensor input, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor")
  .doc(
    "A copy of input with a number added ('add') or multiplied ('multiply') into it.\n\n>>> strata.ones(2).scatter(0, "
    "strata.tensor([1]), 5., reduce='add')\ntensor([1., 6.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, Scalar value, std::string_view reduce) {
    STRATA_CHECK(reduce == "add" || reduce == "multiply", Runtime,
                 "scatter: reduce argument must be either add or multiply, got {}", reduce);
    return scatter_core(input, dim, index, wrap(value, input.dtype()), reduce);
  })
  .no_out()
  .dtypes(kNumericTypes)
  .samples({"f(4,3), 0, i4(2,3), 2, reduce='add'"})
  .error("f(2,3), 0, i2(2,3), 2, reduce='max'", ErrorKind::Runtime, "add or multiply");

STRATA_OP(scatter_add, "scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor")
  .doc(
    "A copy of input with the elements of src added at index along a dimension.\n\n>>> strata.zeros(2).scatter_add(0, "
    "strata.tensor([1, 1]), strata.ones(2))\ntensor([0., 2.])")
  .composite([](const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src) {
    return scatter_core(input, dim, index, src, "sum");
  })
  .no_out()
  .dtypes(kNumericTypes)
  .autocast_cuda(Autocast::Promote)
  .add_dtypes(kComplexTypes)
  .samples({"f(4,3), 0, i4(2,3), f(2,3)", "f(5), 0, i5(7), f(7)", "f(4,3), 1, i3(4,5), f(4,6)", "f(), 0, i1(), f()"})
  .error("f(2,3), 0, i9(50,3), f(50,3)", ErrorKind::Runtime, "out of bounds");

STRATA_OP(
  scatter_reduce,
  "scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor")
  .doc(
    "A copy of input with the elements of src combined into it at index along a dimension by sum, prod, mean, amax or "
    "amin; with include_self=False the old values at index are ignored.\n\n>>> strata.ones(2).scatter_reduce(0, "
    "strata.tensor([1, 1]), strata.tensor([2., 4.]), 'mean', include_self=False)\ntensor([1., 3.])")
  .infer([](const args::scatter_reduce& c) {
    infer_scatter(c);
    const std::string_view reduce = c.reduce();
    STRATA_CHECK(reduce == "sum" || reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin",
                 Runtime, "scatter_reduce: reduce argument must be either sum, prod, mean, amax or amin, got {}",
                 reduce);
  })
  .kernel("reference", run_scatter_reduce)  // uses scatter_core, which has a faster kernel
  .cuda("scatter_core", run_scatter_reduce)
  .grad([](const grads::scatter_reduce& c, const Tensor& g) -> Grads {
    const Tensor input = c.input(), index = c.index(), src = c.src();
    const std::string_view reduce = c.reduce();
    const int64_t dim = c.dim();
    const bool include_self = c.include_self();
    const Tensor covered = at_index(src, index.shape());
    Tensor to_input, to_src;  // to_src: in the shape of index
    if (reduce == "sum") {
      to_input = g;
      to_src = gather(g, dim, index);
    } else if (reduce == "mean") {
      Tensor count = scatter_add(full_like(g, include_self ? 1 : 0), dim, index, ones_like(covered));
      to_input = div(g, clamp_min(count, 1));
      to_src = gather(to_input, dim, index);
    } else if (reduce == "prod") {
      const Tensor result = c.result();
      const Tensor nonzero_self = masked_fill(input, eq(input, 0), 1.0);
      to_input = div(mul(g, scatter_reduce(nonzero_self, dim, index, src, "prod", include_self)), nonzero_self);
      const Tensor zero = eq(covered, 0);
      const Tensor zeros_there = gather(scatter_add(zeros_like(g), dim, index, to(zero, g.dtype())), dim, index);
      const Tensor single = logical_and(zero, eq(zeros_there, 1));
      const Tensor others = scatter_reduce(input, dim, index, masked_fill(covered, single, 1.0), "prod", include_self);
      to_src = where(single, gather(mul(g, others), dim, index),
                     div(gather(mul(g, result), dim, index), masked_fill(covered, zero, 1.0)));
    } else {
      const Tensor result = c.result();
      const Tensor self_is = to(eq(input, result), g.dtype()),
                   src_is = to(eq(covered, gather(result, dim, index)), g.dtype());
      const Tensor self_counts = include_self ? self_is : scatter(self_is, dim, index, 0);
      const Tensor share = div(g, clamp_min(scatter_add(self_counts, dim, index, src_is), 1));
      to_input = mul(self_counts, share);
      to_src = mul(src_is, gather(share, dim, index));
    }
    if (!include_self) to_input = scatter(to_input, dim, index, 0);
    grads::scatter_reduce::Result out;
    if (c.needs_input()) out.input = to_input;
    if (c.needs_src()) out.src = grad_of_src(to_src, *src);
    return out;
  })
  .saves({"input", "index", "src"})
  .saves_result()
  .inplace()
  .no_out()
  .dtypes(kNumericTypes)
  .samples({"f(4,3), 0, i4(2,3), f(2,3), 'sum'", "p(4,3), 0, i4(6,3), p(6,3), 'prod'",
            "f(4,3), 1, i3(4,5), f(4,5), 'mean'", "f(4,3), 1, i3(4,5), f(4,5), 'amax'",
            "f(4,3), 1, i3(4,5), f(4,5), 'amin', include_self=False",
            "f(4,3), 1, i3(4,5), f(4,5), 'mean', include_self=False",
            "f(5), 0, i5(7), f(8), 'sum', include_self=False"})
  .error("f(2), 0, i2(2), f(2), 'max'", ErrorKind::Runtime, "reduce argument")
  .error("f(2), 0, i9(60), f(60), 'sum'", ErrorKind::Runtime, "out of bounds");

}  // namespace strata
