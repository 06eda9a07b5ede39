// bincount, histc, histogram, histogramdd.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/checked.h"
#include "base/parallel.h"
#include "cuda/order/histogram.h"
#include "ops/check_dtype.h"
#include "ops/reduce/common.h"
#include "strata/ops.h"

namespace strata {
namespace {

Tensor contiguous_as(const Tensor& t, DType dtype) { return contiguous(t.dtype() == dtype ? t : to(t, dtype)); }

// The bin of each element between sorted edges (double); elements outside go to bin 0 and are not `inside`.
struct Bins {
  Tensor bin, inside;
};
Bins bins_of(const Tensor& x, const Tensor& edges) {
  const int64_t n = edges.numel() - 1;
  const Tensor inside = logical_and(ge(x, select(edges, 0, 0)), le(x, select(edges, 0, n)));
  const Tensor place = sub(clamp_max(search_core(edges, x, {}, true, false), n), 1);
  return {where(inside, place, 0), inside};
}
// Weights (1 if not given) summed by bin, in double.
Tensor added_up(const Bins& b, const Tensor& weights, int64_t bins) {
  const Tensor values = weights ? where(b.inside, weights, 0.0) : to(b.inside, DType::F64);
  return scatter_add(zeros({bins}, kFloat64), 0, b.bin, values);
}
// Weights summed by equal bins: in one pass on the CPU, with ops on a device. x has a compute type, weights are double.
Tensor added_up(const Tensor& x, const Tensor& weights, int64_t bins, double low, double high) {
  if (x.is_meta()) return zeros({bins}, kFloat64);
  if (!x.is_cpu() && !weights) {
    const Tensor counts = empty({bins}, kInt64);
    cuda::count_bins(*x, low, high, *counts);
    return to(counts, kFloat64);
  }
  if (!x.is_cpu()) {
    const Tensor v = to(x, kFloat64), inside = logical_and(ge(v, low), le(v, high));
    const Tensor place = mul(div(sub(where(inside, v, low), low), high - low), static_cast<double>(bins));
    return added_up({clamp_max(to(place, DType::I64), bins - 1), inside}, weights, bins);
  }
  // Counts are whole numbers, so their sum does not depend on the pieces; sums of weights would, and use one piece.
  constexpr int64_t kPiece = 1 << 15, kMostPieces = 64;
  const int64_t n = x.numel();
  const int64_t pieces = weights || bins > kPiece / 8 ? 1 : std::clamp<int64_t>(n / kPiece, 1, kMostPieces);
  const Tensor tables = zeros({pieces, bins}, kFloat64);
  dispatch_compute(x.dtype(), [&]<class T>() {
    const T* p = x.data<T>();
    const double* added = weights ? weights.data<double>() : nullptr;
    parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        double* to = tables.data<double>() + piece * bins;
        for (int64_t i = n * piece / pieces, end = n * (piece + 1) / pieces; i < end; ++i) {
          const auto v = static_cast<double>(p[i]);
          if (!(v >= low && v <= high)) continue;
          const auto bin = static_cast<int64_t>((v - low) / (high - low) * static_cast<double>(bins));
          to[std::min(bins - 1, bin)] += added ? added[i] : 1;
        }
      }
    });
  });
  return pieces == 1 ? select(tables, 0, 0) : sum(tables, 0);
}

// Edges of equal bins from low to high; both from the data if they are equal.
void data_range(const Tensor& x, double& low, double& high, double widen, const char* op) {
  if (low == high && x.is_meta()) high += 1;
  if (low == high && x.numel() > 0) {
    low = min(x).item<double>();
    high = max(x).item<double>();
  }
  if (low == high && x.numel() == 0) high += 1;
  if (low == high) {
    low -= widen;
    high += widen;
  }
  STRATA_CHECK(std::isfinite(low) && std::isfinite(high), Runtime, "{}: range of [{}, {}] is not finite", op, low,
               high);
  STRATA_CHECK(low < high, Runtime, "{}: max must be larger than min, got [{}, {}]", op, low, high);
}

