// One step of each optimizer over all parameters of a group: a record per rule. They change their arguments and return
// nothing. strata.optim and strata::optim keep the state and call them. Step counts in host memory are advanced here; those on a
// device are advanced there, so that a graph can capture the step.
#include <algorithm>
#include <cstring>

#include "cpu/optimizers.h"
#include "cuda/optimizers.h"
#include "cuda/runtime/graph.h"
#include "device/functors/optimizer_numbers.h"
#include "ops/transfer.h"
#include "record/op.h"

namespace strata {
namespace {

using cpu::Rule;
using cpu::Update;
using Run = void (*)(Rule, std::span<Update>);  // null: on a device

// The lists of one call, checked against each other: parameters and gradients first, then the lists of state.
class Step {
 public:
  explicit Step(const Call& c) : c_(c), params_(c.args[0].tensor_list()), grads_(c.args[1].tensor_list()) {
    check_count(grads_, "gradients");
    updates_.resize(params_.size());
    for (size_t i = 0; i < params_.size(); ++i) {
      const Tensor &p = params_[i], &g = grads_[i];
      STRATA_CHECK(is_floating(p.dtype()), Type, "{}: parameter {} must be of a floating dtype, found {}", name(), i,
                   name_of(p.dtype()));
      STRATA_CHECK(p->same_shape(*g), Runtime, "{}: parameter {} has shape {} but its gradient {}", name(), i,
                   to_string(p.shape()), to_string(g.shape()));
      updates_[i].value = p, updates_[i].grad = g;
    }
  }
  size_t count() const { return params_.size(); }

  // The list at `arg` is state k of each parameter; an empty list: the rule works without it.
  bool state(int k, int arg) {
    const TensorList list = c_.args[static_cast<uint32_t>(arg)].tensor_list();
    if (list.empty()) return false;
    check_count(list, c_.op.params[static_cast<size_t>(arg)].name);
    for (size_t i = 0; i < count(); ++i) {
      STRATA_CHECK(params_[i]->same_shape(*list[i]), Runtime, "{}: {}[{}] has shape {}, expected {}", name(),
                   c_.op.params[static_cast<size_t>(arg)].name, i, to_string(list[i].shape()),
                   to_string(params_[i].shape()));
      updates_[i].state[static_cast<size_t>(k)] = list[i];
    }
    return true;
  }
  // The list at `arg` holds number k that is kept beside each parameter: the step count is number 0.
  void keeps(int k, int arg) {
    const TensorList list = c_.args[static_cast<uint32_t>(arg)].tensor_list();
    check_count(list, c_.op.params[static_cast<size_t>(arg)].name);
    kept_[k] = list;
    for (size_t i = 0; i < list.size(); ++i) {
      STRATA_CHECK(list[i].numel() == 1, Runtime, "{}: {} must hold one number each, found shape {}", name(),
                   c_.op.params[static_cast<size_t>(arg)].name, to_string(list[i].shape()));
      STRATA_CHECK(list[i].device() == kept_[0][i].device(), Runtime, "{}: {}[{}] lies on {}, the step count on {}",
                   name(), c_.op.params[static_cast<size_t>(arg)].name, i, to_string(list[i].device()),
                   to_string(kept_[0][i].device()));
    }
  }
  // The learning rate at `arg`. One that lies on a device is read there if the rest of the rule's numbers is.
  double lr(int arg) {
    const Value& v = c_.args[static_cast<uint32_t>(arg)];
    if (v.tag != Tag::Tensor) return v.number();
    STRATA_CHECK(v.tensor->numel == 1, Value, "{}: the learning rate must be one number, found shape {}", name(),
                 to_string(v.tensor->sizes()));
    const Tensor t = c_.args.share(static_cast<uint32_t>(arg));
    const bool there = t.device().type != DeviceType::Cpu;
    if (there && std::ranges::all_of(kept_[0], [&](const Tensor& n) { return n.device() == t.device(); }))
      return lr_ = t, 0;
    if (there) refuse_capture(t.device());
    return t.item<double>();
  }
  template <class Numbers> void run(Rule rule, Run run, const Numbers& numbers) {
    static_assert(sizeof(Numbers) % sizeof(double) == 0 && sizeof(Numbers) / sizeof(double) <= cuda::kRuleNumbers);
    for (size_t i = 0; i < count(); ++i)
      if (!on_device(i)) {
        double kept[cuda::kKeptNumbers] = {};
        for (size_t k = 0; k < cuda::kKeptNumbers && !kept_[k].empty(); ++k) {
          if (!run) refuse_capture(params_[i].device());
          kept[k] = kept_[k][i].item<double>();
        }
        numbers(kept, updates_[i].members.data());
        for (size_t k = 0; k < cuda::kKeptNumbers && !kept_[k].empty(); ++k) fill_values(*kept_[k][i], kept[k]);
      }
    if (run) run(rule, updates_);
    else {
      double options[sizeof(Numbers) / sizeof(double)];
      std::memcpy(options, &numbers, sizeof numbers);
      run_on_device(rule, options);
    }
  }
  double number(int arg) const { return c_.args[static_cast<uint32_t>(arg)].number(); }
  const std::string& name() const { return c_.op.name; }

