// searchsorted, bucketize, isin.
#include <algorithm>

#include "base/parallel.h"
#include "cpu/reference.h"
#include "cuda/order/sort.h"
#include "ops/device_inputs.h"
#include "ops/reduce/common.h"
#include "strata/args/order/search.h"
#include "strata/ops.h"

namespace strata {
namespace {

DType common_dtype(const Tensor& a, const Tensor& b) { return compute_type(promote(a.dtype(), b.dtype())); }

// uint64 as int64 in the same order: with the sign bits inverted.
Tensor in_signed_order(const Tensor& t) { return bitwise_xor(to(to(t, DType::U64), DType::I64), INT64_MIN); }

// An index out of the order of a row.
int64_t checked_place(int64_t at, int64_t n) {
  STRATA_CHECK(at >= 0 && at < n, Runtime, "search: sorter index out of range: {} in a row of {} elements", at, n);
  return at;
}

// The first index in a sorted row whose element is >= v (right: > v). NaN goes to the end.
template <class T> int64_t place_of(const T* row, const int64_t* order, int64_t n, T v, bool right) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    const T m = order ? row[checked_place(order[mid], n)] : row[mid];
    if (right ? !(m > v) : !(m >= v)) low = mid + 1;
    else high = mid;
  }
  return low;
}

// place_of for values [begin, end), without an order and without a branch on the comparison. `per_row` values belong to each
// row of n elements; 0: all to one.
template <bool right, class T, class Out>
void places_of(const T* rows, int64_t n, const T* values, int64_t per_row, int64_t begin, int64_t end, Out* out) {
  for (int64_t i = begin; i < end; ++i) {
    const T* low = rows + (per_row ? i / per_row * n : 0);
    const T *row = low, v = values[i];
    for (int64_t count = n; count > 0;) {
      const int64_t half = count / 2;
      const bool beyond = right ? !(low[half] > v) : !(low[half] >= v);
      low += beyond ? half + 1 : 0;
      count = beyond ? count - half - 1 : half;
    }
    out[i] = static_cast<Out>(low - row);
  }
}

// search_core(rows, values, order, right, out_int32)
void run_search(const Call& c) {
  const args::search_core a(c);
  const Tensor rows = contiguous(alias(a.rows())), values = contiguous(alias(a.values())), given = a.share_order(),
               order = given ? contiguous(given) : given, &out = c.out();
  const bool right = a.right();
  const int64_t n = rows.size(-1), per_row = rows.dim() == 1 ? 0 : values.size(-1);
  dispatch_compute(rows.dtype(), [&]<class T>() {
    const T *sorted = rows.data<T>(), *wanted = values.data<T>();
    const int64_t* places = order ? order.data<int64_t>() : nullptr;
    const auto run = [&]<class Out>(Out* to) {
      parallel_for(values.numel(), 1 << 12, [&](int64_t begin, int64_t end) {
        if (!places && right) return places_of<true>(sorted, n, wanted, per_row, begin, end, to);
        if (!places) return places_of<false>(sorted, n, wanted, per_row, begin, end, to);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t row = per_row ? i / per_row * n : 0;
          to[i] = static_cast<Out>(place_of<T>(sorted + row, places + row, n, wanted[i], right));
        }
      });
    };
    if (out.dtype() == DType::I32) run(out.data<int32_t>());
    else run(out.data<int64_t>());
  });
}
void search_on_device(const Call& c, Workspace& workspace) {
  const args::search_core a(c);
  const Tensor rows = dense(a.share_rows(), workspace), values = dense(a.share_values(), workspace),
               order = dense(a.share_order(), workspace);
  if (!workspace.planning()) cuda::search(*rows, order.get(), *values, a.right(), *c.out());
}
// The binary search of place_of: in a row that ends with NaN, counting the smaller elements would give another index.
void plain_search(const Call& c) {
  const args::search_core a(c);
  const TensorImpl &rows = a.rows(), &values = a.values();
  const Tensor order = a.share_order();
  const auto last = static_cast<size_t>(rows.ndim) - 1;
  cpu::each_index(values.sizes(), [&](const cpu::Index& at) {
    const auto v = cpu::get<double>(values, at);
    int64_t low = 0, high = rows.shape[last];
    cpu::Index from = rows.ndim > 1 ? at : cpu::Index{};
    while (low < high) {
      const int64_t mid = low + (high - low) / 2;
      from[last] = mid;
      if (order) from[last] = checked_place(cpu::get<int64_t>(*order, from), rows.shape[last]);
      const auto m = cpu::get<double>(rows, from);
      if (a.right() ? !(m > v) : !(m >= v)) low = mid + 1;
      else high = mid;
    }
    cpu::set<int64_t>(*c.out(), at, low);
  });
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
                 op, info_of(sorter.dtype()).title);
    const bool inside = sorter.numel() == 0 || sorter.is_meta() ||
                        (amin(sorter).item<int64_t>() >= 0 && amax(sorter).item<int64_t>() < sequence.size(-1));
    STRATA_CHECK(inside, Runtime, "{}: sorter index out of range: it must be a permutation of 0 to {}", op,
                 sequence.size(-1) - 1);
  }
  if (promote(sequence.dtype(), values.dtype()) == DType::U64)
    return search_core(in_signed_order(sequence), in_signed_order(values), sorter, right, out_int32);
  const DType dtype = common_dtype(sequence, values);
  return search_core(to(sequence, dtype), to(values, dtype), sorter, right, out_int32);
}

