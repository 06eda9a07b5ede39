#include "nn/optim/lr_scheduler.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/movement/copy.h"

namespace strata::optim::lr_scheduler {
namespace {

// --- saved numbers

Tensor saved_number(double v) { return full({}, v, DType::F64); }
Tensor saved_numbers(const std::vector<double>& values) {
  Tensor t = make_tensor(std::vector<int64_t>{static_cast<int64_t>(values.size())}, DType::F64);
  std::copy(values.begin(), values.end(), t.data<double>());
  return t;
}
const Tensor& entry(const StateDict& saved, std::string_view name) {
  const auto found = std::ranges::find(saved, name, &StateDict::value_type::first);
  STRATA_CHECK(found != saved.end(), Value, "load_state_dict: '{}' is missing", name);
  return found->second;
}
double loaded_number(const StateDict& saved, std::string_view name) {
  const Tensor& t = entry(saved, name);
  STRATA_CHECK(t.numel() == 1, Value, "load_state_dict: '{}' must be one number, found shape {}", name,
               to_string(t.shape()));
  return t.item<double>();
}
std::vector<double> loaded_numbers(const StateDict& saved, std::string_view name, size_t count) {
  const Tensor t = contiguous(to(entry(saved, name), DType::F64));
  STRATA_CHECK(t.numel() == static_cast<int64_t>(count), Value,
               "load_state_dict: '{}' has {} numbers, the optimizer {} parameter groups", name, t.numel(), count);
  return {t.data<double>(), t.data<double>() + count};
}

// --- options of groups

// A number for each group, from a list of one or of all.
std::vector<double> for_groups(const std::vector<double>& given, const Optimizer& optimizer, const char* name) {
  const size_t groups = optimizer.group_count();
  if (given.size() == 1) return std::vector<double>(groups, given[0]);
  STRATA_CHECK(given.size() == groups, Value, "expected one {} or one for each of {} parameter groups, got {}", name,
               groups, given.size());
  return given;
}

void check_group_count(const Optimizer& optimizer, size_t before) {
  STRATA_CHECK(optimizer.group_count() == before, Value,
               "the optimizer has {} parameter groups, it had {} when the scheduler was made", optimizer.group_count(),
               before);
}

// The optimizer's name of its momentum option.
const char* momentum_name(const Optimizer& optimizer) {
  for (const char* name : {"momentum", "beta1"})
    if (optimizer.has_option(name)) return name;
  fail(ErrorKind::Value, "optimizer must support momentum or beta1 with cycle_momentum enabled");
}

template <class O> void check_options(const O& options) {
  const NamedSchedule s = describe(options);
  find_schedule(s.name).check(s.numbers);
}
// The value of a schedule that serves rates and momenta.
template <class O> double value_at(const Moment& moment, const O& options, std::initializer_list<double> given) {
  NamedSchedule s = describe(options);
  s.numbers.insert(s.numbers.end(), given);
  return find_schedule(s.name).at(moment, s.numbers);
}

std::vector<EpochFunction> checked(std::vector<EpochFunction> functions, const Optimizer& optimizer) {
  STRATA_CHECK(functions.size() == optimizer.group_count(), Value, "Expected {} lr_lambdas, but got {}",
               optimizer.group_count(), functions.size());
  for (const EpochFunction& f : functions) STRATA_CHECK(f, Value, "lr_lambda must be a function, found an empty one");
  return functions;
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer, int64_t last_epoch) : last_epoch_(last_epoch), optimizer_(&optimizer) {
  STRATA_CHECK(last_epoch >= -1, Value, "last_epoch is -1 for a new run or the epoch to go on from, found {}",
               last_epoch);
  for (size_t g = 0; g < optimizer.group_count(); ++g) {
    STRATA_CHECK(last_epoch == -1 || optimizer.initial_lr(g), Value,
                 "initial_lr of parameter group {} is not known, but last_epoch {} resumes a run: load the optimizer's "
                 "state_dict first",
                 g, last_epoch);
    if (!optimizer.initial_lr(g)) optimizer.set_initial_lr(optimizer.lr(g), g);
    base_lrs_.push_back(*optimizer.initial_lr(g));
  }
}

Moment LRScheduler::moment(size_t group, bool initial) const {
  return {static_cast<double>(last_epoch_), optimizer_->lr(group), base_lrs_[group], initial};
}

void LRScheduler::set_rates(const std::function<double(size_t)>& rate) {
  check_group_count(*optimizer_, base_lrs_.size());
  std::vector<double> rates;  // computed first: a schedule that has ended changes nothing
  for (size_t g = 0; g < base_lrs_.size(); ++g) rates.push_back(rate(g));
  for (size_t g = 0; g < rates.size(); ++g) optimizer_->set_lr(rates[g], g);
  last_lr_ = std::move(rates);
}

void LRScheduler::start() {
  ++last_epoch_;
  set_rates([this](size_t g) { return next_lr(g, true); });
}
void LRScheduler::step() {
  ++last_epoch_;
  set_rates([this](size_t g) { return next_lr(g, false); });
}
void LRScheduler::restart() {
  last_epoch_ = 0;
  set_rates([this](size_t g) { return lr_at(g); });
}

StateDict LRScheduler::state_dict() const {
  return {{"last_epoch", saved_number(static_cast<double>(last_epoch_))},
          {"base_lrs", saved_numbers(base_lrs_)},
          {"last_lr", saved_numbers(last_lr_)}};
}
void LRScheduler::load_state_dict(const StateDict& saved) {
  const auto epoch = static_cast<int64_t>(loaded_number(saved, "last_epoch"));
  std::vector<double> base = loaded_numbers(saved, "base_lrs", base_lrs_.size());
  std::vector<double> last = loaded_numbers(saved, "last_lr", base_lrs_.size());
  last_epoch_ = epoch;
  base_lrs_ = std::move(base);
  last_lr_ = std::move(last);
}

// --- formulas

FormulaScheduler::FormulaScheduler(Optimizer& optimizer, NamedSchedule schedule, int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch),
      schedule_(find_schedule(schedule.name)),
      numbers_(std::move(schedule.numbers)) {
  schedule_.check(numbers_);
  LRScheduler::start();
}
double FormulaScheduler::next_lr(size_t group, bool initial) {
  return schedule_.next(moment(group, initial), numbers_);
}
double FormulaScheduler::lr_at(size_t group) { return schedule_.at(moment(group, false), numbers_); }

// --- functions of the epoch

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<EpochFunction> functions, int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), functions_(checked(std::move(functions), optimizer)) {
  LRScheduler::start();
}
LambdaLR::LambdaLR(Optimizer& optimizer, const EpochFunction& function, int64_t last_epoch)
    : LambdaLR(optimizer, std::vector<EpochFunction>(optimizer.group_count(), function), last_epoch) {}
double LambdaLR::next_lr(size_t group, bool) { return base_lrs_[group] * functions_[group](last_epoch()); }

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::vector<EpochFunction> functions, int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), functions_(checked(std::move(functions), optimizer)) {
  LRScheduler::start();
}
MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, const EpochFunction& function, int64_t last_epoch)
    : MultiplicativeLR(optimizer, std::vector<EpochFunction>(optimizer.group_count(), function), last_epoch) {}
