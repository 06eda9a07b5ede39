// Threads sort rows in parallel; a long row is split, its parts sorted and merged. Keys of up to 32 bits are packed
// with their index in one word: three passes over 4096 elements stay in the L2 cache.
#include "cpu/order/sort.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>

#include "base/parallel.h"
#include "cpu/lines.h"
#include "cpu/order/select.h"
#include "cpu/order/sort_keys.h"

namespace strata::cpu {
namespace {

constexpr int64_t kSmall = 64;      // below: comparison sort, since buckets would cost more than the elements
constexpr int64_t kMedium = 1024;   // below: smaller digits
constexpr int64_t kLong = 1 << 17;  // above: one row keeps several threads busy

// The smallest element, if all are 64-bit integers within 2^32 of it: then half the bits are enough for a key.
std::optional<uint64_t> narrow_base(const Lines& from) {
  if (is_floating(from.dtype()) || size_of(from.dtype()) < 8) return std::nullopt;
  return dispatch_real(from.dtype(), [&]<class T>() -> std::optional<uint64_t> {
    if constexpr (!std::is_integral_v<T>) {
      return std::nullopt;
    } else {
      std::mutex lock;
      T low = *from.data<T>(0), high = low;
      parallel_for(from.count(), from.grain(1 << 15), [&](int64_t begin, int64_t end) {
        T least = *from.data<T>(begin), most = least;
        for (int64_t r = begin; r < end; ++r) {
          const T* p = from.data<T>(r);
          for (int64_t i = 0; i < from.length(); ++i) {
            const T v = p[i * from.stride()];
            least = std::min(least, v);
            most = std::max(most, v);
          }
        }
        const std::lock_guard hold(lock);
        low = std::min(low, least);
        high = std::max(high, most);
      });
      const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
      return range <= UINT32_MAX ? std::optional(static_cast<uint64_t>(low)) : std::nullopt;
    }
  });
}

// f.operator()<entry>(base of keys)
template <class F> void with_entry(const Lines& from, F&& f) {
  if (size_of(from.dtype()) < 8) return f.template operator()<Packed>(0);
  const std::optional<uint64_t> base = narrow_base(from);
  if (base) f.template operator()<Packed>(*base);
  else f.template operator()<Pair>(0);
}

void check_length(int64_t n, const char* op) {
  STRATA_CHECK(n <= UINT32_MAX, Runtime, "{}: a dimension of {} elements is too long; at most {} are supported", op, n,
               UINT32_MAX);
}

template <class E> E* sort_entries(E* entries, E* other, int64_t n) {
  if (n > kMedium) return radix_sort<11>(entries, other, n);
  if (n > kSmall) return radix_sort<8>(entries, other, n);
  std::sort(entries, entries + n);
  return entries;
}

// Values are read from the row itself: a key has lost the sign of zero and the payload of NaN.
template <class E>
void put_row(const Lines& from, int64_t row, const E* sorted, int64_t begin, int64_t end, const Lines* values,
             const Lines* indices) {
  if (indices) {
    int64_t* out = indices->data<int64_t>(row);
    const int64_t s = indices->stride();
    for (int64_t i = begin; i < end; ++i) out[i * s] = sorted[i].place();
  }
  if (!values) return;
  dispatch_size(from.dtype(), [&]<class T>() {
    const T* in = from.data<T>(row);
    T* out = values->data<T>(row);
    const int64_t si = from.stride(), so = values->stride();
    for (int64_t i = begin; i < end; ++i) out[i * so] = in[sorted[i].place() * si];
  });
}

// Where to split two sorted runs so that the parts before the splits are the first k of the whole.
template <class E> int64_t merge_cut(const E* a, int64_t na, const E* b, int64_t nb, int64_t k) {
  int64_t low = std::max<int64_t>(0, k - nb), high = std::min(k, na);
  while (low < high) {
    const int64_t mid = (low + high) / 2;
    if (a[mid] < b[k - mid - 1]) low = mid + 1;
    else high = mid;
  }
  return low;
}

template <class E>
void sort_long_row(const Lines& from, int64_t row, bool descending, uint64_t base, const Lines* values,
                   const Lines* indices) {
  const int64_t n = from.length();
  std::vector<E> store_a(static_cast<size_t>(n)), store_b(static_cast<size_t>(n));
  E *a = store_a.data(), *b = store_b.data();
  const auto element = static_cast<int64_t>(size_of(from.dtype()));
  const int64_t parts = std::clamp<int64_t>(num_threads(), 1, n / kSmall), part = (n + parts - 1) / parts;
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t at = p * part, m = std::min(part, n - at);
      if (m <= 0) continue;
      make_entries<E>(from.dtype(), from.at(row) + at * from.stride() * element, from.stride(), m, at, descending, base,
                      a + at);
      const E* sorted = sort_entries(a + at, b + at, m);
      if (sorted != a + at) std::copy_n(sorted, m, a + at);
    }
  });
  for (int64_t width = part; width < n; width *= 2, std::swap(a, b)) {
    const int64_t pieces = 4 * num_threads(), pairs = (n + 2 * width - 1) / (2 * width);
    parallel_for(pairs * pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i / pieces * 2 * width, na = std::min(width, n - at), nb = std::min(width, n - at - na);
        const int64_t all = na + nb, from_k = i % pieces * all / pieces, to_k = (i % pieces + 1) * all / pieces;
        const E *x = a + at, *y = a + at + na;
        const int64_t x0 = merge_cut(x, na, y, nb, from_k), x1 = merge_cut(x, na, y, nb, to_k);
        std::merge(x + x0, x + x1, y + (from_k - x0), y + (to_k - x1), b + at + from_k);
      }
    });
  }
  parallel_for(n, 1 << 14, [&](int64_t begin, int64_t end) { put_row(from, row, a, begin, end, values, indices); });
}

