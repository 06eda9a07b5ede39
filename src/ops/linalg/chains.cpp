// Products of several matrices, powers, Kronecker and cross products.
#include <algorithm>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/reference.h"
#include "ops/transfer.h"
#include "strata/args/linalg/chains.h"
#include "strata/ops.h"

namespace strata {
namespace {

// The cheapest order of a chain of products: dynamic programming over the split of the last product.
Tensor best_chain(std::span<const Tensor> m) {
  const size_t n = m.size();
  std::vector<double> cost(n * n, 0);
  std::vector<size_t> cut(n * n, 0);
  for (size_t length = 2; length <= n; ++length)
    for (size_t i = 0; i + length <= n; ++i) {
      const size_t j = i + length - 1;
      cost[i * n + j] = HUGE_VAL;
      for (size_t k = i; k < j; ++k) {
        const double c =
          cost[i * n + k] + cost[(k + 1) * n + j] +
          static_cast<double>(m[i].size(0)) * static_cast<double>(m[k].size(1)) * static_cast<double>(m[j].size(1));
        if (c < cost[i * n + j]) {
          cost[i * n + j] = c;
          cut[i * n + j] = k;
        }
      }
    }
  const auto multiply = [&](auto& self, size_t i, size_t j) -> Tensor {
    if (i == j) return m[i];
    const size_t k = cut[i * n + j];
    return mm(self(self, i, k), self(self, k + 1, j));
  };
  return multiply(multiply, 0, n - 1);
}

void check_chain(const char* op, std::span<const Tensor> m) {
  for (size_t i = 0; i < m.size(); ++i)
    STRATA_CHECK(m[i].dim() == 2, Runtime, "{}: tensor {} must be 2D, got shape {}", op, i, to_string(m[i].shape()));
  for (size_t i = 0; i + 1 < m.size(); ++i)
    STRATA_CHECK(m[i].size(1) == m[i + 1].size(0), Runtime,
                 "{}: tensors {} and {} with shapes {} and {} cannot be multiplied", op, i, i + 1,
                 to_string(m[i].shape()), to_string(m[i + 1].shape()));
}

Tensor cross_along(const char* op, const Tensor& a, const Tensor& b, int64_t dim) {
  STRATA_CHECK(a.dim() == b.dim(), Runtime, "{}: inputs must have the same number of dimensions, got {} and {}", op,
               to_string(a.shape()), to_string(b.shape()));
  const int d = normalize_dim(dim, a.dim(), op);
  STRATA_CHECK(a.dim() > 0 && a.size(d) == 3 && b.size(d) == 3, Runtime,
               "{}: inputs dimension {} must have length 3, got {} and {}", op, dim, to_string(a.shape()),
               to_string(b.shape()));
  if (on_host(a) && on_host(b) && a.dtype() == b.dtype() && !is_complex(a.dtype())) {
    std::vector<int64_t> shape;
    shape.reserve(static_cast<size_t>(a.dim()));
    for (int i = 0; i < a.dim(); ++i) shape.push_back(a.size(i) == 1 ? b.size(i) : a.size(i));
    const auto whole = [&](const Tensor& t) { return std::ranges::equal(t.shape(), shape) ? t : expand(t, shape); };
    return _cross(whole(a), whole(b), d);
  }
  const auto part = [d](const Tensor& t, int64_t i) { return narrow(t, d, i, 1); };
  const auto minor = [&](int64_t i, int64_t j) {
    return sub(mul(part(a, i), part(b, j)), mul(part(a, j), part(b, i)));
  };
  return cat({minor(1, 2), minor(2, 0), minor(0, 1)}, d);
}
// [outer][3][inner]
void run_cross(const Call& call) {
  const args::_cross c(call);
  const TensorImpl& a = c.input();
  const int d = normalize_dim(c.dim(), a.ndim, "cross");
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < a.ndim; ++i) (i < d ? outer : inner) *= i == d ? 1 : a.shape[i];
  dispatch_compute(compute_type(a.dtype), [&]<class T>() {
    const cpu::In<T> x(a), y(c.other());
    const cpu::Out<T> out(c.out());
    parallel_for(outer, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, inner)), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T *p = x.get() + o * 3 * inner, *q = y.get() + o * 3 * inner;
        T* to = out.get() + o * 3 * inner;
        for (int64_t i = 0; i < inner; ++i) {
          const T p0 = p[i], p1 = p[inner + i], p2 = p[2 * inner + i], q0 = q[i], q1 = q[inner + i],
                  q2 = q[2 * inner + i];
          to[i] = p1 * q2 - p2 * q1;
          to[inner + i] = p2 * q0 - p0 * q2;
          to[2 * inner + i] = p0 * q1 - p1 * q0;
        }
      }
    });
    out.finish();
  });
}
void plain_cross(const Call& call) {
  const args::_cross c(call);
  const int d = normalize_dim(c.dim(), c.input().ndim, "cross");
  cpu::dispatch_wide(c.input().dtype, [&]<class T>() {
    cpu::each_index(c.input().sizes(), [&](const cpu::Index& at) {
      const auto value = [&](const TensorImpl& t, int64_t step) {
        cpu::Index from = at;
        from[static_cast<size_t>(d)] = (at[static_cast<size_t>(d)] + step) % 3;
        return cpu::get<T>(t, from);
      };
      cpu::set(*c.out(), at, value(c.input(), 1) * value(c.other(), 2) - value(c.input(), 2) * value(c.other(), 1));
    });
  });
}
}  // namespace

