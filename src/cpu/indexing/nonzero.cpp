// Positions of nonzero elements, and elements under a mask, in order: counted per chunk, then written at the offsets given by the counts.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "cpu/indexing/indexing.h"
#include "cpu/movement/copy.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

constexpr int64_t kChunk = 1 << 15;  // elements

template <class T> bool is_nonzero(T v) { return convert<bool>(v); }

// Calls f(offset, step, n, index) for the rows of the elements [begin, end) in row-major order: n elements that are `step`
// apart in memory, from the index (of all dimensions) on. A contiguous tensor is one row; its index is not computed, unless
// `indices` are wanted.
template <class F> void each_row(const TensorImpl& t, int64_t begin, int64_t end, bool indices, const F& f) {
  if (begin >= end) return;
  int64_t index[kMaxDims] = {}, at = 0, rest = begin;
  if (t.ndim == 0 || (t.contiguous && (!indices || t.ndim == 1))) {
    index[0] = begin;
    return f(begin, int64_t{1}, end - begin, index);
  }
  const int last = t.ndim - 1;
  for (int d = t.ndim; d-- > 0; rest /= t.shape[d]) {
    index[d] = rest % t.shape[d];
    at += index[d] * t.strides[d];
  }
  for (int64_t i = begin, n; i < end; i += n) {
    n = std::min(end - i, t.shape[last] - index[last]);
    f(at, t.strides[last], n, index);
    at -= index[last] * t.strides[last];
    index[last] = 0;
    for (int d = last; d-- > 0;) {
      at += t.strides[d];
      if (++index[d] < t.shape[d]) break;
      at -= t.strides[d] * t.shape[d];
      index[d] = 0;
    }
  }
}

// Eight bytes at a time: a byte that is not 0 sets its highest bit, and a product adds the bits.
int64_t count_bytes(const BoolByte* p, int64_t n) {
  constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7f, kOnes = 0x0101010101010101;
  int64_t count = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    std::memcpy(&word, p + i, 8);
    count += static_cast<int64_t>((((((word & kLow) + kLow) | word) >> 7 & kOnes) * kOnes) >> 56);
  }
  for (; i < n; ++i) count += is_nonzero(p[i]);
  return count;
}
template <class T> int64_t count_run(const T* p, int64_t step, int64_t n) {
  if constexpr (std::is_same_v<T, BoolByte>)
    if (step == 1) return count_bytes(p, n);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += is_nonzero(p[i * step]);
  return count;
}

std::vector<int64_t> count_chunks(const TensorImpl& t) {
  const int64_t chunks = (t.numel + kChunk - 1) / kChunk;
  std::vector<int64_t> counts(static_cast<size_t>(chunks));
  dispatch_dtype(t.dtype, [&]<class T> {
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        int64_t count = 0;
        each_row(t, c * kChunk, std::min(t.numel, (c + 1) * kChunk), false,
                 [&](int64_t at, int64_t step, int64_t n, const int64_t*) {
                   count += count_run(reinterpret_cast<const T*>(t.data) + at, step, n);
                 });
        counts[static_cast<size_t>(c)] = count;
      }
    });
  });
  return counts;
}

// The offset of each chunk's results, and their number. The caller may have made room for `expected` of them.
std::vector<int64_t> chunk_offsets(const TensorImpl& t, std::optional<int64_t> expected, const char* op) {
  std::vector<int64_t> starts = count_chunks(t);
  int64_t total = 0;
  for (int64_t& c : starts) total += std::exchange(c, total);
  STRATA_CHECK(!expected || total == *expected, Runtime, "{}: the input changed while it was read", op);
  starts.push_back(total);
  return starts;
}
}  // namespace

int64_t count_nonzero(const TensorImpl& t) {
  int64_t n = 0;
  for (int64_t c : count_chunks(t)) n += c;
  return n;
}