// Counts rows of input [..., columns] in the grid spanned by the edges of each column; the edges follow the histogram.
std::vector<Tensor> count_rows(const Tensor& input, TensorList bins, const Tensor& weight, bool density) {
  STRATA_CHECK(input.dim() >= 2, Runtime, "histogramdd: input tensor should have at least 2 dimensions, got shape {}",
               to_string(input.shape()));
  const int64_t columns = input.size(-1), rows = columns ? input.numel() / columns : 0;
  STRATA_CHECK(static_cast<int64_t>(bins.size()) == columns, Runtime,
               "histogramdd: expected bins for each of the {} columns of input, got {}", columns, bins.size());
  const Tensor x = contiguous_as(reshape(input, {-1}), DType::F64),
               w = weight ? contiguous_as(reshape(weight, {-1}), DType::F64) : Tensor();
  STRATA_CHECK(!w || w.numel() == rows, Runtime, "histogramdd: weight has {} elements, input has {} rows",
               w ? w.numel() : 0, rows);
  std::vector<int64_t> shape;
  std::vector<Tensor> edges, out(1);
  for (const Tensor& t : bins) {
    STRATA_CHECK(t.dim() == 1 && t.numel() >= 2 && t.dtype() == input.dtype(), Runtime,
                 "histogramdd: edges should be vectors of 2 or more elements of dtype {}, got shape {} and dtype {}",
                 name_of(input.dtype()), to_string(t.shape()), name_of(t.dtype()));
    shape.push_back(t.numel() - 1);
    edges.push_back(contiguous_as(t, DType::F64));
    out.push_back(clone(t));
  }
  const int64_t cells = checked_numel(shape);
  const Tensor table = reshape(x, {rows, columns});
  Bins all{zeros({rows}, kInt64), ones({rows}, kBool)};
  for (int64_t k = 0; k < columns; ++k) {
    const Bins own = bins_of(select(table, 1, k), edges[static_cast<size_t>(k)]);
    all = {add(mul(all.bin, shape[static_cast<size_t>(k)]), own.bin), logical_and(all.inside, own.inside)};
  }
  all.bin = where(all.inside, all.bin, 0);
  const Tensor hist = reshape(added_up(all, w, cells), shape), total = sum(hist);
  out[0] = hist;
  for (size_t k = 0; density && k < edges.size(); ++k) {  // divide by the total and the volume of each cell
    std::vector<int64_t> along(edges.size(), 1);
    along[k] = shape[k];
    out[0] = div(out[0], reshape(diff(edges[k]), along));
  }
  if (density) out[0] = div(out[0], total);
  out[0] = to(out[0], input.dtype());
  return out;
}

// The length of bincount's result.
int64_t length_for(const Tensor& x, int64_t minlength) {
  if (x.numel() == 0) return minlength;
  const int64_t low = amin(x).item<int64_t>();
  STRATA_CHECK(low >= 0, Runtime, "bincount: only supports 1-d non-negative integral inputs, got {}", low);
  return std::max(minlength, (Checked(amax(x).item<int64_t>()) + 1).get());
}

// Few values repeat often: neighbours are counted in different tables, so that an addition does not wait for the last.
void count_values(const int64_t* values, int64_t n, int64_t* counts, int64_t length) {
  constexpr int64_t kTables = 4, kShort = 1024;
  if (length > kShort) {
    for (int64_t i = 0; i < n; ++i) ++counts[values[i]];
    return;
  }
  std::vector<int64_t> tables(static_cast<size_t>(kTables * length));
  for (int64_t i = 0; i < n; ++i) ++tables[static_cast<size_t>(i % kTables * length + values[i])];
  for (size_t i = 0; i < tables.size(); ++i) counts[static_cast<int64_t>(i) % length] += tables[i];
}

// bincount on a device: waits for the extremes, since the result's length depends on them.
Tensor count_on_device(const Tensor& x, const Tensor& weights, int64_t length) {
  if (x.numel() > 0) {
    const auto [low, high] = cuda::integer_range(*x);
    STRATA_CHECK(low >= 0, Runtime, "bincount: only supports 1-d non-negative integral inputs, got {}", low);
    length = std::max(length, (Checked(high) + 1).get());
  }
  if (!weights) {
    const Tensor counts = empty({length}, kInt64);
    cuda::count_integers(*x, *counts);
    return counts;
  }
  const Tensor sums = scatter_add(zeros({length}, kFloat64), 0, x, to(weights, kFloat64));
  return weights.dtype() == DType::F32 ? to(sums, kFloat32) : sums;
}
}  // namespace

