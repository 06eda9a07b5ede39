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
  if constexpr (F::kInputs == 3)
    if (mb == 0 && mc == 0) {  // what only depends on the numbers is computed once
      const auto second = hn::LoadU(d, b), third = hn::LoadU(d, c);
      for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + (i & ma)), second, third), d, out + i);
    }
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(apply([&](const T* p, size_t m) HWY_ATTR { return hn::LoadU(d, p + (i & m)); }), d, out + i);
  if (i == n) return;
  const auto rest = hn::FirstN(d, n - i);
  hn::BlendedStore(apply([&](const T* p, size_t m) HWY_ATTR { return hn::MaskedLoad(rest, d, p + (i & m)); }), rest, d,
                   out + i);
}

template <class F> struct Whole {
  static constexpr int kInputs = F::kInputs;
  template <class V> HWY_INLINE V operator()(V a, V b) const { return F().whole(a, b); }
};
template <class F>
concept HasWhole = requires(F f, double v) {
  f.whole(v, v);
};

// Integers as doubles, block by block, if all of them have at most 52 bits. Returns how many elements are done.
template <template <class> class F>
size_t loop_in_double(const int64_t* const* in, const size_t* mask, int64_t* out, size_t n) {
  constexpr size_t kBlock = 256;
  constexpr int kInputs = F<double>::kInputs;
  const hn::ScalableTag<double> d;
  HWY_ALIGN double wide[kInputs][kBlock], result[kBlock];
  const double* from[kInputs];
  size_t done = 0;
  for (size_t m; done < n; done += m) {
    m = HWY_MIN(kBlock, n - done);
    uint64_t bits = 0;
    for (int k = 0; k < kInputs; ++k) {
      const int64_t* p = in[k] + (done & mask[k]);
      const size_t count = mask[k] ? m : HWY_MIN(m, hn::Lanes(d));
      for (size_t i = 0; i < count; ++i) {
        bits |= static_cast<uint64_t>(p[i]) + (uint64_t{1} << 52);
        wide[k][i] = static_cast<double>(p[i]);
      }
      from[k] = wide[k];
    }
    if (bits >> 53) return done;
    vector_loop(Whole<F<double>>(), from, mask, result, m);
    for (size_t i = 0; i < m; ++i) out[done + i] = static_cast<int64_t>(result[i]);
  }
  return done;
}
#endif

// Plain code, compiled for this target: the compiler vectorizes simple functors if it knows which operands advance. Bit k
// of kFixed is set if operand k does not; kUnknown asks the mask.
constexpr unsigned kUnknown = ~0u;
template <unsigned kFixed, class F, class T>
HWY_INLINE void plain_loop(const F f, const T* const* in, const size_t* mask, T* HWY_RESTRICT out, size_t n) {
  const T *a = in[0], *b = F::kInputs > 1 ? in[1] : a, *c = F::kInputs > 2 ? in[2] : a, *e = F::kInputs > 3 ? in[3] : a;
  const auto at = [=](const T* p, int k, size_t i) HWY_ATTR {
    if constexpr (kFixed == kUnknown) return p[i & mask[k]];
    else return kFixed >> k & 1 ? p[0] : p[i];
  };
  for (size_t i = 0; i < n; ++i) {
    if constexpr (F::kInputs == 1) out[i] = f(at(a, 0, i));
    else if constexpr (F::kInputs == 2) out[i] = f(at(a, 0, i), at(b, 1, i));
    else if constexpr (F::kInputs == 3) out[i] = f(at(a, 0, i), at(b, 1, i), at(c, 2, i));
    else out[i] = f(at(a, 0, i), at(b, 1, i), at(c, 2, i), at(e, 3, i));
  }
}

// Bools in memory may be other bytes than 0 and 1.
template <class F> struct OfBools {
  static constexpr int kInputs = F::kInputs;
  template <class... V> HWY_INLINE uint8_t operator()(V... v) const { return F()(static_cast<uint8_t>(v != 0)...); }
};

template <class F, class T> void loop(const void* members, const T* const* in, const size_t* mask, T* out, size_t n) {
  F f;
  if constexpr (!std::is_empty_v<F>) std::memcpy(static_cast<void*>(&f), members, sizeof f);
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_floating_point_v<T>) return vector_loop(f, in, mask, out, n);
#endif
  unsigned fixed = 0;
  for (int k = 0; k < F::kInputs; ++k) fixed |= unsigned{mask[k] == 0} << k;
  if (fixed == 0) return plain_loop<0>(f, in, mask, out, n);
  if constexpr (F::kInputs == 2) {
    if (fixed == 1) return plain_loop<1>(f, in, mask, out, n);
    if (fixed == 2) return plain_loop<2>(f, in, mask, out, n);
  }
  plain_loop<kUnknown>(f, in, mask, out, n);
}

