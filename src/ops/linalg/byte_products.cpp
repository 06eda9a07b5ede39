// Products of 8-bit matrices: of integers, and of floats with scales.
#include "strata/args/linalg/byte_products.h"
#include "autograd/autograd.h"
#include "cuda/linalg/gemm_bytes.h"
#include "ops/planned.h"
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {
namespace {

void check_factors(const char* op, const TensorImpl& a, const TensorImpl& b, DTypeSet types, const char* expected) {
  STRATA_CHECK(a.ndim == 2 && b.ndim == 2, Runtime, "{}: expected two matrices, got shapes {} and {}", op,
               to_string(a.sizes()), to_string(b.sizes()));
  STRATA_CHECK(types.has(a.dtype) && types.has(b.dtype), Runtime, "{}: expected matrices of {}, got {} and {}", op,
               expected, name_of(a.dtype), name_of(b.dtype));
  STRATA_CHECK(a.shape[1] == b.shape[0], Runtime,
               "{}: mat1 and mat2 shapes cannot be multiplied ({} and {}): the inner sizes {} and {} must be equal", op,
               to_string(a.sizes()), to_string(b.sizes()), a.shape[1], b.shape[0]);
}

// --- integers --------------------------------------------------------------------------------------------------------

cuda::ByteProduct integer_product(const Call& c) {
  const args::_int_mm a(c);
  return {a.input(), a.mat2(), nullptr, nullptr, nullptr, c.out(), false, true, false};
}

void multiply_integers(const Call& c) {
  const args::_int_mm a(c);
  copy_values(*c.out(), *mm(to(a.share_input(), DType::I32), to(a.share_mat2(), DType::I32)));
}

// --- floats with scales ----------------------------------------------------------------------------------------------

constexpr int64_t kBlock = 128;  // a scale for 128 elements of k, or for 128 x 128

// The scales of one factor, whose shape is rows x k: for all of it, each row, or each block of 128 (or 128 x 128).
enum class Scaling { Number, Rows, Blocks, Squares, Unknown };
Scaling scaling_of(const TensorImpl& scale, int64_t rows, int64_t k, bool transposed) {
  if (scale.numel == 1) return Scaling::Number;
  if (scale.ndim != 2) return Scaling::Unknown;
  const int64_t first = scale.shape[transposed], second = scale.shape[!transposed];
  const auto blocks = [](int64_t n) { return (n + kBlock - 1) / kBlock; };
  if (first == rows && second == 1) return Scaling::Rows;
  if (first == rows && second == blocks(k)) return Scaling::Blocks;
  if (first == blocks(rows) && second == blocks(k)) return Scaling::Squares;
  return Scaling::Unknown;
}

struct Scalings {
  Scaling a, b;
  explicit Scalings(const args::_scaled_mm& c)
      : a(scaling_of(c.scale_a(), c.input().shape[0], c.input().shape[1], false)),
        b(scaling_of(c.scale_b(), c.mat2().shape[1], c.mat2().shape[0], true)) {}
};

void check_scale(const char* name, const TensorImpl& scale, Scaling scaling, int64_t rows, int64_t k,
                 const char* one_per) {
  STRATA_CHECK(scale.dtype == DType::F32, Runtime, "_scaled_mm: {} must be of float32, got {}", name,
               name_of(scale.dtype));
  STRATA_CHECK(
    scaling != Scaling::Unknown, Runtime,
    "_scaled_mm: {} has shape {}; expected one number, one per {} ({}), or one per block of 128 (of {} by {})", name,
    to_string(scale.sizes()), one_per, rows, rows, k);
}

cuda::ByteProduct scaled_product(const Call& c) {
  const args::_scaled_mm a(c);
  const Scalings kinds(a);
  // One number counts as the scale of a single row or column.
  const auto rows = [](Scaling s, int64_t count) { return s == Scaling::Rows || (s == Scaling::Number && count == 1); };
  const bool numbers = kinds.a == Scaling::Number && kinds.b == Scaling::Number;
  const bool by_rows = !numbers && rows(kinds.a, a.input().shape[0]) && rows(kinds.b, a.mat2().shape[1]);
  return {a.input(), a.mat2(), &a.scale_a(),       &a.scale_b(),      a.bias(),
          c.out(),   by_rows,  numbers || by_rows, a.use_fast_accum()};
}

// What the kernels for devices require of the scales, the bias and the result.
template <auto plan_product> const char* plan_scaled(const cuda::ByteProduct& p, Plan& plan) {
  const auto dense = [](const TensorImpl& t) { return t.numel == 1 || t.contiguous; };
  const DType result = p.d.dtype();
  if (!p.known) return "scales of blocks, or of different kinds";
  if (!dense(*p.scale_a) || !dense(*p.scale_b) || (p.bias && !dense(*p.bias)))
    return "the scales or the bias are strided";
  if (result != DType::F32 && result != DType::F16 && result != DType::BF16)
    return "the result is not of 16 or 32 bits";
  if (p.bias && p.bias->dtype != result) return "the bias has another dtype than the result";
  return plan_product(p, plan);
}

// The values of a factor in float32, times its scales. A matrix on the right is transposed before and after.
Tensor scaled_values(const Tensor& factor, const Tensor& scale, Scaling scaling) {
  const Tensor values = to(factor, DType::F32);
  if (scaling == Scaling::Number) return mul(values, reshape(scale, {}));
  if (scaling == Scaling::Rows) return mul(values, scale);
  Tensor each = narrow(repeat_interleave(scale, kBlock, 1), 1, 0, values.size(1));
  if (scaling == Scaling::Squares) each = narrow(repeat_interleave(each, kBlock, 0), 0, 0, values.size(0));
  return mul(values, each);
}

// Scales of rows and of whole factors are applied to the sums, as the fast kernels do; those of blocks to the factors.
void multiply_scaled(const Call& c) {
  const args::_scaled_mm a(c);
  const Scalings kinds(a);
  const Tensor x = a.share_input(), y = a.share_mat2(), scale_a = a.share_scale_a(), scale_b = a.share_scale_b();
  const auto afterwards = [](Scaling s) { return s == Scaling::Number || s == Scaling::Rows; };
  Tensor product;
  if (afterwards(kinds.a) && afterwards(kinds.b)) {
    const auto shaped = [](const Tensor& scale, Scaling s) {
      return s == Scaling::Number ? reshape(scale, {}) : scale;
    };
    product = mul(mul(mm(to(x, DType::F32), to(y, DType::F32)), shaped(scale_a, kinds.a)), shaped(scale_b, kinds.b));
  } else {
    product = mm(scaled_values(x, scale_a, kinds.a), t(scaled_values(t(y), t(scale_b), kinds.b)));
  }
  if (a.bias()) product = add(product, to(a.share_bias(), DType::F32));
  if (a.scale_result() && kFloat8Types.has(c.out().dtype()))
    product = mul(product, reshape(a.share_scale_result(), {}));
  copy_values(*c.out(), *product);
}
}  // namespace

STRATA_OP(_int_mm, "_int_mm(Tensor input, Tensor mat2) -> Tensor")
  .doc("The product of two int8 matrices in int32.")
  .no_method()
  .dtypes({DType::I8})
  .infer([](const args::_int_mm& c) {
    check_factors("_int_mm", c.input(), c.mat2(), {DType::I8}, "int8");
    c.out()->dtype = DType::I32;
    c.out()->set_shape(Shape(std::array{c.input().shape[0], c.mat2().shape[1]}));
  })
  .kernel("reference", multiply_integers)
  .with([](OpRecord& op) {
    add_planned<integer_product, cuda::plan_bytes_hopper_ahead, cuda::run_bytes_hopper>(op, Backend::Cuda,
                                                                                        "hopper_ahead");
    add_planned<integer_product, cuda::plan_bytes_cublaslt, cuda::run_bytes_cublaslt>(op, Backend::Cuda, "cublaslt");
    op.from(Source::CublasLt);
    add_planned<integer_product, cuda::plan_bytes_hopper, cuda::run_bytes_hopper>(op, Backend::Cuda, "hopper");
  })
  .cuda("int32", multiply_integers)
  .samples({"f(3,4), f(4,5)", "f(0,4), f(4,3)", "f(3,0), f(0,2)", "f(1,7), f(7,1)"})
  .error("i5(2,3), i5(3,2)", ErrorKind::Runtime, "expected matrices of int8");

STRATA_OP(_scaled_mm,
          "_scaled_mm(Tensor input, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? "
          "scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor")
  .doc(
    "The product of two float8 matrices, times their scales, plus a bias. A scale is one number, one per row of input "
    "or column of mat2, or one per block of 128. scale_result multiplies a result of 8 bits.")
  .no_method()
  .dtypes({DType::F8E4M3, DType::F8E5M2})
  .infer([](const args::_scaled_mm& c) {
    const TensorImpl &a = c.input(), &b = c.mat2(), *bias = c.bias();
    check_factors("_scaled_mm", a, b, kFloat8Types, "float8_e4m3fn or float8_e5m2");
    const Scalings kinds(c);
    check_scale("scale_a", c.scale_a(), kinds.a, a.shape[0], a.shape[1], "row");
    check_scale("scale_b", c.scale_b(), kinds.b, b.shape[1], b.shape[0], "column");
    STRATA_CHECK(!bias || (bias->ndim == 1 && bias->shape[0] == b.shape[1]), Runtime,
                 "_scaled_mm: bias must have one number per column ({}), got shape {}", b.shape[1],
                 bias ? to_string(bias->sizes()) : "");
    const TensorImpl* result = c.scale_result();
    STRATA_CHECK(!result || (result->numel == 1 && result->dtype == DType::F32), Runtime,
                 "_scaled_mm: scale_result must be one number of float32, got shape {}",
                 result ? to_string(result->sizes()) : "");
    const DType out = c.out_dtype().value_or(a.dtype);
    STRATA_CHECK(is_floating(out), Runtime, "_scaled_mm: out_dtype must be a floating-point dtype, got {}",
                 name_of(out));
    c.out()->dtype = out;
    c.out()->set_shape(Shape(std::array{a.shape[0], b.shape[1]}));
  })
  .kernel("reference", multiply_scaled)
  .with([](OpRecord& op) {
    constexpr auto ahead = plan_scaled<cuda::plan_bytes_hopper_ahead>, hopper = plan_scaled<cuda::plan_bytes_hopper>,
                   cublaslt = plan_scaled<cuda::plan_bytes_cublaslt>;
    constexpr Numerics facts{.error = 1024};  // its sums have about 14 bits
    add_planned<scaled_product, ahead, cuda::run_bytes_hopper>(op, Backend::Cuda, "hopper_ahead");
    op.numerics(facts);
    add_planned<scaled_product, cublaslt, cuda::run_bytes_cublaslt>(op, Backend::Cuda, "cublaslt");
    op.from(Source::CublasLt).numerics(facts);
    add_planned<scaled_product, hopper, cuda::run_bytes_hopper>(op, Backend::Cuda, "hopper");
    op.numerics(facts);
  })
  .cuda("float32", multiply_scaled)
  .samples({"f(3,4), f(4,5), w(), w()", "f(3,4), f(4,5), w(3,1), w(1,5), out_dtype=float32",
            "f(3,130), f(130,5), w(3,2), w(2,1), out_dtype=float32", "f(0,4), f(4,3), w(), w()",
            "f(3,0), f(0,2), w(), w(), w(2), out_dtype=float32"})
  .error("f(3,4), f(4,5), w(), w()", ErrorKind::Runtime, "expected matrices of float8");

}  // namespace strata
