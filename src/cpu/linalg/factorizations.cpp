#include "cpu/linalg/factorizations.h"

#include <algorithm>

namespace strata::cpu {
namespace {
struct Both {
  Dense<float> single;
  Dense<double> twice;
  Both() {
    detail::fill_factors(single, twice);
    detail::fill_reflectors(single, twice);
    detail::fill_spectral(single, twice);
    single.eigen_general = detail::eigen_by_qr_in_double;
    twice.eigen_general = detail::eigen_by_qr<double>;
  }
};
const Both& both() {
  static const Both tables;
  return tables;
}
}  // namespace

template <> const Dense<float>& dense_fast<float>() { return both().single; }
template <> const Dense<double>& dense_fast<double>() { return both().twice; }

template <class T> void apply_pivots(T* b, int64_t n, int64_t r, const int32_t* pivots, int64_t count, bool back) {
  for (int64_t k = 0; k < count; ++k) {
    const int64_t i = back ? count - 1 - k : k, j = pivots[i] - 1;
    if (j != i && j >= 0 && j < n) std::swap_ranges(b + i * r, b + i * r + r, b + j * r);
  }
}
template void apply_pivots(float*, int64_t, int64_t, const int32_t*, int64_t, bool);
template void apply_pivots(double*, int64_t, int64_t, const int32_t*, int64_t, bool);
template void apply_pivots(std::complex<float>*, int64_t, int64_t, const int32_t*, int64_t, bool);
template void apply_pivots(std::complex<double>*, int64_t, int64_t, const int32_t*, int64_t, bool);

}  // namespace strata::cpu
