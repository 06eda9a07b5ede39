// Distances between all pairs of rows.
#include <array>
#include <cmath>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "cpu/nn/distances.h"
#include "cpu/staging.h"
#include "ops/linalg/norms.h"
#include "ops/transfer.h"
#include "strata/args/nn/pair_distances.h"
#include "strata/ops.h"

namespace strata {
namespace {

// Whether cdist computes Euclidean distances from the products of rows: PyTorch's modes and its bound of 25 rows.
bool by_products(const Tensor& x1, const Tensor& x2, std::optional<std::string_view> mode) {
  constexpr std::string_view kUse = "use_mm_for_euclid_dist", kNecessary = "use_mm_for_euclid_dist_if_necessary",
                             kNever = "donot_use_mm_for_euclid_dist";
  const std::string_view chosen = mode.value_or(kNecessary);
  STRATA_CHECK(chosen == kUse || chosen == kNecessary || chosen == kNever, Value,
               "cdist: {} is not a valid value for compute_mode; use {}, {} or {}", chosen, kUse, kNecessary, kNever);
  const bool exact_enough = x1.dtype() == x2.dtype() && (x1.dtype() == DType::F32 || x1.dtype() == DType::F64);
  return exact_enough && (chosen == kUse || (chosen == kNecessary && (x1.size(-2) > 25 || x2.size(-2) > 25)));
}

// |a - b|^2 = |a|^2 + |b|^2 - 2 a b. The rounding errors are those of the squares: distances that are small compared with
// the lengths lose digits.
Tensor euclidean_by_products(const Tensor& x1, const Tensor& x2) {
  const auto squared_length = [](const Tensor& x) { return sum(square(x), -1, true); };
  const Tensor lengths = add(squared_length(x1), transpose(squared_length(x2), -1, -2));
  return _root_of_positive(add(lengths, matmul(x1, transpose(x2, -1, -2)), -2));
}

// As in PyTorch, equal rows get no gradient, even if NaN comes in, unless the norm's slope at 0 is a factor (p = 1, inf).
bool has_slope_at_zero(double p) { return p == 1 || std::isinf(p); }
Tensor distance(const Tensor& difference, double p) {
  const Tensor norm = linalg::vector_norm(difference, p, -1);
  return has_slope_at_zero(p) ? norm : masked_fill(norm, eq(norm, 0), 0);
}

int64_t pairs_of(int64_t n) { return (Checked(n) * (n - 1)).get() / 2; }
int64_t pairs_before(int64_t i, int64_t n) { return i * n - i * (i + 1) / 2; }  // those of earlier rows

// The indices of the rows of all pairs.
std::array<Tensor, 2> pairs(const Tensor& input) {
  const int64_t n = input.size(0), shape[] = {pairs_of(n)};
  const Device where = staging_device(input);
  const Tensor left = make_tensor(shape, DType::I64, where), right = make_tensor(shape, DType::I64, where);
  for (int64_t i = 0, at = 0; i < n && !input.is_meta(); ++i)
    for (int64_t j = i + 1; j < n; ++j, ++at) {
      left.data<int64_t>()[at] = i;
      right.data<int64_t>()[at] = j;
    }
  return {placed(left), placed(right)};
}

// The symmetric matrix of values of all pairs, with zeros on its diagonal.
Tensor symmetric(const Tensor& pairs, int64_t n) {
  const Tensor above = to(triu(ones({n, n}, DType::U8), 1), DType::Bool);
  const Tensor half = masked_scatter(zeros({n, n}, pairs.dtype()), above, pairs);
  return add(half, transpose(half, 0, 1));
}
// With W the symmetric matrix of g / distance: the sum over j of W_ij (x_i - x_j). A common offset of all rows does not matter,
// and without it the two terms cancel less.
Tensor euclidean_pdist_grad(const Tensor& g, const Tensor& input, const Tensor& distances) {
  const Tensor apart = ne(autograd::detach(distances), 0);
  const Tensor W = symmetric(where(apart, div(g, where(apart, distances, 1.0)), 0.0), input.size(0));
  const Tensor x = sub(input, mean(autograd::detach(input), 0, true));
  return sub(mul(sum(W, 1, true), x), matmul(W, x));
}

Tensor pdist_grad(const Tensor& g, const Tensor& x, const Tensor& distances, double p) {
  if (p == 2) return euclidean_pdist_grad(g, x, distances);
  return _cdist_grad(symmetric(g, x.size(0)), x, x, symmetric(distances, x.size(0)), p);
}

// The gradients of _cdist_grad, whose result is the sum over j of g_ij slope(x1_ik - x2_jk, r_ij) with distances r, from all
// differences: slope(d, r) = d |d|^(p - 2) r^(1 - p). h is the gradient of that result.
Grads second_gradients(const Tensor& h, const Tensor& g, const Tensor& x1, const Tensor& x2, const Tensor& distances,
                       double p) {
  const Tensor d = sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), r = unsqueeze(distances, -1), each = unsqueeze(h, -2);
  const Tensor one = ones_like(autograd::detach(r)), apart = ne(autograd::detach(r), 0);
  const Tensor slopes = vector_norm_slopes(d, r, has_slope_at_zero(p) ? one : to(apart, r.dtype()), p, {-1});
  const Tensor by_slope = mul(each, slopes), of_g = sum(by_slope, -1);
  if (p == 0 || has_slope_at_zero(p)) return {of_g, Tensor(), Tensor(), Tensor()};  // the slopes are constant
  const Tensor length = where(apart, r, 1.0);
  Tensor curve = pow(abs(d), p - 2);
  if (p < 2) curve = masked_fill(curve, eq(d, 0), 0);
  const Tensor factor = where(apart, mul(pow(length, 1 - p), p - 1), 0.0);
  const Tensor weight = mul(mul(each, unsqueeze(g, -1)), mul(curve, factor));
  return {of_g, sum(weight, -2), neg(sum(weight, -3)), mul(div(mul(g, of_g), squeeze(length, -1)), 1 - p)};
}

// --- kernels --------------------------------------------------------------------------------------------------------

// The rows of the second operand of some batch entries, in panels.
template <class T> class Panels {
 public:
  Panels(const T* rows, int64_t batches, int64_t count, int64_t d) : d_(d), each_(cpu::distance_panels<T>(count)) {
    const int64_t width = cpu::kDistanceColumns<T>, shape[] = {batches * each_ * width * d};
    memory_ = make_tensor(shape, dtype_of<T>);
    parallel_for(batches * each_, grain_of(width * d), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % each_ * width;
        cpu::pack_distance_panels(rows + (i / each_ * count + first) * d, std::min(width, count - first), d,
                                  at(i / each_, i % each_));
      }
    });
  }
  T* at(int64_t batch, int64_t panel) const {
    return memory_.data<T>() + (batch * each_ + panel) * cpu::kDistanceColumns<T> * d_;
  }
  static int64_t grain_of(int64_t terms) { return std::max<int64_t>(1, 20000 / std::max<int64_t>(1, terms)); }

 private:
  int64_t d_, each_;
  Tensor memory_;
};
// Batch entries whose panels are in memory at a time.
template <class T> int64_t entries_at_a_time(int64_t count, int64_t d) {
  constexpr int64_t kElements = 1 << 20;
  return std::max<int64_t>(1, kElements / (cpu::distance_panels<T>(count) * cpu::kDistanceColumns<T> * d + 1));
}

