#include "nn/optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace strata::optim {
namespace {

using Numbers = std::span<const double>;
using std::numbers::pi;

void check_nothing(Numbers) {}
void check_count(const char* what, double value, double least) {
  STRATA_CHECK(value >= least, Value, "Expected {} {}, but got {}", least > 0 ? "positive" : "non-negative", what,
               value);
}

// --- StepLR: step_size gamma
double next_step(const Moment& m, Numbers n) {
  return m.epoch == 0 || std::fmod(m.epoch, n[0]) != 0 ? m.lr : m.lr * n[1];
}
double step_at(const Moment& m, Numbers n) { return m.base * std::pow(n[1], std::floor(m.epoch / n[0])); }
void check_step(Numbers n) { check_count("step_size", n[0], 1); }

// --- MultiStepLR: gamma milestones...
double next_multi_step(const Moment& m, Numbers n) {
  const auto now = std::count(n.begin() + 1, n.end(), m.epoch);
  return now == 0 ? m.lr : m.lr * std::pow(n[0], static_cast<double>(now));
}
double multi_step_at(const Moment& m, Numbers n) {
  const auto passed = std::count_if(n.begin() + 1, n.end(), [&](double milestone) { return milestone <= m.epoch; });
  return m.base * std::pow(n[0], static_cast<double>(passed));
}

// --- ConstantLR: factor total_iters
double next_constant(const Moment& m, Numbers n) {
  if (m.epoch == 0) return m.lr * n[0];
  if (m.epoch != n[1]) return m.lr;
  return n[0] == 0 ? m.base : m.lr * (1 / n[0]);
}
double constant_at(const Moment& m, Numbers n) { return m.base * (m.epoch >= n[1] ? 1 : n[0]); }
void check_constant(Numbers n) {
  STRATA_CHECK(n[0] >= 0 && n[0] <= 1, Value,
               "Constant multiplicative factor expected to be between 0 and 1, but got {}", n[0]);
}

// --- LinearLR: start_factor end_factor total_iters
double next_linear(const Moment& m, Numbers n) {
  if (m.epoch == 0) return m.lr * n[0];
  if (m.initial || m.epoch > n[2]) return m.lr;
  return m.lr * (1 + (n[1] - n[0]) / (n[2] * n[0] + (m.epoch - 1) * (n[1] - n[0])));
}
double linear_at(const Moment& m, Numbers n) {
  return m.base * (n[2] == 0 ? n[1] : n[0] + (n[1] - n[0]) * std::min(n[2], m.epoch) / n[2]);
}
void check_linear(Numbers n) {
  STRATA_CHECK(n[0] > 0 && n[0] <= 1, Value,
               "Starting multiplicative factor expected to be greater than 0 and less or equal to 1, but got {}", n[0]);
  STRATA_CHECK(n[1] >= 0 && n[1] <= 1, Value, "Ending multiplicative factor expected to be between 0 and 1, but got {}",
               n[1]);
  check_count("total_iters", n[2], 0);
}

// --- ExponentialLR: gamma
double next_exponential(const Moment& m, Numbers n) { return m.initial ? m.lr : m.lr * n[0]; }
double exponential_at(const Moment& m, Numbers n) { return m.base * std::pow(n[0], m.epoch); }

// --- CosineAnnealingLR: T_max eta_min
double cosine_at(const Moment& m, Numbers n) {
  return n[1] + (m.base - n[1]) * (1 + std::cos(pi * m.epoch / n[0])) / 2;
}
double next_cosine(const Moment& m, Numbers n) {
  if (m.initial) return m.lr;
  if (std::fmod(m.epoch - 1 - n[0], 2 * n[0]) == 0)  // the previous rate was eta_min: nothing to multiply
    return m.lr + (m.base - n[1]) * (1 - std::cos(pi / n[0])) / 2;
  return (1 + std::cos(pi * m.epoch / n[0])) / (1 + std::cos(pi * (m.epoch - 1) / n[0])) * (m.lr - n[1]) + n[1];
}
void check_cosine(Numbers n) { check_count("T_max", n[0], 1); }

// --- CosineAnnealingWarmRestarts: T_0 T_mult eta_min. From the epoch only, which need not be an integer.
double restarts_at(const Moment& m, Numbers n) {
  double length = n[0], position = m.epoch;
  if (n[1] == 1) position = std::fmod(position, length);
  else
    for (; position >= length; length *= n[1]) position -= length;
  return n[2] + (m.base - n[2]) * (1 + std::cos(pi * position / length)) / 2;
}
void check_restarts(Numbers n) {
  STRATA_CHECK(n[0] >= 1 && n[0] == std::floor(n[0]), Value, "Expected positive integer T_0, but got {}", n[0]);
  STRATA_CHECK(n[1] >= 1 && n[1] == std::floor(n[1]), Value, "Expected integer T_mult >= 1, but got {}", n[1]);
}

// --- PolynomialLR: total_iters power
double next_polynomial(const Moment& m, Numbers n) {
  if (m.initial || m.epoch > n[0]) return m.lr;
  return m.lr * std::pow((1 - m.epoch / n[0]) / (1 - (m.epoch - 1) / n[0]), n[1]);
}
double polynomial_at(const Moment& m, Numbers n) {
  return m.base * (n[0] == 0 ? 1 : std::pow(1 - std::min(n[0], m.epoch) / n[0], n[1]));
}
void check_polynomial(Numbers n) { check_count("total_iters", n[0], 0); }

// --- OneCycleLR: total_steps pct_start three_phase linear start peak end
double one_cycle_at(const Moment& m, Numbers n) {
  const double total = n[0], up = n[1] * total - 1;
  STRATA_CHECK(m.epoch <= total, Value, "Tried to step {} times. The specified number of total steps is {}", m.epoch,
               total);
  struct Phase {
    double end, from, to;
  };
  const Phase two[] = {{up, n[4], n[5]}, {total - 1, n[5], n[6]}};
  const Phase three[] = {{up, n[4], n[5]}, {2 * n[1] * total - 2, n[5], n[4]}, {total - 1, n[4], n[6]}};
  double begin = 0;
  const std::span<const Phase> phases = n[2] != 0 ? std::span<const Phase>(three) : two;
  for (const Phase& p : phases) {
    if (m.epoch <= p.end || &p == &phases.back()) {
      const double part = p.end == begin ? 1 : (m.epoch - begin) / (p.end - begin);
      if (n[3] != 0) return (p.to - p.from) * part + p.from;
      return p.to + (p.from - p.to) / 2 * (std::cos(pi * part) + 1);
    }
    begin = p.end;
  }
  return n[6];
}
void check_one_cycle(Numbers n) {
  STRATA_CHECK(n[0] >= 1 && n[0] == std::floor(n[0]), Value, "Expected positive integer total_steps, but got {}", n[0]);
  STRATA_CHECK(n[1] >= 0 && n[1] <= 1, Value, "Expected float between 0 and 1 pct_start, but got {}", n[1]);
}

// --- CyclicLR: step_size_up step_size_down low high height
double cyclic_at(const Moment& m, Numbers n) {
  const double total = n[0] + n[1], rise = n[0] / total;
  const double cycle = std::floor(1 + m.epoch / total), x = 1 + m.epoch / total - cycle;
  const double scale = x <= rise ? x / rise : (x - 1) / (rise - 1);
  return n[2] + (n[3] - n[2]) * scale * n[4];
}
void check_cyclic(Numbers n) {
  check_count("step_size_up", n[0], 1);
  check_count("step_size_down", n[1], 1);
}

// --- CyclicScale: mode gamma step_size_up step_size_down
double cyclic_scale_at(const Moment& m, Numbers n) {
  if (n[0] == 0) return 1;
  if (n[0] == 2) return std::pow(n[1], m.epoch);
  return 1 / std::pow(2.0, std::floor(1 + m.epoch / (n[2] + n[3])) - 1);
}

constexpr Schedule kSchedules[] = {
  {"StepLR", 2, next_step, step_at, check_step},
  {"MultiStepLR", 1, next_multi_step, multi_step_at, check_nothing},
  {"ConstantLR", 2, next_constant, constant_at, check_constant},
  {"LinearLR", 3, next_linear, linear_at, check_linear},
  {"ExponentialLR", 1, next_exponential, exponential_at, check_nothing},
  {"CosineAnnealingLR", 2, next_cosine, cosine_at, check_cosine},
  {"CosineAnnealingWarmRestarts", 3, restarts_at, restarts_at, check_restarts},
  {"PolynomialLR", 2, next_polynomial, polynomial_at, check_polynomial},
  {"OneCycleLR", 7, one_cycle_at, one_cycle_at, check_one_cycle},
  {"CyclicLR", 5, cyclic_at, cyclic_at, check_cyclic},
  {"CyclicScale", 4, cyclic_scale_at, cyclic_scale_at, check_nothing},
};

}  // namespace

const Schedule& find_schedule(std::string_view name) {
  const auto* found = std::ranges::find(kSchedules, name, &Schedule::name);
  STRATA_CHECK(found != std::end(kSchedules), Value, "there is no schedule '{}'", name);
  return *found;
}

}  // namespace strata::optim
