// Learning-rate schedulers with PyTorch's names. Call step() after each epoch, or after each batch for schedules that
// count batches; several schedulers of one optimizer multiply.
//
//   optim::lr_scheduler::CosineAnnealingLR schedule(opt, {.T_max = 10});
//   for (...) { train(); schedule.step(); }
#pragma once
#include <memory>

#include "nn/optim/optimizer.h"
#include "strata/nn/schedulers.h"

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

// Schedules with a single formula of a few numbers. Their options are in strata/nn/schedulers.h, generated from
// schedules.schedulers.
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

// Counts batches. total_steps may be given as epochs and steps_per_epoch.
class STRATA_API OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options, int64_t last_epoch = -1);

 protected:
  double next_lr(size_t group, bool initial) override;

 private:
  OneCycleLROptions options_;
};

// Counts batches. step_size_down 0 is that of step_size_up.
class STRATA_API CyclicLR : public LRScheduler {
 public:
  CyclicLR(Optimizer& optimizer, CyclicLROptions options, int64_t last_epoch = -1);

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

class STRATA_API ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});
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