int64_t batches_of(const TensorImpl& x) {
  int64_t n = 1;
  for (int d = 0; d + 2 < x.ndim; ++d) n *= x.shape[d];
  return n;
}

template <class T> void run_cdist(const args::_cdist& c) {
  const int64_t rows = c.x1().shape[c.x1().ndim - 2], columns = c.x2().shape[c.x2().ndim - 2];
  const int64_t d = c.x1().shape[c.x1().ndim - 1], width = cpu::kDistanceColumns<T>;
  const cpu::In<T> x1(c.x1()), x2(c.x2());
  const cpu::Out<T> out(c.out());
  const double p = c.p();
  const int64_t all = rows * columns > 0 ? batches_of(c.x1()) : 0, step = entries_at_a_time<T>(columns, d),
                count = cpu::distance_panels<T>(columns);
  for (int64_t from = 0; from < all; from += step) {
    const int64_t entries = std::min(step, all - from);
    const Panels<T> panels(x2.get() + from * columns * d, entries, columns, d);
    parallel_for(entries * count * rows, panels.grain_of(width * d), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {  // the rows of one panel follow each other
        const int64_t entry = item / (count * rows), panel = item / rows % count,
                      row = (from + entry) * rows + item % rows;
        cpu::distances_to_panel(x1.get() + row * d, panels.at(entry, panel), d,
                                std::min(width, columns - panel * width), p, out.get() + row * columns + panel * width);
      }
    });
  }
  out.finish();
}

