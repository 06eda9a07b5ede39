#include "cpu/pointwise/pointwise.h"

#define STRATA_FUNCTOR_HEADER "device/functors/bitwise.h"
#define STRATA_FUNCTOR_LIST "functors/bitwise.inc"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise/bitwise_simd.cpp"
#include "cpu/pointwise/loops.inl"
