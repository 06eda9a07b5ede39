// Loops over the 32 lanes, compiled for each SIMD target: included by files that name themselves in HWY_TARGET_INCLUDE.
// The loops are plain; with a full mask the compiler vectorizes them, and a partial mask computes all lanes and keeps
// the old values of the others.
#if defined(STRATA_VGPU_LOOPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_VGPU_LOOPS_INL
#undef STRATA_VGPU_LOOPS_INL
#else
#define STRATA_VGPU_LOOPS_INL
#endif

#if HWY_TARGET <= HWY_AVX3
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace strata::cuda::vgpu {
namespace HWY_NAMESPACE {
namespace {

// Stores results in the lanes of a mask.
template <class C> HWY_INLINE void keep(C* d, const C* r, uint32_t m) {
  for (int k = 0; k < kLanes; ++k) d[k] = m >> k & 1 ? r[k] : d[k];
}

// d = f(a), f(a, b), f(a, b, c) per lane. A result may overwrite an operand: lanes are independent.
template <class D, class A, class F> HWY_INLINE void map1(const Inst& i, Warp& w, const F& f) {
  const uint32_t m = active(i, w);
  auto* d = cells<Cell<D>>(w, i.d);
  const auto* a = cells<Cell<A>>(w, i.a);
  if (m == kFull) {
#pragma GCC ivdep
    for (int k = 0; k < kLanes; ++k) d[k] = pack<D>(f(unpack<A>(a[k])));
  } else if (m) {
    alignas(64) Cell<D> r[kLanes];
    for (int k = 0; k < kLanes; ++k) r[k] = pack<D>(f(unpack<A>(a[k])));
    keep(d, r, m);
  }
}
template <class D, class A, class B, class F> HWY_INLINE void map2(const Inst& i, Warp& w, const F& f) {
  const uint32_t m = active(i, w);
  auto* d = cells<Cell<D>>(w, i.d);
  const auto* a = cells<Cell<A>>(w, i.a);
  const auto* b = cells<Cell<B>>(w, i.b);
  if (m == kFull) {
#pragma GCC ivdep
    for (int k = 0; k < kLanes; ++k) d[k] = pack<D>(f(unpack<A>(a[k]), unpack<B>(b[k])));
  } else if (m) {
    alignas(64) Cell<D> r[kLanes];
    for (int k = 0; k < kLanes; ++k) r[k] = pack<D>(f(unpack<A>(a[k]), unpack<B>(b[k])));
    keep(d, r, m);
  }
}
template <class D, class A, class B, class C, class F> HWY_INLINE void map3(const Inst& i, Warp& w, const F& f) {
  const uint32_t m = active(i, w);
  auto* d = cells<Cell<D>>(w, i.d);
  const auto* a = cells<Cell<A>>(w, i.a);
  const auto* b = cells<Cell<B>>(w, i.b);
  const auto* c = cells<Cell<C>>(w, i.c);
  if (m == kFull) {
#pragma GCC ivdep
    for (int k = 0; k < kLanes; ++k) d[k] = pack<D>(f(unpack<A>(a[k]), unpack<B>(b[k]), unpack<C>(c[k])));
  } else if (m) {
    alignas(64) Cell<D> r[kLanes];
    for (int k = 0; k < kLanes; ++k) r[k] = pack<D>(f(unpack<A>(a[k]), unpack<B>(b[k]), unpack<C>(c[k])));
    keep(d, r, m);
  }
}
// For functions that cannot be vectorized: only the lanes of the mask.
template <class D, class A, class F> HWY_INLINE void map1_slow(const Inst& i, Warp& w, const F& f) {
  auto* d = cells<Cell<D>>(w, i.d);
  const auto* a = cells<Cell<A>>(w, i.a);
  each_lane(active(i, w), [&](int k) { d[k] = pack<D>(f(unpack<A>(a[k]))); });
}

// One bit per lane for which holds(k) is true.
template <class F> HWY_INLINE uint32_t mask_of(const F& holds) {
#if HWY_TARGET <= HWY_AVX3
  alignas(64) int32_t t[kLanes];
  for (int k = 0; k < kLanes; ++k) t[k] = holds(k) ? -1 : 0;
  const __m512i low = _mm512_load_si512(t), high = _mm512_load_si512(t + 16);
  return static_cast<uint32_t>(_mm512_movepi32_mask(low)) | static_cast<uint32_t>(_mm512_movepi32_mask(high)) << 16;
#else
  uint32_t r = 0;
  for (int k = 0; k < kLanes; ++k) r |= holds(k) ? 1u << k : 0;
  return r;
#endif
}

// Handlers from a functor type.
template <class T, class F> void unary(const Inst& i, Warp& w) { map1<T, T>(i, w, F{}); }
template <class T, class F> void binary(const Inst& i, Warp& w) { map2<T, T, T>(i, w, F{}); }

template <class F> Handler binary_integer(Type type) {
  return for_integer(type, []<class T>() -> Handler { return binary<T, F>; });
}
template <class F> Handler unary_integer(Type type) {
  return for_integer(type, []<class T>() -> Handler { return unary<T, F>; });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata::cuda::vgpu
HWY_AFTER_NAMESPACE();
#endif
