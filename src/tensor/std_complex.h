// std::complex as an element type: t.data<std::complex<float>>(), and conversions from and to Complex. Separate, because
// <complex> is slow to compile and few files need it.
#pragma once
#include <complex>

#include "tensor/dtype.h"
#include "tensor/values.h"

namespace strata {

template <> struct DTypeOf<std::complex<float>> { static constexpr DType value = DType::C64; };
template <> struct DTypeOf<std::complex<double>> { static constexpr DType value = DType::C128; };

inline Scalar scalar_of(std::complex<double> z) { return Complex<double>{z.real(), z.imag()}; }
inline std::complex<double> std_complex(const Scalar& s) {
  const Complex<double> z = s.to_complex();
  return {z.re, z.im};
}

}  // namespace strata