STRATA_OP(bincount, "bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor")
  .doc("The number of occurrences of each of 0, 1, 2, ..., or the sum of their weights.")
  .dtypes(kIntegerTypes)
  .composite([](const Tensor& input, const Tensor& weights, int64_t minlength) {
    Scoped mode(thread_state.grad_mode, false);
    STRATA_CHECK(input.dim() == 1 && is_integral(input.dtype(), false), Runtime,
                 "bincount: only supports 1-d non-negative integral inputs, got {} of shape {}", name_of(input.dtype()),
                 to_string(input.shape()));
    STRATA_CHECK(minlength >= 0, Runtime, "bincount: minlength should be >= 0, got {}", minlength);
    STRATA_CHECK(!weights || weights->same_shape(*input), Runtime,
                 "bincount: weights should be 1-d and have the same length as input, got {} for {}",
                 weights ? to_string(weights.shape()) : "", to_string(input.shape()));
    if (input.is_meta()) refuse_shape_from_values("bincount");
    const Tensor x = contiguous_as(input, DType::I64);
    if (!input.is_cpu()) return count_on_device(x, weights, minlength);
    const int64_t length = length_for(x, minlength), n = x.numel();
    const auto* values = x.data<int64_t>();
    if (!weights) {
      const Tensor out = full({length}, 0, kInt64);
      count_values(values, n, out.data<int64_t>(), length);
      return out;
    }
    const DType dtype = weights.dtype() == DType::F32 ? DType::F32 : DType::F64;
    const Tensor w = contiguous_as(weights, DType::F64), out = full({length}, 0.0, kFloat64);
    auto* sums = out.data<double>();
    const auto* added = w.data<double>();
    for (int64_t i = 0; i < n; ++i) sums[values[i]] += added[i];
    return dtype == DType::F64 ? out : to(out, dtype);
  })
  .samples({"i5(10)", "i5(10), minlength=8", "i5(4), f(4)", "i5(0)"})
  .error("f(3)", ErrorKind::Runtime, "non-negative integral")
  .error("i5(2,2)", ErrorKind::Runtime, "1-d")
  .error("t[9223372036854775807]", ErrorKind::Runtime, "does not fit into 64 bits")
  .error("t[1099511627776]", ErrorKind::OutOfMemory, "out of memory");

STRATA_OP(histc, "histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor")
  .doc("The number of elements in each of equal bins between min and max (those of the data if both are equal).")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, int64_t bins, Scalar min, Scalar max) {
    Scoped mode(thread_state.grad_mode, false);
    refuse_integers(input, "histc");
    STRATA_CHECK(bins > 0, Runtime, "histc: bins must be > 0, got {}", bins);
    const Tensor x = contiguous_as(reshape(input, {-1}), compute_type(input.dtype()));
    double low = min.to_double(), high = max.to_double();
    data_range(x, low, high, 1, "histc");
    return to(added_up(x, {}, bins, low, high), input.dtype());
  })
  .samples({"f(30), 5", "f(3,10), 4, -1, 1", "f(0), 3"})
  .error("f(3), 0", ErrorKind::Runtime, "bins must be > 0")
  .error("f(3), 5, 2, 1", ErrorKind::Runtime, "larger than min");

STRATA_OP(
  histogram,
  "histogram(Tensor input, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)")
  .doc("The weight of elements between each pair of neighbouring edges, and the edges.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, const Tensor& bins, const Tensor& weight, bool density) {
    Scoped mode(thread_state.grad_mode, false);
    STRATA_CHECK(bins.dim() == 1 && bins.numel() >= 1, Runtime,
                 "histogram: bins tensor should have one dimension and at least one element, got shape {}",
                 to_string(bins.shape()));
    STRATA_CHECK(bins.dtype() == input.dtype(), Runtime,
                 "histogram: input tensor and bins tensors should have the same dtype, got {} and {}",
                 name_of(input.dtype()), name_of(bins.dtype()));
    const Tensor x = contiguous_as(reshape(input, {-1}), DType::F64), edges = contiguous_as(bins, DType::F64),
                 w = weight ? contiguous_as(reshape(weight, {-1}), DType::F64) : Tensor();
    STRATA_CHECK(!w || w.numel() == x.numel(), Runtime, "histogram: weight has {} elements, input has {}",
                 w ? w.numel() : 0, x.numel());
    const int64_t count = edges.numel() - 1;
    Tensor hist = count > 0 ? added_up(bins_of(x, edges), w, count) : zeros({0}, kFloat64);
    if (density) hist = div(hist, mul(sum(hist), diff(edges)));
    return std::tuple(to(hist, input.dtype()), clone(bins));
  })
  .samples({"f(30), f(1)"})
  .error("f(3), f(2,2)", ErrorKind::Runtime, "one dimension");

