#include "cpu/fft/plan.h"

#include <cmath>
#include <list>
#include <map>
#include <mutex>

#include "cpu/fft/lines.h"

namespace strata::cpu::fft {
namespace {

constexpr int64_t kLongLine = 1 << 12;  // longer lines do not stay in the L1 cache
constexpr size_t kMostPlans = 64;

// exp(-2 pi i k / n), from an angle of at most pi / 4, so that symmetric roots are exactly symmetric.
template <class T> Complex<T> root(int64_t k, int64_t n) {
  k %= n;
  const auto eighth = static_cast<__int128>(k) * 8;
  const int octant = static_cast<int>(eighth / n);
  // The distance to the nearest multiple of a quarter turn, in units of 1 / (4n) of a quarter.
  const int quarter = (octant + 1) / 2;
  const auto rest = static_cast<double>(static_cast<__int128>(k) * 4 - static_cast<__int128>(quarter) * n);
  const double angle = rest / static_cast<double>(n) * (M_PI / 2);
  const double c = std::cos(angle), s = std::sin(angle);
  double re = c, im = s;
  switch (quarter % 4) {
    case 0: break;
    case 1: re = -s, im = c; break;
    case 2: re = -c, im = -s; break;
    default: re = s, im = -c; break;
  }
  return {static_cast<T>(re), static_cast<T>(-im)};
}

// The factors, 4 before 2; empty if one is too large.
std::vector<int> factors_of(int64_t n) {
  std::vector<int> factors;
  while (n % 8 == 0 && n != 16) {
    factors.push_back(8);
    n /= 8;
  }
  for (; n % 4 == 0; n /= 4) factors.push_back(4);
  for (int r = 2; r <= kMaxRadix; r += r == 2 ? 1 : 2)
    for (; n % r == 0; n /= r) factors.push_back(r);
  if (n != 1) factors.clear();
  return factors;
}

template <class T> std::vector<Stage<T>> stages_of(int64_t n, const std::vector<int>& factors) {
  std::vector<Stage<T>> stages;
  int64_t length = n, stride = 1;
  for (const int r : factors) {
    Stage<T>& stage = stages.emplace_back();
    stage.radix = r;
    stage.groups = length / r;
    stage.stride = stride;
    stage.twiddles.reserve(static_cast<size_t>(stage.groups * (r - 1)));
    for (int64_t p = 0; p < stage.groups; ++p)
      for (int k = 1; k < r; ++k) stage.twiddles.push_back(root<T>(p * k, length));
    for (int k = 0; k < r; ++k) stage.roots.push_back(root<T>(k, r));
    length /= r;
    stride *= r;
  }
  return stages;
}

// The factor nearest to the square root.
int64_t balanced_factor(int64_t n) {
  auto best = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % best) --best;
  return best;
}

template <class T> std::shared_ptr<const LongPlan<T>> long_plan_of(int64_t n) {
  const int64_t a = balanced_factor(n), columns = n / a, rows = a;  // rows of `columns` elements each
  if (rows < 16) return nullptr;
  auto made = std::make_shared<LongPlan<T>>();
  made->rows = plan_of<T>(columns);
  made->columns = plan_of<T>(rows);
  const int64_t coarse = (rows + kTwiddleBlock - 1) / kTwiddleBlock;
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t k = 0; k < coarse; ++k) made->coarse.push_back(root<T>(j * k * kTwiddleBlock, n));
    for (int64_t k = 0; k < kTwiddleBlock; ++k) made->fine.push_back(root<T>(j * k, n));
  }
  return made;
}

template <class T> std::shared_ptr<const Bluestein<T>> bluestein_of(int64_t n) {
  auto made = std::make_shared<Bluestein<T>>();
  int64_t padded = 1;
  while (padded < 2 * n - 1) padded *= 2;
  made->padded = plan_of<T>(padded);
  for (int64_t k = 0; k < n; ++k)
    made->chirp.push_back(root<T>(static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n)), 2 * n));
  std::vector<Complex<T>> conjugate(static_cast<size_t>(padded), Complex<T>{0, 0});
  for (int64_t k = 0; k < n; ++k) {
    const Complex<T> c = made->chirp[static_cast<size_t>(k)];
    conjugate[static_cast<size_t>(k)] = conjugate[static_cast<size_t>((padded - k) % padded)] = {c.re, -c.im};
  }
  made->spectrum.resize(conjugate.size());
  transform_line<T>(*made->padded, conjugate.data(), made->spectrum.data(), true, T(1) / static_cast<T>(padded));
  return made;
}

template <class T> std::shared_ptr<const Plan<T>> make_plan(int64_t n) {
  auto plan = std::make_shared<Plan<T>>();
  plan->n = n;
  const std::vector<int> factors = factors_of(n);
  if (factors.empty() && n > 1) {
    plan->bluestein = bluestein_of<T>(n);
  } else {
    plan->stages = stages_of<T>(n, factors);
    if (n > kLongLine) plan->long_plan = long_plan_of<T>(n);
  }
  for (int64_t k = 0; k <= n / 2; ++k) plan->half_turns.push_back(root<T>(k, 2 * n));
  return plan;
}
}  // namespace

template <class T> std::shared_ptr<const Plan<T>> plan_of(int64_t n) {
  using Shared = std::shared_ptr<const Plan<T>>;
  static std::mutex lock;
  static auto* plans = new std::map<int64_t, Shared>;
  static auto* order = new std::list<int64_t>;  // the one used last comes first
  {
    const std::scoped_lock hold(lock);
    if (const auto found = plans->find(n); found != plans->end()) {
      if (order->front() != n) {
        order->remove(n);
        order->push_front(n);
      }
      return found->second;
    }
  }
  Shared made = make_plan<T>(n);  // without the lock: it may need other plans
  const std::scoped_lock hold(lock);
  if (plans->try_emplace(n, made).second) order->push_front(n);
  while (plans->size() > kMostPlans) {
    plans->erase(order->back());
    order->pop_back();
  }
  return made;
}
template std::shared_ptr<const Plan<float>> plan_of(int64_t n);
template std::shared_ptr<const Plan<double>> plan_of(int64_t n);

}  // namespace strata::cpu::fft
