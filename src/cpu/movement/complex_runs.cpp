// Runs of elements from and to complex numbers; see runs.h.
#include "cpu/movement/convert.h"
#include "cpu/movement/runs.h"

namespace strata::cpu {

template <> void load_run(Complex<float>* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  convert_row(DType::C64, type)(reinterpret_cast<std::byte*>(dst), 1, src, stride, n);
}
template <> void load_run(Complex<double>* dst, const std::byte* src, DType type, int64_t stride, int64_t n) {
  convert_row(DType::C128, type)(reinterpret_cast<std::byte*>(dst), 1, src, stride, n);
}
template <> void store_run(const Complex<float>* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  convert_row(type, DType::C64)(dst, stride, reinterpret_cast<const std::byte*>(src), 1, n);
}
template <> void store_run(const Complex<double>* src, std::byte* dst, DType type, int64_t stride, int64_t n) {
  convert_row(type, DType::C128)(dst, stride, reinterpret_cast<const std::byte*>(src), 1, n);
}

}  // namespace strata::cpu
