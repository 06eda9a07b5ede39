// sum, mean, nansum, nanmean, prod, any, all, count_nonzero.
#include "ops/reduce/common.h"
#include "ops/reduce/kernels.h"
#include "strata/ops.h"

namespace strata {
namespace {

// Argument positions of a full reduction (…, dtype) and of its dim overload (…, dim, keepdim, dtype).
struct Where {
  uint32_t reduced;
  bool keepdim;
};
Where where_full(const Call& c) { return {(1u << c.args.tensor(0).ndim) - 1, false}; }
Where where_dim(const Call& c) {
  return {reduced_mask(c.args.tensor(0), c.args[1], c.op.name.c_str()), c.args[2].boolean()};
}

template <Where (*where)(const Call&), int kDType> void infer_sum(const Call& c) {
  const TensorImpl& x = c.args.tensor(0);
  const Where w = where(c);
  set_reduced_shape(*c.out(), x, w.reduced, w.keepdim);
  c.out()->dtype = sum_dtype(x, c.args[kDType]);
}
template <Where (*where)(const Call&), int kDType> void infer_mean(const Call& c) {
  const TensorImpl& x = c.args.tensor(0);
  const Value& dtype = c.args[kDType];
  const DType result = dtype ? dtype.dtype() : x.dtype;
  if (!is_floating(result)) {
    STRATA_CHECK(
      dtype, NotImplemented,
      "{}: could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
      c.op.name, long_name(x.dtype));
    fail(ErrorKind::NotImplemented,
         fmt::format(
           "{}: could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {}",
           c.op.name, long_name(result)));
  }
  const Where w = where(c);
  set_reduced_shape(*c.out(), x, w.reduced, w.keepdim);
  c.out()->dtype = result;
}
template <Where (*where)(const Call&)> void infer_bool(const Call& c) {
  const TensorImpl& x = c.args.tensor(0);
  const Where w = where(c);
  set_reduced_shape(*c.out(), x, w.reduced, w.keepdim);
  c.out()->dtype = x.dtype == DType::U8 ? DType::U8 : DType::Bool;
}

template <Fold fold, Where (*where)(const Call&)> Reduction describe_fold(const Call& c) {
  return {fold, c.args.tensor(0), where(c).reduced, c.out().dtype(), *c.out()};
}
template <Where (*where)(const Call&)> Reduction describe_mean(const Call& c) {
  const TensorImpl& x = c.args.tensor(0);
  const uint32_t reduced = where(c).reduced;
  return {Fold::Sum, x, reduced, c.out().dtype(), *c.out(), {.divide = static_cast<double>(reduced_count(x, reduced))}};
}
template <Fold fold, Where (*where)(const Call&)> Reduction describe_own_type(const Call& c) {  // read as what it is
  const TensorImpl& x = c.args.tensor(0);
  return {fold, x, where(c).reduced, x.dtype, *c.out()};
}
Reduction describe_count(const Call& c) {
  const TensorImpl& x = c.args.tensor(0);
  return {Fold::CountNonzero, x, reduced_mask(x, c.args[1], "count_nonzero"), x.dtype, *c.out()};
}

uint32_t mask_of(const GradContext& c) { return reduced_mask(c.meta(0), c.arg(1), "sum"); }
Tensor spread(const GradContext& c, const Tensor& g, bool full) {
  if (full) return expand(g, c.shape(0));
  return expand_reduced(g, c.shape(0), mask_of(c), c.arg(2).boolean());
}
double count_of(const GradContext& c, bool full) {
  return static_cast<double>(full ? c.meta(0).numel : reduced_count(c.meta(0), mask_of(c)));
}
}  // namespace

STRATA_OP(sum, "sum(Tensor input, *, dtype? dtype=None) -> Tensor")
  .doc("The sum of all elements. Integers and booleans add up as int64.")
  .infer(infer_sum<where_full, 1>)
  .with(add_reduction<describe_fold<Fold::Sum, where_full>>)
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {spread(c, g, true)}; })
  .samples({"f(3,4)", "f()", "f(0,3)", "i5(3,4)", "b(7)", "f(2,3,5), dtype=float64"});

