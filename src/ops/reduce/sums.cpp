// sum, mean, nansum, nanmean, prod, any, all, count_nonzero.
#include <fmt/core.h>

#include "ops/complex_parts.h"
#include "ops/reduce/common.h"
#include "ops/reduce/kernels.h"
#include "strata/args/reduce/sums.h"
#include "strata/ops.h"

namespace strata {
namespace {

struct Where {
  DimMask reduced;
  bool keepdim;
};
// V is the view of a full reduction, or of an overload with a dim.
template <class V> Where where(const V& a) {
  if constexpr (requires { a.keepdim(); })
    return {reduced_mask(a.input(), a.dim_value(), a.op().name.c_str()), a.keepdim()};
  else return {all_dims(a.input().ndim), false};
}

template <class V> void infer_sum(const Call& c) {
  const V a(c);
  const Where w = where(a);
  set_reduced_shape(*c.out(), a.input(), w.reduced, w.keepdim);
  c.out()->dtype = sum_dtype(a.input(), a.dtype_value());
}
template <class V> void infer_mean(const Call& c) {
  const V a(c);
  const TensorImpl& x = a.input();
  const DType result = a.dtype() ? *a.dtype() : x.dtype;
  if (!is_floating(result)) {
    STRATA_CHECK(
      a.dtype(), NotImplemented,
      "{}: could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
      c.op.name, info_of(x.dtype).title);
    fail(ErrorKind::NotImplemented,
         fmt::format(
           "{}: could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {}",
           c.op.name, info_of(result).title));
  }
  const Where w = where(a);
  set_reduced_shape(*c.out(), x, w.reduced, w.keepdim);
  c.out()->dtype = result;
}
template <class V> void infer_bool(const Call& c) {
  const V a(c);
  const TensorImpl& x = a.input();
  const Where w = where(a);
  set_reduced_shape(*c.out(), x, w.reduced, w.keepdim);
  c.out()->dtype = x.dtype == DType::U8 ? DType::U8 : DType::Bool;
}

template <Fold fold, class V> Reduction describe_fold(const Call& c) {
  const V a(c);
  return {fold, a.input(), where(a).reduced, c.out().dtype(), *c.out()};
}
template <class V> Reduction describe_mean(const Call& c) {
  const V a(c);
  const TensorImpl& x = a.input();
  const DimMask reduced = where(a).reduced;
  return {Fold::Sum, x, reduced, c.out().dtype(), *c.out(), {.divide = static_cast<double>(reduced_count(x, reduced))}};
}
template <Fold fold, class V> Reduction describe_own_type(const Call& c) {  // in the input's own dtype
  const V a(c);
  return {fold, a.input(), where(a).reduced, a.input().dtype, *c.out()};
}
Reduction describe_count(const Call& c) {
  const args::count_nonzero a(c);
  const TensorImpl& x = a.input();
  return {Fold::CountNonzero, x, reduced_mask(x, a.dim_value(), "count_nonzero"), x.dtype, *c.out()};
}

// Expands the gradient g to the elements that were summed.
template <class V> Tensor spread(const V& c, const Tensor& g) {
  if constexpr (requires { c.keepdim(); }) {
    const DimMask reduced = reduced_mask(c.meta_of_input(), c.dim_value(), "sum");
    return expand_reduced(g, c.shape_of_input(), reduced, c.keepdim());
  } else {
    return expand(g, c.shape_of_input());
  }
}
double elements_per_result(const TensorImpl& input, const Tensor& g) {
  return static_cast<double>(input.numel) / static_cast<double>(std::max<int64_t>(g.numel(), 1));
}
}  // namespace

STRATA_OP(sum, "sum(Tensor input, *, dtype? dtype=None) -> Tensor")
  .doc("The sum of all elements. Integers and booleans add up as int64.")
  .infer(infer_sum<args::sum>)
  .with(add_reduction<describe_fold<Fold::Sum, args::sum>>)
  .grad([](const grads::sum& c, const Tensor& g) -> Grads { return {spread(c, g)}; })
  .autocast_cuda(Autocast::Float32Result)
  .complex_composite([](const Tensor& input, std::optional<DType> dtype) {
    return complex_sum(input, all_dims(input.dim()), false, dtype);
  })
  .computes_uint64()
  .samples({"f(3,4)", "f()", "f(0,3)", "i5(3,4)", "b(7)", "f(2,3,5), dtype=float64"});

STRATA_OP(sum_dim, "sum.dim(Tensor input, int[]? dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The sum over the given dimensions; None or an empty list means all of them.")
  .infer(infer_sum<args::sum_dim>)
  .with(add_reduction<describe_fold<Fold::Sum, args::sum_dim>>)
  .grad([](const grads::sum_dim& c, const Tensor& g) -> Grads { return {spread(c, g)}; })
  .autocast_cuda(Autocast::Float32Result)
  .complex_composite([](const Tensor& input, OptIntList dim, bool keepdim, std::optional<DType> dtype) {
    return complex_sum(input, reduced_mask(*input, dim, "sum"), keepdim, dtype);
  })
  .computes_uint64()
  .samples({"f(3,4), 0", "f(3,4), -1, True", "f(2,3,4), [0,2]", "f(2,3,4), None, True", "f(), 0", "f(0,3), 0",
            "i5(3,4), 1", "b(3,4), 0", "f(3,4), 1, dtype=float64"})
  .error("f(2,3), 5", ErrorKind::Index, "out of range")
  .error("f(2,3), [0,0]", ErrorKind::Runtime, "multiple times");

STRATA_OP(nansum, "nansum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The sum over the given dimensions with NaN counted as zero.")
  .infer(infer_sum<args::nansum>)
  .with(add_reduction<describe_fold<Fold::NanSum, args::nansum>>)
  .saves({"input"})
  .grad([](const grads::nansum& c, const Tensor& g) -> Grads {
    const Tensor x = c.input();
    return {mul(spread(c, g), logical_not(isnan(x)))};
  })
  .computes_uint64()
  .samples({"f(3,4)", "f(3,4), 0", "f(2,3,4), [0,2], True", "i5(3,4), 1", "f(0,3), 0"})
  .error("f(2,3), 2", ErrorKind::Index, "out of range");

STRATA_OP(mean, "mean(Tensor input, *, dtype? dtype=None) -> Tensor")
  .doc("The mean of all elements.")
  .infer(infer_mean<args::mean>)
  .with(add_reduction<describe_mean<args::mean>>)
  .dtypes(kFloatingTypes)
  .grad([](const grads::mean& c, const Tensor& g) -> Grads {
    return {div(spread(c, g), elements_per_result(c.meta_of_input(), g))};
  })
  .complex_composite([](const Tensor& input, std::optional<DType> dtype) {
    return complex_mean(input, all_dims(input.dim()), false, dtype);
  })
  .samples({"f(3,4)", "f()", "f(0,3)", "i5(3,4), dtype=float32"})
  .error("i5(3)", ErrorKind::NotImplemented, "could not infer output dtype");

STRATA_OP(mean_dim, "mean.dim(Tensor input, int[]? dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The mean over the given dimensions; None or an empty list means all of them.")
  .infer(infer_mean<args::mean_dim>)
  .with(add_reduction<describe_mean<args::mean_dim>>)
  .dtypes(kFloatingTypes)
  .grad([](const grads::mean_dim& c, const Tensor& g) -> Grads {
    return {div(spread(c, g), elements_per_result(c.meta_of_input(), g))};
  })
  .complex_composite([](const Tensor& input, OptIntList dim, bool keepdim, std::optional<DType> dtype) {
    return complex_mean(input, reduced_mask(*input, dim, "mean"), keepdim, dtype);
  })
  .samples({"f(3,4), 0", "f(3,4), 1, True", "f(2,3,4), [0,2]", "f(2,3,4), None, True", "i5(3,4), 1, dtype=float64"})
  .error("f(2,3), -3", ErrorKind::Index, "out of range")
  .error("i5(3), 0", ErrorKind::NotImplemented, "could not infer output dtype");

STRATA_OP(nanmean, "nanmean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The mean over the given dimensions of the elements that are not NaN.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, OptIntList dim, bool keepdim, std::optional<DType> dtype) {
    STRATA_CHECK(is_floating(input.dtype()), Runtime,
                 "nanmean: expected input to have floating point or complex dtype but got {}", name_of(input.dtype()));
    const Tensor count = sum(logical_not(isnan(input)), dim, keepdim);
    return div(nansum(input, dim, keepdim, dtype), count);
  })
  .samples({"f(3,4)", "f(3,4), 0", "f(2,3,4), [0,2], True"})
  .error("i5(3)", ErrorKind::Runtime, "floating point");

