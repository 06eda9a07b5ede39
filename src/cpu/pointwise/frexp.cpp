#include "cpu/pointwise/frexp.h"

#include <bit>
#include <cmath>

#include "base/parallel.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

template <class T> struct Layout;  // of the bits
template <> struct Layout<float> {
  using Bits = uint32_t;
  static constexpr int kShift = 23, kMask = 0xff, kBias = 126;
};
template <> struct Layout<double> {
  using Bits = uint64_t;
  static constexpr int kShift = 52, kMask = 0x7ff, kBias = 1022;
};

template <class T> void split(const T* x, T* mantissa, int32_t* exponent, int64_t n) {
  using L = Layout<T>;
  using Bits = typename L::Bits;
  for (int64_t i = 0; i < n; ++i) {
    const Bits bits = std::bit_cast<Bits>(x[i]);
    const int stored = static_cast<int>(bits >> L::kShift) & L::kMask;
    if (stored == 0 || stored == L::kMask) {  // zero, subnormal, infinite, NaN
      int found = 0;
      const T m = std::frexp(x[i], &found);
      mantissa[i] = m;
      exponent[i] = std::isfinite(m) ? found : 0;
      continue;
    }
    const Bits kept = bits & ~(static_cast<Bits>(L::kMask) << L::kShift);
    mantissa[i] = std::bit_cast<T>(kept | static_cast<Bits>(L::kBias) << L::kShift);
    exponent[i] = stored - L::kBias;
  }
}
}  // namespace

void frexp(const TensorImpl& x, const Tensor& mantissa, const Tensor& exponent) {
  dispatch_float(x.dtype, [&]<class T>() {
    const In<T> in(x);
    const Out<T> m(mantissa);
    const Out<int32_t> e(exponent);
    parallel_for(x.numel, 1 << 14, [&](int64_t begin, int64_t end) {
      split(in.get() + begin, m.get() + begin, e.get() + begin, end - begin);
    });
    m.finish();
    e.finish();
  });
}

}  // namespace strata::cpu
