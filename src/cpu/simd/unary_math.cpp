#include "cpu/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/unary_math.h"
#define STRATA_FUNCTOR_LIST "functors/unary_math.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/unary_math.cpp"
#include "cpu/simd/loops.inl"
