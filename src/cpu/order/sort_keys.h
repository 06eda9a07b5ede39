// Elements as unsigned keys in sort order, and the radix sort of keys with indices.
#pragma once
#include <bit>
#include <cstring>
#include <utility>

#include "cpu/order/select.h"
#include "tensor/dtype.h"

namespace strata::cpu {

// A key and its original index. Up to 32 bits of key are packed with a 32-bit index into one word.
struct Packed {
  using Key = uint32_t;
  uint64_t word;
  static Packed make(Key key, int64_t place) {
    return {static_cast<uint64_t>(key) << 32 | static_cast<uint32_t>(place)};
  }
  Key key() const { return static_cast<Key>(word >> 32); }
  int64_t place() const { return static_cast<uint32_t>(word); }
  bool operator<(const Packed& o) const { return word < o.word; }
};
struct Pair {
  using Key = uint64_t;
  uint64_t first;
  int64_t second;
  static Pair make(Key key, int64_t place) { return {key, place}; }
  Key key() const { return first; }
  int64_t place() const { return second; }
  bool operator<(const Pair& o) const { return first < o.first || (first == o.first && second < o.second); }
};

// All NaN have one key, the largest; -0 and 0 have one key.
template <class Key, class T> inline Key key_of(T v) {
  if constexpr (std::is_same_v<T, BoolByte> || std::is_unsigned_v<T>) {
    return static_cast<Key>(v);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<Key>(v) ^ Key(1) << (sizeof(Key) * 8 - 1);
  } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>) {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    constexpr int kTop = sizeof(Bits) * 8 - 1;
    const Bits bits = std::bit_cast<Bits>(v);
    const Bits key = bits ^ ((Bits(0) - (bits >> kTop)) | Bits(1) << kTop);
    return v != v ? static_cast<Key>(~Bits(0)) : static_cast<Key>(v == 0 ? Bits(1) << kTop : key);
  } else {
    return key_of<Key>(static_cast<float>(v));
  }
}

// `base`: subtracted from 64-bit integers whose range fits a 32-bit key.
template <class E>
void make_entries(DType type, const std::byte* x, int64_t stride, int64_t n, int64_t first_place, bool descending,
                  uint64_t base, E* out) {
  using Key = typename E::Key;
  const Key flip = descending ? ~Key(0) : 0;
  if constexpr (std::is_same_v<E, Packed>)
    if (type == DType::F32 && stride == 1)
      return make_words(reinterpret_cast<const float*>(x), n, static_cast<uint32_t>(first_place), flip,
                        reinterpret_cast<uint64_t*>(out));
  dispatch_real(type, [&]<class T>() {
    const T* p = reinterpret_cast<const T*>(x);
    if constexpr (sizeof(T) <= sizeof(Key))
      for (int64_t i = 0; i < n; ++i) out[i] = E::make(key_of<Key>(p[i * stride]) ^ flip, first_place + i);
    else if constexpr (std::is_integral_v<T>)
      for (int64_t i = 0; i < n; ++i)
        out[i] = E::make(static_cast<Key>(static_cast<uint64_t>(p[i * stride]) - base) ^ flip, first_place + i);
  });
}

// Sorts entries by key, least significant digit first; entries of equal keys keep their order. `other` has the same
// length. Returns the array that holds the result. kDigit: the bits of a digit; few for few elements, because of the counters. Digits that are equal in all keys are skipped.
template <int kDigit, class E> E* radix_sort(E* entries, E* other, int64_t n) {
  constexpr int kBuckets = 1 << kDigit, kPasses = (sizeof(typename E::Key) * 8 + kDigit - 1) / kDigit;
  uint32_t counts[kPasses][kBuckets];
  std::memset(counts, 0, sizeof counts);
  for (int64_t i = 0; i < n; ++i) {
    const auto key = entries[i].key();
    for (int p = 0; p < kPasses; ++p) ++counts[p][key >> (kDigit * p) & (kBuckets - 1)];
  }
  for (int p = 0; p < kPasses; ++p) {
    uint32_t* at = counts[p];
    const int shift = kDigit * p;
    if (at[entries[0].key() >> shift & (kBuckets - 1)] == n) continue;
    uint32_t sum = 0;
    for (int b = 0; b < kBuckets; ++b) sum += std::exchange(at[b], sum);
    for (int64_t i = 0; i < n; ++i) {
      const E e = entries[i];
      other[at[e.key() >> shift & (kBuckets - 1)]++] = e;
    }
    std::swap(entries, other);
  }
  return entries;
}

}  // namespace strata::cpu
