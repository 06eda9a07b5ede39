// Functions that the formulas of schedules.schedulers use. Only the generated table includes it.
#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "nn/optim/schedules.h"

namespace strata::optim {

std::span<const Schedule> all_schedules();

namespace formulas {

using Numbers = std::span<const double>;
using std::cos;
using std::floor;
using std::fmod;
using std::isnan;
using std::min;
using std::pow;
using std::numbers::pi;

inline bool is_integer(double x) { return x == std::floor(x); }

inline double count_equal(Numbers milestones, double epoch) {
  return static_cast<double>(std::ranges::count(milestones, epoch));
}
inline double count_passed(Numbers milestones, double epoch) {
  return static_cast<double>(std::ranges::count_if(milestones, [&](double m) { return m <= epoch; }));
}

// The cycle that contains an epoch: the first has the given length, each further one `growth` times as many epochs.
struct Cycle {
  double position, length;
};
inline Cycle cycle_of(double epoch, double length, double growth) {
  if (growth == 1) return {std::fmod(epoch, length), length};
  for (; epoch >= length; length *= growth) epoch -= length;
  return {epoch, length};
}

// From one value to another while the epoch goes from begin to end, along a line or half a cosine.
struct Phase {
  double epoch, begin, end;
};
inline double anneal(double from, double to, Phase p, bool linear) {
  const double part = p.end == p.begin ? 1 : (p.epoch - p.begin) / (p.end - p.begin);
  return linear ? (to - from) * part + from : to + (from - to) / 2 * (std::cos(pi * part) + 1);
}

}  // namespace formulas
}  // namespace strata::optim
