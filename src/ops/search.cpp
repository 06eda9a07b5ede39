// searchsorted, bucketize, isin, bincount, histc, histogram, histogramdd.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "cpu/lines.h"
#include "ops/reduce_common.h"
#include "strata/ops.h"

namespace strata {
namespace {

DType common_dtype(const Tensor& a, const Tensor& b) { return compute_type(promote(a.dtype(), b.dtype())); }
Tensor dense(const Tensor& t, DType dtype) { return contiguous(t.dtype() == dtype ? t : to(t, dtype)); }

// The first place in a sorted row whose element is >= v (right: > v). A NaN looked for goes to the end.
template <class T> int64_t place_of(const T* row, const int64_t* order, int64_t n, T v, bool right) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    const T m = order ? row[order[mid]] : row[mid];
    if (right ? !(m > v) : !(m >= v)) low = mid + 1;
    else high = mid;
  }
  return low;
}

Tensor search(const Tensor& sequence, const Tensor& values, bool out_int32, bool right,
              std::optional<std::string_view> side, const Tensor& sorter, const char* op) {
  Scoped mode(thread_state.grad_mode, false);
  STRATA_CHECK(sequence.dim() > 0, Runtime, "{}: boundaries must have at least one dimension", op);
  if (side) {
    STRATA_CHECK(*side == "left" || *side == "right", Runtime, "{}: side can only be 'left' or 'right' but got {}", op,
                 *side);
    STRATA_CHECK(!(right && *side == "left"), Runtime,
                 "{}: side and right can't be set to opposites, got side of left while right was True", op);
    right = *side == "right";
  }
  const bool shared = sequence.dim() == 1;
  if (!shared) {
    STRATA_CHECK(values.dim() == sequence.dim(), Runtime,
                 "{}: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
                 "input value tensor must match, but got boundaries tensor {} and input value tensor {}",
                 op, to_string(sequence.shape()), to_string(values.shape()));
    for (int d = 0; d + 1 < sequence.dim(); ++d)
      STRATA_CHECK(
        sequence->shape[d] == values->shape[d], Runtime,
        "{}: the first N-1 dimensions of boundaries tensor and input value tensor must match, but got {} and {}", op,
        to_string(sequence.shape()), to_string(values.shape()));
  }
  if (sorter) {
    STRATA_CHECK(sorter->same_shape(*sequence), Runtime,
                 "{}: boundaries and sorter must have the same size, but got boundaries tensor {} and sorter tensor {}",
                 op, to_string(sequence.shape()), to_string(sorter.shape()));
    STRATA_CHECK(sorter.dtype() == DType::I64, Runtime, "{}: sorter must be a tensor of long dtype but got dtype {}",
                 op, long_name(sorter.dtype()));
  }
  const DType dtype = common_dtype(sequence, values);
  const Tensor rows = dense(sequence, dtype), wanted = dense(values, dtype),
               order = sorter ? contiguous(sorter) : Tensor();
  const Tensor out = make_tensor(values.shape(), out_int32 ? DType::I32 : DType::I64);
  const int64_t n = sequence.size(-1), per_row = shared ? std::max<int64_t>(1, values.numel()) : values.size(-1);
  dispatch_compute(dtype, [&]<class T>() {
    parallel_for(values.numel(), 1 << 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = shared ? 0 : i / per_row * n;
        const int64_t place = place_of<T>(rows.data<T>() + row, order ? order.data<int64_t>() + row : nullptr, n,
                                          wanted.data<T>()[i], right);
        if (out_int32) out.data<int32_t>()[i] = static_cast<int32_t>(place);
        else out.data<int64_t>()[i] = place;
      }
    });
  });
  return out;
}

Tensor number_tensor(Scalar s, const Tensor& beside) {
  const DType dtype = is_floating(beside.dtype()) ? beside.dtype() : s.is_float() ? default_dtype() : DType::I64;
  return full({}, s, dtype);
}

