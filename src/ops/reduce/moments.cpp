// var, std, var_mean, std_mean: the overload with a correction has the kernel, the others call it.
#include "cpu/reduce/moments.h"
#include "cuda/reduce/moments.h"
#include "ops/reduce/common.h"
#include "record/rows.h"
#include "strata/args/reduce/moments.h"
#include "strata/ops.h"

namespace strata {
namespace {

double correction_of(const Value& v) { return v ? v.number() : 1.0; }

void infer_moments(const Call& c) {
  const args::var_correction a(c);
  const TensorImpl& x = a.input();
  STRATA_CHECK(is_floating(x.dtype), Runtime,
               "{}: only floating point dtypes are supported, got {}; convert with .float() first", c.op.name,
               name_of(x.dtype));
  const DimMask reduced = reduced_mask(x, a.dim_value(), c.op.name.c_str());
  for (uint32_t o = 0; o < c.op.outputs; ++o) {
    set_reduced_shape(*c.outs[o], x, reduced, a.keepdim());
    c.outs[o]->dtype = x.dtype;
  }
}
using Kernel = void (*)(const TensorImpl&, DimMask, double, bool, const TensorImpl*, const TensorImpl*);
template <bool root> cuda::MomentsCall describe(const Call& c) {
  const args::var_correction a(c);
  const TensorImpl& x = a.input();
  return {x,
          reduced_mask(x, a.dim_value(), "var"),
          correction_of(a.correction_value()),
          root,
          c.outs[0].get(),
          c.op.outputs > 1 ? c.outs[1].get() : nullptr};
}
template <bool root, Kernel kernel> void run_moments(const Call& c) {
  if (c.outs[0].numel() == 0) return;
  const cuda::MomentsCall m = describe<root>(c);
  kernel(m.x, m.reduced, m.correction, m.root, m.variance, m.mean);
}
template <bool root> std::optional<RowOp> moments_rows(const Call& c) {
  const cuda::MomentsCall m = describe<root>(c);
  return cpu::rows_of_moments(m.x, m.reduced, m.correction, m.root, c.op.outputs);
}
template <bool root> void add_device_kernel(OpRecord& op) {
  op.cuda("batches", [](const Call& c, Workspace& workspace) { cuda::moments(describe<root>(c), workspace); });
}

// g is the gradient of the variance. An unused variance has a gradient of zeros, which must stay zeros if there are no
// degrees of freedom to divide by: the mean has a gradient there.
Tensor variance_grad(const GradContext& c, const Tensor& g, bool with_mean) {
  const grads::var_correction a(c);
  const Tensor x = a.input();
  const DimMask reduced = reduced_mask(a.meta_of_input(), a.dim_value(), "var");
  const double count = static_cast<double>(reduced_count(a.meta_of_input(), reduced)),
               by = std::max(0.0, count - correction_of(a.correction_value()));
  std::vector<int64_t> dims;
  for (int d = 0; d < x.dim(); ++d)
    if (reduced >> d & 1) dims.push_back(d);
  const Tensor centred = sub(x, mean(x, OptIntList(dims), true));
  const Tensor scaled = mul(with_kept_dims(g, x.shape(), reduced, a.keepdim()), 2.0 / by);
  if (by > 0 || !with_mean) return mul(scaled, centred);
  return masked_fill(mul(scaled, centred), with_kept_dims(eq(g, 0.0), x.shape(), reduced, a.keepdim()), 0.0);
}
Tensor deviation_grad(const GradContext& c, const Tensor& g, bool with_mean) {
  const Tensor result = c.result(0);
  Tensor none = eq(result, 0.0);
  if (with_mean) none = logical_or(none, eq(g, 0.0));
  return variance_grad(c, masked_fill(div(g, mul(result, 2.0)), none, 0.0), with_mean);
}
Tensor mean_grad(const GradContext& c, const Tensor& g) {
  const grads::var_mean_correction a(c);
  const DimMask reduced = reduced_mask(a.meta_of_input(), a.dim_value(), "var");
  return div(expand_reduced(g, a.shape_of_input(), reduced, a.keepdim()),
             static_cast<double>(reduced_count(a.meta_of_input(), reduced)));
}
Tensor with_mean_grad(const GradContext& c, Tensor g) {
  if (!c.grad(1)) return g;
  const Tensor m = mean_grad(c, c.grad(1));
  return g ? add(g, m) : m;
}
std::optional<Scalar> bessel(bool unbiased) { return Scalar(unbiased ? 1 : 0); }
}  // namespace

#define STRATA_MOMENT_SAMPLES                                                                                         \
  samples({"f(3,4)", "f(3,4), 0", "f(2,3,4), [0,2], keepdim=True", "f(3,4), 1, correction=0", "f(3,4), correction=2", \
           "f(3,4), -1"})                                                                                             \
    .error("f(3), 1", ErrorKind::Index, "out of range")                                                               \
    .error("i5(3)", ErrorKind::Runtime, "floating point")

STRATA_OP(var_correction,
          "var.correction(Tensor input, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor")
  .doc(
    "The variance over the given dimensions: squared deviations from the mean, divided by (count - correction); "
    "correction is 1 unless given.")
  .infer(infer_moments)
  .dtypes(kFloatingTypes)
  .kernel("simd", run_moments<false, cpu::moments>)
  .with(computes_rows<moments_rows<false>>)
  .kernel("reference", run_moments<false, cpu::moments_reference>)
  .with(add_device_kernel<false>)
  .saves({"input"})
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {variance_grad(c, g, false)}; })
  .complex_composite([](const Tensor& input, OptIntList dim, std::optional<Scalar> correction, bool keepdim) {
    return add(var(real(input), dim, correction, keepdim), var(imag(input), dim, correction, keepdim));
  })
  .STRATA_MOMENT_SAMPLES;

