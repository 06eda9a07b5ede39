// The functions of math_scalar.inl that wrap, for integers of up to 32 bits. On the CPU only: device kernels compute in
// int64_t. Those of 8 and 16 bits are computed in int, where nothing overflows.
namespace strata {
namespace STRATA_FUNCTOR_NAMESPACE {
namespace math {

STRATA_FN int32_t add(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }
STRATA_FN int32_t sub(int32_t a, int32_t b) { return int32_t(uint32_t(a) - uint32_t(b)); }
STRATA_FN int32_t mul(int32_t a, int32_t b) { return int32_t(uint32_t(a) * uint32_t(b)); }
STRATA_FN int32_t neg(int32_t a) { return int32_t(0 - uint32_t(a)); }
STRATA_FN int32_t fma(int32_t a, int32_t b, int32_t c) { return add(mul(a, b), c); }
STRATA_FN int16_t fma(int16_t a, int16_t b, int16_t c) { return int16_t(a * b + c); }
STRATA_FN int8_t fma(int8_t a, int8_t b, int8_t c) { return int8_t(a * b + c); }
STRATA_FN uint8_t fma(uint8_t a, uint8_t b, uint8_t c) { return uint8_t(a * b + c); }
STRATA_FN int32_t abs(int32_t x) { return x < 0 ? neg(x) : x; }
STRATA_FN int16_t abs(int16_t x) { return int16_t(x < 0 ? -x : x); }
STRATA_FN int8_t abs(int8_t x) { return int8_t(x < 0 ? -x : x); }
STRATA_FN uint8_t abs(uint8_t x) { return x; }

}  // namespace math
}  // namespace STRATA_FUNCTOR_NAMESPACE
}  // namespace strata
