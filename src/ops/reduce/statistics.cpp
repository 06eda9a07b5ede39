// logsumexp, quantile, nanquantile, cov, corrcoef.
#include <cmath>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "cpu/movement/runs.h"
#include "cpu/nn/row_kernels.h"
#include "cpu/staging.h"
#include "cuda/reduce/log_sum_exp.h"
#include "ops/reduce/common.h"
#include "record/rows.h"
#include "strata/args/reduce/statistics.h"
#include "strata/ops.h"

namespace strata {
namespace {

Tensor quantile_of(const Tensor& input, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                   std::string_view interpolation, bool skip_nan) {
  const char* op = skip_nan ? "nanquantile" : "quantile";
  STRATA_CHECK(input.dtype() == DType::F32 || input.dtype() == DType::F64, Runtime,
               "{}: input tensor must be either float or double dtype, got {}", op, name_of(input.dtype()));
  STRATA_CHECK(input.numel() > 0, Runtime, "{}: input tensor must be non-empty", op);
  STRATA_CHECK(q.dim() <= 1, Runtime, "{}: q must be a scalar or 1D tensor, got {} dimensions", op, q.dim());
  STRATA_CHECK(q.dtype() == input.dtype(), Runtime,
               "{}: q tensor must be same dtype as the input tensor, got {} and {}", op, name_of(q.dtype()),
               name_of(input.dtype()));
  STRATA_CHECK(interpolation == "linear" || interpolation == "lower" || interpolation == "higher" ||
                 interpolation == "midpoint" || interpolation == "nearest",
               Runtime, "{}: interpolation must be one of linear, lower, higher, midpoint or nearest, but got {}", op,
               interpolation);
  for (int64_t i = 0; !q.is_meta() && i < q.numel(); ++i) {
    const double v = (q.dim() ? select(q, 0, i) : q).item<double>();
    STRATA_CHECK(v >= 0 && v <= 1, Runtime, "{}: q values must be in the range [0, 1], got {}", op, v);
  }
  std::vector<int64_t> shape;
  Tensor x = input;
  if (dim) {
    const int d = normalize_dim(*dim, input.dim(), op);
    for (int k = 0; k < input.dim(); ++k)
      if (k != d) shape.push_back(input.shape()[static_cast<size_t>(k)]);
      else if (keepdim) shape.push_back(1);
    x = input.dim() ? movedim(input, {d}, {-1}) : unsqueeze(input, 0);
  } else {
    if (keepdim) shape.assign(static_cast<size_t>(input.dim()), 1);
    x = reshape(input, {-1});
  }
  const Tensor values = sort(x, int64_t{-1})[0];
  const int64_t n = values.size(-1), count = q.numel();
  // Ranks [..., count]: the same in every row, unless NaN are skipped.
  Tensor last = skip_nan ? sub(sum(logical_not(isnan(values)), int64_t{-1}, true), 1) : full({}, n - 1, kInt64);
  if (skip_nan) last = clamp(last, full({}, 0, kInt64));
  Tensor rank = mul(to(last, input.dtype()), reshape(q, {count}));
  if (!skip_nan) {  // a row with a NaN gives NaN: its largest element tells
    const Tensor spoiled = isnan(narrow(values, -1, n - 1, 1));
    rank = where(spoiled, full({}, static_cast<double>(n - 1), input.dtype()), rank);
  }
  if (interpolation == "lower") rank = floor(rank);
  else if (interpolation == "higher") rank = ceil(rank);
  else if (interpolation == "nearest") rank = round(rank);
  std::vector<int64_t> wide(values.shape().begin(), values.shape().end());
  wide.back() = count;
  rank = expand(rank, wide);
  const Tensor low = to(floor(rank), kInt64);
  Tensor result = gather(values, -1, low);
  if (interpolation == "linear" || interpolation == "midpoint") {
    const Tensor above = gather(values, -1, to(ceil(rank), kInt64));
    const Tensor weight =
      interpolation == "midpoint" ? full({}, 0.5, input.dtype()) : sub(rank, to(low, input.dtype()));
    result = lerp(result, above, weight);
  }
  // [..., count] becomes [count, ...] in the result's shape; a zero-dimensional q adds no dimension.
  if (q.dim() == 0) return reshape(squeeze(result, int64_t{-1}), shape);
  shape.insert(shape.begin(), count);
  return reshape(movedim(result, {-1}, {0}), shape);
}

Tensor covariance(const Tensor& input, int64_t correction, const Tensor& fweights, const Tensor& aweights) {
  STRATA_CHECK(input.dim() <= 2, Runtime,
               "cov: expected input to have two or fewer dimensions but got an input with {} dimensions", input.dim());
  STRATA_CHECK(input.dtype() != DType::Bool, Runtime, "cov: bool dtype is not supported for input");
  Tensor x = input.dim() < 2 ? reshape(input, {1, -1}) : input;
  const int64_t n = x.size(1);
  Tensor weights;
  if (fweights) {
    STRATA_CHECK(fweights.dim() <= 1, Runtime,
                 "cov: expected fweights to have one or fewer dimensions but got fweights with {} dimensions",
                 fweights.dim());
    STRATA_CHECK(is_integral(fweights.dtype(), false), Runtime,
                 "cov: expected fweights to have integral dtype but got fweights with {} dtype",
                 name_of(fweights.dtype()));
    STRATA_CHECK(
      fweights.numel() == n, Runtime,
      "cov: expected fweights to have the same numel as there are observations in the input but got {} != {}",
      fweights.numel(), n);
    STRATA_CHECK(n == 0 || fweights.is_meta() || min(fweights).item<double>() >= 0, Runtime,
                 "cov: fweights cannot be negative");
    weights = fweights;
  }
  if (aweights) {
    STRATA_CHECK(aweights.dim() <= 1, Runtime,
                 "cov: expected aweights to have one or fewer dimensions but got aweights with {} dimensions",
                 aweights.dim());
    STRATA_CHECK(is_floating(aweights.dtype()), Runtime,
                 "cov: expected aweights to have floating point dtype but got aweights with {} dtype",
                 name_of(aweights.dtype()));
    STRATA_CHECK(
      aweights.numel() == n, Runtime,
      "cov: expected aweights to have the same numel as there are observations in the input but got {} != {}",
      aweights.numel(), n);
    STRATA_CHECK(n == 0 || aweights.is_meta() || min(aweights).item<double>() >= 0, Runtime,
                 "cov: aweights cannot be negative");
    weights = weights ? mul(weights, aweights) : aweights;
  }
  if (!is_differentiable(x.dtype())) x = to(x, default_dtype());
  const DType real_dtype = real_type(x.dtype());
  const Tensor total = weights ? sum(weights) : full({}, n, kInt64);
  const Tensor average = weights ? div(sum(mul(x, weights), int64_t{1}), total) : mean(x, int64_t{1});
  Tensor factor;
  if (correction != 0 && weights && aweights) factor = sub(total, div(sum(mul(weights, aweights)), total), correction);
  else factor = sub(total, correction);
  factor = clamp(to(factor, real_dtype), full({}, 0.0, real_dtype));
  const Tensor centred = sub(x, unsqueeze(average, 1));
  const Tensor scaled = weights ? mul(centred, weights) : centred;
  const Tensor result = div(matmul(centred, adjoint(to(scaled, x.dtype()))), factor);
  return result.numel() == 1 ? reshape(result, {}) : result;
}

// Several passes over x, which many threads share whatever the shape is.
Tensor logsumexp_in_passes(const Tensor& x, IntList dim, bool keepdim) {
  if (x.numel() == 0) return log(sum(exp(x), OptIntList(dim), keepdim));
  Tensor most;
  {
    Scoped mode(thread_state.grad_mode, false);
    most = amax(x, dim, true);
    most = where(isinf(most), 0.0, most);
  }
  const Tensor total = log(sum(exp(sub(x, most)), OptIntList(dim), keepdim));
  return add(total, keepdim ? most : reshape(most, total.shape()));
}

// Infinities have no differences: a largest element that is infinite is the result, unless there is a NaN.
template <class T> T log_sum_of_row(const T* x, int64_t n) {
  const cpu::RowExp<T> s = cpu::exp_statistics(x, n);
  if (!std::isinf(s.most)) return s.most + s.log_sum;
  return std::any_of(x, x + n, [](T v) { return std::isnan(v); }) ? std::numeric_limits<T>::quiet_NaN() : s.most;
}

std::optional<RowOp> log_sum_rows(const Call& c) {
  const args::logsumexp_rows a(c);
  const TensorImpl& x = a.input();
  const int64_t n = x.shape[x.ndim - 1];
  if (n < 2 || x.numel == 0) return {};
  RowOp op{.compute = compute_type(x.dtype), .shape = x.sizes(), .row = n, .in = {{{}, &x}}};
  op.out[0] = {RowExtent::Rows};
  cpu::dispatch_float(x.dtype, [&]<class T>() {
    op.run = [n, type = x.dtype](const RowBlock& b) {
      const T* row = static_cast<const T*>(b.in[0]);
      auto* to = static_cast<std::byte*>(b.out[0]);
      for (int64_t r = 0; r < b.count; ++r, row += n, to += size_of(type)) {
        const T value = log_sum_of_row<T>(row, n);
        cpu::store_run(&value, to, type, 1, 1);
      }
    };
  });
  return op;
}
}  // namespace

STRATA_OP(logsumexp_rows, "_logsumexp_rows(Tensor input) -> Tensor")
  .doc("logsumexp over the last dimension, in one pass.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::logsumexp_rows& c) {
    const TensorImpl& x = c.input();
    STRATA_CHECK(x.ndim > 0, Runtime, "logsumexp: expected rows, got a tensor without dimensions");
    STRATA_CHECK(kFloatingTypes.has(x.dtype), NotImplemented,
                 "logsumexp: not implemented for {}; convert it to float32", name_of(x.dtype));
    c.out()->dtype = x.dtype;
    c.out()->set_shape(x.sizes().first(static_cast<size_t>(x.ndim) - 1));
  })
  .kernel("rows",
          [](const args::logsumexp_rows& c) {
            const TensorImpl& x = c.input();
            const int64_t n = x.shape[x.ndim - 1];
            cpu::dispatch_float(x.dtype, [&]<class T>() {
              const cpu::In<T> in(x);
              const cpu::Out<T> out(c.out());
              parallel_for(c.out().numel(), std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n)),
                           [&](int64_t begin, int64_t end) {
                             for (int64_t i = begin; i < end; ++i) out[i] = log_sum_of_row<T>(in + i * n, n);
                           });
              out.finish();
            });
          })
  .with(computes_rows<log_sum_rows>)
  .kernel("reference",
          [](const args::logsumexp_rows& c) {
            const autograd::NoGrad no_grad;
            cpu::copy_reference(*c.out(), *logsumexp_in_passes(to(c.share_input(), DType::F64), -1, false));
          })
  .cuda("rows",
        [](const args::logsumexp_rows& c, Workspace& workspace) { cuda::log_sum_exp(*c.out(), c.input(), workspace); })
  .saves({"input"})
  .saves_result()
  .grad([](const grads::logsumexp_rows& c, const Tensor& g) -> Grads {
    Tensor x = c.input(), result = c.result();
    if (size_of(x.dtype()) < 4) {  // a rounded result would be a factor of up to 1.03 in every element
      x = to(x, kFloat32);
      result = _logsumexp_rows(x);
    }
    return {mul(unsqueeze(g, -1), exp(sub(x, unsqueeze(result, -1))))};
  })
  .samples({"f(3,4)", "f(2,3,5)", "f(4)", "f(2,70)", "f(3,0)"})
  .error("f()", ErrorKind::Runtime, "without dimensions");