// body(row, entries in order of index, a scratch array of twice the length) for all rows.
template <class E, class Body> void for_rows(const Lines& from, bool descending, uint64_t base, const Body& body) {
  parallel_for(from.count(), from.grain(1 << 13), [&](int64_t begin, int64_t end) {
    std::vector<E> entries(static_cast<size_t>(from.length())), other(2 * static_cast<size_t>(from.length()));
    for (int64_t r = begin; r < end; ++r) {
      make_entries<E>(from.dtype(), from.at(r), from.stride(), from.length(), 0, descending, base, entries.data());
      body(r, entries.data(), other.data());
    }
  });
}

constexpr int64_t kFewBest = 64;

// Puts an entry in its place among k sorted ones, of which the last is dropped.
template <class E> void insert_last(E* sorted, int64_t k, E e) {
  int64_t j = k - 1;
  for (; j > 0 && e < sorted[j - 1]; --j) sorted[j] = sorted[j - 1];
  sorted[j] = e;
}
// The k best of rows of floats of up to 32 bits: SIMD skips all that are not better than the last of the best so far.
void few_best(const Lines& from, int64_t k, bool largest, const Lines& values, const Lines& indices) {
  const int64_t n = from.length();
  const uint32_t flip = largest ? ~uint32_t{0} : 0;
  parallel_for(from.count(), from.grain(), [&](int64_t begin, int64_t end) {
    Packed best[kFewBest];
    std::vector<float> converted(from.dtype() == DType::F32 ? 0 : static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      const float* x = from.read<float>(r, converted.data());
      make_words(x, k, 0, flip, &best->word);
      std::sort(best, best + k);
      for (int64_t i = next_below(x, k, n, flip, best[k - 1].key()); i < n;
           i = next_below(x, i + 1, n, flip, best[k - 1].key()))
        insert_last(best, k, Packed::make(key_of<uint32_t>(x[i]) ^ flip, i));
      put_row(from, r, best, 0, k, &values, &indices);
    }
  });
}

void few_best_integers(const Lines& from, int64_t k, bool largest, const Lines& values, const Lines& indices) {
  const int64_t n = from.length();
  const uint64_t flip = largest ? ~uint64_t{0} : 0;
  parallel_for(from.count(), from.grain(), [&](int64_t begin, int64_t end) {
    Pair best[kFewBest];
    for (int64_t r = begin; r < end; ++r) {
      const auto* x = from.data<int64_t>(r);
      make_entries<Pair>(DType::I64, from.at(r), 1, k, 0, largest, 0, best);
      std::sort(best, best + k);
      const auto next = [&](int64_t i) { return next_beyond(x, i, n, largest, x[best[k - 1].place()]); };
      for (int64_t i = next(k); i < n; i = next(i + 1))
        insert_last(best, k, Pair::make(key_of<uint64_t>(x[i]) ^ flip, i));
      put_row(from, r, best, 0, k, &values, &indices);
    }
  });
}

// Number of non-NaN entries, sorted or not.
template <class E> int64_t count_numbers(const E* entries, int64_t n, DType t) {
  if (!is_floating(t)) return n;
  using Key = typename E::Key;
  constexpr Key kNan = ~Key(0);
  if constexpr (std::is_same_v<E, Packed>) return count_below(&entries->word, n, static_cast<uint64_t>(kNan) << 32);
  return std::count_if(entries, entries + n, [](const E& e) { return e.key() != kNan; });
}

// The last entry of the most frequent key, the smallest if there are several, by counting; null if the keys are far apart.
template <class E> const E* most_frequent(const E* entries, E* other, int64_t n) {
  using Key = typename E::Key;
  Key low = entries[0].key(), high = low;
  for (int64_t i = 1; i < n; ++i) {
    low = std::min(low, entries[i].key());
    high = std::max(high, entries[i].key());
  }
  const Key range = high - low;
  if (range >= static_cast<Key>(n)) return nullptr;
  auto* counts = reinterpret_cast<uint32_t*>(other);
  std::fill_n(counts, static_cast<int64_t>(range) + 1, 0U);
  for (int64_t i = 0; i < n; ++i) ++counts[entries[i].key() - low];
  const Key best = low + static_cast<Key>(std::max_element(counts, counts + range + 1) - counts);
  for (int64_t i = n; i-- > 0;)
    if (entries[i].key() == best) return entries + i;
  return nullptr;
}