namespace {
// Writes the index of each non-zero element of a row to `to`, up to `end`. Without a branch on the
// element: each index is written, and the next one overwrites it unless the element is not zero.
template <class T>
int64_t* put_indices(const T* p, int64_t step, int64_t n, const int64_t* index, int ndim, int64_t* to, int64_t* end) {
  const int64_t first = index[std::max(ndim, 1) - 1];
  if (ndim == 1) {
    for (int64_t i = 0; i < n && to < end; ++i) {
      *to = first + i;
      to += is_nonzero(p[i * step]);
    }
  } else if (ndim == 2) {
    for (int64_t i = 0; i < n && to < end; ++i) {
      to[0] = index[0];
      to[1] = first + i;
      to += 2 * is_nonzero(p[i * step]);
    }
  } else {
    for (int64_t i = 0; i < n && to < end; ++i) {
      std::copy_n(index, ndim - 1, to);
      to[ndim - 1] = first + i;
      to += ndim * is_nonzero(p[i * step]);
    }
  }
  return to;
}
}  // namespace

void nonzero(const TensorImpl& out, const TensorImpl& t) {
  const std::vector<int64_t> starts = chunk_offsets(t, out.shape[0], "nonzero");
  if (t.ndim == 0) return;
  auto* indices = reinterpret_cast<int64_t*>(out.data);
  dispatch_dtype(t.dtype, [&]<class T> {
    parallel_for(static_cast<int64_t>(starts.size()) - 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        int64_t *to = indices + starts[static_cast<size_t>(c)] * t.ndim,
                *stop = indices + starts[static_cast<size_t>(c) + 1] * t.ndim;
        each_row(t, c * kChunk, std::min(t.numel, (c + 1) * kChunk), true,
                 [&](int64_t at, int64_t step, int64_t n, const int64_t* index) {
                   to = put_indices(reinterpret_cast<const T*>(t.data) + at, step, n, index, t.ndim, to, stop);
                 });
      }
    });
  });
}

void masked_select(const TensorImpl& out, const TensorImpl& x, const TensorImpl& mask) {
  const Tensor source = staged(x, x.dtype), set = staged(mask, mask.dtype);
  const std::vector<int64_t> starts = chunk_offsets(*set, out.shape[0], "masked_select");
  const auto* chosen = reinterpret_cast<const unsigned char*>(set->data);
  dispatch_size(x.dtype, [&]<class T> {
    const T* from = reinterpret_cast<const T*>(source->data);
    T* to = reinterpret_cast<T*>(out.data);
    parallel_for(static_cast<int64_t>(starts.size()) - 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const int64_t stop = starts[static_cast<size_t>(c) + 1], last = std::min(x.numel, (c + 1) * kChunk);
        // Without a branch on the mask: each element is written, and the next one overwrites it unless it is chosen.
        for (int64_t i = c * kChunk, n = starts[static_cast<size_t>(c)]; n < stop && i < last; ++i) {
          to[n] = from[i];
          n += chosen[i] != 0;
        }
      }
    });
  });
}

void masked_put(const TensorImpl& out, const TensorImpl& x, const TensorImpl& mask, const TensorImpl& source) {
  const Tensor from = staged(x, x.dtype), set = staged(mask, mask.dtype), values = staged(source, source.dtype);
  const std::vector<int64_t> starts = chunk_offsets(*set, std::nullopt, "masked_scatter");
  STRATA_CHECK(
    source.numel >= starts.back(), Runtime,
    "masked_scatter: expected the number of elements in source ({}) to be at least the number of ones in mask "
    "({})",
    source.numel, starts.back());
  if (starts.back() == 0) return copy(out, x);
  const auto* chosen = reinterpret_cast<const unsigned char*>(set->data);
  const int64_t last = source.numel - 1;
  dispatch_size(x.dtype, [&]<class T> {
    const T *kept = reinterpret_cast<const T*>(from->data), *given = reinterpret_cast<const T*>(values->data);
    T* to = reinterpret_cast<T*>(out.data);
    parallel_for(static_cast<int64_t>(starts.size()) - 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const int64_t stop = std::min(x.numel, (c + 1) * kChunk);
        // Both candidates are read, so that there is no branch on the mask; the last read may be one too far.
        for (int64_t i = c * kChunk, n = starts[static_cast<size_t>(c)]; i < stop; ++i) {
          const T *here = kept + i, *next = given + std::min(n, last);
          to[i] = *(chosen[i] ? next : here);
          n += chosen[i] != 0;
        }
      }
    });
  });
}

}  // namespace strata::cpu