double MultiplicativeLR::next_lr(size_t group, bool initial) {
  const double lr = optimizer().lr(group);
  return initial ? lr : lr * functions_[group](last_epoch());
}

// --- cycles

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options, int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), options_(std::move(options)) {
  OneCycleLROptions& o = options_;
  o.max_lr = for_groups(o.max_lr, optimizer, "max_lr");
  o.base_momentum = for_groups(o.base_momentum, optimizer, "base_momentum");
  o.max_momentum = for_groups(o.max_momentum, optimizer, "max_momentum");
  if (o.total_steps == 0) o.total_steps = (Checked(o.epochs) * o.steps_per_epoch).get();
  check_options(o);
  if (o.cycle_momentum) momentum_name(optimizer);  // checks it
  for (size_t g = 0; last_epoch == -1 && g < base_lrs_.size(); ++g) {
    base_lrs_[g] = o.max_lr[g] / o.div_factor;
    optimizer.set_initial_lr(base_lrs_[g], g);
  }
  LRScheduler::start();
}
double OneCycleLR::next_lr(size_t group, bool initial) {
  const OneCycleLROptions& o = options_;
  const Moment m = moment(group, initial);
  const double base = base_lrs_[group], low = o.base_momentum[group], high = o.max_momentum[group];
  const double lr = value_at(m, o, {base, o.max_lr[group], base / o.final_div_factor});
  if (o.cycle_momentum) optimizer().set_option(momentum_name(optimizer()), value_at(m, o, {high, low, high}), group);
  return lr;
}