Tensor is_in(const Tensor& elements, const Tensor& tests, bool invert) {
  Scoped mode(thread_state.grad_mode, false);
  const DType dtype = common_dtype(elements, tests);
  const Tensor x = dense(elements, dtype), t = dense(reshape(tests, {-1}), dtype),
               out = make_tensor(elements.shape(), DType::Bool);
  const Tensor sorted = t.numel() ? sort(t)[0] : t;
  dispatch_compute(dtype, [&]<class T>() {
    parallel_for(x.numel(), 1 << 10, [&](int64_t begin, int64_t end) {
      const T *first = sorted.data<T>(), *last = first + sorted.numel();
      for (int64_t i = begin; i < end; ++i) {
        const T v = x.data<T>()[i];
        const int64_t at = place_of<T>(first, nullptr, last - first, v, false);
        out.data<bool>()[i] = (first + at != last && first[at] == v) != invert;
      }
    });
  });
  return out;
}

// Edges of equal bins from low to high; both from the data when they are equal.
void data_range(const Tensor& x, double& low, double& high, double widen, const char* op) {
  if (low == high && x.numel() > 0) low = min(x).item<double>(), high = max(x).item<double>();
  if (low == high && x.numel() == 0) high += 1;
  if (low == high) low -= widen, high += widen;
  STRATA_CHECK(std::isfinite(low) && std::isfinite(high), Runtime, "{}: range of [{}, {}] is not finite", op, low,
               high);
  STRATA_CHECK(low < high, Runtime, "{}: max must be larger than min, got [{}, {}]", op, low, high);
}
template <class T>
void count_into(const Tensor& x, const double* weights, int64_t bins, double low, double high, double* counts) {
  const T* p = x.data<T>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const auto v = static_cast<double>(p[i]);
    if (!(v >= low && v <= high)) continue;
    const int64_t bin = std::min(bins - 1, static_cast<int64_t>((v - low) / (high - low) * static_cast<double>(bins)));
    counts[bin] += weights ? weights[i] : 1;
  }
}

// Rows of input [..., columns] counted into the grid that the edges of each column span; the edges come after the histogram.
std::vector<Tensor> count_rows(const Tensor& input, TensorList bins, const Tensor& weight, bool density) {
  STRATA_CHECK(input.dim() >= 2, Runtime, "histogramdd: input tensor should have at least 2 dimensions, got shape {}",
               to_string(input.shape()));
  const int64_t columns = input.size(-1), rows = columns ? input.numel() / columns : 0;
  STRATA_CHECK(static_cast<int64_t>(bins.size()) == columns, Runtime,
               "histogramdd: expected bins for each of the {} columns of input, got {}", columns, bins.size());
  const Tensor x = dense(reshape(input, {-1}), DType::F64),
               w = weight ? dense(reshape(weight, {-1}), DType::F64) : Tensor();
  STRATA_CHECK(!w || w.numel() == rows, Runtime, "histogramdd: weight has {} elements, input has {} rows",
               w ? w.numel() : 0, rows);
  std::vector<int64_t> shape;
  std::vector<Tensor> edges, out(1);
  for (const Tensor& t : bins) {
    STRATA_CHECK(t.dim() == 1 && t.numel() >= 2 && t.dtype() == input.dtype(), Runtime,
                 "histogramdd: edges should be vectors of 2 or more elements of dtype {}, got shape {} and dtype {}",
                 name_of(input.dtype()), to_string(t.shape()), name_of(t.dtype()));
    shape.push_back(t.numel() - 1), edges.push_back(dense(t, DType::F64)), out.push_back(clone(t));
  }
  const Tensor hist = full(shape, 0.0, kFloat64);
  double total = 0;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t cell = 0;
    bool inside = true;
    for (int64_t k = 0; k < columns && inside; ++k) {
      const double *e = edges[static_cast<size_t>(k)].data<double>(), v = x.data<double>()[r * columns + k];
      const int64_t n = shape[static_cast<size_t>(k)];
      inside = v >= e[0] && v <= e[n];
      cell = cell * n + std::min(n, place_of<double>(e, nullptr, n + 1, v, true)) - 1;
    }
    const double value = w ? w.data<double>()[r] : 1;
    if (inside) hist.data<double>()[cell] += value, total += value;
  }
  out[0] = hist;
  for (size_t k = 0; density && k < edges.size(); ++k) {  // by the total and the volume of each cell
    std::vector<int64_t> along(edges.size(), 1);
    along[k] = shape[k];
    out[0] = div(out[0], reshape(diff(edges[k]), along));
  }
  if (density) out[0] = div(out[0], total);
  out[0] = to(out[0], input.dtype());
  return out;
}
}  // namespace

