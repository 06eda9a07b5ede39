// sort, argsort, msort, topk, kthvalue, median, nanmedian, mode.
#include "cpu/order/sort.h"
#include "autograd/autograd.h"
#include "cpu/lines.h"
#include "cuda/order/sort.h"
#include "ops/reduce/common.h"
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {
namespace {

// sort has (input, dim, descending); the stable overload (input, stable, dim, descending).
template <uint32_t kDim> int sort_dim(const Call& c) {
  return normalize_dim(c.args[kDim].integer(), c.args.tensor(0).ndim, c.op.name.c_str());
}
template <uint32_t kDim> void infer_sort(const Call& c) {
  const TensorImpl& x = c.args.tensor(0);
  sort_dim<kDim>(c);
  for (int o = 0; o < 2; ++o) c.outs[o]->set_shape(x.sizes()), c.outs[o]->device = x.device;
  c.outs[0]->dtype = x.dtype, c.outs[1]->dtype = DType::I64;
}
using Sorter = void (*)(const TensorImpl&, int, bool, const TensorImpl*, const TensorImpl*);
template <uint32_t kDim, Sorter sorter> void run_sort(const Call& c) {
  sorter(c.args.tensor(0), sort_dim<kDim>(c), c.args[kDim + 1].boolean(), c.outs[0].get(), c.outs[1].get());
}
template <uint32_t kDim> Grads grad_sort(const GradContext& c, const Tensor& g) {
  if (c.meta(0).ndim == 0 || c.meta(0).numel == 0) return {g};
  return {scatter_into_zeros(c.meta(0), normalize_dim(c.arg(kDim).integer(), c.meta(0).ndim, "sort"),
                             autograd::detach(c.result(1)), g)};
}

// Devices choose how lines are sorted.
using cuda::SortWay;
template <SortWay way>
void device_sort(const TensorImpl& x, int dim, bool descending, const TensorImpl* values, const TensorImpl* indices) {
  cuda::sort(way, x, dim, descending, values, indices);
}
template <SortWay way>
void device_topk(const TensorImpl& x, int64_t k, int dim, bool largest, const TensorImpl& values,
                 const TensorImpl& indices) {
  cuda::topk(way, x, k, dim, largest, values, indices);
}
template <SortWay way>
void device_pick(cpu::Pick what, const TensorImpl& x, int64_t k, int dim, const TensorImpl& values,
                 const TensorImpl& indices) {
  cuda::pick(way, what, x, k, dim, values, indices);
}
// Whether lines along the dimension at place kDim are sorted so, where one element of each is wanted (kWhole: all of them).
template <SortWay way, uint32_t kDim, bool kWhole = false> const char* sorts_so(const Call& c) {
  const TensorImpl& x = c.args.tensor(0);
  const int dim = normalize_dim(c.args[kDim].integer(), x.ndim, c.op.name.c_str());
  const int64_t n = x.ndim ? x.shape[dim] : 1;
  return cuda::sort_objection(way, n, n ? x.numel / n : 0, kWhole ? n : 1);
}
template <SortWay way> const char* sorts_all_so(const Call& c) {  // as one line
  return cuda::sort_objection(way, c.args.tensor(0).numel, 1, 1);
}
template <SortWay way> const char* finds_top_so(const Call& c) {
  const TensorImpl& x = c.args.tensor(0);
  const int64_t n = x.ndim ? x.shape[normalize_dim(c.args[2].integer(), x.ndim, "topk")] : 1;
  return cuda::sort_objection(way, n, n ? x.numel / n : 0, c.args[1].integer());
}

template <SortWay way> void device_argsort(const Call& c) {
  cuda::sort(way, c.args.tensor(0), sort_dim<1>(c), c.args[2].boolean(), nullptr, c.out().get());
}

void infer_pick(const Call& c, int64_t dim, bool keepdim) {
  const TensorImpl& x = c.args.tensor(0);
  const int d = normalize_dim(dim, x.ndim, c.op.name.c_str());
  STRATA_CHECK(x.ndim == 0 || x.shape[d] > 0, Index, "{}: Expected reduction dim {} to have non-zero size", c.op.name,
               d);
  for (int o = 0; o < 2; ++o) set_reduced_shape(*c.outs[o], x, 1u << d, keepdim);
  c.outs[0]->dtype = x.dtype, c.outs[1]->dtype = DType::I64;
}
template <cpu::Pick what, decltype(&cpu::pick) pick> void run_pick(const Call& c) {
  constexpr uint32_t kDim = what == cpu::Pick::Kth ? 2 : 1;
  const TensorImpl& x = c.args.tensor(0);
  pick(what, x, kDim == 2 ? c.args[1].integer() - 1 : 0,
       normalize_dim(c.args[kDim].integer(), x.ndim, c.op.name.c_str()), *c.outs[0], *c.outs[1]);
}
template <decltype(&cpu::topk) topk> void run_topk(const Call& c) {
  const TensorImpl& x = c.args.tensor(0);
  topk(x, c.args[1].integer(), normalize_dim(c.args[2].integer(), x.ndim, "topk"), c.args[3].boolean(), *c.outs[0],
       *c.outs[1]);
}
Grads grad_pick(const GradContext& c, const Tensor& g) { return {grad_of_selection(c, g, c.arg(2).boolean())}; }

void infer_median(const Call& c) {
  c.out()->dtype = c.args.tensor(0).dtype;
  c.out()->set_shape(Shape());
}
template <cpu::Pick what, decltype(&cpu::pick) pick> void run_median(const Call& c) {
  const TensorImpl& input = c.args.tensor(0);
  if (input.numel == 0)
    return fill_values(*c.out(), is_floating(input.dtype)    ? Scalar(NAN)
                                 : input.dtype == DType::I32 ? Scalar(INT32_MIN)
                                                             : Scalar(INT64_MIN));
  const autograd::NoGrad no_grad;
  const Tensor flat = reshape(c.args.share(0), {-1}), place = make_tensor({}, DType::I64, input.device);
  pick(what, *flat, 0, 0, *c.out(), *place);
}
// All elements that equal the median share its gradient.
Grads grad_median(const GradContext& c, const Tensor& g) {
  return {spread_evenly(g, c.input(0), c.result(), (1u << c.meta(0).ndim) - 1, false)};
}
}  // namespace

STRATA_OP(sort, "sort(Tensor input, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)")
  .doc(
    "The elements in order along a dimension and where each came from. Equal elements keep their order; NaN counts as "
    "the largest.")
  .infer(infer_sort<1>)
  .kernel("radix", run_sort<1, cpu::sort>)
  .kernel("reference", run_sort<1, cpu::sort_reference>)
  .cuda("block_lines", run_sort<1, device_sort<SortWay::Lines>>, sorts_so<SortWay::Lines, 1, true>)
  .cuda("radix", run_sort<1, device_sort<SortWay::Radix>>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_sort<1>)
  .samples({"f(3,4)", "f(3,4), 0", "f(3,4), 1, True", "i5(10)", "b(7)", "f()", "f(0,3), 0", "f(2,500)"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(
  sort_stable,
  "sort.stable(Tensor input, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)")
  .doc("The same as sort, which is always stable.")
  .infer(infer_sort<2>)
  .kernel("radix", run_sort<2, cpu::sort>)
  .kernel("reference", run_sort<2, cpu::sort_reference>)
  .cuda("block_lines", run_sort<2, device_sort<SortWay::Lines>>, sorts_so<SortWay::Lines, 2, true>)
  .cuda("radix", run_sort<2, device_sort<SortWay::Radix>>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_sort<2>)
  .samples({"f(3,4), stable=True", "i5(3,10), stable=True, dim=0, descending=True"})
  .error("f(3), stable=True, dim=1", ErrorKind::Index, "out of range");

STRATA_OP(argsort, "argsort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor")
  .doc("The places of the elements in order along a dimension.")
  .infer([](const Call& c) {
    const TensorImpl& x = c.args.tensor(0);
    sort_dim<1>(c);
    c.out()->set_shape(x.sizes()), c.out()->dtype = DType::I64;
  })
  .kernel("radix",
          [](const Call& c) {
            cpu::sort(c.args.tensor(0), sort_dim<1>(c), c.args[2].boolean(), nullptr, c.out().get());
          })
  .kernel("reference",
          [](const Call& c) {
            cpu::sort_reference(c.args.tensor(0), sort_dim<1>(c), c.args[2].boolean(), nullptr, c.out().get());
          })
  .cuda("block_lines", device_argsort<SortWay::Lines>, sorts_so<SortWay::Lines, 1, true>)
  .cuda("radix", device_argsort<SortWay::Radix>)
  .samples({"f(3,4)", "f(3,4), 0, True", "i5(10), stable=True", "f()"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(msort, "msort(Tensor input) -> Tensor")
  .doc("The elements in order along the first dimension.")
  .composite([](const Tensor& input) { return sort(input, int64_t{0})[0]; })
  .samples({"f(3,4)", "i5(7)"});

STRATA_OP(
  topk, "topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)")
  .doc("The k largest (or smallest) elements along a dimension, in order, and their places.")
  .infer([](const Call& c) {
    const TensorImpl& x = c.args.tensor(0);
    const int dim = normalize_dim(c.args[2].integer(), x.ndim, "topk");
    const int64_t k = c.args[1].integer(), n = x.ndim ? x.shape[dim] : 1;
    STRATA_CHECK(k >= 0 && k <= n, Runtime,
                 "topk: selected index k out of range; k is {}, dimension {} has {} elements", k, dim, n);
    for (int o = 0; o < 2; ++o) {
      c.outs[o]->set_shape(x.sizes());
      if (x.ndim) c.outs[o]->shape[dim] = k;
    }
    c.outs[0]->dtype = x.dtype, c.outs[1]->dtype = DType::I64;
  })
  .kernel("select", run_topk<cpu::topk>)
  .kernel("reference", run_topk<cpu::topk_reference>)
  .cuda("select", run_topk<device_topk<SortWay::Select>>, finds_top_so<SortWay::Select>)
  .cuda("block_lines", run_topk<device_topk<SortWay::Lines>>, finds_top_so<SortWay::Lines>)
  .cuda("radix", run_topk<device_topk<SortWay::Radix>>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    if (c.meta(0).ndim == 0) return {g};
    return {scatter_into_zeros(c.meta(0), normalize_dim(c.arg(2).integer(), c.meta(0).ndim, "topk"),
                               autograd::detach(c.result(1)), g)};
  })
  .samples({"f(3,4), 2", "f(3,4), 2, 0", "f(3,40), 30, -1, False", "i5(10), 3", "f(), 1", "f(3,4), 0"})
  .error("f(3,4), 5", ErrorKind::Runtime, "out of range");

STRATA_OP(kthvalue, "kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The k-th smallest element along a dimension (k counts from 1) and its place.")
  .infer([](const Call& c) {
    const TensorImpl& x = c.args.tensor(0);
    infer_pick(c, c.args[2].integer(), c.args[3].boolean());
    const int64_t k = c.args[1].integer(),
                  n = x.ndim ? x.shape[normalize_dim(c.args[2].integer(), x.ndim, "kthvalue")] : 1;
    STRATA_CHECK(k >= 1 && k <= n, Runtime,
                 "kthvalue: selected number k out of range for dimension {}; k is {}, there are {} elements",
                 c.args[2].integer(), k, n);
  })
  .kernel("select", run_pick<cpu::Pick::Kth, cpu::pick>)
  .kernel("reference", run_pick<cpu::Pick::Kth, cpu::pick_reference>)
  .cuda("select", run_pick<cpu::Pick::Kth, device_pick<SortWay::Select>>, sorts_so<SortWay::Select, 2>)
  .cuda("block_lines", run_pick<cpu::Pick::Kth, device_pick<SortWay::Lines>>, sorts_so<SortWay::Lines, 2>)
  .cuda("radix", run_pick<cpu::Pick::Kth, device_pick<SortWay::Radix>>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    if (c.meta(0).ndim == 0) return {g};
    const int dim = normalize_dim(c.arg(2).integer(), c.meta(0).ndim, "kthvalue");
    const Tensor index = autograd::detach(c.result(1));
    const bool keepdim = c.arg(3).boolean();
    return {
      scatter_into_zeros(c.meta(0), dim, keepdim ? index : unsqueeze(index, dim), keepdim ? g : unsqueeze(g, dim))};
  })
  .samples({"f(3,4), 2", "f(3,4), 1, 0, True", "i5(10), 3", "f(), 1"})
  .error("f(3,4), 5", ErrorKind::Runtime, "out of range")
  .error("f(3,4), 1, 2", ErrorKind::Index, "out of range");

STRATA_OP(median_dim, "median.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The lower median along a dimension and its place; NaN where there is one.")
  .infer([](const Call& c) { infer_pick(c, c.args[1].integer(), c.args[2].boolean()); })
  .kernel("select", run_pick<cpu::Pick::Median, cpu::pick>)
  .kernel("reference", run_pick<cpu::Pick::Median, cpu::pick_reference>)
  .cuda("select", run_pick<cpu::Pick::Median, device_pick<SortWay::Select>>, sorts_so<SortWay::Select, 1>)
  .cuda("block_lines", run_pick<cpu::Pick::Median, device_pick<SortWay::Lines>>, sorts_so<SortWay::Lines, 1>)
  .cuda("radix", run_pick<cpu::Pick::Median, device_pick<SortWay::Radix>>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_pick)
  .samples({"f(3,4), 0", "f(3,5), -1, True", "i5(10), 0", "f(), 0"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(median, "median(Tensor input) -> Tensor")
  .doc("The lower median of all elements; NaN when there is one.")
  .infer(infer_median)
  .kernel("select", run_median<cpu::Pick::Median, cpu::pick>)
  .kernel("reference", run_median<cpu::Pick::Median, cpu::pick_reference>)
  .cuda("select", run_median<cpu::Pick::Median, device_pick<SortWay::Select>>, sorts_all_so<SortWay::Select>)
  .cuda("block_lines", run_median<cpu::Pick::Median, device_pick<SortWay::Lines>>, sorts_all_so<SortWay::Lines>)
  .cuda("radix", run_median<cpu::Pick::Median, device_pick<SortWay::Radix>>)
  .saves({0})
  .saves_result()
  .grad(grad_median)
  .samples({"f(3,4)", "f(5)", "i5(10)", "f()"});

STRATA_OP(nanmedian_dim, "nanmedian.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The lower median along a dimension of the elements that are not NaN, and its place.")
  .infer([](const Call& c) { infer_pick(c, c.args[1].integer(), c.args[2].boolean()); })
  .kernel("select", run_pick<cpu::Pick::NanMedian, cpu::pick>)
  .kernel("reference", run_pick<cpu::Pick::NanMedian, cpu::pick_reference>)
  .cuda("select", run_pick<cpu::Pick::NanMedian, device_pick<SortWay::Select>>, sorts_so<SortWay::Select, 1>)
  .cuda("block_lines", run_pick<cpu::Pick::NanMedian, device_pick<SortWay::Lines>>, sorts_so<SortWay::Lines, 1>)
  .cuda("radix", run_pick<cpu::Pick::NanMedian, device_pick<SortWay::Radix>>)
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
  .cuda("select", run_median<cpu::Pick::NanMedian, device_pick<SortWay::Select>>, sorts_all_so<SortWay::Select>)
  .cuda("block_lines", run_median<cpu::Pick::NanMedian, device_pick<SortWay::Lines>>, sorts_all_so<SortWay::Lines>)
  .cuda("radix", run_median<cpu::Pick::NanMedian, device_pick<SortWay::Radix>>)
  .saves({0})
  .saves_result()
  .grad(grad_median)
  .samples({"f(3,4)", "f(5)", "i5(10)"});

STRATA_OP(mode, "mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)")
  .doc("The most frequent element along a dimension, the smallest of equally frequent ones, and its last place.")
  .infer([](const Call& c) { infer_pick(c, c.args[1].integer(), c.args[2].boolean()); })
  .kernel("select", run_pick<cpu::Pick::Mode, cpu::pick>)
  .kernel("reference", run_pick<cpu::Pick::Mode, cpu::pick_reference>)
  .cuda("block_lines", run_pick<cpu::Pick::Mode, device_pick<SortWay::Lines>>, sorts_so<SortWay::Lines, 1>)
  .cuda("radix", run_pick<cpu::Pick::Mode, device_pick<SortWay::Radix>>)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad(grad_pick)
  .samples({"i5(3,10)", "f(3,4), 0", "i5(10), 0, True", "f()"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

}  // namespace strata