// Of the panels only the part above the diagonal.
template <class T> void run_pdist(const args::_pdist& c) {
  const int64_t n = c.input().shape[0], d = c.input().shape[1], width = cpu::kDistanceColumns<T>;
  const cpu::In<T> x(c.input());
  const cpu::Out<T> out(c.out());
  const double p = c.p();
  const Panels<T> panels(x.get(), 1, n, d);
  const auto rows_of = [&](int64_t panel) { return std::min(n, (panel + 1) * width) - 1; };
  int64_t items = 0;
  for (int64_t panel = 0; panel < cpu::distance_panels<T>(n); ++panel) items += rows_of(panel);
  parallel_for(items, panels.grain_of(width * d), [&](int64_t begin, int64_t end) {
    T distances[cpu::kDistanceColumns<T>];
    int64_t panel = 0, before = 0;
    for (int64_t item = begin; item < end; ++item) {
      for (; item - before >= rows_of(panel); ++panel) before += rows_of(panel);
      const int64_t i = item - before, from = std::max<int64_t>(0, i + 1 - panel * width);
      const int64_t to = std::min(width, n - panel * width);
      cpu::distances_to_panel(x.get() + i * d, panels.at(0, panel), d, to, p, distances);
      std::copy(distances + from, distances + to, out.get() + pairs_before(i, n) + panel * width + from - i - 1);
    }
  });
  out.finish();
}

template <class T> void run_cdist_grad(const args::_cdist_grad& c) {
  const TensorImpl &x = c.x1(), &y = c.x2();
  const int64_t rows = x.shape[x.ndim - 2], columns = y.shape[y.ndim - 2], d = x.shape[x.ndim - 1];
  const cpu::In<T> x1(x), x2(y), g(c.g()), distances(c.distances());
  const cpu::Out<T> out(c.out());
  const double p = c.p();
  const int64_t all = batches_of(x), step = entries_at_a_time<T>(columns, d);
  for (int64_t from = 0; from < all; from += step) {
    const int64_t entries = std::min(step, all - from);
    const Panels<T> panels(x2.get() + from * columns * d, entries, columns, d);
    parallel_for(entries * rows, panels.grain_of(columns * d), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t i = from * rows + item;
        cpu::distance_gradient(x1.get() + i * d, panels.at(item / rows, 0), d, columns, g.get() + i * columns,
                               distances.get() + i * columns, p, out.get() + i * d);
      }
    });
  }
  out.finish();
}