STRATA_OP(searchsorted,
          "searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool right=False, str? "
          "side=None, Tensor? sorter=None) -> Tensor")
  .doc(
    "Where to insert each value so that the sequence (rows along the last dimension) stays sorted: before equal "
    "elements, or after them.")
  .no_method()
  .composite([](const Tensor& sequence, const Tensor& input, bool out_int32, bool right,
                std::optional<std::string_view> side, const Tensor& sorter) {
    return search(sequence, input, out_int32, right, side, sorter, "searchsorted");
  })
  .samples({"i5(1), f(3)", "f(1), f(2,3), right=True", "f(2,1), f(2,5), out_int32=True", "i5(1), i5(4), side='right'"})
  .error("f(2,3), f(3,3)", ErrorKind::Runtime, "must match")
  .error("f(3), f(3), side='top'", ErrorKind::Runtime, "'left' or 'right'");

STRATA_OP(searchsorted_Scalar,
          "searchsorted.Scalar(Tensor sorted_sequence, Scalar input, *, bool out_int32=False, bool right=False, str? "
          "side=None, Tensor? sorter=None) -> Tensor")
  .doc("Where to insert a number so that the sequence stays sorted.")
  .no_method()
  .composite([](const Tensor& sequence, Scalar input, bool out_int32, bool right, std::optional<std::string_view> side,
                const Tensor& sorter) {
    STRATA_CHECK(
      sequence.dim() == 1, Runtime,
      "searchsorted: input value can be a scalar only when boundaries tensor dimension is 1, got {} dimensions",
      sequence.dim());
    return search(sequence, number_tensor(input, sequence), out_int32, right, side, sorter, "searchsorted");
  })
  .samples({"i5(1), 2", "f(1), 0.5, right=True"})
  .error("f(2,3), 1", ErrorKind::Runtime, "dimension is 1");

STRATA_OP(bucketize, "bucketize(Tensor input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor")
  .doc("The bucket of each value between one-dimensional sorted boundaries.")
  .no_method()
  .composite([](const Tensor& input, const Tensor& boundaries, bool out_int32, bool right) {
    STRATA_CHECK(boundaries.dim() == 1, Runtime, "bucketize: boundaries tensor must be 1 dimension, but got dim({})",
                 boundaries.dim());
    return search(boundaries, input, out_int32, right, std::nullopt, {}, "bucketize");
  })
  .samples({"f(3,4), i5(1)", "i5(7), i5(1), right=True"})
  .error("f(3), f(3,3)", ErrorKind::Runtime, "1 dimension");

STRATA_OP(bucketize_Scalar,
          "bucketize.Scalar(Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor")
  .doc("The bucket of a number between sorted boundaries.")
  .no_method()
  .composite([](Scalar input, const Tensor& boundaries, bool out_int32, bool right) {
    STRATA_CHECK(boundaries.dim() == 1, Runtime, "bucketize: boundaries tensor must be 1 dimension, but got dim({})",
                 boundaries.dim());
    return search(boundaries, number_tensor(input, boundaries), out_int32, right, std::nullopt, {}, "bucketize");
  })
  .samples({"1.5, i5(1)"})
  .error("1.5, f(3,3)", ErrorKind::Runtime, "1 dimension");