STRATA_OP(var, "var(Tensor input, bool unbiased) -> Tensor")
  .doc("The variance of all elements, with Bessel's correction when unbiased.")
  .dtypes(kFloatingTypes | kComplexTypes)
  .composite([](const Tensor& input, bool unbiased) { return var(input, std::nullopt, bessel(unbiased), false); })
  .samples({"f(3,4), True", "f(3,4), False"})
  .error("i5(3), True", ErrorKind::Runtime, "floating point");

STRATA_OP(var_dim, "var.dim(Tensor input, int[]? dim, bool unbiased, bool keepdim=False) -> Tensor")
  .doc("The variance over the given dimensions, with Bessel's correction when unbiased.")
  .dtypes(kFloatingTypes | kComplexTypes)
  .composite([](const Tensor& input, OptIntList dim, bool unbiased, bool keepdim) {
    return var(input, dim, bessel(unbiased), keepdim);
  })
  .samples({"f(3,4), 0, True", "f(3,4), [0,1], False, True"})
  .error("f(3), 1, True", ErrorKind::Index, "out of range");

STRATA_OP(std_correction,
          "std.correction(Tensor input, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor")
  .doc("The standard deviation over the given dimensions: the root of the variance.")
  .infer(infer_moments)
  .dtypes(kFloatingTypes)
  .kernel("simd", run_moments<true, cpu::moments>)
  .with(computes_rows<moments_rows<true>>)
  .kernel("reference", run_moments<true, cpu::moments_reference>)
  .with(add_device_kernel<true>)
  .saves({"input"})
  .saves_result()
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {deviation_grad(c, g, false)}; })
  .complex_composite([](const Tensor& input, OptIntList dim, std::optional<Scalar> correction, bool keepdim) {
    return sqrt(var(input, dim, correction, keepdim));
  })
  .STRATA_MOMENT_SAMPLES;

STRATA_OP(std, "std(Tensor input, bool unbiased) -> Tensor")
  .doc("The standard deviation of all elements, with Bessel's correction when unbiased.")
  .dtypes(kFloatingTypes | kComplexTypes)
  .composite([](const Tensor& input, bool unbiased) {
    return call(op_std_correction, Args(input, Value(), bessel(unbiased), false));
  })
  .samples({"f(3,4), True", "f(3,4), False"})
  .error("i5(3), True", ErrorKind::Runtime, "floating point");

STRATA_OP(std_dim, "std.dim(Tensor input, int[]? dim, bool unbiased, bool keepdim=False) -> Tensor")
  .doc("The standard deviation over the given dimensions, with Bessel's correction when unbiased.")
  .dtypes(kFloatingTypes | kComplexTypes)
  .composite([](const Tensor& input, OptIntList dim, bool unbiased, bool keepdim) {
    return call(op_std_correction, Args(input, dim, bessel(unbiased), keepdim));
  })
  .samples({"f(3,4), 0, True", "f(3,4), [0,1], False, True"})
  .error("f(3), 1, True", ErrorKind::Index, "out of range");

