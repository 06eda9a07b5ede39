// Loops of selection, compiled for each SIMD target.
#pragma once
#include <cstdint>

namespace strata::cpu {

// The element of rank k of n different words, which are overwritten. `other` has room for 2 n words.
uint64_t select_word(uint64_t* words, uint64_t* other, int64_t n, int64_t k);
// words[i] = (key(x[i]) ^ flip) << 32 | first + i, the entries of sort_keys.h.
void make_words(const float* x, int64_t n, uint32_t first, uint32_t flip, uint64_t* words);
int64_t count_below(const uint64_t* words, int64_t n, uint64_t bound);
// The first i >= begin with key(x[i]) ^ flip < bound, or n. Keys are those of sort_keys.h.
int64_t next_below(const float* x, int64_t begin, int64_t n, uint32_t flip, uint32_t bound);

// The first i >= begin with x[i] > bound, or < bound, or n.
int64_t next_beyond(const int64_t* x, int64_t begin, int64_t n, bool greater, int64_t bound);

}  // namespace strata::cpu