STRATA_OP(any, "any(Tensor input) -> Tensor")
  .doc("True when any element is not zero (NaN counts as true).")
  .infer(infer_bool<args::any>)
  .with(add_reduction<describe_own_type<Fold::Any, args::any>>)
  .complex_composite([](const Tensor& input) { return any(ne(input, 0)); })
  .computes_uint64()
  .samples({"b(7)", "f(3,4)", "i5(3)", "b(0)", "b()"});

STRATA_OP(any_dim, "any.dim(Tensor input, int[]? dim, bool keepdim=False) -> Tensor")
  .doc("True where any element along the given dimensions is not zero.")
  .infer(infer_bool<args::any_dim>)
  .with(add_reduction<describe_own_type<Fold::Any, args::any_dim>>)
  .complex_composite([](const Tensor& input, OptIntList dim, bool keepdim) { return any(ne(input, 0), dim, keepdim); })
  .computes_uint64()
  .samples({"b(3,4), 0", "f(3,4), 1, True", "i5(2,3,4), [0,2]", "b(0,3), 0"})
  .error("b(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(all, "all(Tensor input) -> Tensor")
  .doc("True when no element is zero.")
  .infer(infer_bool<args::all>)
  .with(add_reduction<describe_own_type<Fold::All, args::all>>)
  .complex_composite([](const Tensor& input) { return all(ne(input, 0)); })
  .computes_uint64()
  .samples({"b(7)", "f(3,4)", "i5(3)", "b(0)", "b()"});

STRATA_OP(all_dim, "all.dim(Tensor input, int[]? dim, bool keepdim=False) -> Tensor")
  .doc("True where no element along the given dimensions is zero.")
  .infer(infer_bool<args::all_dim>)
  .with(add_reduction<describe_own_type<Fold::All, args::all_dim>>)
  .complex_composite([](const Tensor& input, OptIntList dim, bool keepdim) { return all(ne(input, 0), dim, keepdim); })
  .computes_uint64()
  .samples({"b(3,4), 0", "f(3,4), 1, True", "i5(2,3,4), [0,2]", "b(0,3), 0"})
  .error("b(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(count_nonzero, "count_nonzero(Tensor input, int[]? dim=None) -> Tensor")
  .doc("How many elements along the given dimensions are not zero.")
  .infer([](const args::count_nonzero& c) {
    const TensorImpl& x = c.input();
    set_reduced_shape(*c.out(), x, reduced_mask(x, c.dim_value(), "count_nonzero"), false);
    c.out()->dtype = DType::I64;
  })
  .with(add_reduction<describe_count>)
  .complex_composite([](const Tensor& input, OptIntList dim) { return count_nonzero(ne(input, 0), dim); })
  .computes_uint64()
  .samples({"i5(3,4)", "f(3,4), 0", "b(2,3,4), [0,2]", "i5(0,3), 0"})
  .error("i5(3), 1", ErrorKind::Index, "out of range");

}  // namespace strata