template <class E> E pick_one(Pick what, E* entries, E* other, int64_t n, int64_t k, DType dtype) {
  if (what == Pick::Median || what == Pick::NanMedian) {
    const int64_t numbers = count_numbers(entries, n, dtype);
    if (what == Pick::Median && numbers < n)
      return *std::min_element(entries, entries + n, [](const E& a, const E& b) {
        return a.key() > b.key() || (a.key() == b.key() && a < b);
      });
    k = std::max<int64_t>(0, (numbers - 1) / 2);
  }
  if (what != Pick::Mode) {
    if constexpr (std::is_same_v<E, Packed>) {
      static_assert(sizeof(Packed) == sizeof(uint64_t));
      return {select_word(&entries->word, &other->word, n, k)};
    }
    std::nth_element(entries, entries + k, entries + n);
    return entries[k];
  }
  if (const E* most = most_frequent(entries, other, n)) return *most;
  const E* sorted = sort_entries(entries, other, n);
  int64_t best = 0, longest = 0;
  for (int64_t i = 0, begin = 0; i < n; ++i) {
    if (sorted[i].key() != sorted[begin].key()) begin = i;
    if (i - begin + 1 > longest) {
      longest = i - begin + 1;
      best = i;
    }
  }
  return sorted[best];
}
}  // namespace

void sort(const TensorImpl& x, int dim, bool descending, const TensorImpl* values, const TensorImpl* indices) {
  if (x.numel == 0) return;
  int at_end = dim;
  const Tensor moved = with_adjacent_lines(x, at_end);
  const Lines from(moved ? *moved : x, at_end);
  check_length(from.length(), "sort");
  std::optional<Lines> to, at;
  if (values) to.emplace(*values, dim);
  if (indices) at.emplace(*indices, dim);
  const Lines *v = to ? &*to : nullptr, *i = at ? &*at : nullptr;
  with_entry(from, [&]<class E>(uint64_t base) {
    if (from.length() >= kLong && from.count() < 2 * num_threads()) {
      for (int64_t r = 0; r < from.count(); ++r) sort_long_row<E>(from, r, descending, base, v, i);
      return;
    }
    for_rows<E>(from, descending, base, [&](int64_t r, E* entries, E* other) {
      put_row(from, r, sort_entries(entries, other, from.length()), 0, from.length(), v, i);
    });
  });
}

void topk(const TensorImpl& x, int64_t k, int dim, bool largest, const TensorImpl& values, const TensorImpl& indices) {
  if (k == 0 || values.numel == 0) return;
  int at_end = dim;
  const Tensor moved = with_adjacent_lines(x, at_end);
  const Lines from(moved ? *moved : x, at_end), to(values, dim), at(indices, dim);
  check_length(from.length(), "topk");
  const int64_t n = from.length();
  if (k <= kFewBest && k < n && is_floating(x.dtype) && size_of(x.dtype) <= 4 && from.stride() == 1)
    return few_best(from, k, largest, to, at);
  if (k <= kFewBest && k < n && x.dtype == DType::I64 && from.stride() == 1)
    return few_best_integers(from, k, largest, to, at);
  with_entry(from, [&]<class E>(uint64_t base) {
    for_rows<E>(from, largest, base, [&](int64_t r, E* entries, E* other) {
      if (k <= kFewBest && k < n) {  // few of the others pass the last of the best so far
        std::copy_n(entries, k, other);
        std::sort(other, other + k);
        for (int64_t i = k; i < n; ++i)
          if (entries[i] < other[k - 1]) insert_last(other, k, entries[i]);
        return put_row(from, r, other, 0, k, &to, &at);
      }
      if (k < n) {  // the k best in their original order, which sorting by digits keeps for equal keys
        std::copy_n(entries, n, other + n);
        std::nth_element(entries, entries + k - 1, entries + n);
        const E last = entries[k - 1];
        std::copy_if(other + n, other + 2 * n, entries, [last](const E& e) { return !(last < e); });
      }
      put_row(from, r, sort_entries(entries, other, k), 0, k, &to, &at);
    });
  });
}

void pick(Pick what, const TensorImpl& x, int64_t k, int dim, const TensorImpl& values, const TensorImpl& indices) {
  if (x.numel == 0) return;
  int at_end = dim;
  const Tensor moved = with_adjacent_lines(x, at_end);
  const Lines from(moved ? *moved : x, at_end);
  check_length(from.length(), "select");
  with_entry(from, [&]<class E>(uint64_t base) {
    for_rows<E>(from, false, base, [&](int64_t r, E* entries, E* other) {
      const int64_t place = pick_one(what, entries, other, from.length(), k, x.dtype).place();
      reinterpret_cast<int64_t*>(indices.data)[r] = place;
      dispatch_size(x.dtype,
                    [&]<class T>() { reinterpret_cast<T*>(values.data)[r] = from.data<T>(r)[place * from.stride()]; });
    });
  });
}

}  // namespace strata::cpu
