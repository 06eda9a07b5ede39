// One step of each optimizer over all parameters of a group: a record per rule. They change their arguments and return
// nothing. strata.optim and strata::optim keep the state and call them; what depends on the step count is computed here, in
// double, once per parameter, so that both languages and every back end take the same step.
#include <cmath>

#include "cpu/optimizers.h"
#include "cuda/optimizers.h"
#include "ops/transfer.h"
#include "record/op.h"

namespace strata {
namespace {

using cpu::Rule;
using cpu::Update;
using Run = void (*)(Rule, std::span<Update>);

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
  // The list at `arg` holds one number per parameter.
  TensorList numbers(int arg) {
    const TensorList list = c_.args[static_cast<uint32_t>(arg)].tensor_list();
    check_count(list, c_.op.params[static_cast<size_t>(arg)].name);
    for (const Tensor& t : list)
      STRATA_CHECK(t.numel() == 1, Runtime, "{}: {} must hold one number each, found shape {}", name(),
                   c_.op.params[static_cast<size_t>(arg)].name, to_string(t.shape()));
    return list;
  }
  void members(size_t i, std::initializer_list<double> values) {
    std::copy(values.begin(), values.end(), updates_[i].members.begin());
  }
  void run(Rule rule, Run run) {
    run(rule, updates_);
    for (const Update& u : updates_) {
      u.value->storage->bump();
      for (const Tensor& s : u.state)
        if (s) s->storage->bump();
    }
  }
  double number(int arg) const { return c_.args[static_cast<uint32_t>(arg)].number(); }
  bool flag(int arg) const { return c_.args[static_cast<uint32_t>(arg)].boolean(); }
  const std::string& name() const { return c_.op.name; }

 private:
  void check_count(TensorList list, std::string_view what) const {
    STRATA_CHECK(list.size() == params_.size(), Value, "{}: {} parameters but {} {}", name(), params_.size(),
                 list.size(), what);
  }
  const Call& c_;
  TensorList params_, grads_;
  std::vector<Update> updates_;
};

void store(const Tensor& t, double value) {
  fill_values(*t, value);
  t->storage->bump();
}

// Counts one more step of a parameter.
double advance(const Tensor& step) {
  const double t = step.item<double>() + 1;
  store(step, t);
  return t;
}

struct Penalty {  // the first three members of every rule
  double sign, decay, shrink;
  Penalty(bool maximize, double weight_decay, bool decoupled = false, double lr = 0)
      : sign(maximize ? -1 : 1), decay(decoupled ? 0 : weight_decay), shrink(decoupled ? 1 - lr * weight_decay : 1) {}
};

template <Run run> void sgd(const Call& c) {
  Step s(c);
  const double lr = s.number(3), momentum = s.number(4), dampening = s.number(5);
  const Penalty p(s.flag(8), s.number(6));
  const bool buffers = s.state(0, 2);
  STRATA_CHECK(buffers || momentum == 0 || s.count() == 0, Value, "{}: momentum needs momentum_buffers", s.name());
  for (size_t i = 0; i < s.count(); ++i)
    s.members(i, {p.sign, p.decay, p.shrink, lr, momentum, 1 - dampening, static_cast<double>(s.flag(7)),
                  static_cast<double>(s.flag(9))});
  s.run(Rule::Sgd, run);
}

template <Run run> void adam(const Call& c) {
  Step s(c);
  const TensorList steps = s.numbers(2);
  s.state(0, 3), s.state(1, 4);
  const bool amsgrad = s.state(2, 5);
  const double lr = s.number(6), beta1 = s.number(7), beta2 = s.number(8), eps = s.number(9);
  const Penalty p(s.flag(12), s.number(10), s.flag(11), lr);
  for (size_t i = 0; i < s.count(); ++i) {
    const double t = advance(steps[i]);
    s.members(i, {p.sign, p.decay, p.shrink, 1 - beta1, beta2, 1 - beta2, 1 / std::sqrt(1 - std::pow(beta2, t)), eps,
                  lr / (1 - std::pow(beta1, t)), static_cast<double>(amsgrad)});
  }
  s.run(Rule::Adam, run);
}

template <Run run> void nadam(const Call& c) {
  Step s(c);
  const TensorList steps = s.numbers(2), products = s.numbers(3);
  s.state(0, 4), s.state(1, 5);
  const double lr = s.number(6), beta1 = s.number(7), beta2 = s.number(8), eps = s.number(9),
               momentum_decay = s.number(11);
  const Penalty p(s.flag(13), s.number(10), s.flag(12), lr);
  for (size_t i = 0; i < s.count(); ++i) {
    const double t = advance(steps[i]);
    const double mu = beta1 * (1 - 0.5 * std::pow(0.96, t * momentum_decay));
    const double next = beta1 * (1 - 0.5 * std::pow(0.96, (t + 1) * momentum_decay));
    const double product = products[i].item<double>() * mu;
    store(products[i], product);
    s.members(i, {p.sign, p.decay, p.shrink, 1 - beta1, beta2, 1 - beta2, 1 / (1 - std::pow(beta2, t)), eps,
                  lr * (1 - mu) / (1 - product), lr * next / (1 - product * next)});
  }
  s.run(Rule::Nadam, run);
}

template <Run run> void radam(const Call& c) {
  Step s(c);
  const TensorList steps = s.numbers(2);
  s.state(0, 3), s.state(1, 4);
  const double lr = s.number(5), beta1 = s.number(6), beta2 = s.number(7), eps = s.number(8);
  const Penalty p(s.flag(11), s.number(9), s.flag(10), lr);
  const double longest = 2 / (1 - beta2) - 1;
  for (size_t i = 0; i < s.count(); ++i) {
    const double t = advance(steps[i]), correction = 1 - std::pow(beta2, t);
    const double length = longest - 2 * t * std::pow(beta2, t) / correction;
    const double adaptive =
      length > 5
        ? std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length) * correction)
        : 0;
    s.members(i,
              {p.sign, p.decay, p.shrink, 1 - beta1, beta2, 1 - beta2, eps, lr / (1 - std::pow(beta1, t)), adaptive});
  }
  s.run(Rule::Radam, run);
}

