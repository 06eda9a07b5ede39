// unique and unique_consecutive. The records return three results, of which those that are not wanted are empty; the
// Python layer returns the others.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "autograd/autograd.h"
#include "cuda/order/group.h"
#include "ops/reduce/common.h"
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {
namespace {

struct Wanted {
  bool inverse, counts;
};

struct Groups {
  std::vector<int64_t> first;  // the representative element of each group
  std::vector<int64_t> counts;
  std::vector<int64_t> inverse;  // the group of each element
};

// Visits elements in the given order and starts a group wherever an element differs from the previous one.
template <class Same> Groups group(const int64_t* order, int64_t n, const Same& same) {
  Groups g;
  g.inverse.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t e = order ? order[i] : i;
    if (i == 0 || !same(order ? order[i - 1] : i - 1, e)) {
      g.first.push_back(e);
      g.counts.push_back(0);
    }
    ++g.counts.back();
    g.inverse[static_cast<size_t>(e)] = static_cast<int64_t>(g.first.size()) - 1;
  }
  return g;
}

Tensor from_vector(const std::vector<int64_t>& v, Shape shape) {
  const Tensor t = make_tensor(shape, DType::I64);
  std::copy(v.begin(), v.end(), t.data<int64_t>());
  return placed(t);
}
Tensor from_vector(const std::vector<int64_t>& v) {
  const auto n = static_cast<int64_t>(v.size());
  return from_vector(v, Shape(&n, 1));
}

Tensor no_numbers() { return placed(make_tensor(Shape(std::array{int64_t{0}}), DType::I64)); }

// Groups of a vector on a device, in the order `order` (none: the given order): groups of equal neighbours, or if `given`
// those that begin where it is true. Returns the first element of each group, the group of each element, the groups'
// sizes.
std::tuple<Tensor, Tensor, Tensor> group_on_device(const Tensor& x, bool given, const Tensor& order, Wanted wanted) {
  const int64_t one[] = {1};
  const auto [first, inverse] = cuda::group_neighbours(x, given, order, wanted.inverse);
  Tensor counts = no_numbers();
  if (wanted.counts) counts = diff(cat(TensorList(std::vector<Tensor>{first, full(Shape(one), x.numel(), kInt64)}), 0));
  return {order ? index_select(order, 0, first) : first, inverse ? inverse : no_numbers(), counts};
}
// True at 0 and where `differs` (of each element from the previous one, without the first) is.
Tensor starts_from(const Tensor& differs, int64_t n) {
  if (n == 0) return zeros({0}, kBool);
  return cat(TensorList(std::vector<Tensor>{ones({1}, kBool), differs}), 0);
}
void need_values(const Tensor& t, bool consecutive) {
  if (t.is_meta()) refuse_shape_from_values(consecutive ? "unique_consecutive" : "unique");
}

// True where an element of a vector differs from the previous one, and at 0.
Tensor starts_of(const Tensor& x) {
  const int64_t n = x.numel();
  return starts_from(n > 1 ? ne(narrow(x, 0, 1, n - 1), narrow(x, 0, 0, n - 1)) : zeros({0}, kBool), n);
}
// The number of each element's group, on the CPU; element i of `starts` is at order[i] of the result.
Tensor numbers_of(const Tensor& starts, const Tensor& order) {
  const int64_t n = starts.numel();
  const Tensor numbers = make_tensor(starts.shape(), DType::I64);
  const bool* start = starts.data<bool>();
  const int64_t* place = order ? order.data<int64_t>() : nullptr;
  int64_t* to = numbers.data<int64_t>();
  int64_t group = -1;
  for (int64_t i = 0; i < n; ++i) {
    group += start[i];
    to[place ? place[i] : i] = group;
  }
  return numbers;
}
// A distinct element passes its gradient to the first of its equals.
std::tuple<Tensor, Tensor, Tensor> unique_flat(const Tensor& input, bool consecutive, Wanted wanted) {
  need_values(input, consecutive);
  // Without the indices of the sorted elements, unless the inverse needs them: they take most of the time.
  const Tensor flat = reshape(input, {-1});
  const auto [sorted, order] = consecutive      ? std::array{flat, Tensor()}
                               : wanted.inverse ? sort(flat)
                                                : std::array{_sort_values(flat, std::nullopt)[0], Tensor()};
  if (!input.is_cpu()) {
    const auto [first, inverse, counts] = group_on_device(contiguous(autograd::detach(sorted)), false, order, wanted);
    return {index_select(order ? flat : sorted, 0, first), wanted.inverse ? reshape(inverse, input.shape()) : inverse,
            counts};
  }
  const Tensor starts = starts_of(autograd::detach(sorted));
  Tensor inverse = no_numbers(), counts = no_numbers();
  if (wanted.inverse) inverse = reshape(numbers_of(starts, order), input.shape());
  if (wanted.counts) {
    const Tensor ends = full({1}, flat.numel(), kInt64);
    counts = diff(cat(TensorList(std::vector<Tensor>{reshape(nonzero(starts), {-1}), ends}), 0));
  }
  return {_masked_select(sorted, starts), inverse, counts};
}

std::tuple<Tensor, Tensor, Tensor> group_slices(const Tensor& input, int64_t dim, bool consecutive, Wanted wanted,
                                                const char* op) {
  Scoped mode(thread_state.grad_mode, false);
  const int d = normalize_dim(dim, input.dim(), op);
  const int64_t n = input.dim() ? input->shape[d] : 1;
  STRATA_CHECK(n == 0 || input.numel() > 0, Runtime,
               "{}: there are 0 sized dimensions, and they aren't selected, so unique cannot be applied", op);
  need_values(input, consecutive);
  const Tensor rows = contiguous(n == 0 ? input : reshape(input.dim() ? movedim(input, {d}, {0}) : input, {n, -1}));
  const int64_t width = n ? rows.numel() / n : 0;
  if (!rows.is_cpu()) {
    Tensor order = consecutive ? Tensor() : arange(n, kInt64);
    // A stable sort by each column, starting with the last, orders the rows lexicographically.
    for (int64_t k = width; !consecutive && n > 0 && k-- > 0;)
      order = index_select(order, 0, argsort(index_select(select(rows, 1, k), 0, order)));
    const Tensor sorted = consecutive || n == 0 ? rows : index_select(rows, 0, order);
    const Tensor differs =
      n > 1 ? any(ne(narrow(sorted, 0, 1, n - 1), narrow(sorted, 0, 0, n - 1)), int64_t{1}) : zeros({0}, kBool);
    return group_on_device(starts_from(differs, n), true, order, wanted);
  }
  const Groups g = dispatch_real(rows.dtype(), [&]<class T>() {
    const T* p = rows.data<T>();
    const auto value = [&](int64_t row, int64_t i) {
      if constexpr (std::is_arithmetic_v<T>) return p[row * width + i];
      else return static_cast<float>(p[row * width + i]);
    };
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    if (!consecutive)
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        for (int64_t i = 0; i < width; ++i)
          if (value(a, i) != value(b, i)) return value(a, i) < value(b, i);
        return false;
      });
    return group(order.data(), n, [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < width; ++i)
        if (value(a, i) != value(b, i)) return false;
      return true;
    });
  });
  return {from_vector(g.first), wanted.inverse ? from_vector(g.inverse) : no_numbers(),
          wanted.counts ? from_vector(g.counts) : no_numbers()};
}
std::tuple<Tensor, Tensor, Tensor> unique_slices(const Tensor& input, int64_t dim, bool consecutive, Wanted wanted,
                                                 const char* op) {
  auto [first, inverse, counts] = group_slices(input, dim, consecutive, wanted, op);
  return {input.dim() ? index_select(input, dim, first) : input, inverse, counts};
}
}  // namespace

