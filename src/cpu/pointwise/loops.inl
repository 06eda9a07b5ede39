// The SIMD loops of one functor header. A file of this folder names the header, its list and itself, and includes this;
// Highway then includes that file again for each SIMD target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#define STRATA_SIMD_TARGET
#include STRATA_FUNCTOR_HEADER

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
template <class F, class T>
HWY_INLINE void vector_loop(const F f, const T* const* in, const size_t* mask, T* out, size_t n) {
  const hn::ScalableTag<T> d;
  static_assert(hn::MaxLanes(hn::ScalableTag<T>()) * sizeof(T) <= kVectorBytes);
  const size_t lanes = hn::Lanes(d);
  const T *a = in[0], *b = F::kInputs > 1 ? in[1] : a, *c = F::kInputs > 2 ? in[2] : a, *e = F::kInputs > 3 ? in[3] : a;
  const size_t ma = mask[0], mb = F::kInputs > 1 ? mask[1] : 0, mc = F::kInputs > 2 ? mask[2] : 0,
               me = F::kInputs > 3 ? mask[3] : 0;
  const auto apply = [&](auto&& load) HWY_ATTR {
    if constexpr (F::kInputs == 1) return f(load(a, ma));
    else if constexpr (F::kInputs == 2) return f(load(a, ma), load(b, mb));
    else if constexpr (F::kInputs == 3) return f(load(a, ma), load(b, mb), load(c, mc));
    else return f(load(a, ma), load(b, mb), load(c, mc), load(e, me));
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(apply([&](const T* p, size_t m) HWY_ATTR { return hn::LoadU(d, p + (i & m)); }), d, out + i);
  if (i == n) return;
  const auto rest = hn::FirstN(d, n - i);
  hn::BlendedStore(apply([&](const T* p, size_t m) HWY_ATTR { return hn::MaskedLoad(rest, d, p + (i & m)); }), rest, d,
                   out + i);
}
#endif

// Plain code, compiled for this target: the compiler vectorizes simple functors if every operand advances.
template <bool kAdvance, class F, class T>
HWY_INLINE void plain_loop(const F f, const T* const* in, const size_t* mask, T* HWY_RESTRICT out, size_t n) {
  const T *a = in[0], *b = F::kInputs > 1 ? in[1] : a, *c = F::kInputs > 2 ? in[2] : a, *e = F::kInputs > 3 ? in[3] : a;
  const auto at = [mask](const T* p, int k, size_t i) HWY_ATTR { return kAdvance ? p[i] : p[i & mask[k]]; };
  for (size_t i = 0; i < n; ++i) {
    if constexpr (F::kInputs == 1) out[i] = f(at(a, 0, i));
    else if constexpr (F::kInputs == 2) out[i] = f(at(a, 0, i), at(b, 1, i));
    else if constexpr (F::kInputs == 3) out[i] = f(at(a, 0, i), at(b, 1, i), at(c, 2, i));
    else out[i] = f(at(a, 0, i), at(b, 1, i), at(c, 2, i), at(e, 3, i));
  }
}

template <class F, class T> void loop(const void* members, const T* const* in, const size_t* mask, T* out, size_t n) {
  F f;
  if constexpr (!std::is_empty_v<F>) std::memcpy(static_cast<void*>(&f), members, sizeof f);
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_floating_point_v<T>) return vector_loop(f, in, mask, out, n);
#endif
  bool advance = true;
  for (int k = 0; k < F::kInputs; ++k) advance &= mask[k] != 0;
  if (advance) plain_loop<true>(f, in, mask, out, n);
  else plain_loop<false>(f, in, mask, out, n);
}

template <template <class> class F> constexpr Loops loops_of(const char* name) {
  Loops l{};
  l.header = STRATA_FUNCTOR_HEADER;
  l.name = name;
  if constexpr (!std::is_base_of_v<IntOnly, F<float>>) {
    l.f32 = loop<F<float>, float>;
    l.f64 = loop<F<double>, double>;
  }
  if constexpr (!std::is_base_of_v<FloatOnly, F<float>>) l.i64 = loop<F<int64_t>, int64_t>;
  return l;
}

const Loops* all_loops() {
  static constexpr Loops table[] = {
#define STRATA_FUNCTOR(F) loops_of<F>(#F),
#include STRATA_FUNCTOR_LIST
#undef STRATA_FUNCTOR
  };
  return table;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace fn {
#define STRATA_FUNCTOR(F) template <class T> struct F;
#include STRATA_FUNCTOR_LIST
#undef STRATA_FUNCTOR
}  // namespace fn
namespace {
enum {
#define STRATA_FUNCTOR(F) k##F,
#include STRATA_FUNCTOR_LIST
#undef STRATA_FUNCTOR
};
HWY_EXPORT(all_loops);
}  // namespace
#define STRATA_FUNCTOR(F) \
  template <> Loops cpu::simd_loops<fn::F>() { return HWY_DYNAMIC_DISPATCH(all_loops)()[k##F]; }
#include STRATA_FUNCTOR_LIST
#undef STRATA_FUNCTOR
}  // namespace strata
#endif
