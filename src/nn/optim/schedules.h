// The formulas of the learning-rate schedules, generated from schedules.schedulers. The schedulers of both languages call
// them, so that both have the same rates.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "base/api.h"

namespace strata::optim {

struct Moment {
  double epoch = 0;      // an integer, except for warm restarts
  double lr = 0;         // the current rate
  double base = 0;       // the rate at the start
  bool initial = false;  // in the constructor: schedules that only multiply keep the rate
};

// The rate of the next epoch is computed from the previous rate (`next`), so that schedules can be chained and users
// can change the rate; `at` computes it from the epoch only. Both are null for a schedule that depends on a metric. The
// numbers are the options that the record's formula uses, followed by the items of its list or by the values that are given
// at each epoch: OneCycleLR and CyclicLR serve rates and momenta.
struct Schedule {
  const char* name;
  size_t options, given;  // counts, without the items of a list
  double (*next)(const Moment&, std::span<const double> numbers);
  double (*at)(const Moment&, std::span<const double> numbers);
  void (*check)(std::span<const double> options);  // throws Value for invalid numbers
};
STRATA_API const Schedule& find_schedule(std::string_view name);  // throws Value if there is none

namespace lr_scheduler {
// The options of a scheduler as the numbers of its schedule.
struct NamedSchedule {
  const char* name;
  std::vector<double> numbers;
};
}  // namespace lr_scheduler

}  // namespace strata::optim
