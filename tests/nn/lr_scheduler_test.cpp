// Schedulers from C++: closed forms, sequences, resuming, bad arguments. More formulas, and equal bits with Python, are in
// tests/python/test_lr_scheduler.py and test_optim_languages.py.
#include <gtest/gtest.h>

#include <cmath>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

namespace s = optim::lr_scheduler;

std::vector<Tensor> parameters() { return {ones({1}).set_requires_grad()}; }

template <class S> std::vector<double> rates(S& schedule, int epochs) {
  std::vector<double> seen;
  for (int e = 0; e < epochs; ++e) {
    seen.push_back(schedule.get_last_lr()[0]);
    schedule.step();
  }
  return seen;
}
void expect_near(const std::vector<double>& seen, const std::function<double(int)>& want) {
  for (size_t e = 0; e < seen.size(); ++e) EXPECT_NEAR(seen[e], want(static_cast<int>(e)), 1e-12) << "epoch " << e;
}

TEST(LrScheduler, RatesAreTheClosedForm) {
  optim::SGD opt(parameters(), {.lr = 0.5});
  {
    s::StepLR schedule(opt, {.step_size = 3, .gamma = 0.5});
    expect_near(rates(schedule, 10), [](int e) { return 0.5 * std::pow(0.5, e / 3); });
  }
  opt.set_lr(0.5);
  s::CosineAnnealingLR schedule(opt, {.T_max = 8, .eta_min = 0.1});
  expect_near(rates(schedule, 20), [](int e) { return 0.1 + 0.4 * (1 + std::cos(M_PI * e / 8)) / 2; });
}

TEST(LrScheduler, FunctionsOfTheEpoch) {
  optim::SGD opt(parameters(), {.lr = 0.5});
  {
    s::LambdaLR schedule(opt, [](int64_t e) { return 1.0 / static_cast<double>(1 + e); });
    expect_near(rates(schedule, 5), [](int e) { return 0.5 / (1 + e); });
  }
  opt.set_lr(0.5);
  s::MultiplicativeLR schedule(opt, [](int64_t) { return 0.9; });
  expect_near(rates(schedule, 5), [](int e) { return 0.5 * std::pow(0.9, e); });
  EXPECT_ERROR(Value, "Expected 1 lr_lambdas, but got 0", s::LambdaLR(opt, std::vector<s::EpochFunction>{}));
  EXPECT_ERROR(Value, "an empty one", s::LambdaLR(opt, s::EpochFunction{}));
}

TEST(LrScheduler, SequenceAndChain) {
  optim::SGD opt(parameters(), {.lr = 0.5});
  const auto make = [&] {
    return std::make_unique<s::SequentialLR>(
      opt,
      std::vector<std::shared_ptr<s::LRScheduler>>{
        std::make_shared<s::LinearLR>(opt, s::LinearLROptions{.start_factor = 0.1, .total_iters = 4}),
        std::make_shared<s::ExponentialLR>(opt, s::ExponentialLROptions{.gamma = 0.5})},
      std::vector<int64_t>{4});
  };
  const auto want = [](int e) { return e < 4 ? 0.5 * (0.1 + 0.9 * e / 4) : 0.5 * std::pow(0.5, e - 4); };
  const auto whole = make();
  expect_near(rates(*whole, 9), want);

  const auto first = make();
  rates(*first, 5);
  const optim::StateDict of_optimizer = opt.state_dict(), saved = first->state_dict();
  const auto second = make();
  opt.load_state_dict(of_optimizer);
  second->load_state_dict(saved);
  EXPECT_EQ(second->last_epoch(), 5);
  expect_near(rates(*second, 3), [&](int e) { return want(e + 5); });

  opt.set_lr(0.5);
  s::ChainedScheduler chain(
    opt, {std::make_shared<s::ConstantLR>(opt, s::ConstantLROptions{.factor = 0.1, .total_iters = 2}),
          std::make_shared<s::ExponentialLR>(opt, s::ExponentialLROptions{.gamma = 0.9})});
  expect_near(rates(chain, 5), [](int e) { return 0.5 * (e < 2 ? 0.1 : 1) * std::pow(0.9, e); });
}