 private:
  void check_count(TensorList list, std::string_view what) const {
    STRATA_CHECK(list.size() == params_.size(), Value, "{}: {} parameters but {} {}", name(), params_.size(),
                 list.size(), what);
  }
  // Whether the members of parameter i are computed there.
  bool on_device(size_t i) const { return kept_[0].empty() ? bool(lr_) : kept_[0][i].device().type != DeviceType::Cpu; }
  void refuse_capture(Device device) const {
    STRATA_CHECK(!cuda::is_capturing(device), Runtime,
                 "{}: its step counts lie in host memory, so a captured step would repeat itself in every replay; make "
                 "the optimizer with capturable=True",
                 name());
  }
  void run_on_device(Rule rule, std::span<const double> options) const {
    static constexpr const char* names[] = {"Sgd",     "Adam",     "Nadam",   "Radam", "Adamax",
                                            "Adagrad", "Adadelta", "Rmsprop", "Asgd",  "Rprop"};
    std::vector<cuda::OptimizerUpdate> list;
    list.reserve(count());
    for (size_t i = 0; i < count(); ++i) {
      const Update& u = updates_[i];
      cuda::OptimizerUpdate& added = list.emplace_back(cuda::OptimizerUpdate{u.value, u.grad, u.state, u.members});
      added.on_device = on_device(i);
      for (size_t k = 0; added.on_device && k < cuda::kKeptNumbers && !kept_[k].empty(); ++k)
        added.kept[k] = kept_[k][i];
    }
    cuda::optimizer_step(names[static_cast<int>(rule)], list, options, lr_);
  }
  const Call& c_;
  TensorList params_, grads_, kept_[cuda::kKeptNumbers];
  Tensor lr_;  // on the device, in place of the options'
  std::vector<Update> updates_;
};
static_assert(cpu::kRuleMembers == cuda::kRuleNumbers);

template <Run run> void sgd(const Call& c) {
  Step s(c);
  const bool buffers = s.state(0, 2);
  STRATA_CHECK(buffers || s.number(4) == 0 || s.count() == 0, Value, "{}: momentum needs momentum_buffers", s.name());
  s.run(Rule::Sgd, run,
        fn::SgdNumbers{s.lr(3), s.number(8), s.number(6), s.number(4), s.number(5), s.number(7), s.number(9)});
}

template <Run run> void adam(const Call& c) {
  Step s(c);
  s.keeps(0, 2), s.state(0, 3), s.state(1, 4);
  const bool amsgrad = s.state(2, 5);
  s.run(Rule::Adam, run,
        fn::AdamNumbers{s.lr(6), s.number(12), s.number(10), s.number(11), s.number(7), s.number(8), s.number(9),
                        static_cast<double>(amsgrad)});
}

template <Run run> void nadam(const Call& c) {
  Step s(c);
  s.keeps(0, 2), s.keeps(1, 3), s.state(0, 4), s.state(1, 5);
  s.run(Rule::Nadam, run,
        fn::NadamNumbers{s.lr(6), s.number(13), s.number(10), s.number(12), s.number(7), s.number(8), s.number(9),
                         s.number(11)});
}

template <Run run> void radam(const Call& c) {
  Step s(c);
  s.keeps(0, 2), s.state(0, 3), s.state(1, 4);
  s.run(Rule::Radam, run,
        fn::RadamNumbers{s.lr(5), s.number(11), s.number(9), s.number(10), s.number(6), s.number(7), s.number(8)});
}

template <Run run> void adamax(const Call& c) {
  Step s(c);
  s.keeps(0, 2), s.state(0, 3), s.state(1, 4);
  s.run(Rule::Adamax, run,
        fn::AdamaxNumbers{s.lr(5), s.number(10), s.number(9), s.number(6), s.number(7), s.number(8)});
}

template <Run run> void adagrad(const Call& c) {
  Step s(c);
  s.keeps(0, 2), s.state(0, 3);
  s.run(Rule::Adagrad, run, fn::AdagradNumbers{s.lr(4), s.number(8), s.number(6), s.number(5), s.number(7)});
}

template <Run run> void adadelta(const Call& c) {
  Step s(c);
  s.keeps(0, 2), s.state(0, 3), s.state(1, 4);
  s.run(Rule::Adadelta, run, fn::AdadeltaNumbers{s.lr(5), s.number(9), s.number(8), s.number(6), s.number(7)});
}

template <Run run> void rmsprop(const Call& c) {
  Step s(c);
  s.keeps(0, 2), s.state(0, 3);
  const bool buffers = s.state(1, 4), centered = s.state(2, 5);
  STRATA_CHECK(buffers || s.number(10) == 0 || s.count() == 0, Value, "{}: momentum needs momentum_buffers", s.name());
  s.run(Rule::Rmsprop, run,
        fn::RmspropNumbers{s.lr(6), s.number(11), s.number(9), s.number(7), s.number(8), s.number(10),
                           static_cast<double>(centered)});
}

template <Run run> void asgd(const Call& c) {
  Step s(c);
  s.keeps(0, 2), s.keeps(1, 3), s.keeps(2, 4), s.state(0, 5);
  s.run(Rule::Asgd, run, fn::AsgdNumbers{s.lr(6), s.number(11), s.number(10), s.number(7), s.number(8), s.number(9)});
}

template <Run run> void rprop(const Call& c) {
  Step s(c);
  s.keeps(0, 2), s.state(0, 3), s.state(1, 4);
  s.run(Rule::Rprop, run, fn::RpropNumbers{0, s.number(9), s.number(5), s.number(6), s.number(7), s.number(8)});
}

void nothing(const Call&) {}

}  // namespace

// What all rules have in common: two kernels, no result.
#define STRATA_STEP(function)                             \
  .infer(nothing)                                         \
    .kernel("fused", function<cpu::update_fused>)         \
    .kernel("reference", function<cpu::update_reference>) \
    .cuda("fused", function<nullptr>)                     \
    .dtypes(kFloatingTypes)

STRATA_OP(_fused_sgd,
          "_fused_sgd(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, Tensor lr, float momentum=0, "
          "float dampening=0, float weight_decay=0, bool nesterov=False, bool maximize=False, bool first=False) -> ()")
STRATA_STEP(sgd)
  .helper()
  .takes_numbers()
  .no_out()
  .doc("One step of stochastic gradient descent; first: the momentum buffers hold nothing yet.")
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
  .doc("One step of RMSprop; centred when grad_avgs are given.")
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