CyclicLR::CyclicLR(Optimizer& optimizer, CyclicLROptions options, int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), options_(std::move(options)) {
  CyclicLROptions& o = options_;
  o.base_lr = for_groups(o.base_lr, optimizer, "base_lr");
  o.max_lr = for_groups(o.max_lr, optimizer, "max_lr");
  o.base_momentum = for_groups(o.base_momentum, optimizer, "base_momentum");
  o.max_momentum = for_groups(o.max_momentum, optimizer, "max_momentum");
  if (o.step_size_down == 0) o.step_size_down = o.step_size_up;
  check_options(o);
  if (o.cycle_momentum) momentum_name(optimizer);  // checks it
  base_lrs_ = o.base_lr;
  LRScheduler::start();
}
double CyclicLR::next_lr(size_t group, bool initial) {
  const CyclicLROptions& o = options_;
  const Moment m = moment(group, initial);
  constexpr double kNoScale = 1;  // the height of a cycle is that of its mode
  if (o.cycle_momentum)
    optimizer().set_option(momentum_name(optimizer()),
                           value_at(m, o, {o.max_momentum[group], o.base_momentum[group], kNoScale}), group);
  return value_at(m, o, {o.base_lr[group], o.max_lr[group], kNoScale});
}

// --- schedulers of schedulers

SchedulerList::SchedulerList(const char* name, Optimizer& optimizer, Schedulers schedulers)
    : LRScheduler(optimizer, -1), schedulers_(std::move(schedulers)) {
  STRATA_CHECK(!schedulers_.empty(), Value, "{} expects at least one scheduler, but got no scheduler", name);
  for (size_t i = 0; i < schedulers_.size(); ++i)
    STRATA_CHECK(schedulers_[i] && schedulers_[i]->optimizer_ == &optimizer, Value,
                 "{} expects all schedulers to belong to the same optimizer, but scheduler {} has another", name, i);
}
void SchedulerList::undo() {
  LRScheduler::undo();
  for (const auto& s : schedulers_) s->undo();
}
void SchedulerList::move(LRScheduler& s, void (LRScheduler::*how)(), int64_t epoch) {
  (s.*how)();
  last_epoch_ = epoch;
  last_lr_ = s.last_lr_;
}
StateDict SchedulerList::state_dict() const {
  StateDict result = LRScheduler::state_dict();
  for (size_t i = 0; i < schedulers_.size(); ++i)
    for (auto& [name, tensor] : schedulers_[i]->state_dict())
      result.emplace_back(fmt::format("schedulers.{}.{}", i, name), tensor);
  return result;
}
void SchedulerList::load_state_dict(const StateDict& saved) {
  for (size_t i = 0; i < schedulers_.size(); ++i) {
    const std::string prefix = fmt::format("schedulers.{}.", i);
    StateDict part;
    for (const auto& [name, tensor] : saved)
      if (name.starts_with(prefix)) part.emplace_back(name.substr(prefix.size()), tensor);
    schedulers_[i]->load_state_dict(part);
  }
  LRScheduler::load_state_dict(saved);
}