template <Run run> void adamax(const Call& c) {
  Step s(c);
  const TensorList steps = s.numbers(2);
  s.state(0, 3), s.state(1, 4);
  const double lr = s.number(5), beta1 = s.number(6), beta2 = s.number(7), eps = s.number(8);
  const Penalty p(s.flag(10), s.number(9));
  for (size_t i = 0; i < s.count(); ++i)
    s.members(i, {p.sign, p.decay, p.shrink, 1 - beta1, beta2, eps, lr / (1 - std::pow(beta1, advance(steps[i])))});
  s.run(Rule::Adamax, run);
}

template <Run run> void adagrad(const Call& c) {
  Step s(c);
  const TensorList steps = s.numbers(2);
  s.state(0, 3);
  const double lr = s.number(4), lr_decay = s.number(5), eps = s.number(7);
  const Penalty p(s.flag(8), s.number(6));
  for (size_t i = 0; i < s.count(); ++i)
    s.members(i, {p.sign, p.decay, p.shrink, lr / (1 + (advance(steps[i]) - 1) * lr_decay), eps});
  s.run(Rule::Adagrad, run);
}

template <Run run> void adadelta(const Call& c) {
  Step s(c);
  const TensorList steps = s.numbers(2);
  s.state(0, 3), s.state(1, 4);
  const double lr = s.number(5), rho = s.number(6), eps = s.number(7);
  const Penalty p(s.flag(9), s.number(8));
  for (size_t i = 0; i < s.count(); ++i) {
    advance(steps[i]);
    s.members(i, {p.sign, p.decay, p.shrink, rho, 1 - rho, eps, lr});
  }
  s.run(Rule::Adadelta, run);
}

template <Run run> void rmsprop(const Call& c) {
  Step s(c);
  const TensorList steps = s.numbers(2);
  s.state(0, 3);
  const bool buffers = s.state(1, 4), centered = s.state(2, 5);
  const double lr = s.number(6), alpha = s.number(7), eps = s.number(8), momentum = s.number(10);
  const Penalty p(s.flag(11), s.number(9));
  STRATA_CHECK(buffers || momentum == 0 || s.count() == 0, Value, "{}: momentum needs momentum_buffers", s.name());
  for (size_t i = 0; i < s.count(); ++i) {
    advance(steps[i]);
    s.members(i, {p.sign, p.decay, p.shrink, lr, alpha, 1 - alpha, eps, momentum, static_cast<double>(centered)});
  }
  s.run(Rule::Rmsprop, run);
}

template <Run run> void asgd(const Call& c) {
  Step s(c);
  const TensorList steps = s.numbers(2), etas = s.numbers(3), mus = s.numbers(4);
  s.state(0, 5);
  const double lr = s.number(6), lambd = s.number(7), alpha = s.number(8), t0 = s.number(9);
  const Penalty p(s.flag(11), s.number(10));
  for (size_t i = 0; i < s.count(); ++i) {
    const double t = advance(steps[i]), eta = etas[i].item<double>();
    s.members(i, {p.sign, p.decay, p.shrink, eta, 1 - lambd * eta, mus[i].item<double>()});
    store(etas[i], lr / std::pow(1 + lambd * lr * t, alpha));
    store(mus[i], 1 / std::max(1.0, t - t0));
  }
  s.run(Rule::Asgd, run);
}