// In double, one pair after the other.
double reference_distance(const double* a, const double* b, int64_t d, double p) {
  double length = 0;
  for (int64_t k = 0; k < d; ++k) {
    const double x = std::abs(a[k] - b[k]);
    if (p == 0) length += x != 0;
    else if (std::isinf(p)) length = std::isnan(x) || x > length ? x : length;
    else if (p == 2) length = std::hypot(length, x);
    else length += std::pow(x, p);
  }
  return p == 0 || p == 2 || std::isinf(p) ? length : std::pow(length, 1 / p);
}
double reference_slope(const double* a, const double* b, int64_t d, int64_t k, double norm, double p) {
  const double x = a[k] - b[k], sign = x == 0 || std::isnan(x) ? x : std::copysign(1.0, x);
  if (p == 0 || (norm == 0 && !has_slope_at_zero(p))) return 0;
  if (p == 1) return sign;
  if (!std::isinf(p)) return x == 0 ? 0 : sign * std::pow(std::abs(x) / norm, p - 1);
  double ties = 0;
  for (int64_t j = 0; j < d; ++j) ties += std::abs(a[j] - b[j]) == norm;
  return std::abs(x) == norm ? sign / ties : 0;
}

// The shape of the distances between the rows of x1 and of x2.
std::vector<int64_t> shape_of_distances(const char* op, const TensorImpl& x1, const TensorImpl& x2) {
  STRATA_CHECK(x1.ndim >= 2 && x1.ndim == x2.ndim && x1.shape[x1.ndim - 1] == x2.shape[x2.ndim - 1] &&
                 x1.dtype == x2.dtype && std::equal(x1.shape, x1.shape + x1.ndim - 2, x2.shape),
               Runtime, "{}: the operands must have one dtype, equal batches and columns, got shapes {} and {}", op,
               to_string(x1.sizes()), to_string(x2.sizes()));
  std::vector<int64_t> shape(x1.shape, x1.shape + x1.ndim);
  shape.back() = x2.shape[x2.ndim - 2];
  return shape;
}
void infer_cdist(const args::_cdist& c) {
  c.out()->dtype = c.x1().dtype;
  c.out()->set_shape(shape_of_distances("_cdist", c.x1(), c.x2()));
}
void infer_cdist_grad(const args::_cdist_grad& c) {
  const auto shape = shape_of_distances("_cdist_grad", c.x1(), c.x2());
  for (const TensorImpl* t : {&c.g(), &c.distances()})
    STRATA_CHECK(t->dtype == c.x1().dtype && std::ranges::equal(t->sizes(), shape), Runtime,
                 "_cdist_grad: the distances and their gradient must have shape {}, got {}", to_string(shape),
                 to_string(t->sizes()));
  c.out()->dtype = c.x1().dtype;
  c.out()->set_shape(c.x1().sizes());
}

// Both with the same batch.
Tensor cdist_on_host(const Tensor& x1, const Tensor& x2, double p) {
  const int n = std::max(x1.dim(), x2.dim());
  std::vector<int64_t> batch;
  for (int d = n - 2; d > 0; --d) {
    const int64_t a = d + 2 > x1.dim() ? 1 : x1.size(-d - 2), b = d + 2 > x2.dim() ? 1 : x2.size(-d - 2);
    STRATA_CHECK(a == b || a == 1 || b == 1, Runtime, "cdist: the batches of shapes {} and {} do not broadcast",
                 to_string(x1.shape()), to_string(x2.shape()));
    batch.push_back(a == 1 ? b : a);
  }
  const DType dtype = promote(x1.dtype(), x2.dtype()), computed = dtype == DType::F64 ? dtype : DType::F32;
  const auto whole = [&](const Tensor& x) {
    std::vector<int64_t> shape = batch;
    shape.insert(shape.end(), {x.size(-2), x.size(-1)});
    return expand(x.dtype() == computed ? x : to(x, computed), shape);
  };
  const Tensor out = _cdist(whole(x1), whole(x2), p);
  return dtype == computed ? out : to(out, dtype);
}
}  // namespace

