// Quickselect by compressing stores: each pass reads the words once and keeps those on the side of the pivot where the element
// is. Bound by the L1 or L2 cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/order/select_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "cpu/order/select.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
uint64_t middle_of(uint64_t a, uint64_t b, uint64_t c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }

#endif

uint64_t SelectWord(uint64_t* words, [[maybe_unused]] uint64_t* other, int64_t n, int64_t k) {
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kFew = 24;
  constexpr int kMostPasses = 64;  // of which a sequence of bad pivots leaves the rest to the library
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  uint64_t *from = words, *low = other, *high = other + n;
  for (int pass = 0; n > kFew && pass < kMostPasses; ++pass) {
    const uint64_t pivot =
      middle_of(middle_of(from[0], from[n / 8], from[n / 4]), middle_of(from[3 * n / 8], from[n / 2], from[5 * n / 8]),
                middle_of(from[3 * n / 4], from[7 * n / 8], from[n - 1]));
    const auto p = hn::Set(d, pivot);
    int64_t below = 0, above = 0, i = 0;
    // A compressing store may write a whole vector: it stays inside of its array as long as whole vectors remain.
    for (; i + lanes <= n; i += lanes) {
      const auto v = hn::LoadU(d, from + i);
      const auto less = hn::Lt(v, p);
      below += static_cast<int64_t>(hn::CompressStore(v, less, d, low + below));
      above += static_cast<int64_t>(hn::CompressStore(v, hn::Not(less), d, high + above));
    }
    for (; i < n; ++i) {
      if (from[i] < pivot) low[below++] = from[i];
      else high[above++] = from[i];
    }
    if (k < below) {
      std::swap(from, low);
      n = below;
    } else {
      std::swap(from, high);
      k -= below;
      n = above;
      if (below == 0) {  // the pivot is the smallest
        if (k == 0) return pivot;
        std::iter_swap(from, std::find(from, from + n, pivot));
        ++from;
        --n;
        --k;
      }
    }
  }
  words = from;
#endif
  std::nth_element(words, words + k, words + n);
  return words[k];
}

// The key of sort_keys.h: all NaN have the largest, -0 and 0 the same.
template <class D, class V> HWY_INLINE auto keys_of(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto zero = hn::Eq(x, hn::Zero(d));
  const auto bits = hn::BitCast(du, hn::IfThenElse(zero, hn::Zero(d), x));
  const auto sign = hn::BitCast(du, hn::BroadcastSignBit(hn::BitCast(di, bits)));
  const auto key = hn::Xor(bits, hn::Or(sign, hn::Set(du, 1u << 31)));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), hn::Set(du, ~0u), key);
}
uint32_t key_of_one(float x) {
  uint32_t bits;
  const float v = x == 0 ? 0.F : x;
  std::copy_n(reinterpret_cast<const char*>(&v), sizeof v, reinterpret_cast<char*>(&bits));
  return v != v ? ~0U : bits ^ ((bits >> 31 ? ~0U : 0U) | 1U << 31);
}
void MakeWords(const float* x, int64_t n, uint32_t first, uint32_t flip, uint64_t* words) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint32_t> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(du, flip);
  for (; i + lanes <= n; i += lanes)
    hn::StoreInterleaved2(hn::Iota(du, first + static_cast<uint32_t>(i)), hn::Xor(keys_of(d, hn::LoadU(d, x + i)), f),
                          du, reinterpret_cast<uint32_t*>(words + i));
#endif
  for (; i < n; ++i)
    words[i] = static_cast<uint64_t>(key_of_one(x[i]) ^ flip) << 32 | (first + static_cast<uint32_t>(i));
}
int64_t CountBelow(const uint64_t* words, int64_t n, uint64_t bound) {
  int64_t i = 0, count = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto b = hn::Set(d, bound);
  for (; i + lanes <= n; i += lanes)
    count += static_cast<int64_t>(hn::CountTrue(d, hn::Lt(hn::LoadU(d, words + i), b)));
#endif
  for (; i < n; ++i) count += words[i] < bound;
  return count;
}
int64_t NextBelow(const float* x, int64_t begin, int64_t n, uint32_t flip, uint32_t bound) {
  int64_t i = begin;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint32_t> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(du, flip), b = hn::Set(du, bound);
  for (; i + lanes <= n; i += lanes) {
    const auto found = hn::Lt(hn::Xor(keys_of(d, hn::LoadU(d, x + i)), f), b);
    if (!hn::AllFalse(du, found)) return i + static_cast<int64_t>(hn::FindKnownFirstTrue(du, found));
  }
#endif
  for (; i < n; ++i)
    if ((key_of_one(x[i]) ^ flip) < bound) return i;
  return n;
}
int64_t NextBeyond(const int64_t* x, int64_t begin, int64_t n, bool greater, int64_t bound) {
  int64_t i = begin;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<int64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto b = hn::Set(d, bound);
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    const auto found = greater ? hn::Gt(v, b) : hn::Lt(v, b);
    if (!hn::AllFalse(d, found)) return i + static_cast<int64_t>(hn::FindKnownFirstTrue(d, found));
  }
#endif
  for (; i < n; ++i)
    if (greater ? x[i] > bound : x[i] < bound) return i;
  return n;
}
}  // namespace
}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(SelectWord);
HWY_EXPORT(MakeWords);
HWY_EXPORT(CountBelow);
HWY_EXPORT(NextBelow);
HWY_EXPORT(NextBeyond);
uint64_t select_word(uint64_t* words, uint64_t* other, int64_t n, int64_t k) {
  return HWY_DYNAMIC_DISPATCH(SelectWord)(words, other, n, k);
}
void make_words(const float* x, int64_t n, uint32_t first, uint32_t flip, uint64_t* words) {
  HWY_DYNAMIC_DISPATCH(MakeWords)(x, n, first, flip, words);
}
int64_t count_below(const uint64_t* words, int64_t n, uint64_t bound) {
  return HWY_DYNAMIC_DISPATCH(CountBelow)(words, n, bound);
}
int64_t next_below(const float* x, int64_t begin, int64_t n, uint32_t flip, uint32_t bound) {
  return HWY_DYNAMIC_DISPATCH(NextBelow)(x, begin, n, flip, bound);
}
int64_t next_beyond(const int64_t* x, int64_t begin, int64_t n, bool greater, int64_t bound) {
  return HWY_DYNAMIC_DISPATCH(NextBeyond)(x, begin, n, greater, bound);
}
}  // namespace strata::cpu
#endif
