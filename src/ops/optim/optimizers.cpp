// One step of each optimizer over all parameters of a group: a record per rule. They change their arguments and return
// nothing. strata.optim and strata::optim keep the state and call them. Step counts in host memory are advanced here;
// those on a device are advanced there, so that a graph can capture the step.
#include <algorithm>
#include <cstring>

#include "cpu/optim/optimizers.h"
#include "cuda/optim/optimizers.h"
#include "cuda/runtime/graph.h"
#include "device/functors/optimizer_numbers.h"
#include "ops/transfer.h"
#include "strata/args/optim/optimizers.h"

namespace strata {
namespace {

using cpu::Rule;
using cpu::Update;
using Run = void (*)(Rule, std::span<Update>);

// The lists of one call, checked for consistency: parameters and gradients first, then the lists of state.
class Step {
 public:
  Step(const Call& c, Run run) : c_(c), run_(run) {}
  Step(const Call& c, Workspace& workspace) : c_(c), workspace_(&workspace) {}
  // Sets the parameters to update and their gradients.
  void updates(TensorList params, TensorList grads) {
    params_ = params;
    grads_ = grads;
    check_count(grads_, "gradients");
    updates_.resize(params_.size());
    for (size_t i = 0; i < params_.size(); ++i) {
      const Tensor &p = params_[i], &g = grads_[i];
      STRATA_CHECK(is_floating(p.dtype()), Type, "{}: parameter {} must be of a floating dtype, found {}", name(), i,
                   name_of(p.dtype()));
      STRATA_CHECK(p->same_shape(*g), Runtime, "{}: parameter {} has shape {} but its gradient {}", name(), i,
                   to_string(p.shape()), to_string(g.shape()));
      updates_[i].value = p;
      updates_[i].grad = g;
    }
  }
  size_t count() const { return params_.size(); }

  // Sets state k of each parameter; an empty list: the rule works without it.
  bool state(int k, const char* what, TensorList list) {
    if (list.empty()) return false;
    check_count(list, what);
    for (size_t i = 0; i < count(); ++i) {
      STRATA_CHECK(params_[i]->same_shape(*list[i]), Runtime, "{}: {}[{}] has shape {}, expected {}", name(), what, i,
                   to_string(list[i].shape()), to_string(params_[i].shape()));
      updates_[i].state[static_cast<size_t>(k)] = list[i];
    }
    return true;
  }
  // Sets number k kept with each parameter: the step count is number 0.
  void keeps(int k, const char* what, TensorList list) {
    check_count(list, what);
    kept_[k] = list;
    for (size_t i = 0; i < list.size(); ++i) {
      STRATA_CHECK(list[i].numel() == 1, Runtime, "{}: {} must hold one number each, found shape {}", name(), what,
                   to_string(list[i].shape()));
      STRATA_CHECK(list[i].device() == kept_[0][i].device(), Runtime, "{}: {}[{}] is on {}, the step count on {}",
                   name(), what, i, to_string(list[i].device()), to_string(kept_[0][i].device()));
    }
  }
  // The learning rate. If it is on a device, it is read there if the rule's other numbers are too.
  double lr(const Value& v) {
    if (v.tag != Tag::Tensor) return v.number();
    STRATA_CHECK(v.tensor->numel == 1, Value, "{}: the learning rate must be one number, found shape {}", name(),
                 to_string(v.tensor->sizes()));
    const Tensor t = alias(*v.tensor);
    const bool there = t.device().type != DeviceType::Cpu;
    if (there && std::ranges::all_of(kept_[0], [&](const Tensor& n) { return n.device() == t.device(); })) {
      lr_ = t;
      return 0;
    }
    if (there) refuse_capture(t.device());
    return planning() ? 0 : t.item<double>();
  }
  template <class Numbers> void run(Rule rule, const Numbers& numbers) {
    static_assert(sizeof(Numbers) % sizeof(double) == 0 && sizeof(Numbers) / sizeof(double) <= cuda::kRuleNumbers);
    for (size_t i = 0; i < count(); ++i)
      if (!on_device(i) && !planning()) {
        double kept[cuda::kKeptNumbers] = {};
        for (size_t k = 0; k < cuda::kKeptNumbers && !kept_[k].empty(); ++k) {
          if (!run_) refuse_capture(params_[i].device());
          kept[k] = kept_[k][i].item<double>();
        }
        numbers(kept, updates_[i].members.data());
        for (size_t k = 0; k < cuda::kKeptNumbers && !kept_[k].empty(); ++k) fill_values(*kept_[k][i], kept[k]);
      }
    if (run_) run_(rule, updates_);
    else {
      double options[sizeof(Numbers) / sizeof(double)];
      std::memcpy(options, &numbers, sizeof numbers);
      run_on_device(rule, options);
    }
  }
  const std::string& name() const { return c_.op.name; }

