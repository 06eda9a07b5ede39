#include "cpu/pointwise/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/unary_math.h"
#define STRATA_FUNCTOR_LIST "functors/unary_math.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/unary_math_simd.cpp"
#include "cpu/pointwise/loops.inl"