STRATA_OP(isin, "isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor")
  .doc("Which elements occur among the test elements.")
  .no_method()
  .composite([](const Tensor& elements, const Tensor& test_elements, bool, bool invert) {
    return is_in(elements, test_elements, invert);
  })
  .samples({"i5(3,4), i5(2)", "i5(10), i5(0), invert=True", "f(3), f(3)"});

STRATA_OP(
  isin_Tensor_Scalar,
  "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor")
  .doc("Which elements equal the number.")
  .no_method()
  .composite([](const Tensor& elements, Scalar test, bool, bool invert) {
    return is_in(elements, number_tensor(test, elements), invert);
  })
  .samples({"i5(3,4), 2", "i5(10), 3, invert=True"});

STRATA_OP(
  isin_Scalar_Tensor,
  "isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor")
  .doc("Whether the number occurs among the test elements.")
  .no_method()
  .composite([](Scalar element, const Tensor& tests, bool, bool invert) {
    return is_in(number_tensor(element, tests), tests, invert);
  })
  .samples({"2, i5(4)"});

STRATA_OP(bincount, "bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor")
  .doc("How often each of the numbers 0, 1, 2, ... occurs, or the sum of weights at its occurrences.")
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
    const Tensor x = dense(input, DType::I64);
    int64_t length = minlength;
    for (int64_t i = 0; i < x.numel(); ++i) {
      const int64_t v = x.data<int64_t>()[i];
      STRATA_CHECK(v >= 0, Runtime, "bincount: only supports 1-d non-negative integral inputs, got {}", v);
      length = std::max(length, v + 1);
    }
    if (!weights) {
      const Tensor out = full({length}, 0, kInt64);
      for (int64_t i = 0; i < x.numel(); ++i) ++out.data<int64_t>()[x.data<int64_t>()[i]];
      return out;
    }
    const DType dtype = weights.dtype() == DType::F32 ? DType::F32 : DType::F64;
    const Tensor w = dense(weights, DType::F64), out = full({length}, 0.0, kFloat64);
    for (int64_t i = 0; i < x.numel(); ++i) out.data<double>()[x.data<int64_t>()[i]] += w.data<double>()[i];
    return dtype == DType::F64 ? out : to(out, dtype);
  })
  .samples({"i5(10)", "i5(10), minlength=8", "i5(4), f(4)", "i5(0)"})
  .error("f(3)", ErrorKind::Runtime, "non-negative integral")
  .error("i5(2,2)", ErrorKind::Runtime, "1-d");