 private:
  void check_count(TensorList list, std::string_view what) const {
    STRATA_CHECK(list.size() == params_.size(), Value, "{}: {} parameters but {} {}", name(), params_.size(),
                 list.size(), what);
  }
  // Whether the members of parameter i are computed on the device.
  bool on_device(size_t i) const { return kept_[0].empty() ? bool(lr_) : kept_[0][i].device().type != DeviceType::Cpu; }
  void refuse_capture(Device device) const {
    STRATA_CHECK(!cuda::is_capturing(device), Runtime,
                 "{}: its step counts are in host memory, so a captured step would repeat itself in every replay; make "
                 "the optimizer with capturable=True",
                 name());
  }
  void run_on_device(Rule rule, std::span<const double> options) const {
    static constexpr const char* names[] = {
#define STRATA_RULE(name) #name,
#include "device/functors/optimizer_rules.inc"
    };
    std::vector<cuda::OptimizerUpdate> list;
    list.reserve(count());
    for (size_t i = 0; i < count(); ++i) {
      const Update& u = updates_[i];
      cuda::OptimizerUpdate& added = list.emplace_back(cuda::OptimizerUpdate{u.value, u.grad, u.state, u.members});
      added.on_device = on_device(i);
      for (size_t k = 0; added.on_device && k < cuda::kKeptNumbers && !kept_[k].empty(); ++k)
        added.kept[k] = kept_[k][i];
    }
    cuda::optimizer_step(names[static_cast<int>(rule)], list, options, lr_, *workspace_);
  }
  bool planning() const { return workspace_ && workspace_->planning(); }
  const Call& c_;
  Run run_ = nullptr;               // on the CPU
  Workspace* workspace_ = nullptr;  // on a device
  TensorList params_, grads_, kept_[cuda::kKeptNumbers];
  Tensor lr_;  // on the device, instead of in the options
  std::vector<Update> updates_;
};
static_assert(cpu::kRuleMembers == cuda::kRuleNumbers);

double number(bool option) { return option ? 1 : 0; }

void sgd(const Call& c, Step& s) {
  const args::_fused_sgd a(c);
  s.updates(a.params(), a.grads());
  const bool buffers = s.state(0, "momentum_buffers", a.momentum_buffers());
  STRATA_CHECK(buffers || a.momentum() == 0 || s.count() == 0, Value, "{}: momentum needs momentum_buffers", s.name());
  s.run(Rule::Sgd, fn::SgdNumbers{s.lr(a.lr_value()), number(a.maximize()), a.weight_decay(), a.momentum(),
                                  a.dampening(), number(a.nesterov()), number(a.first())});
}

void adam(const Call& c, Step& s) {
  const args::_fused_adam a(c);
  s.updates(a.params(), a.grads());
  s.keeps(0, "steps", a.steps());
  s.state(0, "exp_avgs", a.exp_avgs());
  s.state(1, "exp_avg_sqs", a.exp_avg_sqs());
  const bool amsgrad = s.state(2, "max_exp_avg_sqs", a.max_exp_avg_sqs());
  s.run(Rule::Adam,
        fn::AdamNumbers{s.lr(a.lr_value()), number(a.maximize()), a.weight_decay(), number(a.decoupled_weight_decay()),
                        a.beta1(), a.beta2(), a.eps(), static_cast<double>(amsgrad)});
}

void nadam(const Call& c, Step& s) {
  const args::_fused_nadam a(c);
  s.updates(a.params(), a.grads());
  s.keeps(0, "steps", a.steps());
  s.keeps(1, "mu_products", a.mu_products());
  s.state(0, "exp_avgs", a.exp_avgs());
  s.state(1, "exp_avg_sqs", a.exp_avg_sqs());
  s.run(Rule::Nadam,
        fn::NadamNumbers{s.lr(a.lr_value()), number(a.maximize()), a.weight_decay(), number(a.decoupled_weight_decay()),
                         a.beta1(), a.beta2(), a.eps(), a.momentum_decay()});
}

void radam(const Call& c, Step& s) {
  const args::_fused_radam a(c);
  s.updates(a.params(), a.grads());
  s.keeps(0, "steps", a.steps());
  s.state(0, "exp_avgs", a.exp_avgs());
  s.state(1, "exp_avg_sqs", a.exp_avg_sqs());
  s.run(Rule::Radam, fn::RadamNumbers{s.lr(a.lr_value()), number(a.maximize()), a.weight_decay(),
                                      number(a.decoupled_weight_decay()), a.beta1(), a.beta2(), a.eps()});
}

void adamax(const Call& c, Step& s) {
  const args::_fused_adamax a(c);
  s.updates(a.params(), a.grads());
  s.keeps(0, "steps", a.steps());
  s.state(0, "exp_avgs", a.exp_avgs());
  s.state(1, "exp_infs", a.exp_infs());
  s.run(Rule::Adamax,
        fn::AdamaxNumbers{s.lr(a.lr_value()), number(a.maximize()), a.weight_decay(), a.beta1(), a.beta2(), a.eps()});
}

void adagrad(const Call& c, Step& s) {
  const args::_fused_adagrad a(c);
  s.updates(a.params(), a.grads());
  s.keeps(0, "steps", a.steps());
  s.state(0, "sums", a.sums());
  s.run(Rule::Adagrad,
        fn::AdagradNumbers{s.lr(a.lr_value()), number(a.maximize()), a.weight_decay(), a.lr_decay(), a.eps()});
}

void adadelta(const Call& c, Step& s) {
  const args::_fused_adadelta a(c);
  s.updates(a.params(), a.grads());
  s.keeps(0, "steps", a.steps());
  s.state(0, "square_avgs", a.square_avgs());
  s.state(1, "acc_deltas", a.acc_deltas());
  s.run(Rule::Adadelta,
        fn::AdadeltaNumbers{s.lr(a.lr_value()), number(a.maximize()), a.weight_decay(), a.rho(), a.eps()});
}

void rmsprop(const Call& c, Step& s) {
  const args::_fused_rmsprop a(c);
  s.updates(a.params(), a.grads());
  s.keeps(0, "steps", a.steps());
  s.state(0, "square_avgs", a.square_avgs());
  const bool buffers = s.state(1, "momentum_buffers", a.momentum_buffers()),
             centered = s.state(2, "grad_avgs", a.grad_avgs());
  STRATA_CHECK(buffers || a.momentum() == 0 || s.count() == 0, Value, "{}: momentum needs momentum_buffers", s.name());
  s.run(Rule::Rmsprop, fn::RmspropNumbers{s.lr(a.lr_value()), number(a.maximize()), a.weight_decay(), a.alpha(),
                                          a.eps(), a.momentum(), static_cast<double>(centered)});
}

void asgd(const Call& c, Step& s) {
  const args::_fused_asgd a(c);
  s.updates(a.params(), a.grads());
  s.keeps(0, "steps", a.steps());
  s.keeps(1, "etas", a.etas());
  s.keeps(2, "mus", a.mus());
  s.state(0, "axs", a.axs());
  s.run(Rule::Asgd,
        fn::AsgdNumbers{s.lr(a.lr_value()), number(a.maximize()), a.weight_decay(), a.lambd(), a.alpha(), a.t0()});
}

void rprop(const Call& c, Step& s) {
  const args::_fused_rprop a(c);
  s.updates(a.params(), a.grads());
  s.keeps(0, "steps", a.steps());
  s.state(0, "prevs", a.prevs());
  s.state(1, "step_sizes", a.step_sizes());
  s.run(Rule::Rprop, fn::RpropNumbers{0, number(a.maximize()), a.etaminus(), a.etaplus(), a.step_min(), a.step_max()});
}

using Rules = void (*)(const Call&, Step&);
template <Rules rules, Run run> void on_host(const Call& c) {
  Step step(c, run);
  rules(c, step);
}
template <Rules rules> void on_device(const Call& c, Workspace& workspace) {
  Step step(c, workspace);
  rules(c, step);
}
void nothing(const Call&) {}

}  // namespace

// Common to all rules: two kernels, no result.
#define STRATA_STEP(function)                                      \
  .infer(nothing)                                                  \
    .kernel("fused", on_host<function, cpu::update_fused>)         \
    .kernel("reference", on_host<function, cpu::update_reference>) \
    .cuda("fused", on_device<function>)                            \
    .dtypes(kFloatingTypes)

STRATA_OP(_fused_sgd,
          "_fused_sgd(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, Tensor lr, float momentum=0, "
          "float dampening=0, float weight_decay=0, bool nesterov=False, bool maximize=False, bool first=False) -> ()")
STRATA_STEP(sgd)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of stochastic gradient descent; first: the momentum buffers are empty.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [], 0.1", "[f(3,4),f(5)], [f(3,4),f(5)], [f(3,4),f(5)], 0.1, 0.9, 0.2, 0.01",
            "[f(40)], [f(40)], [f(40)], 0.1, 0.9, 0, 0.01, True, True, True", "[], [], [], 0.1"})
  .error("[f(3)], [], [], 0.1", ErrorKind::Value, "1 parameters but 0 gradients")
  .error("[f(3)], [f(4)], [], 0.1", ErrorKind::Runtime, "but its gradient")
  .error("[f(3)], [f(3)], [], 0.1, 0.9", ErrorKind::Value, "needs momentum_buffers");