template <template <class> class F>
void integer_loop(const void* members, const int64_t* const* in, const size_t* mask, int64_t* out, size_t n) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (HasWhole<F<double>>) {
    const size_t done = loop_in_double<F>(in, mask, out, n);
    const int64_t* rest[F<double>::kInputs];
    for (int k = 0; k < F<double>::kInputs; ++k) rest[k] = in[k] + (done & mask[k]);
    return loop<F<int64_t>, int64_t>(members, rest, mask, out + done, n - done);
  }
#endif
  loop<F<int64_t>, int64_t>(members, in, mask, out, n);
}

// Small integers: loop(), but the results of a predicate are bytes, and operands that are numbers are the last ones.
#if HWY_TARGET != HWY_SCALAR
template <unsigned kFixed, class F, class T, class To>
HWY_INLINE void small_loop_of(const F f, const void* const* in, const size_t* mask, To* HWY_RESTRICT out, size_t n) {
  // Copies: a byte that is written could be a part of in or mask, for all that the compiler knows.
  const T *a = static_cast<const T*>(in[0]), *b = F::kInputs > 1 ? static_cast<const T*>(in[1]) : a,
          *c = F::kInputs > 2 ? static_cast<const T*>(in[2]) : a;
  const size_t masks[] = {mask[0], F::kInputs > 1 ? mask[1] : 0, F::kInputs > 2 ? mask[2] : 0};
  const auto at = [masks](const T* p, int k, size_t i) HWY_ATTR {
    if constexpr (kFixed == kUnknown) return p[i & masks[k]];
    else return kFixed >> k & 1 ? p[0] : p[i];
  };
  for (size_t i = 0; i < n; ++i) {
    if constexpr (F::kInputs == 1) out[i] = static_cast<To>(f(at(a, 0, i)));
    else if constexpr (F::kInputs == 2) out[i] = static_cast<To>(f(at(a, 0, i), at(b, 1, i)));
    else out[i] = static_cast<To>(f(at(a, 0, i), at(b, 1, i), at(c, 2, i)));
  }
}
template <class F, class T>
void small_loop(const void* members, const void* const* in, const size_t* mask, void* out, size_t n) {
  F f;
  if constexpr (!std::is_empty_v<F>) std::memcpy(static_cast<void*>(&f), members, sizeof f);
  auto* to = static_cast<std::conditional_t<std::is_base_of_v<Predicate, F>, uint8_t, T>*>(out);
  unsigned fixed = 0;
  for (int k = 0; k < F::kInputs; ++k) fixed |= unsigned{mask[k] == 0} << k;
  constexpr unsigned kNumbers = F::kInputs == 3 ? 6 : 2;
  if (fixed == 0) return small_loop_of<0, F, T>(f, in, mask, to, n);
  if (fixed == kNumbers) return small_loop_of<kNumbers, F, T>(f, in, mask, to, n);
  small_loop_of<kUnknown, F, T>(f, in, mask, to, n);
}
template <template <class> class F> constexpr void set_small_loops(SmallLoop (&small)[4]) {
  small[small_int(DType::I8)] = small_loop<F<int8_t>, int8_t>;
  small[small_int(DType::U8)] = small_loop<F<uint8_t>, uint8_t>;
  small[small_int(DType::I16)] = small_loop<F<int16_t>, int16_t>;
  small[small_int(DType::I32)] = small_loop<F<int32_t>, int32_t>;
}
#else
template <template <class> class F> constexpr void set_small_loops(SmallLoop (&)[4]) {}
#endif

template <template <class> class F> constexpr Loops loops_of(const char* name) {
  Loops l{};
  l.header = STRATA_FUNCTOR_HEADER;
  l.name = name;
  if constexpr (!std::is_base_of_v<IntOnly, F<float>>) {
    l.f32 = loop<F<float>, float>;
    l.f64 = loop<F<double>, double>;
  }
  if constexpr (!std::is_base_of_v<FloatOnly, F<float>>) l.i64 = integer_loop<F>;
  if constexpr (requires { F<float>::kUnsigned; }) l.u64 = loop<F<uint64_t>, uint64_t>;
  if constexpr (requires { F<float>::kBools; }) l.bools = loop<OfBools<F<uint8_t>>, uint8_t>;
  if constexpr (requires { F<float>::kSmallInts; }) set_small_loops<F>(l.small);
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
