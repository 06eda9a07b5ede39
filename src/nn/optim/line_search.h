// A step length that satisfies the strong Wolfe conditions (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6)
// with cubic interpolation.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>

#include "tensor/tensor.h"

namespace strata::optim {

// The objective at x + t d.
struct Trial {
  double t = 0, loss = 0, slope = 0;  // slope: of the loss along d
  Tensor grad = {};
};
using Objective = std::function<Trial(double t)>;

// The minimum of the cubic through two points with these slopes, clamped to [low, high].
inline double cubic_minimum(const Trial& a, const Trial& b, double low, double high) {
  const Trial &left = a.t <= b.t ? a : b, &right = a.t <= b.t ? b : a;
  const double bend = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.t - right.t);
  const double square = bend * bend - left.slope * right.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double root = std::sqrt(square);
  const double t = right.t - (right.t - left.t) * ((right.slope + root - bend) / (right.slope - left.slope + 2 * root));
  return std::min(std::max(t, low), high);
}

// `start` is the point t = 0, `first` the first length to try, `length` the largest element of |d|. Uses at most
// `budget` + 1 evaluations, counted in `evaluations`.
inline Trial strong_wolfe(const Objective& at, const Trial& start, double first, double length, int64_t budget,
                          int64_t& evaluations) {
  constexpr double kDecrease = 1e-4, kCurvature = 0.9, kNarrow = 1e-9, kMargin = 0.1;
  const auto evaluate = [&](double t) {
    ++evaluations;
    return at(t);
  };
  const auto too_high = [&](const Trial& p) { return p.loss > start.loss + kDecrease * p.t * start.slope; };
  const auto flat_enough = [&](const Trial& p) { return std::abs(p.slope) <= -kCurvature * start.slope; };

  // Advance until the minimum is between two points.
  Trial ends[2] = {start, evaluate(first)};
  int64_t iteration = 0;
  for (; iteration < budget; ++iteration) {
    if (too_high(ends[1]) || (iteration > 1 && ends[1].loss >= ends[0].loss)) break;
    if (flat_enough(ends[1])) return ends[1];
    if (ends[1].slope >= 0) break;
    const double next = cubic_minimum(ends[0], ends[1], ends[1].t + 0.01 * (ends[1].t - ends[0].t), ends[1].t * 10);
    ends[0] = std::exchange(ends[1], evaluate(next));
  }
  if (iteration >= budget) ends[0] = start;

  // Narrow the interval.
  bool stuck = false;
  const auto lower = [&] { return ends[0].loss <= ends[1].loss ? 0 : 1; };
  int low = lower();
  for (; iteration < budget && std::abs(ends[1].t - ends[0].t) * length >= kNarrow; ++iteration) {
    const auto [left, right] = std::minmax(ends[0].t, ends[1].t);
    const double margin = kMargin * (right - left);
    double t = cubic_minimum(ends[0], ends[1], left, right);
    const bool at_the_edge = std::min(right - t, t - left) < margin;
    if (at_the_edge && (stuck || t >= right || t <= left)) {
      t = std::abs(t - right) < std::abs(t - left) ? right - margin : left + margin;
      stuck = false;
    } else {
      stuck = at_the_edge;
    }
    Trial trial = evaluate(t);
    if (too_high(trial) || trial.loss >= ends[low].loss) {
      ends[1 - low] = std::move(trial);
      low = lower();
      continue;
    }
    if (flat_enough(trial)) return trial;
    if (trial.slope * (ends[1 - low].t - ends[low].t) >= 0) ends[1 - low] = ends[low];
    ends[low] = std::move(trial);
  }
  return ends[low];
}

}  // namespace strata::optim
