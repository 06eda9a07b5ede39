// Blocks of numbers are computed in the wide type, by loops over 32-bit counters, which the compiler vectorizes, and
// converted to the result's dtype.
#include "cpu/creation/ranges.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "cpu/movement/convert.h"

namespace strata::cpu {
namespace {

constexpr int64_t kGrain = 1 << 14, kBlock = 512;

// Calls f(first, n, to) for blocks of out, with n <= kBlock.
template <class C, class F> void fill_blocks(const TensorImpl& out, const F& f) {
  const ConvertRow convert = convert_row(out.dtype, dtype_of<C>);
  const int64_t step = out.ndim == 1 ? out.strides[0] : 1, size = step * static_cast<int64_t>(size_of(out.dtype));
  const bool direct = out.dtype == dtype_of<C> && step == 1;
  parallel_for(out.numel, kGrain, [&](int64_t begin, int64_t end) {
    C buffer[kBlock];
    for (int64_t from = begin; from < end; from += kBlock) {
      const int n = static_cast<int>(std::min(kBlock, end - from));
      if (direct) {
        f(from, n, reinterpret_cast<C*>(out.data) + from);
      } else {
        f(from, n, buffer);
        convert(out.data + from * size, step, reinterpret_cast<const std::byte*>(buffer), 1, n);
      }
    }
  });
}
}  // namespace

void fill_range(const TensorImpl& out, int64_t start, int64_t step) {
  fill_blocks<int64_t>(out, [=](int64_t first, int n, int64_t* to) {
    const auto by = static_cast<uint64_t>(step),
               from = static_cast<uint64_t>(start) + static_cast<uint64_t>(first) * by;
    for (int i = 0; i < n; ++i) to[i] = static_cast<int64_t>(from + static_cast<uint64_t>(i) * by);
  });
}

void fill_range(const TensorImpl& out, double start, double step) {
  fill_blocks<double>(out, [=](int64_t first, int n, double* to) {
    const double base = static_cast<double>(first);
    for (int i = 0; i < n; ++i) to[i] = start + (base + i) * step;
  });
}

void fill_steps(const TensorImpl& out, const Steps& steps) {
  fill_blocks<double>(out, [&](int64_t first, int n, double* to) {
    const int low = static_cast<int>(std::clamp<int64_t>(steps.n / 2 - first, 0, n));  // of the first half
    const double base = static_cast<double>(first), rest = static_cast<double>(steps.n - 1 - first);
    for (int i = 0; i < low; ++i) to[i] = steps.start + steps.step * (base + i);
    for (int i = low; i < n; ++i) to[i] = steps.end - steps.step * (rest - i);
  });
}

void fill_powers(const TensorImpl& out, double base, const Steps& exponents) {
  fill_blocks<double>(out, [&](int64_t first, int n, double* to) {
    for (int i = 0; i < n; ++i) to[i] = std::pow(base, exponents(first + i));
  });
}

}  // namespace strata::cpu