STRATA_OP(sum_dim, "sum.dim(Tensor input, int[]? dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The sum over the given dimensions; None or an empty list means all of them.")
  .infer(infer_sum<where_dim, 3>)
  .with(add_reduction<describe_fold<Fold::Sum, where_dim>>)
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {spread(c, g, false)}; })
  .samples({"f(3,4), 0", "f(3,4), -1, True", "f(2,3,4), [0,2]", "f(2,3,4), None, True", "f(), 0", "f(0,3), 0",
            "i5(3,4), 1", "b(3,4), 0", "f(3,4), 1, dtype=float64"})
  .error("f(2,3), 5", ErrorKind::Index, "out of range")
  .error("f(2,3), [0,0]", ErrorKind::Runtime, "multiple times");

STRATA_OP(nansum, "nansum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The sum over the given dimensions with NaN counted as zero.")
  .infer(infer_sum<where_dim, 3>)
  .with(add_reduction<describe_fold<Fold::NanSum, where_dim>>)
  .saves({0})
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    const Tensor x = c.input(0);
    return {mul(spread(c, g, false), logical_not(isnan(x)))};
  })
  .samples({"f(3,4)", "f(3,4), 0", "f(2,3,4), [0,2], True", "i5(3,4), 1", "f(0,3), 0"})
  .error("f(2,3), 2", ErrorKind::Index, "out of range");

STRATA_OP(mean, "mean(Tensor input, *, dtype? dtype=None) -> Tensor")
  .doc("The mean of all elements.")
  .infer(infer_mean<where_full, 1>)
  .with(add_reduction<describe_mean<where_full>>)
  .dtypes(kFloatingTypes)
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {div(spread(c, g, true), count_of(c, true))}; })
  .samples({"f(3,4)", "f()", "f(0,3)", "i5(3,4), dtype=float32"})
  .error("i5(3)", ErrorKind::NotImplemented, "could not infer output dtype");

STRATA_OP(mean_dim, "mean.dim(Tensor input, int[]? dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The mean over the given dimensions; None or an empty list means all of them.")
  .infer(infer_mean<where_dim, 3>)
  .with(add_reduction<describe_mean<where_dim>>)
  .dtypes(kFloatingTypes)
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {div(spread(c, g, false), count_of(c, false))}; })
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
  .infer(infer_bool<where_full>)
  .with(add_reduction<describe_own_type<Fold::Any, where_full>>)
  .samples({"b(7)", "f(3,4)", "i5(3)", "b(0)", "b()"});

STRATA_OP(any_dim, "any.dim(Tensor input, int[]? dim, bool keepdim=False) -> Tensor")
  .doc("True where any element along the given dimensions is not zero.")
  .infer(infer_bool<where_dim>)
  .with(add_reduction<describe_own_type<Fold::Any, where_dim>>)
  .samples({"b(3,4), 0", "f(3,4), 1, True", "i5(2,3,4), [0,2]", "b(0,3), 0"})
  .error("b(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(all, "all(Tensor input) -> Tensor")
  .doc("True when no element is zero.")
  .infer(infer_bool<where_full>)
  .with(add_reduction<describe_own_type<Fold::All, where_full>>)
  .samples({"b(7)", "f(3,4)", "i5(3)", "b(0)", "b()"});

STRATA_OP(all_dim, "all.dim(Tensor input, int[]? dim, bool keepdim=False) -> Tensor")
  .doc("True where no element along the given dimensions is zero.")
  .infer(infer_bool<where_dim>)
  .with(add_reduction<describe_own_type<Fold::All, where_dim>>)
  .samples({"b(3,4), 0", "f(3,4), 1, True", "i5(2,3,4), [0,2]", "b(0,3), 0"})
  .error("b(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(count_nonzero, "count_nonzero(Tensor input, int[]? dim=None) -> Tensor")
  .doc("How many elements along the given dimensions are not zero.")
  .infer([](const Call& c) {
    const TensorImpl& x = c.args.tensor(0);
    set_reduced_shape(*c.out(), x, reduced_mask(x, c.args[1], "count_nonzero"), false);
    c.out()->dtype = DType::I64;
  })
  .with(add_reduction<describe_count>)
  .samples({"i5(3,4)", "f(3,4), 0", "b(2,3,4), [0,2]", "i5(0,3), 0"})
  .error("i5(3), 1", ErrorKind::Index, "out of range");

}  // namespace strata