STRATA_OP(_fused_adam,
          "_fused_adam(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] steps, Tensor(c!)[] exp_avgs, Tensor(d!)[] "
          "exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor lr, float beta1=0.9, float beta2=0.999, float eps=1e-8, "
          "float weight_decay=0, bool decoupled_weight_decay=False, bool maximize=False) -> ()")
STRATA_STEP(adam)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of Adam, with decoupled weight decay of AdamW; amsgrad when max_exp_avg_sqs are given.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)], [], 0.01",
            "[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)], [p(3,4),p(5)], 0.01, 0.8, 0.99, "
            "1e-8, 0.1, True, True",
            "[f(40)], [f(40)], [i9()], [f(40)], [p(40)], [], 0.01, 0.9, 0.99, 1e-6, 0.1"})
  .error("[f(3)], [f(3)], [f(2)], [f(3)], [f(3)], [], 0.1", ErrorKind::Runtime, "one number each");

STRATA_OP(
  _fused_nadam,
  "_fused_nadam(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] steps, Tensor(c!)[] mu_products, Tensor(d!)[] "
  "exp_avgs, Tensor(e!)[] exp_avg_sqs, Tensor lr, float beta1=0.9, float beta2=0.999, float eps=1e-8, float "
  "weight_decay=0, float momentum_decay=0.004, bool decoupled_weight_decay=False, bool maximize=False) -> ()")