STRATA_OP(unique,
          "unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None)"
          " -> (Tensor output, Tensor inverse_indices, Tensor counts)")
  .doc(
    "The distinct elements (or slices along dim) in order and, if wanted, the index of each element among them and "
    "their counts.")
  .composite([](const Tensor& input, bool, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
    const Wanted wanted{return_inverse, return_counts};
    return dim ? unique_slices(input, *dim, false, wanted, "unique") : unique_flat(input, false, wanted);
  })
  .samples({"i5(10)", "i5(10), True, True, True", "i5(3,4), True, True", "i5(3,4), return_counts=True",
            "i5(6,2), dim=0", "i5(6,2), True, True, True, dim=0", "f(4)", "f(4), True, True, True", "b(5)", "i5(0)",
            "i5(0), True, True, True"})
  .error("i5(3), dim=1", ErrorKind::Index, "out of range");

STRATA_OP(unique_consecutive,
          "unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None)"
          " -> (Tensor output, Tensor inverse_indices, Tensor counts)")
  .doc(
    "The elements (or slices along dim) without consecutive repetitions and, if wanted, the run of each element and "
    "the "
    "lengths of the runs.")
  .composite([](const Tensor& input, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
    const Wanted wanted{return_inverse, return_counts};
    return dim ? unique_slices(input, *dim, true, wanted, "unique_consecutive") : unique_flat(input, true, wanted);
  })
  .samples({"i5(10)", "i5(10), True, True", "i5(3,4), True", "i5(6,2), True, True, dim=0", "b(5)", "i5(0), True, True"})
  .error("i5(3), dim=1", ErrorKind::Index, "out of range");

}  // namespace strata
