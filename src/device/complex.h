// Complex<T>: a number with a real and an imaginary part, in memory like std::complex<T>. T is float or double, or a SIMD
// vector of them. An aggregate without functions, so that device code and vectors can use it; device/functors/complex.h has
// the arithmetic.
#pragma once

namespace strata {

template <class T> struct Complex { T re, im; };

}  // namespace strata