STRATA_OP(cdist,
          "cdist(Tensor x1, Tensor x2, float p=2.0, str? compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor")
  .doc(
    "The p-norm distance between each row of x1 [..., P, M] and each row of x2 [..., R, M]. Euclidean distances (p=2) "
    "of float32 and float64 rows are computed from matrix products if there are more than 25 rows on one side, which "
    "is faster, but loses digits if the distance is small compared with the rows' lengths. compute_mode "
    "'donot_use_mm_for_euclid_dist' turns this off, 'use_mm_for_euclid_dist' uses it for any number of rows.")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& x1, const Tensor& x2, double p, std::optional<std::string_view> compute_mode) {
    STRATA_CHECK(x1.dim() >= 2 && x2.dim() >= 2, Runtime,
                 "cdist: x1 and x2 must have at least 2 dimensions, got shapes {} and {}", to_string(x1.shape()),
                 to_string(x2.shape()));
    STRATA_CHECK(x1.size(-1) == x2.size(-1), Runtime,
                 "cdist: x1 and x2 must have the same number of columns, got {} and {}", x1.size(-1), x2.size(-1));
    STRATA_CHECK(p >= 0, Runtime, "cdist: only non-negative p values are supported, got {}", p);
    if (by_products(x1, x2, compute_mode) && p == 2) return euclidean_by_products(x1, x2);
    if (on_host(x1) && on_host(x2)) return cdist_on_host(x1, x2, p);
    return distance(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p);
  })
  .autocast(Autocast::Float32)
  .samples({"f(3,4), f(5,4)", "f(2,3,4), f(5,4), 1.0", "f(3,4), f(5,4), 3.0",
            "f(3,4), f(5,4), compute_mode='use_mm_for_euclid_dist'"})
  .error("f(3,4), f(5,4), compute_mode='mm'", ErrorKind::Value, "compute_mode")
  .error("f(3,4), f(5,3)", ErrorKind::Runtime, "same number of columns")
  .error("f(4), f(5,4)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(_cdist, "_cdist(Tensor x1, Tensor x2, float p) -> Tensor")
  .doc("The p-norm distances between each row of x1 and each row of x2, which have the same batch dimensions.")
  .helper()
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::_cdist& c) { infer_cdist(c); })
  .kernel("panels",
          [](const args::_cdist& c) { cpu::dispatch_float(c.x1().dtype, [&]<class T>() { run_cdist<T>(c); }); })
  .kernel("reference",
          [](const args::_cdist& c) {
            const int64_t d = c.x1().shape[c.x1().ndim - 1], columns = c.x2().shape[c.x2().ndim - 2];
            const int64_t rows = c.x1().shape[c.x1().ndim - 2];
            const cpu::In<double> x1(c.x1()), x2(c.x2());
            const cpu::Out<double> out(c.out());
            for (int64_t at = 0; at < c.out()->numel; ++at) {
              const int64_t row = at / columns, column = row / rows * columns + at % columns;
              out[at] = reference_distance(x1 + row * d, x2 + column * d, d, c.p());
            }
            out.finish();
          })
  .cuda_on_host("cdist_on_host")
  .saves({"x1", "x2"})
  .saves_result()
  .grad([](const grads::_cdist& c, const Tensor& g) -> Grads {
    const Tensor x1 = c.x1(), x2 = c.x2(), r = c.result();
    return {c.needs_x1() ? _cdist_grad(g, x1, x2, r, c.p()) : Tensor(),
            c.needs_x2() ? _cdist_grad(transpose(g, -1, -2), x2, x1, transpose(r, -1, -2), c.p()) : Tensor()};
  })
  .samples({"f(4,3), f(5,3), 2.0", "f(2,4,3), f(2,5,3), 1.0", "f(3,70), f(70,70), 3.0", "f(4,3), f(2,3), 2.5"});