STRATA_OP(linalg_multi_dot, "linalg.multi_dot(Tensor[] tensors) -> Tensor")
  .doc("The product of several matrices in the cheapest order. The first and the last may be vectors.")
  .no_out()
  .dtypes(kNumericTypes)
  .composite([](TensorList tensors) {
    STRATA_CHECK(tensors.size() >= 2, Runtime, "multi_dot: expected at least 2 tensors but got {}", tensors.size());
    std::vector<Tensor> m(tensors.begin(), tensors.end());
    const bool row = m.front().dim() == 1, column = m.back().dim() == 1;
    if (row) m.front() = unsqueeze(m.front(), 0);
    if (column) m.back() = unsqueeze(m.back(), 1);
    check_chain("multi_dot", m);
    Tensor out = best_chain(m);
    if (column) out = squeeze(out, 1);
    return row ? squeeze(out, 0) : out;
  })
  .autocast_cuda(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"[f(2,3), f(3,4), f(4,2)]", "[f(3), f(3,4), f(4)]", "[f(2,3), f(3,2)]"})
  .error("[f(2,3)]", ErrorKind::Runtime, "at least 2 tensors")
  .error("[f(2,3), f(2,3)]", ErrorKind::Runtime, "cannot be multiplied");

STRATA_OP(chain_matmul, "chain_matmul(Tensor(a)[] matrices) -> Tensor(a)")
  .doc("The product of several matrices in the cheapest order.")
  .no_out()
  .dtypes(kNumericTypes)
  .composite([](TensorList matrices) {
    STRATA_CHECK(!matrices.empty(), Runtime, "chain_matmul: expecting at least 1 matrix");
    check_chain("chain_matmul", matrices);
    return best_chain(matrices);
  })
  .autocast_cuda(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"[f(2,3), f(3,4), f(4,2)]", "[f(2,3)]"})
  .error("[f(2,3), f(2,3)]", ErrorKind::Runtime, "cannot be multiplied");

STRATA_OP(linalg_matrix_power, "linalg.matrix_power(Tensor A, int n) -> Tensor")
  .doc("A to the power n; powers of the inverse for negative n.")
  .alias("matrix_power")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, int64_t n) {
    STRATA_CHECK(input.dim() >= 2 && input.size(-1) == input.size(-2), Runtime,
                 "linalg.matrix_power: A must be batches of square matrices, but they are {}",
                 to_string(input.shape()));
    if (n == 0) return copy_(clone(input), eye(input.size(-1), input.size(-1), input.dtype()));
    STRATA_CHECK(n != INT64_MIN, Runtime, "linalg.matrix_power: the power {} is too large", n);
    Tensor square = input, result;
    if (n < 0) {
      static const OpRecord& inverse = find_op("linalg.inv");
      square = call(inverse, Args(input));
      n = -n;
    }
    for (; n; n >>= 1) {
      if (n & 1) result = result ? matmul(result, square) : square;
      if (n > 1) square = matmul(square, square);
    }
    return result.get() == input.get() ? clone(input) : result;
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(3,3), 2", "f(2,3,3), 5", "f(3,3), 0", "f(3,3), 1"})
  .error("f(2,3), 2", ErrorKind::Runtime, "square matrices");

STRATA_OP(linalg_vecdot, "linalg.vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor")
  .doc("The sum of products along a dimension; the numbers of x are conjugated.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& x, const Tensor& y, int64_t dim) {
    return to(sum(mul(is_complex(x.dtype()) ? conj(x) : x, y), dim), promote(x.dtype(), y.dtype()));
  })
  .autocast(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3), f(2,3)", "f(2,3), f(3)", "f(2,3), f(2,3), dim=0"})
  .error("f(2,3), f(4)", ErrorKind::Runtime, "");

