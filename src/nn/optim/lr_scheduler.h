// Learning-rate schedulers with PyTorch's names. Call step() after each epoch, or after each batch for schedules that
// count batches; several schedulers of one optimizer multiply.
//
//   optim::lr_scheduler::CosineAnnealingLR schedule(opt, {.T_max = 10});
//   for (...) { train(); schedule.step(); }
#pragma once
#include <limits>
#include <memory>

#include "nn/optim/optimizer.h"
#include "nn/optim/schedules.h"

namespace strata::optim::lr_scheduler {

class STRATA_API LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  virtual void step();
  const std::vector<double>& get_last_lr() const { return last_lr_; }  // of each group
  int64_t last_epoch() const { return last_epoch_; }
  // The state needed to resume; options are those of the constructor, the rates are in the optimizer's state_dict.
  virtual StateDict state_dict() const;
  virtual void load_state_dict(const StateDict& saved);

 protected:
  // last_epoch: -1 for a new run; otherwise the optimizer's groups must have their initial_lr, which load_state_dict
  // restores.
  LRScheduler(Optimizer& optimizer, int64_t last_epoch);
  virtual double next_lr(size_t group, bool initial) = 0;               // from the previous rate
  virtual double lr_at(size_t group) { return next_lr(group, false); }  // from last_epoch only, if possible
  virtual void start();                   // called at the end of every constructor: sets the rates of the first epoch
  virtual void undo() { --last_epoch_; }  // reverts start()
  virtual void restart();                 // epoch 0 again
  Moment moment(size_t group, bool initial) const;
  Optimizer& optimizer() const { return *optimizer_; }
  int64_t last_epoch_;
  std::vector<double> base_lrs_, last_lr_;

 private:
  friend class SchedulerList;
  friend class SequentialLR;
  friend class ChainedScheduler;
  void set_rates(const std::function<double(size_t)>& rate);
  Optimizer* optimizer_;
};

// Schedules with a single formula of a few numbers.
struct StepLROptions {
  double step_size = 0, gamma = 0.1;
};
struct MultiStepLROptions {
  std::vector<int64_t> milestones = {};
  double gamma = 0.1;
};
struct ConstantLROptions {
  double factor = 1.0 / 3, total_iters = 5;
};
struct LinearLROptions {
  double start_factor = 1.0 / 3, end_factor = 1, total_iters = 5;
};
struct ExponentialLROptions {
  double gamma = 0.1;
};
struct CosineAnnealingLROptions {
  double T_max = 0, eta_min = 0;
};
struct CosineAnnealingWarmRestartsOptions {
  double T_0 = 0, T_mult = 1, eta_min = 0;
};
struct PolynomialLROptions {
  double total_iters = 5, power = 1;
};
struct NamedSchedule {
  const char* name;
  std::vector<double> numbers;
};
STRATA_API NamedSchedule describe(const StepLROptions&);
STRATA_API NamedSchedule describe(const MultiStepLROptions&);
STRATA_API NamedSchedule describe(const ConstantLROptions&);
STRATA_API NamedSchedule describe(const LinearLROptions&);
STRATA_API NamedSchedule describe(const ExponentialLROptions&);
STRATA_API NamedSchedule describe(const CosineAnnealingLROptions&);
STRATA_API NamedSchedule describe(const CosineAnnealingWarmRestartsOptions&);
STRATA_API NamedSchedule describe(const PolynomialLROptions&);

class STRATA_API FormulaScheduler : public LRScheduler {
 protected:
  FormulaScheduler(Optimizer& optimizer, NamedSchedule schedule, int64_t last_epoch);
  double next_lr(size_t group, bool initial) override;
  double lr_at(size_t group) override;

 private:
  const Schedule& schedule_;
  std::vector<double> numbers_;
};
template <class O> class Scheduled : public FormulaScheduler {
 public:
  explicit Scheduled(Optimizer& optimizer, const O& options = {}, int64_t last_epoch = -1)
      : FormulaScheduler(optimizer, describe(options), last_epoch) {}
};
using StepLR = Scheduled<StepLROptions>;
using MultiStepLR = Scheduled<MultiStepLROptions>;
using ConstantLR = Scheduled<ConstantLROptions>;
using LinearLR = Scheduled<LinearLROptions>;
using ExponentialLR = Scheduled<ExponentialLROptions>;
using CosineAnnealingLR = Scheduled<CosineAnnealingLROptions>;
using CosineAnnealingWarmRestarts = Scheduled<CosineAnnealingWarmRestartsOptions>;
using PolynomialLR = Scheduled<PolynomialLROptions>;

