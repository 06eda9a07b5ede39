// The inner loops of reductions, compiled once per SIMD target. A reduction is a map of each element and an associative
// combination; four (rows) or eight (columns) independent chains hide the latency. Bound by memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/reduce/reduce_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "cpu/reduce/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V> HWY_INLINE V flag(D d, hn::Mask<D> m, V) {
  return hn::IfThenElseZero(m, hn::Set(d, hn::TFromD<D>(1)));
}

// Maps. (Ne is an ordered comparison on x86, false for NaN: it is not used here.)
struct Same {
  template <class D, class V> static HWY_INLINE V map(D, V v) { return v; }
  template <class W> static HWY_INLINE W map_one(W v) { return v; }
};
struct Absolute {
  template <class D, class V> static HWY_INLINE V map(D, V v) { return hn::Abs(v); }
  template <class W> static HWY_INLINE W map_one(W v) { return v < 0 ? -v : v; }
};
struct Squared {
  template <class D, class V> static HWY_INLINE V map(D, V v) {
    if constexpr (std::is_integral_v<hn::TFromD<D>>) return v;  // norms of integers are computed as floats
    else return hn::Mul(v, v);
  }
  template <class W> static HWY_INLINE W map_one(W v) { return v * v; }
};
struct Nonzero {
  template <class D, class V> static HWY_INLINE V map(D d, V v) { return flag(d, hn::Not(hn::Eq(v, hn::Zero(d))), v); }
  template <class W> static HWY_INLINE W map_one(W v) { return v != 0; }
};
struct NanToZero {
  template <class D, class V> static HWY_INLINE V map(D, V v) {
    if constexpr (std::is_integral_v<hn::TFromD<D>>) return v;
    else return hn::IfThenElseZero(hn::Eq(v, v), v);
  }
  template <class W> static HWY_INLINE W map_one(W v) { return v == v ? v : 0; }
};