STRATA_OP(_cdist_grad, "_cdist_grad(Tensor g, Tensor x1, Tensor x2, Tensor distances, float p) -> Tensor")
  .doc("The gradient of the sum of g times the distances of _cdist with respect to x1.")
  .helper()
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::_cdist_grad& c) { infer_cdist_grad(c); })
  .kernel("panels",
          [](const args::_cdist_grad& c) {
            cpu::dispatch_float(c.x1().dtype, [&]<class T>() { run_cdist_grad<T>(c); });
          })
  .kernel("reference",
          [](const args::_cdist_grad& c) {
            const int64_t d = c.x1().shape[c.x1().ndim - 1], columns = c.x2().shape[c.x2().ndim - 2];
            const int64_t rows = c.x1().shape[c.x1().ndim - 2];
            const cpu::In<double> g(c.g()), x1(c.x1()), x2(c.x2()), distances(c.distances());
            const cpu::Out<double> out(c.out());
            out.fill(0);
            for (int64_t at = 0; at < c.g().numel; ++at) {
              const int64_t row = at / columns, column = row / rows * columns + at % columns;
              for (int64_t k = 0; k < d; ++k)
                out[row * d + k] += g[at] * reference_slope(x1 + row * d, x2 + column * d, d, k, distances[at], c.p());
            }
            out.finish();
          })
  .cuda_on_host("cdist_grad_on_host")
  .saves({"g", "x1", "x2", "distances"})
  .grad([](const grads::_cdist_grad& c, const Tensor& h) -> Grads {
    return second_gradients(h, c.g(), c.x1(), c.x2(), c.distances(), c.p());
  })
  .samples({"f(4,5), f(4,3), f(5,3), p(4,5), 3.0", "f(2,4,5), f(2,4,3), f(2,5,3), p(2,4,5), 1.0"});

STRATA_OP(_pdist, "_pdist(Tensor input, float p) -> Tensor")
  .doc("The p-norm distances between all pairs of rows.")
  .helper()
  .dtypes({DType::F32, DType::F64})
  .infer([](const args::_pdist& c) {
    STRATA_CHECK(c.input().ndim == 2, Runtime, "pdist: only supports 2D tensors, got {}D", c.input().ndim);
    const int64_t shape[] = {pairs_of(c.input().shape[0])};
    c.out()->dtype = c.input().dtype;
    c.out()->set_shape(shape);
  })
  .kernel("panels",
          [](const args::_pdist& c) { cpu::dispatch_float(c.input().dtype, [&]<class T>() { run_pdist<T>(c); }); })
  .kernel("reference",
          [](const args::_pdist& c) {
            const int64_t n = c.input().shape[0], d = c.input().shape[1];
            const cpu::In<double> x(c.input());
            const cpu::Out<double> out(c.out());
            for (int64_t i = 0; i < n; ++i)
              for (int64_t j = i + 1; j < n; ++j)
                out[pairs_before(i, n) + j - i - 1] = reference_distance(x + i * d, x + j * d, d, c.p());
            out.finish();
          })
  .cuda_on_host("pdist_on_host")
  .saves({"input"})
  .saves_result()
  .grad([](const grads::_pdist& c, const Tensor& g) -> Grads { return {pdist_grad(g, c.input(), c.result(), c.p())}; })
  .samples({"f(4,3), 2.0", "f(1,3), 2.0", "f(6,20), 2.0", "f(70,5), 1.0", "f(5,3), 3.0", "f(5,3), 2.5"});

STRATA_OP(pdist, "pdist(Tensor input, float p=2.0) -> Tensor")
  .doc("The p-norm distances between all pairs of rows, in the order (0,1), (0,2), …, (1,2), ….")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double p) {
    STRATA_CHECK(input.dim() == 2, Runtime, "pdist: only supports 2D tensors, got {}D", input.dim());
    STRATA_CHECK(p >= 0, Runtime, "pdist: only supports non-negative p values, got {}", p);
    if (on_host(input)) {
      const bool computed = input.dtype() == DType::F32 || input.dtype() == DType::F64;
      return computed ? _pdist(input, p) : to(_pdist(to(input, DType::F32), p), input.dtype());
    }
    const auto [left, right] = pairs(input);
    return distance(sub(index_select(input, 0, left), index_select(input, 0, right)), p);
  })
  .autocast_cuda(Autocast::Float32)
  .samples({"f(4,3)", "f(4,3), 1.0", "f(1,3)"})
  .error("f(4)", ErrorKind::Runtime, "only supports 2D");

}  // namespace strata