// The initial rate times a function of the epoch; a function for all groups, or one for each.
using EpochFunction = std::function<double(int64_t epoch)>;
class STRATA_API LambdaLR : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::vector<EpochFunction> functions, int64_t last_epoch = -1);
  LambdaLR(Optimizer& optimizer, const EpochFunction& function, int64_t last_epoch = -1);

 protected:
  double next_lr(size_t group, bool initial) override;

 private:
  std::vector<EpochFunction> functions_;
};
// The previous rate times a function of the epoch.
class STRATA_API MultiplicativeLR : public LRScheduler {
 public:
  MultiplicativeLR(Optimizer& optimizer, std::vector<EpochFunction> functions, int64_t last_epoch = -1);
  MultiplicativeLR(Optimizer& optimizer, const EpochFunction& function, int64_t last_epoch = -1);

 protected:
  double next_lr(size_t group, bool initial) override;

 private:
  std::vector<EpochFunction> functions_;
};

// Up to max_lr and down again, once; momentum in the opposite direction. Counts batches. A list has one number for all
// groups or one each.
struct OneCycleLROptions {
  std::vector<double> max_lr = {};
  int64_t total_steps = 0;
  double pct_start = 0.3;
  bool linear = false;  // instead of cosines
  bool cycle_momentum = true;
  std::vector<double> base_momentum = {0.85}, max_momentum = {0.95};
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
};
class STRATA_API OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options, int64_t last_epoch = -1);

 protected:
  double next_lr(size_t group, bool initial) override;

 private:
  OneCycleLROptions options_;
};

// Up and down between base_lr and max_lr; momentum in the opposite direction. Counts batches.
struct CyclicLROptions {
  enum Mode : uint8_t { kTriangular, kTriangular2, kExpRange };
  std::vector<double> base_lr = {}, max_lr = {};
  int64_t step_size_up = 2000, step_size_down = 0;  // down 0: as up
  Mode mode = kTriangular;
  double gamma = 1;
  bool cycle_momentum = true;
  std::vector<double> base_momentum = {0.8}, max_momentum = {0.9};
};
class STRATA_API CyclicLR : public LRScheduler {
 public:
  CyclicLR(Optimizer& optimizer, const CyclicLROptions& options, int64_t last_epoch = -1);

 protected:
  double next_lr(size_t group, bool initial) override;

 private:
  CyclicLROptions options_;
};

// Shared parts of schedulers composed of schedulers.
class STRATA_API SchedulerList : public LRScheduler {
 public:
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& saved) override;

 protected:
  using Schedulers = std::vector<std::shared_ptr<LRScheduler>>;
  SchedulerList(const char* name, Optimizer& optimizer, Schedulers schedulers);
  double next_lr(size_t group, bool) override { return optimizer().lr(group); }
  void undo() override;
  void move(LRScheduler& s, void (LRScheduler::*how)(), int64_t epoch);  // and updates the rates
  Schedulers schedulers_;
};
// One scheduler after the other: schedulers[i] ends where milestones[i] begins the next.
class STRATA_API SequentialLR : public SchedulerList {
 public:
  SequentialLR(Optimizer& optimizer, Schedulers schedulers, std::vector<int64_t> milestones);
  void step() override;

 protected:
  void start() override;
  void restart() override;

 private:
  std::vector<int64_t> milestones_;
};
// Several schedulers at once.
class STRATA_API ChainedScheduler : public SchedulerList {
 public:
  ChainedScheduler(Optimizer& optimizer, Schedulers schedulers);
  void step() override;

 protected:
  void start() override;
  void restart() override;
};

// Reduces the rates when a metric stops improving.
struct ReduceLROnPlateauOptions {
  bool maximize = false;  // the metric should increase
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  bool absolute = false;  // the threshold is absolute, not relative
  int64_t cooldown = 0;
  double min_lr = 0, eps = 1e-8;
};
class STRATA_API ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  void step(double metric);
  std::vector<double> get_last_lr() const;
  StateDict state_dict() const;
  void load_state_dict(const StateDict& saved);

 private:
  Optimizer* optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  int64_t last_epoch_ = 0, bad_epochs_ = 0, cooldown_left_ = 0;
};

}  // namespace strata::optim::lr_scheduler