STRATA_OP(kron, "kron(Tensor input, Tensor other) -> Tensor")
  .doc("The Kronecker product: every element of input times all of other.")
  .dtypes(kAllTypes)
  .composite([](const Tensor& input, const Tensor& other) {
    const int n = std::max(input.dim(), other.dim());
    std::vector<int64_t> a, b, shape;
    for (int d = 0; d < n; ++d) {
      const int x = d - (n - input.dim()), y = d - (n - other.dim());
      const int64_t p = x < 0 ? 1 : input.size(x), q = y < 0 ? 1 : other.size(y);
      a.push_back(p);
      a.push_back(1);
      b.push_back(1);
      b.push_back(q);
      shape.push_back(p * q);
    }
    STRATA_CHECK(2 * n <= kMaxDims, Runtime, "kron: at most {} dimensions are supported, got {}", kMaxDims / 2, n);
    return reshape(mul(reshape(input, a), reshape(other, b)), shape);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3), f(3,2)", "f(2), f(2,3)", "f(), f(3)"})
  .error("f(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), f(2)", ErrorKind::Runtime,
         "at most 32 dimensions");

STRATA_OP(_cross, "_cross(Tensor input, Tensor other, int dim) -> Tensor")
  .doc("The vector product of 3-element vectors of two tensors of one shape, along dim.")
  .helper()
  .no_out()
  .dtypes(kNumericTypes)
  .infer([](const args::_cross& c) {
    const TensorImpl &a = c.input(), &b = c.other();
    STRATA_CHECK(a.same_shape(b) && a.dtype == b.dtype, Runtime,
                 "cross: inputs of shapes {} and {} do not fit each other", to_string(a.sizes()), to_string(b.sizes()));
    const int d = normalize_dim(c.dim(), a.ndim, "cross");
    STRATA_CHECK(a.ndim > 0 && a.shape[d] == 3, Runtime, "cross: dimension {} must have length 3, got shape {}", d,
                 to_string(a.sizes()));
    c.out()->dtype = a.dtype;
    c.out()->set_shape(a.sizes());
  })
  .kernel("one_pass", run_cross)
  .kernel("reference", plain_cross)
  .cuda_on_host("cross_on_host")
  .saves_each_for_the_other()
  .grad([](const grads::_cross& c, const Tensor& g) -> Grads {
    return {c.needs_input() ? _cross(c.other(), g, c.dim()) : Tensor(),
            c.needs_other() ? _cross(g, c.input(), c.dim()) : Tensor()};
  })
  .samples({"f(2,3), f(2,3), 1", "f(3,5), f(3,5), 0", "f(2,3,4), f(2,3,4), -2", "f(40,3), f(40,3), -1"});

STRATA_OP(linalg_cross, "linalg.cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor")
  .doc("The vector product of 3-element vectors along dim.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& other, int64_t dim) {
    return cross_along("linalg.cross", input, other, dim);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3), f(2,3)", "f(3,2), f(3,2), dim=0", "f(4,3), f(1,3)"})
  .error("f(2,4), f(2,4)", ErrorKind::Runtime, "must have length 3");

STRATA_OP(cross, "cross(Tensor input, Tensor other, int? dim=None) -> Tensor")
  .doc("The vector product along dim, or along the first dimension of size 3.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& other, std::optional<int64_t> dim) {
    if (!dim)
      for (int d = input.dim(); d-- > 0;)
        if (input.size(d) == 3) dim = d;
    STRATA_CHECK(dim, Runtime, "cross: no dimension of size 3 in input of shape {}", to_string(input.shape()));
    return cross_along("cross", input, other, *dim);
  })
  .autocast_cuda(Autocast::Promote)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3), f(2,3)", "f(3,2), f(3,2), 0"})
  .error("f(2,4), f(2,4)", ErrorKind::Runtime, "no dimension of size 3");

}  // namespace strata
