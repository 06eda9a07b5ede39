// Vector and matrix norms, dist and renorm.
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "cpu/lines.h"
#include "cuda/movement/dense.h"
#include "cuda/reduce/reduce.h"
#include "ops/linalg/norms.h"
#include "ops/reduce/common.h"
#include "ops/transfer.h"
#include "strata/args/linalg/norms.h"
#include "strata/ops.h"

namespace strata {

Tensor vector_norm_slopes(const Tensor& x, const Tensor& norm, const Tensor& g, double p, IntList dims) {
  const double inf = std::numeric_limits<double>::infinity();
  if (p == 0) return mul(x, 0.0);
  if (p == 1) return mul(g, sign(x));
  if (p == 2) return mul(x, div(g, masked_fill(norm, eq(norm, 0.0), inf)));  // at 0 the slope and its slopes are 0
  if (std::isinf(p)) {
    const Tensor size = abs(x), mask = to(where(isnan(norm), isnan(size), eq(size, norm)), x.dtype());
    const Tensor count = dims.size == 0 ? mask : sum(mask, dims, true);
    return mul(mul(sign(x), mask), div(g, count));
  }
  if (p < 2) {
    const Tensor power = masked_fill(mul(sign(x), pow(abs(x), p - 1)), eq(x, 0.0), 0.0);
    return mul(power, masked_fill(mul(g, pow(norm, 1 - p)), eq(norm, 0.0), 0.0));
  }
  return mul(mul(x, pow(abs(x), p - 2)), div(g, pow(masked_fill(norm, eq(norm, 0.0), inf), p - 1)));
}

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

DType norm_dtype(const TensorImpl& x, const Value& dtype, const char* op) {
  STRATA_CHECK(is_differentiable(x.dtype), Runtime, "{}: Expected a floating point or complex tensor as input. Got {}",
               op, info_of(x.dtype).title);
  if (!dtype) return x.dtype;
  STRATA_CHECK(is_floating(dtype.dtype()), Runtime, "{}: dtype should be floating point, but got {}", op,
               info_of(dtype.dtype()).title);
  return dtype.dtype();
}

void infer_vector_norm(const Call& c) {
  const args::linalg_vector_norm a(c);
  const TensorImpl& x = a.x();
  const double ord = a.ord_value().number();
  const DType dtype = norm_dtype(x, a.dtype_value(), c.op.name.c_str());
  const DimMask reduced = reduced_mask(x, a.dim_value(), c.op.name.c_str());
  if (ord < 0 || ord == kInf) require_elements(x, reduced, c.op.name.c_str());
  set_reduced_shape(*c.out(), x, reduced, a.keepdim());
  c.out()->dtype = dtype;
}

// |x|^p into a buffer, its sum, the p-th root.
void run_power_norm(const TensorImpl& x, DimMask reduced, double p, const TensorImpl& out, DType compute) {
  const Tensor powers = make_tensor(x.sizes(), compute), total = make_tensor(out.sizes(), compute);
  cpu::copy_values(*powers, x);
  if (x.numel > 0) pow_(abs_(powers), p);
  cpu::reduce(Fold::Sum, *powers, reduced, compute, *total);
  if (out.numel > 0) pow_(total, 1 / p);
  cpu::copy_values(out, *total);
}

// The same on a device, in the precision of the compute type.
void power_norm_on_device(const TensorImpl& x, DimMask reduced, double p, const TensorImpl& out, Workspace& workspace) {
  const DType type = compute_type(out.dtype);
  const Tensor powers = cuda::copied(x, type, workspace);
  const cuda::DenseOut total(out, type, workspace);
  if (!workspace.planning() && x.numel > 0) pow_(abs_(powers), p);
  cuda::reduce(Fold::Sum, *powers, reduced, type, *total, {}, workspace);
  if (!workspace.planning() && out.numel > 0) pow_(alias(*total), 1 / p);
  total.finish();
}

// Calls reduce(fold, finish) for an order with a reduction of its own, otherwise power(order).
template <class Reduce, class Power> void by_order(double order, const Reduce& reduce, const Power& power) {
  if (order == 0) reduce(Fold::CountNonzero, Finish{});
  else if (order == 1) reduce(Fold::SumAbs, Finish{});
  else if (order == 2) reduce(Fold::SumSquares, Finish{.divide = 1, .root = true});
  else if (order == kInf) reduce(Fold::MaxAbs, Finish{});
  else if (order == -kInf) reduce(Fold::MinAbs, Finish{});
  else power(order);
}
// The norm of one number is its magnitude, for every order except 0: its square may overflow.
double order_of(const args::linalg_vector_norm& a, const TensorImpl& out) {
  const double order = a.ord_value().number();
  return order != 0 && a.x().numel == out.numel ? kInf : order;
}
template <decltype(&cpu::reduce) engine> void run_vector_norm(const Call& c) {
  const args::linalg_vector_norm a(c);
  const TensorImpl &x = a.x(), &out = *c.out();
  const DimMask reduced = reduced_mask(x, a.dim_value(), "vector_norm");
  by_order(
    order_of(a, out), [&](Fold fold, Finish finish) { engine(fold, x, reduced, out.dtype, out, finish); },
    [&](double p) { run_power_norm(x, reduced, p, out, compute_type(out.dtype)); });
}
void vector_norm_on_device(const Call& c, Workspace& workspace) {
  const args::linalg_vector_norm a(c);
  const TensorImpl &x = a.x(), &out = *c.out();
  const DimMask reduced = reduced_mask(x, a.dim_value(), "vector_norm");
  by_order(
    order_of(a, out),
    [&](Fold fold, Finish finish) { cuda::reduce(fold, x, reduced, out.dtype, out, finish, workspace); },
    [&](double p) { power_norm_on_device(x, reduced, p, out, workspace); });
}

Tensor vector_norm_grad(const GradContext& c, const Tensor& g) {
  const grads::linalg_vector_norm a(c);
  const Tensor x = a.x();
  const DimMask reduced = reduced_mask(a.meta_of_x(), a.dim_value(), "vector_norm");
  const Tensor norm = with_kept_dims(c.result(), x.shape(), reduced, a.keepdim());
  std::vector<int64_t> dims;
  for (int d = 0; d < x.dim(); ++d)
    if (reduced >> d & 1) dims.push_back(d);
  return vector_norm_slopes(x.dtype() == norm.dtype() ? x : to(x, norm.dtype()), norm,
                            with_kept_dims(g, x.shape(), reduced, a.keepdim()), a.ord_value().number(), dims);
}

// A matrix norm over dims[0] (rows) and dims[1] (columns).
Tensor matrix_norm_of(const Tensor& A, const Value& ord, IntList dim, bool keepdim, const std::optional<DType>& dtype,
                      const char* op) {
  STRATA_CHECK(dim.size == 2, Runtime, "{}: dim must be a 2-tuple, got {} dimensions", op, dim.size);
  STRATA_CHECK(A.dim() >= 2, Runtime, "{}: The input tensor A must have at least 2 dimensions, got {}", op, A.dim());
  norm_dtype(*A, dtype ? Value(*dtype) : Value(), op);
  int row = normalize_dim(dim[0], A.dim(), op), column = normalize_dim(dim[1], A.dim(), op);
  STRATA_CHECK(row != column, Runtime, "{}: dims must be different. Got ({}, {})", op, dim[0], dim[1]);
  const Tensor x = dtype && *dtype != A.dtype() ? to(A, *dtype) : A;
  const auto singular = [&]() {
    const Tensor s = call(find_op("linalg.svdvals"), Args(movedim(x, {row, column}, {-2, -1})));
    return s;
  };
  const auto back = [&](const Tensor& t) {  // t lost both dimensions
    return keepdim ? with_kept_dims(t, x.shape(), dim_bit(row) | dim_bit(column), false) : t;
  };
  if (ord.tag == Tag::Str) {
    if (ord.string() == "fro") return linalg::vector_norm(x, 2, OptIntList{row, column}, keepdim);
    STRATA_CHECK(ord.string() == "nuc", Runtime,
                 "{}: Order {} not supported; use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf", op, ord.string());
    return back(sum(singular(), int64_t{-1}));
  }
  const double p = ord.number(), size = std::abs(p);
  STRATA_CHECK(size == 1 || size == 2 || size == kInf, Runtime,
               "{}: Order {} not supported; use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf", op, p);
  if (size == 2) return back(p > 0 ? amax(singular(), {-1}) : amin(singular(), {-1}));
  if (size == kInf) std::swap(row, column);
  Tensor sums = linalg::vector_norm(x, 1, int64_t{row}, keepdim);
  if (!keepdim && row < column) --column;
  return p > 0 ? amax(sums, int64_t{column}, keepdim) : amin(sums, int64_t{column}, keepdim);
}

Tensor norm_of(const Tensor& A, const Value& ord, const OptIntList& dim, bool keepdim,
               const std::optional<DType>& dtype) {
  if (dim.given)
    STRATA_CHECK(dim.size == 1 || dim.size == 2 || !ord, Runtime,
                 "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {} dimensions", dim.size);
  else if (ord)
    STRATA_CHECK(A.dim() == 1 || A.dim() == 2, Runtime,
                 "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.", A.dim());
  const bool matrix = ord && (dim.given ? dim.size == 2 : A.dim() == 2);
  if (matrix)
    return dim.given ? matrix_norm_of(A, ord, dim, keepdim, dtype, "linalg.norm")
                     : matrix_norm_of(A, ord, {-2, -1}, keepdim, dtype, "linalg.norm");
  STRATA_CHECK(ord.tag != Tag::Str, Runtime, "linalg.norm: Order {} not supported for vectors", ord.string());
  return linalg::vector_norm(A, ord ? ord.scalar() : Scalar(2), dim, keepdim, dtype);
}
}  // namespace