template <Run run> void rprop(const Call& c) {
  Step s(c);
  const TensorList steps = s.numbers(2);
  s.state(0, 3), s.state(1, 4);
  const Penalty p(s.flag(9), 0);
  for (size_t i = 0; i < s.count(); ++i) {
    advance(steps[i]);
    s.members(i, {p.sign, p.decay, p.shrink, s.number(5), s.number(6), s.number(7), s.number(8)});
  }
  s.run(Rule::Rprop, run);
}

void update_on_device(Rule rule, std::span<Update> updates) {
  static constexpr const char* names[] = {"Sgd",     "Adam",     "Nadam",   "Radam", "Adamax",
                                          "Adagrad", "Adadelta", "Rmsprop", "Asgd",  "Rprop"};
  std::vector<cuda::OptimizerUpdate> list;
  for (const Update& u : updates) list.push_back({u.value, u.grad, u.state, u.members});
  cuda::optimizer_step(names[static_cast<int>(rule)], list);
}

void nothing(const Call&) {}

}  // namespace

// What all rules have in common: two kernels, no result.
#define STRATA_STEP(function)                             \
  .infer(nothing)                                         \
    .kernel("fused", function<cpu::update_fused>)         \
    .kernel("reference", function<cpu::update_reference>) \
    .cuda("fused", function<update_on_device>)            \
    .dtypes(kFloatingTypes)

STRATA_OP(_fused_sgd,
          "_fused_sgd(Tensor[] params, Tensor[] grads, Tensor[] momentum_buffers, float lr, float momentum=0, float "
          "dampening=0, float weight_decay=0, bool nesterov=False, bool maximize=False, bool first=False) -> ()")
STRATA_STEP(sgd)
  .helper()
  .no_out()
  .doc("One step of stochastic gradient descent; first: the momentum buffers hold nothing yet.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [], 0.1", "[f(3,4),f(5)], [f(3,4),f(5)], [f(3,4),f(5)], 0.1, 0.9, 0.2, 0.01",
            "[f(40)], [f(40)], [f(40)], 0.1, 0.9, 0, 0.01, True, True, True", "[], [], [], 0.1"})
  .error("[f(3)], [], [], 0.1", ErrorKind::Value, "1 parameters but 0 gradients")
  .error("[f(3)], [f(4)], [], 0.1", ErrorKind::Runtime, "but its gradient")
  .error("[f(3)], [f(3)], [], 0.1, 0.9", ErrorKind::Value, "needs momentum_buffers");

STRATA_OP(_fused_adam,
          "_fused_adam(Tensor[] params, Tensor[] grads, Tensor[] steps, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, "
          "Tensor[] max_exp_avg_sqs, float lr, float beta1=0.9, float beta2=0.999, float eps=1e-8, float "
          "weight_decay=0, bool decoupled_weight_decay=False, bool maximize=False) -> ()")
STRATA_STEP(adam)
  .helper()
  .no_out()
  .doc("One step of Adam, with decoupled weight decay of AdamW; amsgrad when max_exp_avg_sqs are given.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)], [], 0.01",
            "[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)], [p(3,4),p(5)], 0.01, 0.8, 0.99, "
            "1e-8, 0.1, True, True",
            "[f(40)], [f(40)], [i9()], [f(40)], [p(40)], [], 0.01, 0.9, 0.99, 1e-6, 0.1"})
  .error("[f(3)], [f(3)], [f(2)], [f(3)], [f(3)], [], 0.1", ErrorKind::Runtime, "one number each");

STRATA_OP(_fused_nadam,
          "_fused_nadam(Tensor[] params, Tensor[] grads, Tensor[] steps, Tensor[] mu_products, Tensor[] exp_avgs, "
          "Tensor[] exp_avg_sqs, float lr, float beta1=0.9, float beta2=0.999, float eps=1e-8, float weight_decay=0, "
          "float momentum_decay=0.004, bool decoupled_weight_decay=False, bool maximize=False) -> ()")
STRATA_STEP(nadam)
  .helper()
  .no_out()
  .doc("One step of Adam with Nesterov momentum.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [z(),z()], [f(3,4),f(5)], [p(3,4),p(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [z()], [f(40)], [p(40)], 0.01, 0.8, 0.99, 1e-8, 0.1, 0.01, True, True"});

