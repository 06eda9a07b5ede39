// The same total functions for float, double, int64_t and Highway vectors: NaN, infinities, huge arguments, -0 and
// subnormals behave as in the C library, and float results are within 3 units in the last place (tests/device/math_test.cpp).
//
// Included in two modes:
//  - plainly, by host code and by nvcc: scalars only, namespace strata::fn::math;
//  - by cpu/**/*_simd.cpp with STRATA_SIMD_TARGET defined, once per SIMD target: scalars and vectors in the target's
// own
//    namespace. There is no include guard then, on purpose: GCC ties target options to the position of a template.
#if defined(STRATA_SIMD_TARGET)
#if defined(STRATA_MATH_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_MATH_TOGGLE
#undef STRATA_MATH_TOGGLE
#else
#define STRATA_MATH_TOGGLE
#endif
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#undef STRATA_FUNCTOR_NAMESPACE
#undef STRATA_FN
#define STRATA_FUNCTOR_NAMESPACE HWY_NAMESPACE
#define STRATA_FN HWY_INLINE
#include <math.h>  // NOLINT(modernize-deprecated-headers): the global names have float overloads, on the host and on the device
HWY_BEFORE_NAMESPACE();
#include "device/math_scalar.inl"
#if HWY_TARGET != HWY_SCALAR  // one-lane "vectors" would only be slower than plain numbers
#include "device/math_simd.inl"
#endif
HWY_AFTER_NAMESPACE();
#endif

#elif !defined(STRATA_MATH_SCALAR)
#define STRATA_MATH_SCALAR
#define STRATA_FUNCTOR_NAMESPACE fn
#ifdef __CUDACC__
#define STRATA_FN __host__ __device__ __forceinline__
#else
#define STRATA_FN inline
#endif
#include <math.h>  // NOLINT(modernize-deprecated-headers): the global names then have float overloads, as on the device
#include <stdint.h>  // NOLINT(modernize-deprecated-headers)
#include "device/math_scalar.inl"
#endif
