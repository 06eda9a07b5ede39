// The formulas of the learning-rate schedules. The schedulers of both languages call them, so that both have the same
// rates.
#pragma once
#include <span>
#include <string_view>

#include "base/api.h"

namespace strata::optim {

struct Moment {
  double epoch = 0;      // an integer, except for warm restarts
  double lr = 0;         // the current rate
  double base = 0;       // the rate at the start
  bool initial = false;  // in the constructor: schedules that only multiply keep the rate
};

// The rate of the next epoch is computed from the previous rate (`next`), so that schedules can be chained and users
// can change the rate; `at` computes it from the epoch only, and is null if that is not possible.
struct Schedule {
  const char* name;
  size_t numbers;  // minimum number of arguments
  double (*next)(const Moment&, std::span<const double> numbers);
  double (*at)(const Moment&, std::span<const double> numbers);
  void (*check)(std::span<const double> numbers);  // throws Value for invalid numbers
};
// Their numbers, in order:
//   StepLR step_size gamma; MultiStepLR gamma milestones...; ConstantLR factor total_iters; LinearLR start_factor end_factor
//   total_iters; ExponentialLR gamma; CosineAnnealingLR T_max eta_min; CosineAnnealingWarmRestarts T_0 T_mult eta_min;
//   PolynomialLR total_iters power; OneCycleLR total_steps pct_start three_phase linear start peak end;
//   CyclicLR step_size_up step_size_down low high height; CyclicScale mode gamma step_size_up step_size_down.
// OneCycleLR and CyclicLR serve momentum too. CyclicScale is the height of the cycle of an epoch; its modes are 0 triangular,
// 1 triangular2, 2 exp_range.
STRATA_API const Schedule& find_schedule(std::string_view name);  // throws Value if there is none

}  // namespace strata::optim
