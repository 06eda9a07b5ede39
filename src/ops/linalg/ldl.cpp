// LDL decomposition of symmetric and Hermitian matrices, and solving with it.
#include "cpu/linalg/ldl.h"

#include <fmt/core.h>

#include "ops/linalg/common.h"
#include "strata/args/linalg/ldl.h"
#include "strata/ops.h"

namespace strata {
namespace {

template <class T> void run_ldl_factor(const Call& c) {
  const args::linalg_ldl_factor_ex arg(c);
  const Batch batch(arg.A());
  const cpu::In<T> in(arg.A());
  const cpu::Out<T> out(c.outs[0]);
  const int64_t n = batch.rows;
  batch.each([&](int64_t i) {
    T* a = out.get() + i * n * n;
    for (int64_t r = 0; r < n; ++r) {
      std::copy_n(in.get() + (i * n + r) * n, r + 1, a + r * n);
      std::fill(a + r * n + r + 1, a + (r + 1) * n, T(0));
    }
    c.outs[2].data<int32_t>()[i] =
      static_cast<int32_t>(cpu::ldl_factor(a, n, c.outs[1].data<int32_t>() + i * n, arg.hermitian()));
  });
  out.finish();
}
template <class T> void run_ldl_solve(const Call& c) {
  const args::_linalg_ldl_solve arg(c);
  const Batch batch(arg.LD()), sides(arg.B());
  const cpu::In<T> a(arg.LD()), b(arg.B());
  const cpu::In<int32_t> pivots(arg.pivots());
  const cpu::Out<T> out(c.out());
  const int64_t n = batch.rows, r = sides.columns;
  for (int64_t k = 0; k < batch.count * n; ++k) {
    const int64_t row = std::abs(int64_t{pivots[k]});
    STRATA_CHECK(row >= 1 && row <= n, Runtime, "linalg.ldl_solve: pivots must satisfy 1 <= |pivot| <= {}, found {}", n,
                 pivots[k]);
  }
  batch.each([&](int64_t i) {
    T* x = out.get() + i * n * r;
    std::copy_n(b.get() + i * n * r, n * r, x);
    cpu::ldl_solve(a.get() + i * n * n, n, pivots.get() + i * n, arg.hermitian(), x, r);
  });
  out.finish();
}
std::string zero_in_d(int64_t i) {
  return fmt::format("D[{},{}] is zero and using it on ldl_solve would result in a division by zero", i, i);
}
}  // namespace

STRATA_OP(linalg_ldl_factor_ex,
          "linalg.ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor "
          "pivots, Tensor info)")
  .doc(
    "The compact LDL decomposition of symmetric (or Hermitian) matrices, of which the lower triangle is read; its row "
    "exchanges (from 1, negative in blocks of two rows), and per matrix the position of the first zero in D or 0.")
  .dtypes(kMatrixTypes)
  .infer([](const args::linalg_ldl_factor_ex& c) {
    const TensorImpl& a = c.A();
    check_square(a, c.op().name.c_str());
    const int64_t n = a.shape[a.ndim - 1];
    set_batch_shape(*c.out(), a, {n, n});
    set_batch_shape(*c.out(1), a, {n});
    set_batch_shape(*c.out(2), a, {});
    c.out(1)->dtype = c.out(2)->dtype = DType::I32;
  })
  .kernel("reference",
          [](const Call& c) {
            const args::linalg_ldl_factor_ex arg(c);
            if (is_complex(arg.A().dtype)) run_ldl_factor<std::complex<double>>(c);
            else run_ldl_factor<double>(c);
            if (arg.check_errors()) check_info(c.outs[2], "linalg.ldl_factor_ex", zero_in_d);
          })
  .cuda_on_host("ldl_factor_on_host")
  .handles_complex()
  .grad(no_derivative)
  .samples({"s(4,4)", "s(2,3,3)", "f(3,3), hermitian=True", "f(0,3,3)", "f(0,0)"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(linalg_ldl_factor, "linalg.ldl_factor(Tensor A, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)")
  .doc("The compact LDL decomposition of symmetric (or Hermitian) matrices and its row exchanges; see ldl_factor_ex.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& A, bool hermitian) {
    const auto [LD, pivots, info] = linalg::ldl_factor_ex(A, hermitian);
    check_info(info, "linalg.ldl_factor", zero_in_d);
    return std::tuple(LD, pivots);
  })
  .samples({"!s(4,4)", "!s(2,3,3), hermitian=True"})
  .error("f(3,4)", ErrorKind::Runtime, "square");

STRATA_OP(_linalg_ldl_solve, "_linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, bool hermitian) -> Tensor")
  .doc("Solves A X = B from an LDL decomposition, for matrices with the same batch dimensions.")
  .helper()
  .dtypes(kMatrixTypes)
  .infer([](const args::_linalg_ldl_solve& c) {
    const TensorImpl &a = c.LD(), &b = c.B(), &pivots = c.pivots();
    check_system(a, b, "linalg.ldl_solve");
    STRATA_CHECK(pivots.dtype == DType::I32 && pivots.ndim == a.ndim - 1 &&
                   std::equal(pivots.shape, pivots.shape + pivots.ndim, a.shape),
                 Runtime,
                 "linalg.ldl_solve: expected int32 pivots, one for each row of LD of shape {}, got {} of shape {}",
                 to_string(a.sizes()), name_of(pivots.dtype), to_string(pivots.sizes()));
    set_batch_shape(*c.out(), b, {b.shape[b.ndim - 2], b.shape[b.ndim - 1]});
  })
  .kernel("reference",
          [](const Call& c) {
            if (is_complex(c.args.tensor(0).dtype)) run_ldl_solve<std::complex<double>>(c);
            else run_ldl_solve<double>(c);
          })
  .cuda_on_host("ldl_solve_on_host")
  .handles_complex()
  .saves({"LD", "pivots"})
  .grad([](const grads::_linalg_ldl_solve& c, const Tensor& g) -> Grads {
    STRATA_CHECK(!c.needs_LD(), NotImplemented,
                 "linalg.ldl_solve: the derivative with respect to LD is not implemented");
    if (c.hermitian()) return {Tensor(), Tensor(), _linalg_ldl_solve(c.LD(), c.pivots(), g, true)};
    // A^H is the conjugate of A.
    return {Tensor(), Tensor(), conjugate(_linalg_ldl_solve(c.LD(), c.pivots(), conjugate(g), false))};
  })
  .samples({"!m(3,3), t32[1,2,3], f(3,2), False"})
  .error("m(3,3), t32[1,2,9], f(3,2), False", ErrorKind::Runtime, "found 9")
  .error("m(3,3), t32[1,-4,3], f(3,2), False", ErrorKind::Runtime, "found -4");

STRATA_OP(linalg_ldl_solve, "linalg.ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor")
  .doc("Solves A X = B from the compact LDL decomposition of A.")
  .dtypes(kMatrixTypes)
  .composite([](const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian) {
    check_square(*LD, "linalg.ldl_solve", "LD");
    check_matrix(*B, "linalg.ldl_solve");
    const int64_t n = LD.size(-1);
    STRATA_CHECK(pivots.dtype() == DType::I32 || pivots.dtype() == DType::I64, Runtime,
                 "linalg.ldl_solve: Expected pivots to be integers. Got {}", name_of(pivots.dtype()));
    STRATA_CHECK(
      pivots.dim() == LD.dim() - 1 && std::ranges::equal(pivots.shape(), LD.shape().first(LD.shape().size() - 1)),
      Runtime, "linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {}",
      to_string(pivots.shape()));
    if (pivots.numel() && !pivots.is_meta()) {
      const Tensor size = abs(autograd::detach(pivots));
      const auto low = amin(size).item<int64_t>(), high = amax(size).item<int64_t>();
      STRATA_CHECK(
        low >= 1 && high <= n, Runtime,
        "linalg.ldl_solve: Pivots given to ldl_solve must all satisfy 1 <= |pivot| <= LD.size(-2) = {}, found "
        "{}. Did you properly pass the result of ldl_factor?",
        n, low < 1 ? low : high);
    }
    const auto batch = common_batch(LD, B, "linalg.ldl_solve");
    std::vector<int64_t> places(batch);
    places.push_back(n);
    return _linalg_ldl_solve(broadcast_batch(LD, batch), expand(to(pivots, kInt32), places), broadcast_batch(B, batch),
                             hermitian);
  })
  .samples({"!m(3,3), t[1,2,3], f(3,2)", "!m(2,3,3), t[[1,-3,-3],[2,2,3]], f(2,3,2), hermitian=True"})
  .error("f(3,4), i5(3), f(3,2)", ErrorKind::Runtime, "square")
  .error("m(3,3), t[1,2,9], f(3,2)", ErrorKind::Runtime, "found 9")
  .error("m(3,3), t[1,2], f(3,2)", ErrorKind::Runtime, "to be the same");

}  // namespace strata
