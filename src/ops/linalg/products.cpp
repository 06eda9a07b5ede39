// Products of matrices and vectors.
#include "cpu/linalg/products.h"
#include "autograd/autograd.h"
#include "cuda/linalg/cublaslt.h"
#include "cuda/linalg/gemm.h"
#include "cuda/linalg/gemm_hopper.h"
#include "cuda/linalg/gemm_mma.h"
#include "cuda/linalg/gemm_parts.h"
#include "cuda/linalg/gemv.h"
#include "ops/complex_parts.h"
#include "ops/planned.h"
#include "strata/args/linalg/products.h"
#include "strata/ops.h"

namespace strata {
namespace {

void check_types(const char* op, const TensorImpl& a, const TensorImpl& b) {
  STRATA_CHECK(a.dtype == b.dtype, Runtime,
               "{}: expected both operands to have the same dtype, but got {} and {}; convert one with .to()", op,
               name_of(a.dtype), name_of(b.dtype));
  STRATA_CHECK(a.dtype != DType::Bool && !kFloat8Types.has(a.dtype), NotImplemented, "\"{}\" not implemented for '{}'",
               op, name_of(a.dtype));
}

void check_rank(const char* op, const char* name, const TensorImpl& t, int rank) {
  STRATA_CHECK(t.ndim == rank, Runtime, "{}: {} must be a {}-D tensor, got shape {}", op, name, rank,
               to_string(t.sizes()));
}

void check_inner(const char* op, int64_t left, int64_t right, const TensorImpl& a, const TensorImpl& b) {
  STRATA_CHECK(left == right, Runtime,
               "{}: mat1 and mat2 shapes cannot be multiplied ({} and {}): the inner sizes {} and {} must be equal", op,
               to_string(a.sizes()), to_string(b.sizes()), left, right);
}

void set(const Call& c, DType dtype, std::initializer_list<int64_t> shape) {
  c.out()->dtype = dtype;
  c.out()->set_shape(Shape(shape.begin(), shape.size()));
}

void infer_matmul(const Call& c) {
  const args::matmul arg(c);
  const TensorImpl &a = arg.input(), &b = arg.other();
  STRATA_CHECK(a.ndim > 0 && b.ndim > 0, Runtime,
               "matmul: both arguments need to be at least 1D, but they are {}D and {}D", a.ndim, b.ndim);
  check_types("matmul", a, b);
  check_inner("matmul", a.shape[a.ndim - 1], b.shape[b.ndim > 1 ? b.ndim - 2 : 0], a, b);
  int64_t shape[kMaxDims + 2];
  int n = 0;
  const int ab = std::max(a.ndim - 2, 0), bb = std::max(b.ndim - 2, 0), batch = std::max(ab, bb);
  for (int i = 0; i < batch; ++i) {
    const int x = i - (batch - ab), y = i - (batch - bb);
    const int64_t left = x < 0 ? 1 : a.shape[x], right = y < 0 ? 1 : b.shape[y];
    STRATA_CHECK(left == right || left == 1 || right == 1, Runtime,
                 "matmul: the batch sizes {} and {} at dimension {} do not broadcast (shapes {} and {})", left, right,
                 i, to_string(a.sizes()), to_string(b.sizes()));
    shape[n++] = left == 1 ? right : left;
  }
  if (a.ndim > 1) shape[n++] = a.shape[a.ndim - 2];
  if (b.ndim > 1) shape[n++] = b.shape[b.ndim - 1];
  c.out()->dtype = a.dtype;
  c.out()->set_shape(Shape(shape, static_cast<size_t>(n)));
}

Tensor turned(const Tensor& t) { return transpose(t, -2, -1); }

Tensor as_rows(
  const Tensor& t) {  // [..., n] as one matrix; with an explicit number of rows, since -1 is ambiguous next to a 0
  return reshape(t, {checked_numel(t.shape().first(t.shape().size() - 1)), t.size(-1)});
}

Grads grad_matmul(const GradContext& c, const Tensor& g) {  // mm, bmm, mv and dot have the same two operands
  const grads::matmul a(c);
  const int left = static_cast<int>(a.shape_of_input().size()), right = static_cast<int>(a.shape_of_other().size());
  grads::matmul::Result out;
  if (left == 1 && right == 1) {
    if (a.needs_input()) out.input = mul(g, a.other());
    if (a.needs_other()) out.other = mul(g, a.input());
  } else if (left == 1) {
    if (a.needs_input()) out.input = squeeze(matmul(a.other(), unsqueeze(g, -1)), -1);
    if (a.needs_other()) out.other = mul(unsqueeze(a.input(), -1), unsqueeze(g, -2));
  } else if (right == 1) {
    if (a.needs_input()) out.input = mul(unsqueeze(g, -1), a.other());
    if (a.needs_other()) out.other = matmul(turned(as_rows(a.input())), reshape(g, {g.numel()}));
  } else {
    if (a.needs_input()) out.input = matmul(g, turned(a.other()));
    if (a.needs_other()) {
      // One matrix for all: one product over everything instead of one per matrix and a sum.
      if (right == 2 && left > 2) out.other = matmul(turned(as_rows(a.input())), as_rows(g));
      else out.other = matmul(turned(a.input()), g);
    }
  }
  return out;
}

Tensor scaled(const Tensor& t, Scalar factor) {  // integers stay integers
  if (factor.is_complex()) return mul(t, full({}, factor));
  if (is_integral(t.dtype())) factor = Scalar(factor.to_int());
  return factor.to_double() == 1 ? t : mul(t, factor);
}

void check_broadcasts_to(const char* op, const TensorImpl& input, const TensorImpl& out) {
  bool fits = input.ndim <= out.ndim;
  for (int d = 0; fits && d < input.ndim; ++d) {
    const int64_t have = input.shape[d], want = out.shape[out.ndim - input.ndim + d];
    fits = have == want || have == 1;
  }
  STRATA_CHECK(fits, Runtime, "{}: input of shape {} cannot be broadcast to the shape of the product, {}", op,
               to_string(input.sizes()), to_string(out.sizes()));
}

bool is_zero(const Scalar& s) {
  const Complex<double> z = s.to_complex();
  return z.re == 0 && z.im == 0;
}

// The product of complex operands of the given ranks (0: any).
Tensor checked_product(const char* op, const Tensor& a, const Tensor& b, int left = 0, int right = 0) {
  if (left) check_rank(op, "the first operand", *a, left);
  if (right) check_rank(op, "the second operand", *b, right);
  STRATA_CHECK(a.dim() > 0 && b.dim() > 0, Runtime,
               "{}: both arguments need to be at least 1D, but they are {}D and {}D", op, a.dim(), b.dim());
  check_types(op, *a, *b);
  STRATA_CHECK(left != 3 || a.size(0) == b.size(0), Runtime,
               "{}: batch1 holds {} matrices and batch2 {}; the numbers must be equal", op, a.size(0), b.size(0));
  check_inner(op, a.size(-1), b.size(b.dim() > 1 ? -2 : 0), *a, *b);
  return complex_matmul(a, b);
}
Tensor plus_product(const char* op, const Tensor& input, const Tensor& product, const Scalar& beta,
                    const Scalar& alpha) {
  check_types(op, *input, *product);
  check_broadcasts_to(op, *input, *product);
  if (is_zero(beta)) return scaled(product, alpha);
  return add(scaled(input, beta), scaled(product, alpha));
}

Grads grad_scaled(const GradContext& c, const Tensor& g) {  // addmm, and baddbmm with the same parameters
  const grads::addmm a(c);
  grads::addmm::Result out;
  const Scalar beta = a.beta(), alpha = a.alpha();
  if (a.needs_input()) out.input = scaled(g, beta);
  if (a.needs_mat1()) out.mat1 = scaled(matmul(g, turned(a.mat2())), alpha);
  if (a.needs_mat2()) out.mat2 = scaled(matmul(turned(a.mat1()), g), alpha);
  return out;
}

void infer_addmm(const Call& c) {
  const args::addmm arg(c);
  const TensorImpl &in = arg.input(), &a = arg.mat1(), &b = arg.mat2();
  check_rank("addmm", "mat1", a, 2);
  check_rank("addmm", "mat2", b, 2);
  check_types("addmm", a, b);
  check_types("addmm", in, a);
  check_inner("addmm", a.shape[1], b.shape[0], a, b);
  set(c, a.dtype, {a.shape[0], b.shape[1]});
  check_broadcasts_to("addmm", in, *c.out());
}

void infer_baddbmm(const Call& c) {
  const args::baddbmm arg(c);
  const TensorImpl &in = arg.input(), &a = arg.batch1(), &b = arg.batch2();
  check_rank("baddbmm", "batch1", a, 3);
  check_rank("baddbmm", "batch2", b, 3);
  check_types("baddbmm", a, b);
  check_types("baddbmm", in, a);
  STRATA_CHECK(a.shape[0] == b.shape[0], Runtime,
               "baddbmm: batch1 holds {} matrices and batch2 {}; the numbers must be equal", a.shape[0], b.shape[0]);
  check_inner("baddbmm", a.shape[2], b.shape[1], a, b);
  set(c, a.dtype, {a.shape[0], a.shape[1], b.shape[2]});
  check_broadcasts_to("baddbmm", in, *c.out());
}

void infer_linear(const Call& c) {
  const args::linear a(c);
  const TensorImpl &x = a.input(), &w = a.weight();
  STRATA_CHECK(w.ndim == 1 || w.ndim == 2, Runtime,
               "linear: weight must have 1 or 2 dimensions [out_features, in_features], got shape {}",
               to_string(w.sizes()));
  STRATA_CHECK(x.ndim >= 1, Runtime, "linear: input must have at least 1 dimension");
  check_types("linear", x, w);
  const int64_t in = w.shape[w.ndim - 1];
  STRATA_CHECK(
    x.shape[x.ndim - 1] == in, Runtime,
    "linear: mat1 and mat2 shapes cannot be multiplied: input has {} features (shape {}), weight expects {} (shape {})",
    x.shape[x.ndim - 1], to_string(x.sizes()), in, to_string(w.sizes()));
  int64_t shape[kMaxDims];
  std::copy_n(x.shape, x.ndim, shape);
  int n = x.ndim - 1;
  if (w.ndim == 2) shape[n++] = w.shape[0];
  c.out()->dtype = x.dtype;
  c.out()->set_shape(Shape(shape, static_cast<size_t>(n)));
  if (!a.has_bias()) return;
  const TensorImpl& bias = *a.bias();
  check_types("linear", x, bias);
  const bool fits = w.ndim == 1 ? bias.numel == 1 : bias.ndim <= 1 && (bias.numel == w.shape[0] || bias.numel == 1);
  STRATA_CHECK(fits, Runtime, "linear: bias must have shape [{}], got {}", w.ndim == 2 ? w.shape[0] : 1,
               to_string(bias.sizes()));
}

}  // namespace

STRATA_OP(matmul, "matmul(Tensor input, Tensor other) -> Tensor")
  .doc("The matrix product. Vectors count as a row or a column; leading dimensions are batches and broadcast.")
  .infer(infer_matmul)
  .saves_each_for_the_other()
  .grad(grad_matmul)
  .dtypes(kNumericTypes)
  .alias("linalg.matmul")
  .autocast(Autocast::Lower)
  .complex_composite([](const Tensor& input, const Tensor& other) { return checked_product("matmul", input, other); })
  .computes_uint64()
  .samples({"f(3,4), f(4,5)", "f(4), f(4)", "f(4), f(4,3)", "f(3,4), f(4)", "f(2,3,4), f(4,5)", "f(2,3,4), f(2,4,5)",
            "f(2,1,3,4), f(3,4,2)", "f(4), f(2,4,3)", "f(2,3,4), f(4)", "f(0,4), f(4,3)", "f(3,0), f(0,2)",
            "f(1,1), f(1,1)", "f(33,70), f(70,40)"})
  .error("f(2,3), f(4,5)", ErrorKind::Runtime, "cannot be multiplied")
  .error("f(), f(3)", ErrorKind::Runtime, "at least 1D")
  .error("f(2,3,4), f(3,4,2)", ErrorKind::Runtime, "do not broadcast");

STRATA_OP(mm, "mm(Tensor input, Tensor mat2) -> Tensor")
  .doc("The product of two matrices.")
  .infer([](const args::mm& c) {
    const TensorImpl &a = c.input(), &b = c.mat2();
    check_rank("mm", "self", a, 2);
    check_rank("mm", "mat2", b, 2);
    check_types("mm", a, b);
    check_inner("mm", a.shape[1], b.shape[0], a, b);
    set(c, a.dtype, {a.shape[0], b.shape[1]});
  })
  .saves_each_for_the_other()
  .grad(grad_matmul)
  .dtypes(kNumericTypes)
  .autocast(Autocast::Lower)
  .complex_composite([](const Tensor& input, const Tensor& mat2) { return checked_product("mm", input, mat2, 2, 2); })
  .computes_uint64()
  .samples({"f(3,4), f(4,5)", "f(0,4), f(4,3)", "f(3,0), f(0,2)"})
  .error("f(2,3), f(4,5)", ErrorKind::Runtime, "cannot be multiplied")
  .error("f(3), f(3,2)", ErrorKind::Runtime, "must be a 2-D tensor");

STRATA_OP(bmm, "bmm(Tensor input, Tensor mat2) -> Tensor")
  .doc("The products of two batches of matrices.")
  .infer([](const args::bmm& c) {
    const TensorImpl &a = c.input(), &b = c.mat2();
    check_rank("bmm", "batch1", a, 3);
    check_rank("bmm", "batch2", b, 3);
    check_types("bmm", a, b);
    check_inner("bmm", a.shape[2], b.shape[1], a, b);
    STRATA_CHECK(a.shape[0] == b.shape[0], Runtime,
                 "bmm: batch1 holds {} matrices and batch2 {}; the numbers must be equal", a.shape[0], b.shape[0]);
    set(c, a.dtype, {a.shape[0], a.shape[1], b.shape[2]});
  })
  .saves_each_for_the_other()
  .grad(grad_matmul)
  .dtypes(kNumericTypes)
  .autocast(Autocast::Lower)
  .complex_composite([](const Tensor& input, const Tensor& mat2) { return checked_product("bmm", input, mat2, 3, 3); })
  .computes_uint64()
  .samples({"f(2,3,4), f(2,4,5)", "f(0,3,4), f(0,4,5)", "f(2,3,0), f(2,0,5)"})
  .error("f(2,3,4), f(3,4,5)", ErrorKind::Runtime, "the numbers must be equal");

STRATA_OP(mv, "mv(Tensor input, Tensor vec) -> Tensor")
  .doc("The product of a matrix and a vector.")
  .infer([](const args::mv& c) {
    const TensorImpl &a = c.input(), &b = c.vec();
    check_rank("mv", "input", a, 2);
    check_rank("mv", "vec", b, 1);
    check_types("mv", a, b);
    check_inner("mv", a.shape[1], b.shape[0], a, b);
    set(c, a.dtype, {a.shape[0]});
  })
  .saves_each_for_the_other()
  .grad(grad_matmul)
  .dtypes(kNumericTypes)
  .autocast_cuda(Autocast::Lower)
  .complex_composite([](const Tensor& input, const Tensor& vec) { return checked_product("mv", input, vec, 2, 1); })
  .computes_uint64()
  .samples({"f(3,4), f(4)", "f(0,4), f(4)"})
  .error("f(3,4), f(3)", ErrorKind::Runtime, "cannot be multiplied");

STRATA_OP(dot, "dot(Tensor input, Tensor tensor) -> Tensor")
  .doc("The dot product of two vectors.")
  .infer([](const args::dot& c) {
    const TensorImpl &a = c.input(), &b = c.tensor();
    STRATA_CHECK(a.ndim == 1 && b.ndim == 1, Runtime, "dot: 1D tensors expected, but got {}D and {}D tensors", a.ndim,
                 b.ndim);
    check_types("dot", a, b);
    STRATA_CHECK(a.shape[0] == b.shape[0], Runtime,
                 "dot: inconsistent tensor size, expected both to have the same number of elements, but got {} and {}",
                 a.shape[0], b.shape[0]);
    set(c, a.dtype, {});
  })
  .saves_each_for_the_other()
  .grad(grad_matmul)
  .dtypes(kNumericTypes)
  .autocast_cuda(Autocast::Promote)
  .complex_composite([](const Tensor& input, const Tensor& tensor) {
    return checked_product("dot", input, tensor, 1, 1);
  })
  .computes_uint64()
  .samples({"f(5), f(5)", "f(0), f(0)"})
  .error("f(3), f(4)", ErrorKind::Runtime, "same number of elements")
  .error("f(3,2), f(3)", ErrorKind::Runtime, "1D tensors expected");

STRATA_OP(vdot, "vdot(Tensor input, Tensor other) -> Tensor")
  .doc("The dot product of two vectors, of which the first is conjugated.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& other) {
    return dot(is_complex(input.dtype()) ? conj(input) : input, other);
  })
  .autocast_cuda(Autocast::Promote)
  .add_dtypes(kComplexTypes)
  .samples({"f(5), f(5)"})
  .error("f(3), f(4)", ErrorKind::Runtime, "same number of elements");