STRATA_OP(_fused_radam,
          "_fused_radam(Tensor[] params, Tensor[] grads, Tensor[] steps, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, "
          "float lr, float beta1=0.9, float beta2=0.999, float eps=1e-8, float weight_decay=0, bool "
          "decoupled_weight_decay=False, "
          "bool maximize=False) -> ()")
STRATA_STEP(radam)
  .helper()
  .no_out()
  .doc("One step of rectified Adam.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [f(40)], [p(40)], 0.01, 0.8, 0.99, 1e-8, 0.1, True, True"});

STRATA_OP(_fused_adamax,
          "_fused_adamax(Tensor[] params, Tensor[] grads, Tensor[] steps, Tensor[] exp_avgs, Tensor[] exp_infs, float "
          "lr, float beta1=0.9, float beta2=0.999, float eps=1e-8, float weight_decay=0, bool maximize=False) -> ()")
STRATA_STEP(adamax)
  .helper()
  .no_out()
  .doc("One step of Adam with the infinity norm.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [f(40)], [p(40)], 0.01, 0.8, 0.99, 1e-8, 0.1, True"});

STRATA_OP(_fused_adagrad,
          "_fused_adagrad(Tensor[] params, Tensor[] grads, Tensor[] steps, Tensor[] sums, float lr, float lr_decay=0, "
          "float weight_decay=0, float eps=1e-10, bool maximize=False) -> ()")
STRATA_STEP(adagrad)
  .helper()
  .no_out()
  .doc("One step of Adagrad.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [p(3,4),p(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [p(40)], 0.01, 0.1, 0.1, 1e-8, True"});

STRATA_OP(_fused_adadelta,
          "_fused_adadelta(Tensor[] params, Tensor[] grads, Tensor[] steps, Tensor[] square_avgs, Tensor[] acc_deltas, "
          "float lr, float rho=0.9, float eps=1e-6, float weight_decay=0, bool maximize=False) -> ()")
STRATA_STEP(adadelta)
  .helper()
  .no_out()
  .doc("One step of Adadelta.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [p(3,4),p(5)], [p(3,4),p(5)], 1.0",
            "[f(40)], [f(40)], [i9()], [p(40)], [p(40)], 0.5, 0.8, 1e-4, 0.1, True"});

STRATA_OP(_fused_rmsprop,
          "_fused_rmsprop(Tensor[] params, Tensor[] grads, Tensor[] steps, Tensor[] square_avgs, Tensor[] "
          "momentum_buffers, Tensor[] grad_avgs, float lr, float alpha=0.99, float eps=1e-8, float weight_decay=0, "
          "float momentum=0, bool maximize=False) -> ()")
STRATA_STEP(rmsprop)
  .helper()
  .no_out()
  .doc("One step of RMSprop; centred when grad_avgs are given.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [p(3,4),p(5)], [], [], 0.01",
            "[f(40)], [f(40)], [i9()], [p(40)], [f(40)], [], 0.01, 0.9, 1e-6, 0.1, 0.9",
            "[f(3)], [f(3)], [i9()], [o(3)], [f(3)], [u(3)], 0.01, 0.9, 1e-6, 0.1, 0.9, True"});

STRATA_OP(
  _fused_asgd,
  "_fused_asgd(Tensor[] params, Tensor[] grads, Tensor[] steps, Tensor[] etas, Tensor[] mus, Tensor[] axs, float lr, "
  "float lambd=0.0001, float alpha=0.75, float t0=1e6, float weight_decay=0, bool maximize=False) -> ()")
STRATA_STEP(asgd)
  .helper()
  .no_out()
  .doc("One step of averaged stochastic gradient descent.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [z(),z()], [z(),z()], [f(3,4),f(5)], 0.01",
            "[f(40)], [f(40)], [i9()], [z()], [z()], [f(40)], 0.01, 0.001, 0.5, 2, 0.1, True"});

STRATA_OP(_fused_rprop,
          "_fused_rprop(Tensor[] params, Tensor[] grads, Tensor[] steps, Tensor[] prevs, Tensor[] step_sizes, float "
          "etaminus=0.5, float etaplus=1.2, float step_min=1e-6, float step_max=50, bool maximize=False) -> ()")
STRATA_STEP(rprop)
  .helper()
  .no_out()
  .doc("One step of resilient propagation.")
  .samples({"[f(3,4),f(5)], [f(3,4),f(5)], [i9(),i9()], [f(3,4),f(5)], [p(3,4),p(5)]",
            "[f(40)], [f(40)], [i9()], [f(40)], [p(40)], 0.4, 1.5, 0.01, 2, True"});

#undef STRATA_STEP

}  // namespace strata