STRATA_OP(histogram_bin_ct,
          "histogram.bin_ct(Tensor input, int bins=100, *, float[]? range=None, Tensor? weight=None, bool "
          "density=False) -> (Tensor hist, Tensor bin_edges)")
  .doc("The weight of elements in each of equal bins, and the edges of the bins.")
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, int64_t bins, std::optional<std::span<const double>> range, const Tensor& weight,
                bool density) {
    Scoped mode(thread_state.grad_mode, false);
    refuse_integers(input, "histogram");
    STRATA_CHECK(bins > 0, Runtime, "histogram: bins must be > 0, got {}", bins);
    STRATA_CHECK(!range || range->size() == 2, Runtime, "histogram: range should have 2 elements, got {}",
                 range ? range->size() : 0);
    const Tensor x = contiguous_as(reshape(input, {-1}), compute_type(input.dtype())),
                 w = weight ? contiguous_as(reshape(weight, {-1}), DType::F64) : Tensor();
    STRATA_CHECK(!w || w.numel() == x.numel(), Runtime, "histogram: weight has {} elements, input has {}",
                 w ? w.numel() : 0, x.numel());
    double low = range ? (*range)[0] : 0, high = range ? (*range)[1] : 0;
    data_range(x, low, high, 0.5, "histogram");
    const int64_t count = (Checked(bins) + 1).get();
    Tensor hist = added_up(x, w, bins, low, high);
    if (density) hist = div(hist, mul(sum(hist), (high - low) / static_cast<double>(bins)));
    const Tensor edges = add(div(mul(arange(count, DType::F64), high - low), static_cast<double>(bins)), low);
    return std::tuple(to(hist, input.dtype()), to(edges, input.dtype()));
  })
  .samples({"f(30), 5", "f(3,10), 4, density=True"})
  .error("f(3), 0", ErrorKind::Runtime, "bins must be > 0");

STRATA_OP(histogramdd,
          "histogramdd(Tensor input, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor[]")
  .doc(
    "The weight of the rows of input in each cell of the grid spanned by the edges (bins) of each column, followed by "
    "the edges; in Python (hist, edges).")
  .no_out()
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, TensorList bins, const Tensor& weight, bool density) {
    Scoped mode(thread_state.grad_mode, false);
    refuse_integers(input, "histogramdd");
    return count_rows(input, bins, weight, density);
  })
  .samples({"f(30,2), [f(2), f(2)]"})
  .error("f(3), [f(2)]", ErrorKind::Runtime, "at least 2 dimensions")
  .error("f(3,2), [f(2)]", ErrorKind::Runtime, "each of the 2 columns");

STRATA_OP(
  histogramdd_counts,
  "histogramdd.counts(Tensor input, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) "
  "-> Tensor[]")
  .doc(
    "histogramdd over that many equal cells per column, between the smallest and the largest value or within the "
    "range (low, high of each column).")
  .no_out()
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, IntList bins, std::optional<std::span<const double>> range, const Tensor& weight,
                bool density) {
    Scoped mode(thread_state.grad_mode, false);
    STRATA_CHECK(input.dim() >= 2, Runtime, "histogramdd: input tensor should have at least 2 dimensions, got shape {}",
                 to_string(input.shape()));
    const int64_t columns = input.size(-1);
    STRATA_CHECK(static_cast<int64_t>(bins.size) == columns, Runtime,
                 "histogramdd: expected bins for each of the {} columns of input, got {}", columns, bins.size);
    STRATA_CHECK(!range || static_cast<int64_t>(range->size()) == 2 * columns, Runtime,
                 "histogramdd: range should have 2 numbers for each of the {} columns, got {}", columns,
                 range ? range->size() : 0);
    checked_numel(bins);  // before any edges are created
    std::vector<Tensor> edges;
    for (size_t k = 0; k < bins.size; ++k) {
      STRATA_CHECK(bins[k] > 0, Runtime, "histogramdd: bins must be > 0, got {}", to_string(bins));
      double low = range ? (*range)[2 * k] : 0, high = range ? (*range)[2 * k + 1] : 0;
      data_range(contiguous_as(reshape(select(input, -1, static_cast<int64_t>(k)), {-1}), input.dtype()), low, high,
                 0.5, "histogramdd");
      edges.push_back(linspace(low, high, (Checked(bins[k]) + 1).get(), input.dtype()));
    }
    return count_rows(input, edges, weight, density);
  })
  .samples({"f(30,2), [3, 4]", "f(3,10,2), [2, 2], range=[-1.0, 1.0, -2.0, 2.0], density=True"})
  .error("f(3,2), [0, 1]", ErrorKind::Runtime, "bins must be > 0");

}  // namespace strata