STRATA_OP(outer, "outer(Tensor input, Tensor vec2) -> Tensor")
  .doc("The outer product of two vectors.")
  .alias("ger")
  .dtypes(kAllTypes)
  .composite([](const Tensor& input, const Tensor& vec2) {
    STRATA_CHECK(input.dim() == 1 && vec2.dim() == 1, Runtime, "outer: expected two 1-D tensors, got {}-D and {}-D",
                 input.dim(), vec2.dim());
    return mul(unsqueeze(input, 1), vec2);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3), f(4)", "f(0), f(4)"})
  .error("f(3,2), f(4)", ErrorKind::Runtime, "expected two 1-D tensors");

STRATA_OP(inner, "inner(Tensor input, Tensor other) -> Tensor")
  .doc("Sums of products over the last dimension of both.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& other) {
    if (input.dim() == 0 || other.dim() == 0) return mul(input, other);
    STRATA_CHECK(input.size(-1) == other.size(-1), Runtime,
                 "inner: the last dimensions must be equal, but shapes are {} and {}", to_string(input.shape()),
                 to_string(other.shape()));
    if (input.dim() == 1 && other.dim() == 1) return dot(input, other);
    std::vector<int64_t> shape(input.shape().begin(), input.shape().end() - 1);
    shape.insert(shape.end(), other.shape().begin(), other.shape().end() - 1);
    const int64_t k = input.size(-1);
    const Tensor a =
      reshape(input, {k ? input.numel() / k : checked_numel(input.shape().first(input.shape().size() - 1)), k});
    const Tensor b =
      reshape(other, {k ? other.numel() / k : checked_numel(other.shape().first(other.shape().size() - 1)), k});
    return reshape(mm(a, transpose(b, 0, 1)), shape);
  })
  .autocast_cuda(Autocast::Promote)
  .add_dtypes(kComplexTypes)
  .samples({"f(3), f(3)", "f(2,3), f(4,3)", "f(2,3), f()", "f(2,1,3), f(3)"})
  .error("f(3), f(4)", ErrorKind::Runtime, "last dimensions must be equal");