// Combinations.
struct Plus {
  template <class W> static constexpr W identity() { return 0; }
  template <class V> static HWY_INLINE V both(V a, V b) { return hn::Add(a, b); }
  template <class W> static HWY_INLINE W one(W a, W b) {
    if constexpr (std::is_integral_v<W>) return static_cast<W>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else return a + b;
  }
};
struct Times {
  template <class W> static constexpr W identity() { return 1; }
  template <class V> static HWY_INLINE V both(V a, V b) { return hn::Mul(a, b); }
  template <class W> static HWY_INLINE W one(W a, W b) {
    if constexpr (std::is_integral_v<W>) return static_cast<W>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else return a * b;
  }
};
template <class V> using Lane = hn::TFromV<V>;
struct Larger {  // propagates NaN
  template <class W> static constexpr W identity() {
    return std::is_integral_v<W> ? std::numeric_limits<W>::min() : -std::numeric_limits<W>::infinity();
  }
  template <class V> static HWY_INLINE V both(V a, V b) {
    if constexpr (std::is_integral_v<Lane<V>>) return hn::Max(a, b);
    else return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
  template <class W> static HWY_INLINE W one(W a, W b) { return b > a || b != b ? b : a; }
};
struct Smaller {
  template <class W> static constexpr W identity() {
    return std::is_integral_v<W> ? std::numeric_limits<W>::max() : std::numeric_limits<W>::infinity();
  }
  template <class V> static HWY_INLINE V both(V a, V b) {
    if constexpr (std::is_integral_v<Lane<V>>) return hn::Min(a, b);
    else return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
  template <class W> static HWY_INLINE W one(W a, W b) { return b < a || b != b ? b : a; }
};

// Halves are combined until 16 bytes are left, then their lanes.
template <class C, class D> HWY_INLINE hn::TFromD<D> fold_lanes(D d, hn::Vec<D> v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(d) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return fold_lanes<C>(half, C::both(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  HWY_ALIGN hn::TFromD<D> parts[hn::MaxLanes(d)];
  hn::Store(v, d, parts);
  for (size_t half = hn::Lanes(d) / 2; half > 0; half /= 2)
    for (size_t k = 0; k < half; ++k) parts[k] = C::one(parts[k], parts[k + half]);
  return parts[0];
}

template <class M, class C, class T> HWY_INLINE T fold_short(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  T total = C::template identity<T>();
  if (n >= lanes) {
    auto a = hn::Set(d, C::template identity<T>());
    if (n >= 4 * lanes) {
      auto b = a, c = a, e = a;
      for (; i + 4 * lanes <= n; i += 4 * lanes) {
        a = C::both(a, M::map(d, hn::LoadU(d, x + i)));
        b = C::both(b, M::map(d, hn::LoadU(d, x + i + lanes)));
        c = C::both(c, M::map(d, hn::LoadU(d, x + i + 2 * lanes)));
        e = C::both(e, M::map(d, hn::LoadU(d, x + i + 3 * lanes)));
      }
      a = C::both(C::both(a, b), C::both(c, e));
    }
    for (; i + lanes <= n; i += lanes) a = C::both(a, M::map(d, hn::LoadU(d, x + i)));
    if (i < n) {
      const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
      const auto b = C::both(a, M::map(d, hn::MaskedLoad(rest, d, x + i)));
      a = hn::IfThenElse(rest, b, a);
      i = n;
    }
    total = fold_lanes<C>(d, a);
  }
  for (; i < n; ++i) total = C::one(total, static_cast<T>(M::map_one(x[i])));
  return total;
}

template <class M, class C, class T> Wide<T> run(const T* x, int64_t n) {
  if (n <= kRun) return fold_short<M, C>(x, n);
  Wide<T> total = C::template identity<Wide<T>>();
  for (int64_t i = 0; i < n; i += kRun)
    total = C::one(total, static_cast<Wide<T>>(fold_short<M, C>(x + i, HWY_MIN(kRun, n - i))));
  return total;
}

// Every map keeps 0 and 1, so that the number of ones decides.
int64_t count_true(const BoolByte* x, int64_t n) {
  int64_t total = 0, i = 0;
  while (i < n) {
    const int64_t end = HWY_MIN(n, i + 64 * 255);  // as long as bytes hold the counts of 64 columns
    uint8_t columns[64] = {};
    for (; i + 64 <= end; i += 64)
      for (int k = 0; k < 64; ++k) columns[k] = static_cast<uint8_t>(columns[k] + (x[i + k].byte != 0));
    for (; i < end; ++i) total += x[i].byte != 0;
    for (uint8_t c : columns) total += c;
  }
  return total;
}
template <class M, class C, class T> Wide<T> bools(const BoolByte* x, int64_t n) {
  const int64_t ones = count_true(x, n);
  if constexpr (std::is_same_v<C, Plus>) return static_cast<Wide<T>>(ones);
  else if constexpr (std::is_same_v<C, Larger>) return static_cast<Wide<T>>(ones > 0);
  else return static_cast<Wide<T>>(ones == n);  // product and minimum
}

template <class M, class C, class T> void columns(const T* const* rows, int count, int64_t n, T* acc) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto eight = [&](auto total, auto&& load) HWY_ATTR {
    const auto get = [&](int r) HWY_ATTR { return M::map(d, load(rows[r])); };
    const auto low = C::both(C::both(get(0), get(1)), C::both(get(2), get(3)));
    const auto high = C::both(C::both(get(4), get(5)), C::both(get(6), get(7)));
    return C::both(total, C::both(low, high));
  };
  const auto few = [&](auto total, auto&& load) HWY_ATTR {
    for (int r = 0; r < count; ++r) total = C::both(total, M::map(d, load(rows[r])));
    return total;
  };
  const auto all = [&](auto&& fold) HWY_ATTR {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
      hn::StoreU(fold(hn::LoadU(d, acc + i), [&](const T* r) HWY_ATTR { return hn::LoadU(d, r + i); }), d, acc + i);
    if (i == n) return;
    const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
    const auto load = [&](const T* r) HWY_ATTR { return hn::MaskedLoad(rest, d, r + i); };
    hn::BlendedStore(fold(load(acc), load), rest, d, acc + i);
  };
  if (count == kRowsAtOnce) all(eight);
  else all(few);
}

template <class C, class T> void widen(const T* HWY_RESTRICT acc, int64_t n, Wide<T>* HWY_RESTRICT total) {
  for (int64_t i = 0; i < n; ++i) total[i] = C::one(total[i], static_cast<Wide<T>>(acc[i]));
}

template <class T, class M, class C> Wide<T> map_wide(Wide<T> v) { return M::map_one(v); }
template <class T, class M, class C> constexpr FoldTable<T> table() {
  return {C::template identity<Wide<T>>(),
          C::template one<Wide<T>>,
          map_wide<T, M, C>,
          run<M, C, T>,
          bools<M, C, T>,
          columns<M, C, T>,
          widen<C, T>,
          widen<C, Wide<T>>};
}

template <class T> const FoldTable<T>& find(Fold f) {
  static constexpr FoldTable<T> kTables[kFoldCount] = {
    table<T, Same, Plus>(),        table<T, NanToZero, Plus>(), table<T, Nonzero, Plus>(),
    table<T, Absolute, Plus>(),    table<T, Squared, Plus>(),   table<T, Same, Times>(),
    table<T, Same, Larger>(),      table<T, Same, Smaller>(),   table<T, Absolute, Larger>(),
    table<T, Absolute, Smaller>(), table<T, Nonzero, Larger>(), table<T, Nonzero, Smaller>()};
  return kTables[static_cast<int>(f)];
}
const FoldTable<float>& FindFloat(Fold f) { return find<float>(f); }
const FoldTable<double>& FindDouble(Fold f) { return find<double>(f); }
const FoldTable<int64_t>& FindInt(Fold f) { return find<int64_t>(f); }

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(FindFloat);
HWY_EXPORT(FindDouble);
HWY_EXPORT(FindInt);
template <> const FoldTable<float>& fold_table<float>(Fold f) { return HWY_DYNAMIC_DISPATCH(FindFloat)(f); }
template <> const FoldTable<double>& fold_table<double>(Fold f) { return HWY_DYNAMIC_DISPATCH(FindDouble)(f); }
template <> const FoldTable<int64_t>& fold_table<int64_t>(Fold f) { return HWY_DYNAMIC_DISPATCH(FindInt)(f); }
}  // namespace strata::cpu
#endif
