#include "cpu/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/arithmetic.h"
#define STRATA_FUNCTOR_LIST "functors/arithmetic.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/arithmetic.cpp"
#include "cpu/simd/loops.inl"