STRATA_OP(addmm, "addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
  .doc("beta * input + alpha * (mat1 @ mat2). With beta 0 the input is not read.")
  .infer(infer_addmm)
  .saves({"mat1", "mat2"})
  .grad(grad_scaled)
  .updates()
  .dtypes(kNumericTypes)
  .autocast(Autocast::Lower)
  .complex_composite([](const Tensor& input, const Tensor& mat1, const Tensor& mat2, Scalar beta, Scalar alpha) {
    return plus_product("addmm", input, checked_product("addmm", mat1, mat2, 2, 2), beta, alpha);
  })
  .samples({"f(3,5), f(3,4), f(4,5)", "f(5), f(3,4), f(4,5), beta=2, alpha=3", "f(3,1), f(3,4), f(4,5), beta=0",
            "f(1), f(3,0), f(0,5)"})
  .error("f(2,2), f(3,4), f(4,5)", ErrorKind::Runtime, "cannot be broadcast")
  .error("f(3,5), f(3,4), f(3,5)", ErrorKind::Runtime, "cannot be multiplied");

STRATA_OP(baddbmm, "baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
  .doc("beta * input + alpha * (batch1 @ batch2) for batches of matrices.")
  .infer(infer_baddbmm)
  .saves({"batch1", "batch2"})
  .grad(grad_scaled)
  .updates()
  .dtypes(kNumericTypes)
  .autocast(Autocast::Lower)
  .complex_composite([](const Tensor& input, const Tensor& batch1, const Tensor& batch2, Scalar beta, Scalar alpha) {
    return plus_product("baddbmm", input, checked_product("baddbmm", batch1, batch2, 3, 3), beta, alpha);
  })
  .samples({"f(2,3,5), f(2,3,4), f(2,4,5)", "f(5), f(2,3,4), f(2,4,5), beta=2, alpha=3", "f(1), f(2,3,0), f(2,0,5)"})
  .error("f(2,3,5), f(2,3,4), f(3,4,5)", ErrorKind::Runtime, "the numbers must be equal");

STRATA_OP(addbmm, "addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
  .doc("beta * input + alpha * (the sum over the batch of batch1 @ batch2).")
  .inplace()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& batch1, const Tensor& batch2, Scalar beta, Scalar alpha) {
    check_rank("addbmm", "batch1", *batch1, 3);
    check_rank("addbmm", "batch2", *batch2, 3);
    STRATA_CHECK(batch1.size(0) == batch2.size(0), Runtime,
                 "addbmm: batch1 holds {} matrices and batch2 {}; the numbers must be equal", batch1.size(0),
                 batch2.size(0));
    check_inner("addbmm", batch1.size(2), batch2.size(1), *batch1, *batch2);
    const int64_t k = batch1.size(0) * batch1.size(2);
    return addmm(input, reshape(transpose(batch1, 0, 1), {batch1.size(1), k}), reshape(batch2, {k, batch2.size(2)}),
                 beta, alpha);
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,5), f(2,3,4), f(2,4,5)", "f(5), f(2,3,4), f(2,4,5), beta=2, alpha=3"})
  .error("f(3,5), f(2,3,4), f(3,4,5)", ErrorKind::Runtime, "the numbers must be equal");

STRATA_OP(addmv, "addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
  .doc("beta * input + alpha * (mat @ vec).")
  .inplace()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& mat, const Tensor& vec, Scalar beta, Scalar alpha) {
    const Tensor product = scaled(mv(mat, vec), alpha);
    if (is_zero(beta)) return product;
    const Tensor sum = add(scaled(input, beta), product);
    STRATA_CHECK(sum->same_shape(*product), Runtime,
                 "addmv: input of shape {} cannot be broadcast to the shape of the product, {}",
                 to_string(input.shape()), to_string(product.shape()));
    return sum;
  })
  .autocast_cuda(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(3), f(3,4), f(4)", "f(1), f(3,4), f(4), beta=2, alpha=3", "f(3), f(3,4), f(4), beta=0"})
  .error("f(2), f(3,4), f(3)", ErrorKind::Runtime, "cannot be multiplied");

STRATA_OP(addr, "addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
  .doc("beta * input + alpha * outer(vec1, vec2).")
  .inplace()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& vec1, const Tensor& vec2, Scalar beta, Scalar alpha) {
    if (!is_zero(beta) && vec1.dim() == 1 && vec2.dim() == 1 && is_floating(input.dtype()))
      return addcmul(scaled(input, beta), unsqueeze(vec1, 1), vec2, alpha);  // in one pass
    const Tensor product = scaled(outer(vec1, vec2), alpha);
    return is_zero(beta) ? product : add(scaled(input, beta), product);
  })
  .autocast_cuda(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(3,4), f(3), f(4)", "f(1), f(3), f(4), beta=2, alpha=3", "f(3,4), f(3), f(4), beta=0"})
  .error("f(3,4), f(3,1), f(4)", ErrorKind::Runtime, "expected two 1-D tensors");

STRATA_OP(linear, "nn.functional.linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor")
  .doc("input @ weight.T + bias.")
  .infer(infer_linear)
  .saves({"input", "weight"})
  .dtypes(kNumericTypes)
  .grad([](const grads::linear& c, const Tensor& g) -> Grads {
    grads::linear::Result out;
    const bool vector = c.shape_of_weight().size() == 1;
    if (c.needs_input()) out.input = vector ? mul(unsqueeze(g, -1), c.weight()) : matmul(g, c.weight());
    if (c.needs_weight()) {
      const Tensor x = as_rows(c.input());
      out.weight = vector ? mv(transpose(x, 0, 1), reshape(g, {g.numel()})) : mm(transpose(as_rows(g), 0, 1), x);
    }
    if (c.needs_bias()) out.bias = g;
    return out;
  })
  .autocast(Autocast::Lower)
  .complex_composite([](const Tensor& input, const Tensor& weight, const Tensor& bias) {
    const Tensor product = checked_product("linear", input, weight.dim() == 2 ? transpose(weight, 0, 1) : weight);
    return bias ? add(product, bias) : product;
  })
  .samples({"f(3,4), f(5,4), f(5)", "f(3,4), f(5,4)", "f(2,3,4), f(5,4), f(5)", "f(4), f(5,4), f(5)", "f(3,4), f(4)",
            "f(0,4), f(5,4), f(5)"})
  .error("f(3,4), f(5,3)", ErrorKind::Runtime, "cannot be multiplied")
  .error("f(3,4), f(5,4), f(4)", ErrorKind::Runtime, "bias must have shape [5]");

namespace {
// The geometry is the CPU's.
cuda::GemmCall device_call(const TensorImpl& a, const TensorImpl& b, const Tensor& out, Tensor in = {}) {
  cuda::GemmCall g{{}, alias(a), alias(b), out, std::move(in)};
  static_cast<Product&>(g.params) = cpu::plan_product(a, b, *out);
  g.params.beta = 1;
  return g;
}
cuda::GemmCall product_call(const Call& c) {  // mm, bmm, mv and dot have the same two operands
  const args::matmul a(c);
  return device_call(a.input(), a.other(), c.out());
}
cuda::GemmCall scaled_product_call(const Call& c) {  // addmm, and baddbmm with the same parameters
  const args::addmm arg(c);
  const TensorImpl &in = arg.input(), &a = arg.mat1(), &b = arg.mat2(), &out = *c.out();
  cuda::GemmCall g = device_call(a, b, c.out(), arg.share_input());
  cuda::GemmParams& p = g.params;
  // Without merging, so that the strides of input go with those of the output.
  const bool batched = out.ndim == 3;
  const auto stride = [&](int from_end) {
    const int d = in.ndim - from_end;
    return d < 0 || in.shape[d] == 1 ? 0 : in.strides[d];
  };
  p.m = out.shape[out.ndim - 2];
  p.a_m = a.strides[a.ndim - 2];
  p.c_m = out.strides[out.ndim - 2];
  p.batch_dims = batched;
  if (batched) {
    p.batch[0] = out.shape[0];
    p.a_b[0] = a.strides[0];
    p.b_b[0] = b.strides[0];
    p.c_b[0] = out.strides[0];
    p.in_b[0] = stride(3);
  }
  p.in_m = stride(2);
  p.in_n = stride(1);
  p.beta = arg.beta().to_double();
  p.alpha = arg.alpha().to_double();
  return g;
}
cuda::GemmCall linear_call(const Call& c) {
  const args::linear a(c);
  const Tensor weight = alias(a.weight());
  if (weight->ndim == 2) {
    std::swap(weight->shape[0], weight->shape[1]);
    std::swap(weight->strides[0], weight->strides[1]);
  }
  weight->update_contiguous();
  cuda::GemmCall g = device_call(a.input(), *weight, c.out(), a.share_bias());
  g.params.in_n = g.in && g.in.dim() == 1 && g.in.size(0) != 1 ? g.in->strides[0] : 0;
  return g;
}
template <auto describe> void add_device_kernels(OpRecord& op) {
  add_planned<describe, cuda::plan_gemv, cuda::run_gemv>(op, Backend::Cuda, "matrix_vector");
  add_planned<describe, cuda::plan_gemm_hopper_ahead, cuda::run_gemm_hopper>(op, Backend::Cuda, "hopper_ahead");
  add_planned<describe, cuda::plan_gemm_cublaslt_tf32, cuda::run_gemm_cublaslt>(op, Backend::Cuda, "cublaslt_tf32");
  op.from(Source::CublasLt).numerics({.tf32 = true});
  add_planned<describe, cuda::plan_gemm_hopper_tf32, cuda::run_gemm_hopper_tf32>(op, Backend::Cuda, "hopper_tf32");
  op.numerics({.tf32 = true});
  add_planned<describe, cuda::plan_gemm_cublaslt, cuda::run_gemm_cublaslt>(op, Backend::Cuda, "cublaslt");
  op.from(Source::CublasLt);
  add_planned<describe, cuda::plan_gemm_hopper_parts, cuda::run_gemm_hopper_parts>(op, Backend::Cuda,
                                                                                   "hopper_in_parts");
  add_planned<describe, cuda::plan_gemm_mma_parts, cuda::run_gemm_mma_parts>(op, Backend::Cuda,
                                                                             "tensor_cores_in_parts");
  add_planned<describe, cuda::plan_gemm_hopper, cuda::run_gemm_hopper>(op, Backend::Cuda, "hopper");
  add_planned<describe, cuda::plan_gemm_mma, cuda::run_gemm_mma>(op, Backend::Cuda, "tensor_cores");
  add_planned<describe, cuda::plan_gemm_parts, cuda::run_gemm>(op, Backend::Cuda, "tiles_in_parts");
  add_planned<describe, cuda::plan_gemm_tiles, cuda::run_gemm>(op, Backend::Cuda, "tiles");
}

[[maybe_unused]] const bool kernels_added = [] {
  for (OpRecord* op : {&op_matmul, &op_mm, &op_bmm, &op_mv, &op_dot}) {
    cpu::add_product_kernels(*op);
    add_device_kernels<product_call>(*op);
  }
  for (OpRecord* op : {&op_addmm, &op_baddbmm}) {
    cpu::add_scaled_product_kernels(*op);
    add_device_kernels<scaled_product_call>(*op);
  }
  cpu::add_linear_kernels(op_linear);
  add_device_kernels<linear_call>(op_linear);
  return true;
}();
}  // namespace

}  // namespace strata