STRATA_OP(logsumexp, "logsumexp(Tensor input, int[] dim, bool keepdim=False) -> Tensor")
  .doc("The logarithm of the sum of exponentials over the given dimensions, without overflow.")
  .alias("special.logsumexp")
  .composite([](const Tensor& input, IntList dim, bool keepdim) {
    const Tensor x = is_floating(input.dtype()) ? input : to(input, default_dtype());
    if (x.numel() == 0) return logsumexp_in_passes(x, dim, keepdim);
    const DimMask reduced = reduced_mask(*x, OptIntList(dim), "logsumexp");
    constexpr int64_t kFewRows = 64, kLongRow = 1 << 15;  // rows that one thread or block would take long for
    const int64_t n = reduced_count(*x, reduced), rows = x.numel() / n;
    if (rows < kFewRows && n > kLongRow) return logsumexp_in_passes(x, dim, keepdim);
    std::vector<int64_t> order, gone, kept, shape;
    for (int d = 0; d < x.dim(); ++d) {
      const bool is_gone = reduced >> d & 1;
      const int64_t size = x.shape()[static_cast<size_t>(d)];
      (is_gone ? gone : order).push_back(d);
      if (!is_gone) kept.push_back(size);
      if (!is_gone || keepdim) shape.push_back(is_gone ? 1 : size);
    }
    order.insert(order.end(), gone.begin(), gone.end());
    kept.push_back(n);
    return reshape(_logsumexp_rows(reshape(permute(x, order), kept)), shape);
  })
  .autocast_cuda(Autocast::Float32)
  .complex_composite([](const Tensor& input, IntList dim, bool keepdim) {
    if (input.numel() == 0) return log(sum(exp(input), OptIntList(dim), keepdim));
    Tensor most;  // of the real parts, which decide the sizes
    {
      Scoped mode(thread_state.grad_mode, false);
      most = amax(real(input), dim, true);
      most = where(isinf(most), 0.0, most);
    }
    const Tensor total = add(log(sum(exp(sub(input, most)), OptIntList(dim), true)), most);
    if (keepdim) return total;
    const DimMask reduced = reduced_mask(*input, OptIntList(dim), "logsumexp");
    std::vector<int64_t> shape;
    for (int d = 0; d < input.dim(); ++d)
      if (!(reduced >> d & 1)) shape.push_back(input.size(d));
    return reshape(total, shape);
  })
  .samples({"f(3,4), 0", "f(3,4), [0,1], True", "f(2,3,4), -1", "i5(3,4), 1", "f(), 0"})
  .error("f(3), 1", ErrorKind::Index, "out of range");