STRATA_OP(var_mean_correction,
          "var_mean.correction(Tensor input, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
          "(Tensor var, Tensor mean)")
  .doc("The variance and the mean over the given dimensions, in one pass.")
  .no_method()
  .infer(infer_moments)
  .dtypes(kFloatingTypes)
  .kernel("simd", run_moments<false, cpu::moments>)
  .with(computes_rows<moments_rows<false>>)
  .kernel("reference", run_moments<false, cpu::moments_reference>)
  .with(add_device_kernel<false>)
  .saves({"input"})
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    return {with_mean_grad(c, c.grad(0) ? variance_grad(c, g, true) : Tensor())};
  })
  .complex_composite([](const Tensor& input, OptIntList dim, std::optional<Scalar> correction, bool keepdim) {
    return std::array{var(input, dim, correction, keepdim), mean(input, dim, keepdim)};
  })
  .STRATA_MOMENT_SAMPLES;

STRATA_OP(var_mean, "var_mean(Tensor input, bool unbiased) -> (Tensor var, Tensor mean)")
  .doc("The variance and the mean of all elements.")
  .dtypes(kFloatingTypes | kComplexTypes)
  .no_method()
  .composite([](const Tensor& input, bool unbiased) {
    return call_array<2>(op_var_mean_correction, Args(input, Value(), bessel(unbiased), false));
  })
  .samples({"f(3,4), True", "f(3,4), False"})
  .error("i5(3), True", ErrorKind::Runtime, "floating point");

STRATA_OP(var_mean_dim,
          "var_mean.dim(Tensor input, int[]? dim, bool unbiased, bool keepdim=False) -> (Tensor var, Tensor mean)")
  .doc("The variance and the mean over the given dimensions.")
  .dtypes(kFloatingTypes | kComplexTypes)
  .no_method()
  .composite([](const Tensor& input, OptIntList dim, bool unbiased, bool keepdim) {
    return call_array<2>(op_var_mean_correction, Args(input, dim, bessel(unbiased), keepdim));
  })
  .samples({"f(3,4), 0, True", "f(3,4), [0,1], False, True"})
  .error("f(3), 1, True", ErrorKind::Index, "out of range");

STRATA_OP(std_mean_correction,
          "std_mean.correction(Tensor input, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
          "(Tensor std, Tensor mean)")
  .doc("The standard deviation and the mean over the given dimensions, in one pass.")
  .no_method()
  .infer(infer_moments)
  .dtypes(kFloatingTypes)
  .kernel("simd", run_moments<true, cpu::moments>)
  .with(computes_rows<moments_rows<true>>)
  .kernel("reference", run_moments<true, cpu::moments_reference>)
  .with(add_device_kernel<true>)
  .saves({"input"})
  .saves_result()
  .grad([](const GradContext& c, const Tensor& g) -> Grads {
    return {with_mean_grad(c, c.grad(0) ? deviation_grad(c, g, true) : Tensor())};
  })
  .complex_composite([](const Tensor& input, OptIntList dim, std::optional<Scalar> correction, bool keepdim) {
    return std::array{strata::std(input, dim, correction, keepdim), mean(input, dim, keepdim)};
  })
  .STRATA_MOMENT_SAMPLES;

STRATA_OP(std_mean, "std_mean(Tensor input, bool unbiased) -> (Tensor std, Tensor mean)")
  .doc("The standard deviation and the mean of all elements.")
  .dtypes(kFloatingTypes | kComplexTypes)
  .no_method()
  .composite([](const Tensor& input, bool unbiased) {
    return call_array<2>(op_std_mean_correction, Args(input, Value(), bessel(unbiased), false));
  })
  .samples({"f(3,4), True", "f(3,4), False"})
  .error("i5(3), True", ErrorKind::Runtime, "floating point");

STRATA_OP(std_mean_dim,
          "std_mean.dim(Tensor input, int[]? dim, bool unbiased, bool keepdim=False) -> (Tensor std, Tensor mean)")
  .doc("The standard deviation and the mean over the given dimensions.")
  .dtypes(kFloatingTypes | kComplexTypes)
  .no_method()
  .composite([](const Tensor& input, OptIntList dim, bool unbiased, bool keepdim) {
    return call_array<2>(op_std_mean_correction, Args(input, dim, bessel(unbiased), keepdim));
  })
  .samples({"f(3,4), 0, True", "f(3,4), [0,1], False, True"})
  .error("f(3), 1, True", ErrorKind::Index, "out of range");

}  // namespace strata