STRATA_OP(histc, "histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor")
  .doc("How many elements fall in each of equal bins between min and max (the data's own when both are equal).")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, int64_t bins, Scalar min, Scalar max) {
    Scoped mode(thread_state.grad_mode, false);
    STRATA_CHECK(bins > 0, Runtime, "histc: bins must be > 0, got {}", bins);
    const Tensor x = dense(reshape(input, {-1}), compute_type(input.dtype()));
    double low = min.to_double(), high = max.to_double();
    data_range(x, low, high, 1, "histc");
    std::vector<double> counts(static_cast<size_t>(bins));
    dispatch_compute(x.dtype(), [&]<class T>() { count_into<T>(x, nullptr, bins, low, high, counts.data()); });
    const Tensor out = make_tensor(Shape(&bins, 1), DType::F64);
    std::copy(counts.begin(), counts.end(), out.data<double>());
    return to(out, input.dtype());
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
    const Tensor x = dense(reshape(input, {-1}), DType::F64), edges = dense(bins, DType::F64),
                 w = weight ? dense(reshape(weight, {-1}), DType::F64) : Tensor();
    STRATA_CHECK(!w || w.numel() == x.numel(), Runtime, "histogram: weight has {} elements, input has {}",
                 w ? w.numel() : 0, x.numel());
    const int64_t count = edges.numel() - 1;
    const Tensor hist = full({count}, 0.0, kFloat64);
    const double *e = edges.data<double>(), *p = x.data<double>();
    double total = 0;
    for (int64_t i = 0; i < x.numel() && count > 0; ++i) {
      if (!(p[i] >= e[0] && p[i] <= e[count])) continue;
      const int64_t bin = std::min(count, place_of<double>(e, nullptr, count + 1, p[i], true)) - 1;
      const double value = w ? w.data<double>()[i] : 1;
      hist.data<double>()[bin] += value, total += value;
    }
    if (density)
      for (int64_t i = 0; i < count; ++i) hist.data<double>()[i] /= total * (e[i + 1] - e[i]);
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
    STRATA_CHECK(bins > 0, Runtime, "histogram: bins must be > 0, got {}", bins);
    STRATA_CHECK(!range || range->size() == 2, Runtime, "histogram: range should have 2 elements, got {}",
                 range ? range->size() : 0);
    const Tensor x = dense(reshape(input, {-1}), compute_type(input.dtype())),
                 w = weight ? dense(reshape(weight, {-1}), DType::F64) : Tensor();
    STRATA_CHECK(!w || w.numel() == x.numel(), Runtime, "histogram: weight has {} elements, input has {}",
                 w ? w.numel() : 0, x.numel());
    double low = range ? (*range)[0] : 0, high = range ? (*range)[1] : 0;
    data_range(x, low, high, 0.5, "histogram");
    const int64_t count = bins + 1;
    const Tensor hist = full({bins}, 0.0, kFloat64), edges = make_tensor(Shape(&count, 1), DType::F64);
    dispatch_compute(x.dtype(), [&]<class T>() {
      count_into<T>(x, w ? w.data<double>() : nullptr, bins, low, high, hist.data<double>());
    });
    for (int64_t i = 0; i <= bins; ++i)
      edges.data<double>()[i] = low + (high - low) * static_cast<double>(i) / static_cast<double>(bins);
    const double width = (high - low) / static_cast<double>(bins),
                 total = std::accumulate(hist.data<double>(), hist.data<double>() + bins, 0.0);
    if (density)
      for (int64_t i = 0; i < bins; ++i) hist.data<double>()[i] /= total * width;
    return std::tuple(to(hist, input.dtype()), to(edges, input.dtype()));
  })
  .samples({"f(30), 5", "f(3,10), 4, density=True"})
  .error("f(3), 0", ErrorKind::Runtime, "bins must be > 0");

STRATA_OP(histogramdd,
          "histogramdd(Tensor input, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor[]")
  .doc(
    "The weight of the rows of input in each cell of the grid that the edges (bins) of each column span, followed by "
    "the "
    "edges; in Python (hist, edges).")
  .no_out()
  .dtypes({DType::F32, DType::F64})
  .composite([](const Tensor& input, TensorList bins, const Tensor& weight, bool density) {
    Scoped mode(thread_state.grad_mode, false);
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
    std::vector<Tensor> edges;
    for (size_t k = 0; k < bins.size; ++k) {
      STRATA_CHECK(bins[k] > 0, Runtime, "histogramdd: bins must be > 0, got {}", to_string(bins));
      double low = range ? (*range)[2 * k] : 0, high = range ? (*range)[2 * k + 1] : 0;
      data_range(dense(reshape(select(input, -1, static_cast<int64_t>(k)), {-1}), input.dtype()), low, high, 0.5,
                 "histogramdd");
      edges.push_back(linspace(low, high, bins[k] + 1, input.dtype()));
    }
    return count_rows(input, edges, weight, density);
  })
  .samples({"f(30,2), [3, 4]", "f(3,10,2), [2, 2], range=[-1.0, 1.0, -2.0, 2.0], density=True"})
  .error("f(3,2), [0, 1]", ErrorKind::Runtime, "bins must be > 0");

}  // namespace strata
