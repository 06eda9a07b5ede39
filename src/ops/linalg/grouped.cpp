// Products of groups: rows, columns or parts of the sums that belong to different matrices, as in mixtures of experts.
#include "strata/args/linalg/grouped.h"
#include "autograd/autograd.h"
#include "cuda/linalg/grouped.h"
#include "cuda/movement/dense.h"
#include "ops/check_dtype.h"
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {
namespace {

Tensor swapped(const Tensor& t) { return transpose(t, -2, -1); }

void infer_grouped(const Call& c) {
  const args::_grouped_product arg(c);
  const TensorImpl &a = arg.input(), &b = arg.mat2(), &offs = arg.offs();
  STRATA_CHECK(a.dtype == b.dtype, Runtime, "_grouped_mm: expected matrices of the same dtype, but got {} and {}",
               name_of(a.dtype), name_of(b.dtype));
  STRATA_CHECK(kFloatingTypes.has(a.dtype), NotImplemented, "\"_grouped_mm\" not implemented for '{}'",
               name_of(a.dtype));
  STRATA_CHECK(a.shape[a.ndim - 1] == b.shape[b.ndim - 2], Runtime,
               "_grouped_mm: contraction dimension of mat_a and mat_b must match, got shapes {} and {}",
               to_string(a.sizes()), to_string(b.sizes()));
  STRATA_CHECK(offs.dtype == DType::I32 && offs.ndim == 1, Runtime,
               "_grouped_mm: offs must be a vector of int32, got {} of shape {}", name_of(offs.dtype),
               to_string(offs.sizes()));
  const int64_t groups = offs.shape[0];
  for (const TensorImpl* t : {&a, &b})
    STRATA_CHECK(t->ndim == 2 || t->shape[0] == groups, Runtime,
                 "_grouped_mm: matrix batch sizes have to match, got {} matrices (shape {}) and {} offsets",
                 t->shape[0], to_string(t->sizes()), groups);
  const int64_t m = a.shape[a.ndim - 2], n = b.shape[b.ndim - 1];
  c.out()->dtype = a.dtype;
  if (a.ndim == 2 && b.ndim == 2) c.out()->set_shape(Shape(std::array{groups, m, n}));
  else c.out()->set_shape(Shape(std::array{m, n}));
}

// Group by group. Rows or columns after the last group are zeros.
void multiply_groups(const Call& c) {
  const args::_grouped_product arg(c);
  const Tensor a = arg.share_input(), b = arg.share_mat2();
  const Tensor ends = contiguous(to(host_values(arg.share_offs()), DType::I64));
  const bool by_depth = a.dim() == 2 && b.dim() == 2, by_rows = a.dim() == 2 && !by_depth;
  const int64_t size = by_depth ? a.size(1) : by_rows ? a.size(0) : b.size(1);
  fill_values(*c.out(), 0);
  int64_t begin = 0;
  for (int64_t g = 0; g < ends.numel(); ++g) {
    const int64_t end = ends.data<int64_t>()[g], count = end - begin;
    STRATA_CHECK(count >= 0 && end <= size, Runtime, "_grouped_mm: offset {} is out of order or beyond the size {}",
                 end, size);
    if (count > 0) {
      const Tensor left = by_depth  ? narrow(a, 1, begin, count)
                          : by_rows ? narrow(a, 0, begin, count)
                                    : select(a, 0, g);
      const Tensor right = by_depth  ? narrow(b, 0, begin, count)
                           : by_rows ? select(b, 0, g)
                                     : narrow(b, 1, begin, count);
      const Tensor to = by_depth ? select(c.out(), 0, g) : narrow(c.out(), by_rows ? 0 : 1, begin, count);
      copy_values(*to, *mm(left, right));
    }
    begin = end;
  }
}

const char* device_rejects(const Call& c) {
  const args::_grouped_product a(c);
  if (c.out()->numel == 0) return "the result is empty";
  if (a.offs().numel == 0) return "there are no groups";
  return cuda::grouped_product_rejects(*c.out());
}
void multiply_groups_on_device(const Call& c, Workspace& workspace) {
  const args::_grouped_product a(c);
  const Tensor offs = cuda::dense(a.offs(), workspace);
  if (workspace.planning()) return;
  cuda::grouped_product(a.input(), a.mat2(), *offs, *c.out());
}

const char* plan_groups_on_hopper(const Call& c, Plan& plan) {
  if (const char* reason = device_rejects(c)) return reason;
  const args::_grouped_product a(c);
  Workspace workspace(plan);
  const Tensor offs = cuda::dense(a.offs(), workspace);
  return cuda::plan_grouped_hopper(cuda::describe_groups(a.input(), a.mat2(), *offs, *c.out()), *c.out(), plan);
}
void multiply_groups_on_hopper(const Call& c, const Plan& plan) {
  const args::_grouped_product a(c);
  Workspace workspace(c);
  const Tensor offs = cuda::dense(a.offs(), workspace);
  cuda::run_grouped_hopper(cuda::describe_groups(a.input(), a.mat2(), *offs, *c.out()), *c.out(), plan);
}
}  // namespace

STRATA_OP(_grouped_product, "_grouped_product(Tensor input, Tensor mat2, Tensor offs) -> Tensor")
  .doc("_grouped_mm of two matrices, or of a matrix and a batch of matrices.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer(infer_grouped)
  .saves({"input", "mat2", "offs"})
  .grad([](const grads::_grouped_product& c, const Tensor& g) -> Grads {
    // Each gradient is a grouped product of another kind, whose offsets are the same.
    grads::_grouped_product::Result out;
    if (c.needs_input()) out.input = _grouped_product(g, swapped(c.mat2()), c.offs());
    if (c.needs_mat2()) out.mat2 = _grouped_product(swapped(c.input()), g, c.offs());
    return out;
  })
  .kernel("reference", multiply_groups)
  .planned(Backend::Cuda, "hopper", plan_groups_on_hopper, multiply_groups_on_hopper)
  .cuda("tiles", multiply_groups_on_device, device_rejects)
  .cuda("loop", multiply_groups)
  .samples({"f(7,4), f(3,4,5), offs=t32[2, 2, 7]", "f(3,4,5), f(5,7), offs=t32[0, 4, 7]",
            "f(4,7), f(7,5), offs=t32[3, 3, 6]", "f(7,4), f(2,4,5), offs=t32[2, 4]", "f(0,4), f(2,4,5), offs=t32[0, 0]",
            "f(3,0), f(2,0,5), offs=t32[1, 3]"})
  .error("f(7,4), f(3,4,5), offs=t32[2, 2]", ErrorKind::Runtime, "batch sizes have to match")
  .error("f(7,4), f(2,3,5), offs=t32[2, 7]", ErrorKind::Runtime, "contraction dimension")
  .error("f(7,4), f(2,4,5), offs=t[2, 7]", ErrorKind::Runtime, "vector of int32");

STRATA_OP(
  _grouped_mm,
  "_grouped_mm(Tensor input, Tensor mat2, Tensor? offs=None, Tensor? bias=None, dtype? out_dtype=None) -> Tensor")
  .doc(
    "Products of groups with matrices of their own, as in mixtures of experts. [t, k] x [g, k, n]: rows offs[i - 1] to "
    "offs[i] of input times mat2[i]. [g, m, k] x [k, t]: input[i] times such columns of mat2. [m, t] x [t, n]: a "
    "product "
    "[g, m, n] for each such part of the sums. Two batches are multiplied as by bmm, without offs. What comes after "
    "the "
    "last offset is zero.")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& mat2, const Tensor& offs, const Tensor& bias,
                std::optional<DType> out_dtype) {
    STRATA_CHECK((input.dim() == 2 || input.dim() == 3) && (mat2.dim() == 2 || mat2.dim() == 3), Runtime,
                 "_grouped_mm: expected matrices or batches of them, got shapes {} and {}", to_string(input.shape()),
                 to_string(mat2.shape()));
    STRATA_CHECK(!bias, NotImplemented, "_grouped_mm: a bias is not supported; add it to the result");
    STRATA_CHECK(!out_dtype || *out_dtype == input.dtype(), Runtime,
                 "_grouped_mm: the output dtype must be that of the input, {}, got {}", name_of(input.dtype()),
                 name_of(out_dtype.value_or(input.dtype())));
    refuse_integers(input, "_grouped_mm");
    const bool both = input.dim() == 3 && mat2.dim() == 3;
    STRATA_CHECK(both != static_cast<bool>(offs), Runtime,
                 "_grouped_mm: Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
    return both ? bmm(input, mat2) : _grouped_product(input, mat2, offs);
  })
  .autocast(Autocast::Promote)  // the dtype stays, also that of bmm
  .samples({"f(7,4), f(3,4,5), t32[2, 2, 7]", "f(3,4,5), f(5,7), t32[0, 4, 7]", "f(4,7), f(7,5), t32[3, 3, 7]",
            "f(2,3,4), f(2,4,5)"})
  .error("f(7,4), f(3,4,5)", ErrorKind::Runtime, "Have to provide offsets")
  .error("f(4), f(4,5)", ErrorKind::Runtime, "expected matrices");

STRATA_OP(grouped_mm,
          "nn.functional.grouped_mm(Tensor mat_a, Tensor mat_b, *, Tensor? offs=None, Tensor? bias=None, dtype? "
          "out_dtype=None) -> Tensor")
  .doc("Products of groups with matrices of their own, as in mixtures of experts: see _grouped_mm.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& mat_a, const Tensor& mat_b, const Tensor& offs, const Tensor& bias,
                std::optional<DType> out_dtype) { return _grouped_mm(mat_a, mat_b, offs, bias, out_dtype); })
  .samples({"f(7,4), f(3,4,5), offs=t32[2, 2, 7]", "f(2,3,4), f(2,4,5)"})
  .error("f(7,4), f(3,4,5)", ErrorKind::Runtime, "Have to provide offsets");

}  // namespace strata
