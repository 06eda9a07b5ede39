// The SIMD loops of the optimizers' update rules.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/optim/optimizers_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "cpu/optim/optimizers.h"

#define STRATA_SIMD_TARGET
#include "device/functors/optimizers.h"

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <template <class> class R, class T>
void update(const double* members, T* p, const T* g, T* const* state, size_t n) {
  using Rule = R<T>;
  constexpr size_t kCount = sizeof(Rule) / sizeof(T);
  static_assert(kCount <= cpu::kRuleMembers);
  T numbers[kCount];
  for (size_t k = 0; k < kCount; ++k) numbers[k] = static_cast<T>(members[k]);
  Rule rule;
  std::memcpy(static_cast<void*>(&rule), numbers, sizeof rule);

  T *a = Rule::kStates > 0 ? state[0] : nullptr, *b = Rule::kStates > 1 ? state[1] : nullptr,
    *c = Rule::kStates > 2 ? state[2] : nullptr;
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const auto load = [&](const T* from) HWY_ATTR { return from ? hn::LoadU(d, from + i) : hn::Zero(d); };
  const auto store = [&](auto v, T* to) HWY_ATTR {
    if (to) hn::StoreU(v, d, to + i);
  };
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    auto vp = hn::LoadU(d, p + i), va = load(a), vb = load(b), vc = load(c);
    rule(vp, hn::LoadU(d, g + i), va, vb, vc);
    hn::StoreU(vp, d, p + i);
    store(va, a);
    store(vb, b);
    store(vc, c);
  }
  if (i < n) {
    const auto rest = hn::FirstN(d, n - i);
    const auto part = [&](const T* from) HWY_ATTR { return from ? hn::MaskedLoad(rest, d, from + i) : hn::Zero(d); };
    const auto put = [&](auto v, T* to) HWY_ATTR {
      if (to) hn::BlendedStore(v, rest, d, to + i);
    };
    auto vp = part(p), va = part(a), vb = part(b), vc = part(c);
    rule(vp, part(g), va, vb, vc);
    put(vp, p);
    put(va, a);
    put(vb, b);
    put(vc, c);
  }
#else
  T unused = 0;
  for (; i < n; ++i) rule(p[i], g[i], a ? a[i] : unused, b ? b[i] : unused, c ? c[i] : unused);
#endif
}

template <template <class> class R> constexpr cpu::UpdateLoops loops_of() {
  return {update<R, float>, update<R, double>};
}

const cpu::UpdateLoops* update_table() {
  static constexpr cpu::UpdateLoops table[] = {
#define STRATA_RULE(name) loops_of<name##Rule>(),
#include "device/functors/optimizer_rules.inc"
  };
  return table;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {
HWY_EXPORT(update_table);
}
const cpu::UpdateLoops& cpu::update_loops(Rule rule) {
  return HWY_DYNAMIC_DISPATCH(update_table)()[static_cast<int>(rule)];
}
}  // namespace strata
#endif