STRATA_OP(
  quantile,
  "quantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor")
  .doc("The q-th quantiles along a dimension or of all elements; a row with a NaN gives NaN.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation) { return quantile_of(input, q, dim, keepdim, interpolation, false); })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(3,4), f(0), 0"})
  .error("i5(3), p()", ErrorKind::Runtime, "float or double");

STRATA_OP(
  quantile_scalar,
  "quantile.scalar(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor")
  .doc("The q-th quantile along a dimension or of all elements; a row with a NaN gives NaN.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, double q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation) {
    return quantile_of(input, full({}, q, input.dtype()), dim, keepdim, interpolation, false);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(3,4), 0.3", "f(3,4), 0.5, 0", "f(3,5), 0.7, 1, True, interpolation='lower'",
            "f(7), 0.4, interpolation='nearest'", "f(7), 0.4, interpolation='higher'",
            "f(7), 0.4, interpolation='midpoint'"})
  .error("f(3), 1.5", ErrorKind::Runtime, "range [0, 1]")
  .error("f(3), 0.5, interpolation='cubic'", ErrorKind::Runtime, "interpolation");

STRATA_OP(
  nanquantile,
  "nanquantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor")
  .doc("The q-th quantiles of the elements that are not NaN.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation) { return quantile_of(input, q, dim, keepdim, interpolation, true); })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(3,4), f(0), 0"})
  .error("i5(3), p()", ErrorKind::Runtime, "float or double");