TEST(LrScheduler, OneCycleMovesMomentumToo) {
  optim::Adam opt(parameters());
  s::OneCycleLR schedule(opt, {.max_lr = {0.5}, .total_steps = 11, .pct_start = 6.0 / 11, .linear = true});
  for (int e = 0; e < 10; ++e) {
    const double part = e <= 5 ? e / 5.0 : 1 - (e - 5) / 5.0;
    EXPECT_NEAR(opt.lr(), e <= 5 ? 0.02 + 0.48 * part : 2e-6 + (0.5 - 2e-6) * part, 1e-12);
    EXPECT_NEAR(opt.option("beta1"), 0.95 - 0.1 * part, 1e-12);
    schedule.step();
  }
  schedule.step();
  EXPECT_ERROR(Value, "Tried to step 12 times", schedule.step());
}

TEST(LrScheduler, OneCycleTakesEpochsOfSteps) {
  optim::Adam opt(parameters()), other(parameters());
  s::OneCycleLR by_steps(opt, {.max_lr = {0.5}, .total_steps = 12});
  s::OneCycleLR by_epochs(other, {.max_lr = {0.5}, .epochs = 3, .steps_per_epoch = 4});
  EXPECT_EQ(rates(by_epochs, 12), rates(by_steps, 12));
  EXPECT_ERROR(Value, "positive integer total_steps", s::OneCycleLR(opt, {.max_lr = {0.5}, .epochs = 3}));
}

TEST(LrScheduler, PlateauHasAMinimumForEachGroup) {
  optim::SGD opt(parameters(), {.lr = 0.5});
  opt.add_group({ones({2}).set_requires_grad()});
  s::ReduceLROnPlateau schedule(opt, {.factor = 0.5, .patience = 0, .min_lr = {0.4, 0.1}});
  for (int e = 0; e < 2; ++e) schedule.step(1.0);
  EXPECT_EQ(schedule.get_last_lr(), (std::vector<double>{0.4, 0.25}));
  EXPECT_ERROR(Value, "expected one min_lr", s::ReduceLROnPlateau(opt, {.min_lr = {0.1, 0.1, 0.1}}));
}

TEST(LrScheduler, PlateauLowersTheRate) {
  optim::SGD opt(parameters(), {.lr = 0.5});
  s::ReduceLROnPlateau schedule(opt, {.factor = 0.5, .patience = 1});
  for (double loss : {1.0, 0.9, 0.9}) schedule.step(loss);
  EXPECT_EQ(opt.lr(), 0.5);
  s::ReduceLROnPlateau resumed(opt, {.factor = 0.5, .patience = 1});
  resumed.load_state_dict(schedule.state_dict());
  resumed.step(0.9);
  EXPECT_EQ(opt.lr(), 0.25);
  EXPECT_ERROR(
    Value, "'best' is missing",
    resumed.load_state_dict({{"last_epoch", ones({})}, {"num_bad_epochs", ones({})}, {"cooldown_counter", ones({})}}));
  EXPECT_ERROR(Value, "Factor should be < 1.0", s::ReduceLROnPlateau(opt, {.factor = 2}));
}

TEST(LrScheduler, BadArgumentsAreNamed) {
  optim::SGD opt(parameters(), {.lr = 0.5}), other(parameters());
  EXPECT_ERROR(Value, "positive step_size", s::StepLR(opt));
  EXPECT_ERROR(Value, "a number gamma", s::ExponentialLR(opt));
  EXPECT_ERROR(Value, "initial_lr of parameter group 0 is not known", s::StepLR(other, {.step_size = 1}, 3));
  EXPECT_ERROR(Value, "greater than 0", s::LinearLR(opt, {.start_factor = 0}));
  EXPECT_ERROR(Value, "momentum or beta1", [] {
    optim::Adagrad adagrad(parameters());
    s::OneCycleLR schedule(adagrad, {.max_lr = {0.5}, .total_steps = 5});
  }());
  EXPECT_ERROR(Value, "expected one max_lr", s::OneCycleLR(opt, {.total_steps = 5}));
  EXPECT_ERROR(Value, "at least one scheduler", s::ChainedScheduler(opt, {}));
  EXPECT_ERROR(Value, "same optimizer",
               s::ChainedScheduler(other, {std::make_shared<s::StepLR>(opt, s::StepLROptions{.step_size = 1})}));
  s::StepLR schedule(opt, {.step_size = 1});
  EXPECT_ERROR(Value, "'last_epoch' is missing", schedule.load_state_dict({}));
  opt.add_group({ones({2}).set_requires_grad()});
  EXPECT_ERROR(Value, "2 parameter groups, it had 1", schedule.step());
}

}  // namespace
}  // namespace strata