STRATA_OP(
  linalg_vector_norm,
  "linalg.vector_norm(Tensor x, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc(
    "The norm of order `ord` over the given dimensions, all of them unless given: 0 counts, 1, 2, inf, -inf and any "
    "other number.")
  .infer(infer_vector_norm)
  .dtypes(kFloatingTypes)
  .kernel("simd", run_vector_norm<cpu::reduce>)
  .kernel("reference", run_vector_norm<cpu::reduce_reference>)
  .cuda("threads", vector_norm_on_device)
  .saves({"x"})
  .saves_result()
  .grad([](const GradContext& c, const Tensor& g) -> Grads { return {vector_norm_grad(c, g)}; })
  .autocast_cuda(Autocast::Float32Result)
  .complex_composite([](const Tensor& x, Scalar ord, OptIntList dim, bool keepdim, std::optional<DType> dtype) {
    return linalg::vector_norm(abs(dtype ? to(x, *dtype) : x), ord, dim, keepdim);
  })
  .samples({"f(3,4)", "f(3,4), 1", "f(3,4), inf, 0", "f(3,4), -inf, 1, True", "f(2,3,4), 3, [0,2]", "f(3,4), 1.5, 1",
            "f(3,4), 0", "f()", "f(3,4), 2, dtype=float64"})
  .error("i5(3)", ErrorKind::Runtime, "floating point")
  .error("f(0), inf", ErrorKind::Index, "non-zero size");