Tensor number_tensor(Scalar s, const Tensor& beside) {
  const bool same = is_floating(beside.dtype()) || (beside.dtype() == DType::U64 && !s.is_float());
  const DType dtype = same ? beside.dtype() : s.is_float() ? default_dtype() : DType::I64;
  return full({}, s, dtype);
}

Tensor is_in(const Tensor& elements, const Tensor& tests, bool invert) {
  Scoped mode(thread_state.grad_mode, false);
  if (tests.numel() == 0) return full(elements.shape(), invert, DType::Bool);
  const DType dtype = common_dtype(elements, tests);
  const Tensor x = to(elements, dtype), flat = to(reshape(tests, {-1}), dtype);
  if (constexpr int64_t kFew = 8; flat.numel() <= kFew) {  // comparisons with each are faster than a search
    Tensor found;
    for (int64_t i = 0; i < flat.numel(); ++i) {
      const Tensor equal = invert ? ne(x, select(flat, 0, i)) : eq(x, select(flat, 0, i));
      found = !found ? equal : invert ? logical_and(found, equal) : logical_or(found, equal);
    }
    return found;
  }
  const Tensor sorted = sort(flat)[0];
  const Tensor at = clamp_max(search_core(sorted, x, {}, false, false), sorted.numel() - 1);
  return invert ? ne(take(sorted, at), x) : eq(take(sorted, at), x);
}
}  // namespace

STRATA_OP(search_core, "search_core(Tensor rows, Tensor values, Tensor? order, bool right, bool out_int32) -> Tensor")
  .doc("The insertion index of each value in its sorted row. All have one dtype.")
  .infer([](const args::search_core& c) {
    const TensorImpl &rows = c.rows(), &values = c.values();
    bool fits = rows.ndim == 1 || (rows.ndim > 1 && rows.ndim == values.ndim);
    for (int d = 0; fits && rows.ndim > 1 && d + 1 < rows.ndim; ++d) fits = rows.shape[d] == values.shape[d];
    fits &= rows.dtype == compute_type(rows.dtype);  // kernels read them directly
    fits &=
      rows.dtype == values.dtype && (!c.has_order() || (c.order()->same_shape(rows) && c.order()->dtype == DType::I64));
    STRATA_CHECK(fits, Runtime, "search: rows {}, values {} and their order do not fit each other",
                 to_string(rows.sizes()), to_string(values.sizes()));
    c.out()->set_shape(c.values().sizes());
    c.out()->dtype = c.out_int32() ? DType::I32 : DType::I64;
  })
  .kernel("rows", run_search)
  .kernel("reference", plain_search)
  .cuda("rows", search_on_device)
  .no_grad_outputs({0})
  .helper()
  .no_out()
  .dtypes({DType::F32, DType::F64, DType::I64})
  .samples({"f(1), f(2,3), None, False, False", "f(2,1), f(2,5), None, True, True"})
  .error("f(3), f(2), t[0,1], False, False", ErrorKind::Runtime, "do not fit each other")
  .error("f(3), f(2), t[0,7,1], False, False", ErrorKind::Runtime, "sorter index out of range");

STRATA_OP(searchsorted,
          "searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool right=False, str? "
          "side=None, Tensor? sorter=None) -> Tensor")
  .doc(
    "The index at which to insert each value so that the sequence (rows along the last dimension) stays sorted: before "
    "equal elements, or after them.")
  .no_method()
  .composite([](const Tensor& sequence, const Tensor& input, bool out_int32, bool right,
                std::optional<std::string_view> side, const Tensor& sorter) {
    return search(sequence, input, out_int32, right, side, sorter, "searchsorted");
  })
  .samples({"i5(1), f(3)", "f(1), f(2,3), right=True", "f(2,1), f(2,5), out_int32=True", "i5(1), i5(4), side='right'"})
  .error("f(2,3), f(3,3)", ErrorKind::Runtime, "must match")
  .error("f(3), f(3), side='top'", ErrorKind::Runtime, "'left' or 'right'")
  .error("f(3), f(3), sorter=t[0,1,3]", ErrorKind::Runtime, "sorter index out of range")
  .error("f(3), f(3), sorter=t[-1,1,2]", ErrorKind::Runtime, "sorter index out of range");

STRATA_OP(searchsorted_Scalar,
          "searchsorted.Scalar(Tensor sorted_sequence, Scalar input, *, bool out_int32=False, bool right=False, str? "
          "side=None, Tensor? sorter=None) -> Tensor")
  .doc("The index at which to insert a number so that the sequence stays sorted.")
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
  .doc("Whether each element occurs among the test elements.")
  .no_method()
  .composite([](const Tensor& elements, const Tensor& test_elements, bool, bool invert) {
    return is_in(elements, test_elements, invert);
  })
  .samples({"i5(3,4), i5(2)", "i5(10), i5(0), invert=True", "f(3), f(3)"});

STRATA_OP(
  isin_Tensor_Scalar,
  "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor")
  .doc("Whether each element equals the number.")
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

}  // namespace strata
