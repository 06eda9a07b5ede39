#include "cpu/optim/grad_scale.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <type_traits>

#include "base/parallel.h"
#include "cpu/movement/convert.h"
#include "cpu/movement/copy.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

constexpr int64_t kChunk = 16384;  // elements per task
constexpr int64_t kBlock = 1024;  // elements of a 16-bit tensor that are converted at a time: they stay in the L1 cache

// Whether all elements were finite. Tests the bits, so that compilers vectorize the loop.
template <class T> bool scale(T* p, int64_t n, T factor) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  Bits found = 0;
  for (int64_t i = 0; i < n; ++i) {
    found |= (std::bit_cast<Bits>(p[i]) & kExponent) == kExponent ? 1 : 0;
    p[i] *= factor;
  }
  return found == 0;
}

bool scale_widened(std::byte* p, DType dtype, int64_t n, float factor) {
  alignas(64) float wide[kBlock];
  const ConvertRow widen = convert_row(DType::F32, dtype), narrow = convert_row(dtype, DType::F32);
  bool finite = true;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    std::byte* const part = p + i * static_cast<int64_t>(size_of(dtype));
    widen(reinterpret_cast<std::byte*>(wide), 1, part, 1, count);
    finite &= scale(wide, count, factor);
    narrow(part, 1, reinterpret_cast<const std::byte*>(wide), 1, count);
  }
  return finite;
}

bool scale_dense(const TensorImpl& t, float factor) {
  std::atomic<bool> finite = true;
  parallel_for(t.numel, kChunk, [&](int64_t begin, int64_t end) {
    std::byte* const data = t.data + begin * static_cast<int64_t>(size_of(t.dtype));
    const int64_t n = end - begin;
    const bool good = t.dtype == DType::F32   ? scale(reinterpret_cast<float*>(data), n, factor)
                      : t.dtype == DType::F64 ? scale(reinterpret_cast<double*>(data), n, double{factor})
                                              : scale_widened(data, t.dtype, n, factor);
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

}  // namespace

bool scale_and_check(std::span<const Tensor> tensors, float factor) {
  bool finite = true;
  for (const Tensor& t : tensors) {
    if (t->is_dense()) {
      finite &= scale_dense(*t, factor);
      continue;
    }
    Tensor dense = make_tensor(t.shape(), t.dtype());
    copy(*dense, *t);
    finite &= scale_dense(*dense, factor);
    copy(*t, *dense);
  }
  return finite;
}

}  // namespace strata::cpu