STRATA_OP(
  linalg_matrix_norm,
  "linalg.matrix_norm(Tensor A, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc(
    "A matrix norm: 1 and inf (largest column or row sum), 2 (largest singular value), and the smallest of each with a "
    "minus.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, Scalar ord, IntList dim, bool keepdim, std::optional<DType> dtype) {
    return matrix_norm_of(A, Value(ord), dim, keepdim, dtype, "linalg.matrix_norm");
  })
  .autocast_cuda(Autocast::Float32Result)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), 1", "f(3,4), inf", "f(2,3,4), -1", "f(2,3,4), 2, [0,1]", "f(3,3), -2, keepdim=True"})
  .error("f(3), 1", ErrorKind::Runtime, "at least 2 dimensions")
  .error("f(3,3), 3", ErrorKind::Runtime, "not supported");

STRATA_OP(linalg_matrix_norm_str_ord,
          "linalg.matrix_norm.str_ord(Tensor A, str ord='fro', int[] dim=[-2,-1], bool keepdim=False, *, dtype? "
          "dtype=None) -> Tensor")
  .doc("The Frobenius norm ('fro') or the nuclear norm ('nuc', the sum of singular values) of matrices.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, std::string_view ord, IntList dim, bool keepdim, std::optional<DType> dtype) {
    return matrix_norm_of(A, Value(ord), dim, keepdim, dtype, "linalg.matrix_norm");
  })
  .autocast_cuda(Autocast::Float32Result)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4)", "f(2,3,4), 'nuc'", "f(2,3,4), 'fro', [0,2], True"})
  .error("f(3,3), 'max'", ErrorKind::Runtime, "not supported");

STRATA_OP(
  linalg_norm,
  "linalg.norm(Tensor A, Scalar? ord=None, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("A vector or matrix norm, chosen by the number of dimensions given.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, std::optional<Scalar> ord, OptIntList dim, bool keepdim, std::optional<DType> dtype) {
    return norm_of(A, ord ? Value(*ord) : Value(), dim, keepdim, dtype);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4)", "f(4), 3", "f(3,4), 1", "f(2,3,4), 2, [1,2]", "f(2,3,4), inf, 1, True"})
  .error("f(2,2,2), 1", ErrorKind::Runtime, "1D or 2D");