STRATA_STEP(nadam)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of Adam with Nesterov momentum.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [z(),z()], [f(3,4),f(5)], [p(3,4),p(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [z()], [f(40)], [p(40)], 0.01, 0.8, 0.99, 1e-8, 0.1, 0.01, True, True"});

STRATA_OP(_fused_radam,
          "_fused_radam(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] steps, Tensor(c!)[] exp_avgs, Tensor(d!)[] "
          "exp_avg_sqs, Tensor lr, float beta1=0.9, float beta2=0.999, float eps=1e-8, float weight_decay=0, bool "
          "decoupled_weight_decay=False, bool maximize=False) -> ()")
STRATA_STEP(radam)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of rectified Adam.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [f(40)], [p(40)], 0.01, 0.8, 0.99, 1e-8, 0.1, True, True"});

STRATA_OP(_fused_adamax,
          "_fused_adamax(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] steps, Tensor(c!)[] exp_avgs, Tensor(d!)[] "
          "exp_infs, Tensor lr, float beta1=0.9, float beta2=0.999, float eps=1e-8, float weight_decay=0, bool "
          "maximize=False) -> ()")
STRATA_STEP(adamax)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of Adam with the infinity norm.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [f(40)], [p(40)], 0.01, 0.8, 0.99, 1e-8, 0.1, True"});

STRATA_OP(_fused_adagrad,
          "_fused_adagrad(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] steps, Tensor(c!)[] sums, Tensor lr, float "
          "lr_decay=0, float weight_decay=0, float eps=1e-10, bool maximize=False) -> ()")
STRATA_STEP(adagrad)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of Adagrad.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [p(3,4),p(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [p(40)], 0.01, 0.1, 0.1, 1e-8, True"});

STRATA_OP(
  _fused_adadelta,
  "_fused_adadelta(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] steps, Tensor(c!)[] square_avgs, Tensor(d!)[] "
  "acc_deltas, Tensor lr, float rho=0.9, float eps=1e-6, float weight_decay=0, bool maximize=False) -> ()")
STRATA_STEP(adadelta)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of Adadelta.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [p(3,4),p(5)], [p(3,4),p(5)], 1.0",
            "[f(40)], [f(40)], [i9()], [p(40)], [p(40)], 0.5, 0.8, 1e-4, 0.1, True"});

STRATA_OP(_fused_rmsprop,
          "_fused_rmsprop(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] steps, Tensor(c!)[] square_avgs, "
          "Tensor(d!)[] momentum_buffers, Tensor(e!)[] grad_avgs, Tensor lr, float alpha=0.99, float eps=1e-8, float "
          "weight_decay=0, float momentum=0, bool maximize=False) -> ()")
STRATA_STEP(rmsprop)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of RMSprop; centered if grad_avgs are given.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [p(3,4),p(5)], [], [], 0.01",
            "[f(40)], [f(40)], [i9()], [p(40)], [f(40)], [], 0.01, 0.9, 1e-6, 0.1, 0.9",
            "[f(3)], [f(3)], [i9()], [o(3)], [f(3)], [u(3)], 0.01, 0.9, 1e-6, 0.1, 0.9, True"});

STRATA_OP(_fused_asgd,
          "_fused_asgd(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] steps, Tensor(c!)[] etas, Tensor(d!)[] mus, "
          "Tensor(e!)[] axs, Tensor lr, float lambd=0.0001, float alpha=0.75, float t0=1e6, float weight_decay=0, bool "
          "maximize=False) -> ()")
STRATA_STEP(asgd)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of averaged stochastic gradient descent.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [z(),z()], [z(),z()], [f(3,4),f(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [z()], [z()], [f(40)], 0.01, 0.001, 0.5, 2, 0.1, True"});

STRATA_OP(
  _fused_rprop,
  "_fused_rprop(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] steps, Tensor(c!)[] prevs, Tensor(d!)[] step_sizes, "
  "float etaminus=0.5, float etaplus=1.2, float step_min=1e-6, float step_max=50, bool maximize=False) -> ()")
STRATA_STEP(rprop)
  .helper()
  .no_out()
  .doc("One step of resilient propagation.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)]",
            "[f(40)], [f(40)], [i9()], [f(40)], [p(40)], 0.4, 1.5, 0.01, 2, True"});

#undef STRATA_STEP

}  // namespace strata
