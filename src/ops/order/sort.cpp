// sort, argsort, msort, topk, kthvalue, median, nanmedian, mode.
#include "cpu/order/sort.h"
#include "autograd/autograd.h"
#include "cpu/lines.h"
#include "cuda/movement/dense.h"
#include "cuda/order/sort.h"
#include "ops/reduce/common.h"
#include "ops/transfer.h"
#include "strata/args/order/sort.h"
#include "strata/ops.h"

namespace strata {
namespace {

constexpr DTypeSet kOrderedTypes = kAllTypes | DTypeSet{DType::U64};  // elements are compared as unsigned keys

// V is the view of an op with a dim.
template <class V> int dim_of(const V& a) { return normalize_dim(a.dim(), a.input().ndim, a.op().name.c_str()); }

template <class V> void infer_sort(const Call& c) {
  const V a(c);
  const TensorImpl& x = a.input();
  dim_of(a);
  for (int o = 0; o < 2; ++o) {
    c.outs[o]->set_shape(x.sizes());
    c.outs[o]->device = x.device;
  }
  c.outs[0]->dtype = x.dtype;
  c.outs[1]->dtype = DType::I64;
}
using Sorter = void (*)(const TensorImpl&, int, bool, const TensorImpl*, const TensorImpl*);
template <class V, Sorter sorter> void run_sort(const Call& c) {
  const V a(c);
  sorter(a.input(), dim_of(a), a.descending(), c.outs[0].get(), c.outs[1].get());
}
template <class V> Grads grad_sort(const GradContext& c, const Tensor& g) {
  const V a(c);
  const TensorImpl& x = a.meta_of_input();
  if (x.ndim == 0 || x.numel == 0) return {g};
  return {scatter_into_zeros(x, normalize_dim(a.dim(), x.ndim, "sort"), autograd::detach(c.result(1)), g)};
}

// Devices choose a method of sorting lines.
using cuda::SortMethod;
template <SortMethod method, class V> void device_sort(const Call& c, Workspace& workspace) {
  const V a(c);
  cuda::sort(method, a.input(), dim_of(a), a.descending(), c.outs[0].get(), c.outs[1].get(), workspace);
}
template <SortMethod method> void device_argsort(const Call& c, Workspace& workspace) {
  const args::argsort a(c);
  cuda::sort(method, a.input(), dim_of(a), a.descending(), nullptr, c.out().get(), workspace);
}
template <SortMethod method> void device_topk(const Call& c, Workspace& workspace) {
  const args::topk a(c);
  const int dim = normalize_dim(a.dim(), a.input().ndim, "topk");
  cuda::topk(method, a.input(), a.k(), dim, a.largest(), *c.outs[0], *c.outs[1], workspace);
}
const TensorImpl* order_of(const args::sort_values& c) { return c.order().value_or(false) ? c.out(1).get() : nullptr; }
// The index of kthvalue, from 0; the others have none.
template <class V> int64_t rank_of(const V& a) {
  if constexpr (requires { a.k(); }) return a.k() - 1;
  else return 0;
}
template <SortMethod method, class V, cpu::Pick what> void device_pick(const Call& c, Workspace& workspace) {
  const V a(c);
  cuda::pick(method, what, a.input(), rank_of(a), dim_of(a), *c.outs[0], *c.outs[1], workspace);
}
// Whether this method sorts the lines if one element of each is needed (kWhole: all of them).
template <SortMethod method, class V, bool kWhole = false> const char* sorts_so(const Call& c) {
  const V a(c);
  const TensorImpl& x = a.input();
  const int64_t n = x.ndim ? x.shape[dim_of(a)] : 1;
  return cuda::sort_objection(method, n, n ? x.numel / n : 0, kWhole ? n : 1);
}
template <SortMethod method> const char* sorts_all_so(const Call& c) {  // as one line
  const args::median a(c);
  return cuda::sort_objection(method, a.input().numel, 1, 1);
}
template <SortMethod method> const char* finds_top_so(const Call& c) {
  const args::topk a(c);
  const TensorImpl& x = a.input();
  const int64_t n = x.ndim ? x.shape[normalize_dim(a.dim(), x.ndim, "topk")] : 1;
  return cuda::sort_objection(method, n, n ? x.numel / n : 0, a.k(), true);
}

void infer_pick(const Call& c, int64_t dim, bool keepdim) {
  const args::kthvalue a(c);
  const TensorImpl& x = a.input();
  const int d = normalize_dim(dim, x.ndim, c.op.name.c_str());
  STRATA_CHECK(x.ndim == 0 || x.shape[d] > 0, Index, "{}: Expected reduction dim {} to have non-zero size", c.op.name,
               d);
  for (int o = 0; o < 2; ++o) set_reduced_shape(*c.outs[o], x, dim_bit(d), keepdim);
  c.outs[0]->dtype = x.dtype;
  c.outs[1]->dtype = DType::I64;
}
template <class V, cpu::Pick what, decltype(&cpu::pick) pick> void run_pick(const Call& c) {
  const V a(c);
  pick(what, a.input(), rank_of(a), dim_of(a), *c.outs[0], *c.outs[1]);
}
template <decltype(&cpu::topk) topk> void run_topk(const Call& c) {
  const args::topk a(c);
  const TensorImpl& x = a.input();
  topk(x, a.k(), normalize_dim(a.dim(), x.ndim, "topk"), a.largest(), *c.outs[0], *c.outs[1]);
}
Grads grad_pick(const GradContext& c, const Tensor& g) {
  const grads::median_dim a(c);
  return {grad_of_selection(c, g, a.keepdim())};
}

void infer_median(const Call& c) {
  const args::median a(c);
  c.out()->dtype = a.input().dtype;
  c.out()->set_shape(Shape());
}
void fill_median_of_nothing(const TensorImpl& out) {
  fill_values(out, is_floating(out.dtype)    ? Scalar(NAN)
                   : out.dtype == DType::I32 ? Scalar(INT32_MIN)
                                             : Scalar(INT64_MIN));
}
template <cpu::Pick what, decltype(&cpu::pick) pick> void run_median(const Call& c) {
  const args::median a(c);
  const TensorImpl& input = a.input();
  if (input.numel == 0) return fill_median_of_nothing(*c.out());
  const autograd::NoGrad no_grad;
  const Tensor flat = reshape(a.share_input(), {-1}), place = make_tensor({}, DType::I64, input.device);
  pick(what, *flat, 0, 0, *c.out(), *place);
}
template <SortMethod method, cpu::Pick what> void device_median(const Call& c, Workspace& workspace) {
  const args::median a(c);
  const Tensor flat = cuda::flattened(*cuda::dense(a.input(), workspace)), place = workspace.take(Shape(), DType::I64);
  if (flat->numel > 0) cuda::pick(method, what, *flat, 0, 0, *c.out(), *place, workspace);
  else if (!workspace.planning()) fill_median_of_nothing(*c.out());
}
// All elements equal to the median share its gradient.
Grads grad_median(const GradContext& c, const Tensor& g) {
  const grads::median a(c);
  return {grad_of_one_value(g, a.input(), c.result())};
}
}  // namespace

STRATA_OP(sort, "sort(Tensor input, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)")
  .doc(
    "The sorted elements along a dimension and their original indices. Equal elements keep their order; NaN counts as "
    "the largest.")
  .dtypes(kOrderedTypes)
  .infer(infer_sort<args::sort>)
  .kernel("radix", run_sort<args::sort, cpu::sort>)
  .kernel("reference", run_sort<args::sort, cpu::sort_reference>)
  .cuda("block_lines", device_sort<SortMethod::Lines, args::sort>, sorts_so<SortMethod::Lines, args::sort, true>)
  .cuda("radix", device_sort<SortMethod::Radix, args::sort>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_sort<grads::sort>)
  .samples({"f(3,4)", "f(3,4), 0", "f(3,4), 1, True", "i5(10)", "b(7)", "f()", "f(0,3), 0", "f(2,500)"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(
  sort_stable,
  "sort.stable(Tensor input, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)")
  .doc("The same as sort, which is always stable.")
  .dtypes(kOrderedTypes)
  .infer(infer_sort<args::sort_stable>)
  .kernel("radix", run_sort<args::sort_stable, cpu::sort>)
  .kernel("reference", run_sort<args::sort_stable, cpu::sort_reference>)
  .cuda("block_lines", device_sort<SortMethod::Lines, args::sort_stable>,
        sorts_so<SortMethod::Lines, args::sort_stable, true>)
  .cuda("radix", device_sort<SortMethod::Radix, args::sort_stable>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_sort<grads::sort_stable>)
  .samples({"f(3,4), stable=True", "i5(3,10), stable=True, dim=0, descending=True"})
  .error("f(3), stable=True, dim=1", ErrorKind::Index, "out of range");

STRATA_OP(sort_values, "_sort_values(Tensor input, bool? order=None) -> (Tensor, Tensor)")
  .doc("The sorted elements of a vector, and their original indices (empty without `order`), which the gradient needs.")
  .keeps_for_grad("order")
  .helper()
  .no_out()
  .dtypes(kOrderedTypes)
  .infer([](const args::sort_values& c) {
    const TensorImpl& x = c.input();
    STRATA_CHECK(x.ndim == 1, Runtime, "_sort_values: expected a vector, got shape {}", to_string(x.sizes()));
    const int64_t indices = c.order().value_or(false) ? x.numel : 0;
    c.out()->dtype = x.dtype;
    c.out()->set_shape(x.sizes());
    c.out(1)->dtype = DType::I64;
    c.out(1)->set_shape(Shape(&indices, 1));
  })
  .kernel("radix", [](const args::sort_values& c) { cpu::sort(c.input(), 0, false, c.out().get(), order_of(c)); })
  .kernel("reference",
          [](const args::sort_values& c) { cpu::sort_reference(c.input(), 0, false, c.out().get(), order_of(c)); })
  .cuda("radix",
        [](const args::sort_values& c, Workspace& workspace) {
          cuda::sort(SortMethod::Radix, c.input(), 0, false, c.out().get(), order_of(c), workspace);
        })
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const grads::sort_values& c, const Tensor& g) -> Grads {
    const TensorImpl& x = c.meta_of_input();
    return {x.numel ? scatter_into_zeros(x, 0, autograd::detach(c.result(1)), g) : g};
  })
  .samples({"f(7)", "f(7), True", "i5(10), False", "f(0)"})
  .error("f(2,3)", ErrorKind::Runtime, "expected a vector");

STRATA_OP(argsort, "argsort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor")
  .doc("The indices that sort the elements along a dimension.")
  .dtypes(kOrderedTypes)
  .infer([](const args::argsort& c) {
    const TensorImpl& x = c.input();
    dim_of(c);
    c.out()->set_shape(x.sizes());
    c.out()->dtype = DType::I64;
  })
  .kernel("radix",
          [](const args::argsort& c) { cpu::sort(c.input(), dim_of(c), c.descending(), nullptr, c.out().get()); })
  .kernel("reference",
          [](const args::argsort& c) {
            cpu::sort_reference(c.input(), dim_of(c), c.descending(), nullptr, c.out().get());
          })
  .cuda("block_lines", device_argsort<SortMethod::Lines>, sorts_so<SortMethod::Lines, args::argsort, true>)
  .cuda("radix", device_argsort<SortMethod::Radix>)
  .samples({"f(3,4)", "f(3,4), 0, True", "i5(10), stable=True", "f()"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(msort, "msort(Tensor input) -> Tensor")
  .doc("The sorted elements along the first dimension.")
  .composite([](const Tensor& input) { return sort(input, int64_t{0})[0]; })
  .samples({"f(3,4)", "i5(7)"});

STRATA_OP(
  topk, "topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)")
  .doc("The k largest (or smallest) elements along a dimension, in order, and their indices.")
  .infer([](const args::topk& c) {
    const TensorImpl& x = c.input();
    const int dim = normalize_dim(c.dim(), x.ndim, "topk");
    const int64_t k = c.k(), n = x.ndim ? x.shape[dim] : 1;
    STRATA_CHECK(k >= 0 && k <= n, Runtime,
                 "topk: selected index k out of range; k is {}, dimension {} has {} elements", k, dim, n);
    for (int o = 0; o < 2; ++o) {
      c.out(o)->set_shape(x.sizes());
      if (x.ndim) c.out(o)->shape[dim] = k;
    }
    c.out()->dtype = x.dtype;
    c.out(1)->dtype = DType::I64;
  })
  .kernel("select", run_topk<cpu::topk>)
  .kernel("reference", run_topk<cpu::topk_reference>)
  .cuda("select", device_topk<SortMethod::Select>, finds_top_so<SortMethod::Select>)
  .cuda("block_lines", device_topk<SortMethod::Lines>, finds_top_so<SortMethod::Lines>)
  .cuda("radix", device_topk<SortMethod::Radix>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const grads::topk& c, const Tensor& g) -> Grads {
    if (c.meta_of_input().ndim == 0) return {g};
    return {scatter_into_zeros(c.meta_of_input(), normalize_dim(c.dim(), c.meta_of_input().ndim, "topk"),
                               autograd::detach(c.result(1)), g)};
  })
  .samples({"f(3,4), 2", "f(3,4), 2, 0", "f(3,40), 30, -1, False", "i5(10), 3", "f(), 1", "f(3,4), 0"})
  .error("f(3,4), 5", ErrorKind::Runtime, "out of range");

STRATA_OP(kthvalue, "kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The k-th smallest element along a dimension (k counts from 1) and its index.")
  .infer([](const args::kthvalue& c) {
    const TensorImpl& x = c.input();
    infer_pick(c, c.dim(), c.keepdim());
    const int64_t k = c.k(), n = x.ndim ? x.shape[normalize_dim(c.dim(), x.ndim, "kthvalue")] : 1;
    STRATA_CHECK(k >= 1 && k <= n, Runtime,
                 "kthvalue: selected number k out of range for dimension {}; k is {}, there are {} elements", c.dim(),
                 k, n);
  })
  .kernel("select", run_pick<args::kthvalue, cpu::Pick::Kth, cpu::pick>)
  .kernel("reference", run_pick<args::kthvalue, cpu::Pick::Kth, cpu::pick_reference>)
  .cuda("select", device_pick<SortMethod::Select, args::kthvalue, cpu::Pick::Kth>,
        sorts_so<SortMethod::Select, args::kthvalue>)
  .cuda("block_lines", device_pick<SortMethod::Lines, args::kthvalue, cpu::Pick::Kth>,
        sorts_so<SortMethod::Lines, args::kthvalue>)
  .cuda("radix", device_pick<SortMethod::Radix, args::kthvalue, cpu::Pick::Kth>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const grads::kthvalue& c, const Tensor& g) -> Grads {
    if (c.meta_of_input().ndim == 0) return {g};
    const int dim = normalize_dim(c.dim(), c.meta_of_input().ndim, "kthvalue");
    const Tensor index = autograd::detach(c.result(1));
    const bool keepdim = c.keepdim();
    return {scatter_into_zeros(c.meta_of_input(), dim, keepdim ? index : unsqueeze(index, dim),
                               keepdim ? g : unsqueeze(g, dim))};
  })
  .samples({"f(3,4), 2", "f(3,4), 1, 0, True", "i5(10), 3", "f(), 1"})
  .error("f(3,4), 5", ErrorKind::Runtime, "out of range")
  .error("f(3,4), 1, 2", ErrorKind::Index, "out of range");

STRATA_OP(median_dim, "median.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The lower median along a dimension and its index; NaN if there is one.")
  .infer([](const args::median_dim& c) { infer_pick(c, c.dim(), c.keepdim()); })
  .kernel("select", run_pick<args::median_dim, cpu::Pick::Median, cpu::pick>)
  .kernel("reference", run_pick<args::median_dim, cpu::Pick::Median, cpu::pick_reference>)
  .cuda("select", device_pick<SortMethod::Select, args::median_dim, cpu::Pick::Median>,
        sorts_so<SortMethod::Select, args::median_dim>)
  .cuda("block_lines", device_pick<SortMethod::Lines, args::median_dim, cpu::Pick::Median>,
        sorts_so<SortMethod::Lines, args::median_dim>)
  .cuda("radix", device_pick<SortMethod::Radix, args::median_dim, cpu::Pick::Median>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_pick)
  .samples({"f(3,4), 0", "f(3,5), -1, True", "i5(10), 0", "f(), 0"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(median, "median(Tensor input) -> Tensor")
  .doc("The lower median of all elements; NaN if there is one.")
  .infer(infer_median)
  .kernel("select", run_median<cpu::Pick::Median, cpu::pick>)
  .kernel("reference", run_median<cpu::Pick::Median, cpu::pick_reference>)
  .cuda("select", device_median<SortMethod::Select, cpu::Pick::Median>, sorts_all_so<SortMethod::Select>)
  .cuda("block_lines", device_median<SortMethod::Lines, cpu::Pick::Median>, sorts_all_so<SortMethod::Lines>)
  .cuda("radix", device_median<SortMethod::Radix, cpu::Pick::Median>)
  .saves({"input"})
  .saves_result()
  .grad(grad_median)
  .samples({"f(3,4)", "f(5)", "i5(10)", "f()"});

STRATA_OP(nanmedian_dim, "nanmedian.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The lower median along a dimension of the elements that are not NaN, and its index.")
  .infer([](const args::nanmedian_dim& c) { infer_pick(c, c.dim(), c.keepdim()); })
  .kernel("select", run_pick<args::nanmedian_dim, cpu::Pick::NanMedian, cpu::pick>)
  .kernel("reference", run_pick<args::nanmedian_dim, cpu::Pick::NanMedian, cpu::pick_reference>)
  .cuda("select", device_pick<SortMethod::Select, args::nanmedian_dim, cpu::Pick::NanMedian>,
        sorts_so<SortMethod::Select, args::nanmedian_dim>)
  .cuda("block_lines", device_pick<SortMethod::Lines, args::nanmedian_dim, cpu::Pick::NanMedian>,
        sorts_so<SortMethod::Lines, args::nanmedian_dim>)
  .cuda("radix", device_pick<SortMethod::Radix, args::nanmedian_dim, cpu::Pick::NanMedian>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_pick)
  .samples({"f(3,4), 0", "f(3,5), -1, True", "i5(10), 0", "f(), 0"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(nanmedian, "nanmedian(Tensor input) -> Tensor")
  .doc("The lower median of the elements that are not NaN.")
  .infer(infer_median)
  .kernel("select", run_median<cpu::Pick::NanMedian, cpu::pick>)
  .kernel("reference", run_median<cpu::Pick::NanMedian, cpu::pick_reference>)
  .cuda("select", device_median<SortMethod::Select, cpu::Pick::NanMedian>, sorts_all_so<SortMethod::Select>)
  .cuda("block_lines", device_median<SortMethod::Lines, cpu::Pick::NanMedian>, sorts_all_so<SortMethod::Lines>)
  .cuda("radix", device_median<SortMethod::Radix, cpu::Pick::NanMedian>)
  .saves({"input"})
  .saves_result()
  .grad(grad_median)
  .samples({"f(3,4)", "f(5)", "i5(10)"});

STRATA_OP(mode, "mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The most frequent element along a dimension, the smallest of equally frequent ones, and its last index.")
  .infer([](const args::mode& c) { infer_pick(c, c.dim(), c.keepdim()); })
  .kernel("select", run_pick<args::mode, cpu::Pick::Mode, cpu::pick>)
  .kernel("reference", run_pick<args::mode, cpu::Pick::Mode, cpu::pick_reference>)
  .cuda("block_lines", device_pick<SortMethod::Lines, args::mode, cpu::Pick::Mode>,
        sorts_so<SortMethod::Lines, args::mode>)
  .cuda("radix", device_pick<SortMethod::Radix, args::mode, cpu::Pick::Mode>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_pick)
  .samples({"i5(3,10)", "f(3,4), 0", "i5(10), 0, True", "f()"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

}  // namespace strata