STRATA_OP(nanquantile_scalar,
          "nanquantile.scalar(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') "
          "-> Tensor")
  .doc("The q-th quantile of the elements that are not NaN.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, double q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation) {
    return quantile_of(input, full({}, q, input.dtype()), dim, keepdim, interpolation, true);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(3,4), 0.3", "f(3,4), 0.5, 0", "f(3,5), 0.7, 1, True, interpolation='lower'"})
  .error("f(3), 1.5", ErrorKind::Runtime, "range [0, 1]");

STRATA_OP(cov, "cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor")
  .doc(
    "The covariance matrix of variables (rows) from observations (columns), with optional frequency and importance "
    "weights.")
  .dtypes(kNumericTypes - DTypeSet{DType::F16, DType::BF16})
  .composite([](const Tensor& input, int64_t correction, const Tensor& fweights, const Tensor& aweights) {
    return covariance(input, correction, fweights, aweights);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,10)", "f(10)", "f(3,10), correction=0", "f(3,6), fweights=i5(6)"})
  .error("f(2,2,2)", ErrorKind::Runtime, "two or fewer dimensions");

STRATA_OP(corrcoef, "corrcoef(Tensor input) -> Tensor")
  .doc("The matrix of Pearson correlation coefficients of variables (rows) from observations (columns).")
  .dtypes(kNumericTypes - DTypeSet{DType::F16, DType::BF16})
  .composite([](const Tensor& input) {
    STRATA_CHECK(input.dim() <= 2, Runtime,
                 "corrcoef: expected input to have two or fewer dimensions but got an input with {} dimensions",
                 input.dim());
    const Tensor c = covariance(input, 1, {}, {});
    if (c.dim() == 0) return div(c, c);
    const Tensor variances = diagonal(c), deviation = sqrt(is_complex(c.dtype()) ? real(variances) : variances);
    const Tensor r = div(div(c, unsqueeze(deviation, 1)), unsqueeze(deviation, 0));
    const auto limited = [](const Tensor& t) { return clamp(t, full({}, -1.0, t.dtype()), full({}, 1.0, t.dtype())); };
    return is_complex(r.dtype()) ? complex(limited(real(r)), limited(imag(r))) : limited(r);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,10)", "f(10)"})
  .error("f(2,2,2)", ErrorKind::Runtime, "two or fewer dimensions");

}  // namespace strata