SequentialLR::SequentialLR(Optimizer& optimizer, Schedulers schedulers, std::vector<int64_t> milestones)
    : SchedulerList("SequentialLR", optimizer, std::move(schedulers)), milestones_(std::move(milestones)) {
  STRATA_CHECK(milestones_.size() + 1 == schedulers_.size(), Value,
               "SequentialLR expects one scheduler more than milestones, but got {} schedulers and {} milestones",
               schedulers_.size(), milestones_.size());
  STRATA_CHECK(std::ranges::is_sorted(milestones_), Value, "SequentialLR: the milestones must be in increasing order");
  for (size_t g = 0; g < base_lrs_.size(); ++g) optimizer.set_lr(*optimizer.initial_lr(g), g);
  SchedulerList::undo();
  SequentialLR::start();
}
void SequentialLR::start() { move(*schedulers_[0], &LRScheduler::start, 0); }
void SequentialLR::restart() { move(*schedulers_[0], &LRScheduler::restart, 0); }
void SequentialLR::step() {
  const int64_t epoch = last_epoch() + 1;
  const auto next = std::ranges::upper_bound(milestones_, epoch);
  const bool begins = next != milestones_.begin() && *(next - 1) == epoch;
  move(*schedulers_[static_cast<size_t>(next - milestones_.begin())],
       begins ? &LRScheduler::restart : &LRScheduler::step, epoch);
}

ChainedScheduler::ChainedScheduler(Optimizer& optimizer, Schedulers schedulers)
    : SchedulerList("ChainedScheduler", optimizer, std::move(schedulers)) {
  last_epoch_ = 0;
  last_lr_ = schedulers_.back()->get_last_lr();
}
void ChainedScheduler::start() {
  for (const auto& s : schedulers_) move(*s, &LRScheduler::start, 0);
}
void ChainedScheduler::restart() {
  for (const auto& s : schedulers_) move(*s, &LRScheduler::restart, 0);
}
void ChainedScheduler::step() {
  const int64_t epoch = last_epoch() + 1;
  for (const auto& s : schedulers_) move(*s, &LRScheduler::step, epoch);
}

// --- plateaus

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : optimizer_(&optimizer), options_(std::move(options)) {
  check_options(options_);
  options_.min_lr = for_groups(options_.min_lr, optimizer, "min_lr");
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = options_.maximize ? -infinity : infinity;
}

void ReduceLROnPlateau::step(double metric) {
  const ReduceLROnPlateauOptions& o = options_;
  ++last_epoch_;
  const double sign = o.maximize ? 1 : -1;
  const double mark = o.absolute ? best_ + sign * o.threshold : best_ * (1 + sign * o.threshold);
  const bool better = o.maximize ? metric > mark : metric < mark;
  if (better) {
    best_ = metric;
    bad_epochs_ = 0;
  } else ++bad_epochs_;
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= o.patience) return;
  check_group_count(*optimizer_, o.min_lr.size());
  for (size_t g = 0; g < optimizer_->group_count(); ++g) {
    const double old = optimizer_->lr(g), lower = std::max(old * o.factor, o.min_lr[g]);
    if (old - lower > o.eps) optimizer_->set_lr(lower, g);
  }
  cooldown_left_ = o.cooldown;
  bad_epochs_ = 0;
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const {
  std::vector<double> rates;
  for (size_t g = 0; g < optimizer_->group_count(); ++g) rates.push_back(optimizer_->lr(g));
  return rates;
}
StateDict ReduceLROnPlateau::state_dict() const {
  return {{"last_epoch", saved_number(static_cast<double>(last_epoch_))},
          {"best", saved_number(best_)},
          {"num_bad_epochs", saved_number(static_cast<double>(bad_epochs_))},
          {"cooldown_counter", saved_number(static_cast<double>(cooldown_left_))}};
}
void ReduceLROnPlateau::load_state_dict(const StateDict& saved) {
  const auto count = [&](const char* name) { return static_cast<int64_t>(loaded_number(saved, name)); };
  const int64_t epoch = count("last_epoch"), bad = count("num_bad_epochs"), left = count("cooldown_counter");
  best_ = loaded_number(saved, "best");
  last_epoch_ = epoch;
  bad_epochs_ = bad;
  cooldown_left_ = left;
}

}  // namespace strata::optim::lr_scheduler