STRATA_OP(linalg_norm_ord_str,
          "linalg.norm.ord_str(Tensor A, str ord, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The Frobenius or the nuclear norm of matrices.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& A, std::string_view ord, OptIntList dim, bool keepdim, std::optional<DType> dtype) {
    return norm_of(A, Value(ord), dim, keepdim, dtype);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), 'fro'", "f(2,3,4), 'nuc', [1,2]"})
  .error("f(3), 'fro'", ErrorKind::Runtime, "not supported");

STRATA_OP(norm,
          "norm(Tensor input, Scalar? p=None, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("The vector norm of order p (2 unless given) over the given dimensions.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, std::optional<Scalar> p, OptIntList dim, bool keepdim,
                std::optional<DType> dtype) {
    return linalg::vector_norm(input, p ? *p : Scalar(2), dim, keepdim, dtype);
  })
  .autocast_cuda(Autocast::Float32Result)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4)", "f(3,4), 1", "f(3,4), 2, 0", "f(3,4), inf, [0,1], True"})
  .error("i5(3)", ErrorKind::Runtime, "floating point");

STRATA_OP(norm_str,
          "norm.str(Tensor input, str p, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
  .doc("'fro': the root of the sum of squares. 'nuc': the sum of a matrix's singular values.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, std::string_view p, OptIntList dim, bool keepdim, std::optional<DType> dtype) {
    if (p == "fro") return linalg::vector_norm(input, 2, dim, keepdim, dtype);
    STRATA_CHECK(p == "nuc", Runtime, "norm: only valid string values are 'fro' and 'nuc', found: {}", p);
    if (dim.given) return matrix_norm_of(input, Value("nuc"), dim, keepdim, dtype, "norm");
    return matrix_norm_of(input, Value("nuc"), {-2, -1}, keepdim, dtype, "norm");
  })
  .autocast_cuda(Autocast::Float32Result)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), 'fro'", "f(3,4), 'nuc'", "f(2,3,4), 'fro', [0,1], True"})
  .error("f(3), 'max'", ErrorKind::Runtime, "only valid string values");

STRATA_OP(dist, "dist(Tensor input, Tensor other, Scalar p=2) -> Tensor")
  .doc("The p-norm of the difference.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& other, Scalar p) {
    return linalg::vector_norm(sub(input, other), p);
  })
  .autocast_cuda(Autocast::Float32)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), f(3,4)", "f(3,4), f(4), 1", "f(3), f(3), inf"})
  .error("f(3), f(4)", ErrorKind::Runtime, "");

STRATA_OP(renorm, "renorm(Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor")
  .doc("Each slice along dim scaled down so that its p-norm is at most maxnorm.")
  .inplace()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, Scalar p, int64_t dim, Scalar maxnorm) {
    STRATA_CHECK(p.to_double() > 0, Runtime, "renorm: non-positive-norm not supported");
    STRATA_CHECK(maxnorm.to_double() >= 0, Runtime, "renorm: expected maxnorm to be >= 0 but got {}",
                 maxnorm.to_double());
    STRATA_CHECK(input.dim() > 1, Runtime, "renorm: input needs at least 2 dimensions, got {} dimensions", input.dim());
    const int d = normalize_dim(dim, input.dim(), "renorm");
    std::vector<int64_t> others;
    for (int k = 0; k < input.dim(); ++k)
      if (k != d) others.push_back(k);
    const double most = maxnorm.to_double();
    Tensor norm = linalg::vector_norm(input, p, OptIntList(others), true);
    const Tensor above = gt(norm, most);
    if (norm.requires_grad())  // slices that are not scaled get no gradient from their norm, which may be NaN
      norm = linalg::vector_norm(where(above, input, 0), p, OptIntList(others), true);
    const Tensor factor = where(above, div(full({}, most, norm.dtype()), add(norm, 1e-7)), 1.0);
    return mul(input, to(factor, input.dtype()));
  })
  .autocast_cuda(Autocast::Float32)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), 2, 0, 1.0", "f(2,3,4), 1, 1, 0.5"})
  .error("f(3), 2, 0, 1.0", ErrorKind::Runtime, "at least 2 dimensions");

}  // namespace strata
