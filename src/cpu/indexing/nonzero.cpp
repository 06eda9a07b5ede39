// Positions of nonzero elements, and elements under a mask, in order: counted per chunk, then written at the offsets given by the counts.
#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/indexing/indexing.h"
#include "cpu/movement/copy.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

constexpr int64_t kChunk = 1 << 15;  // elements

template <class T> bool is_nonzero(T v) { return convert<bool>(v); }

// Calls f(position) for the non-zero elements among [begin, end) in row-major order.
template <class T, class F> void each_nonzero(const TensorImpl& t, int64_t begin, int64_t end, const F& f) {
  const T* data = reinterpret_cast<const T*>(t.data);
  if (t.contiguous) {
    for (int64_t i = begin; i < end; ++i)
      if (is_nonzero(data[i])) f(i);
    return;
  }
  int64_t index[kMaxDims], at = 0, rest = begin;
  for (int d = t.ndim; d-- > 0; rest /= t.shape[d]) {
    index[d] = rest % t.shape[d];
    at += index[d] * t.strides[d];
  }
  for (int64_t i = begin; i < end; ++i) {
    if (is_nonzero(data[at])) f(i);
    for (int d = t.ndim; d-- > 0;) {
      at += t.strides[d];
      if (++index[d] < t.shape[d]) break;
      at -= t.strides[d] * t.shape[d];
      index[d] = 0;
    }
  }
}

std::vector<int64_t> count_chunks(const TensorImpl& t) {
  const int64_t chunks = (t.numel + kChunk - 1) / kChunk;
  std::vector<int64_t> counts(static_cast<size_t>(chunks));
  dispatch_dtype(t.dtype, [&]<class T> {
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        int64_t n = 0;
        each_nonzero<T>(t, c * kChunk, std::min(t.numel, (c + 1) * kChunk), [&](int64_t) { ++n; });
        counts[static_cast<size_t>(c)] = n;
      }
    });
  });
  return counts;
}

// The offset of each chunk's results. The caller made room for `expected` of them when it counted before.
std::vector<int64_t> chunk_offsets(const TensorImpl& t, int64_t expected, const char* op) {
  std::vector<int64_t> starts = count_chunks(t);
  int64_t total = 0;
  for (int64_t& c : starts) total += std::exchange(c, total);
  STRATA_CHECK(total == expected, Runtime, "{}: the input changed while it was read", op);
  starts.push_back(total);
  return starts;
}
}  // namespace

int64_t count_nonzero(const TensorImpl& t) {
  int64_t n = 0;
  for (int64_t c : count_chunks(t)) n += c;
  return n;
}

void nonzero(const TensorImpl& out, const TensorImpl& t) {
  const std::vector<int64_t> starts = chunk_offsets(t, out.shape[0], "nonzero");
  auto* to = reinterpret_cast<int64_t*>(out.data);
  dispatch_dtype(t.dtype, [&]<class T> {
    parallel_for(static_cast<int64_t>(starts.size()) - 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        int64_t* row = to + starts[static_cast<size_t>(c)] * t.ndim;
        each_nonzero<T>(t, c * kChunk, std::min(t.numel, (c + 1) * kChunk), [&](int64_t i) {
          for (int d = t.ndim; d-- > 0; i /= t.shape[d]) row[d] = i % t.shape[d];
          row += t.ndim;
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

}  // namespace strata::cpu
