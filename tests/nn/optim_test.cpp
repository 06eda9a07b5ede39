// Optimizers from C++: options, groups, saving and resuming, runs that must reach a loss. The arithmetic of each rule is
// compared with formulas in tests/python/test_optim.py, and its bits between the languages there too.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

Tensor parameter(std::initializer_list<double> values) {
  Tensor t = make_tensor(std::vector<int64_t>{static_cast<int64_t>(values.size())}, DType::F32);
  std::copy(values.begin(), values.end(), t.data<float>());
  return t.set_requires_grad();
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a->same_shape(*b) && a.dtype() == b.dtype() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

// One step on the loss sum(p^2 * c) for every parameter.
void take_step(optim::Optimizer& opt, double c = 1) {
  opt.zero_grad();
  Tensor loss;
  for (size_t g = 0; g < opt.group_count(); ++g)
    for (const Tensor& p : opt.params(g)) loss = loss ? loss + sum(square(p)) * c : sum(square(p)) * c;
  loss.backward();
  opt.step();
}

TEST(Optim, SgdStepIsTheFormula) {
  Tensor p = parameter({1, -2, 3});
  optim::SGD opt({p}, {.lr = 0.1, .momentum = 0.5, .weight_decay = 0.2});
  double value = 3, buffer = 0;
  for (int i = 0; i < 4; ++i) {
    take_step(opt);
    const double g = 2 * value + 0.2 * value;
    buffer = i == 0 ? g : 0.5 * buffer + g;
    value -= 0.1 * buffer;
  }
  EXPECT_NEAR(p.data<float>()[2], value, 1e-6);
}

TEST(Optim, AdamWStepIsTheFormula) {
  Tensor p = parameter({1, -2, 3});
  optim::AdamW opt({p}, {.lr = 0.1, .betas = {0.8, 0.9}, .eps = 1e-6, .weight_decay = 0.3});
  double value = -2, m = 0, v = 0;
  for (int t = 1; t <= 5; ++t) {
    take_step(opt);
    const double g = 2 * value;
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    value -= 0.1 * 0.3 * value;
    value -= 0.1 * (m / (1 - std::pow(0.8, t))) / (std::sqrt(v / (1 - std::pow(0.9, t))) + 1e-6);
  }
  EXPECT_NEAR(p.data<float>()[1], value, 2e-6);
}

TEST(Optim, GroupTakesWhatItIsNotGivenFromTheConstructor) {
  Tensor a = parameter({1}), b = parameter({1});
  optim::AdamW opt({a}, {.lr = 0.5, .weight_decay = 0.25});
  opt.add_group({b}, {.lr = 0.125});
  EXPECT_EQ(opt.lr(0), 0.5);
  EXPECT_EQ(opt.lr(1), 0.125);
  EXPECT_EQ(opt.option("weight_decay", 1), 0.25);
  EXPECT_EQ(opt.option("beta2", 1), 0.999);
  opt.set_lr(0, 0);
  take_step(opt);
  EXPECT_EQ(a.item<double>(), 1);
  EXPECT_LT(b.item<double>(), 1);
}

TEST(Optim, ZeroGradForgetsOrZeroes) {
  Tensor p = parameter({1, 2});
  optim::SGD opt({p}, {.lr = 0.1});
  sum(square(p)).backward();
  opt.zero_grad(false);
  EXPECT_EQ(p.grad().data<float>()[1], 0);
  opt.zero_grad();
  EXPECT_FALSE(p.grad());
  opt.step();  // nothing to do
  EXPECT_EQ(p.data<float>()[0], 1);
}

TEST(Optim, ParametersWithoutGradientKeepTheirStep) {
  Tensor a = parameter({1}), b = parameter({1});
  optim::Adam opt({a, b});
  sum(a).backward();
  opt.step();
  sum(b).backward();
  opt.step();
  double steps[2] = {};
  for (const auto& [name, tensor] : opt.state_dict()) {
    if (name == "state.0.step") steps[0] = tensor.item<double>();
    if (name == "state.1.step") steps[1] = tensor.item<double>();
  }
  EXPECT_EQ(steps[0], 2);
  EXPECT_EQ(steps[1], 1);
}

template <class O> void expect_resumes(O options) {
  const auto values = {0.3, -1.5, 2.25, 1e-3, 7.0};
  Tensor p = parameter(values), q = parameter(values);
  optim::Fused<O> through({p}, options), before({q}, options);
  for (int i = 0; i < 3; ++i) {
    take_step(through);
    take_step(before);
  }
  optim::StateDict saved;
  for (const auto& [name, tensor] : before.state_dict()) saved.emplace_back(name, clone(tensor));
  Tensor r = clone(autograd::detach(q)).set_requires_grad();
  optim::Fused<O> after({r});
  after.load_state_dict(saved);
  for (int i = 0; i < 3; ++i) {
    take_step(through);
    take_step(after);
  }
  EXPECT_TRUE(same_bits(p, r)) << optim::describe(options).name;
}

TEST(Optim, ResumesBitForBit) {
  expect_resumes(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01});
  expect_resumes(optim::AdamOptions{.lr = 0.1, .amsgrad = true});
  expect_resumes(optim::AdamWOptions{.lr = 0.1});
  expect_resumes(optim::NAdamOptions{.lr = 0.1});
  expect_resumes(optim::RAdamOptions{.lr = 0.1});
  expect_resumes(optim::AdamaxOptions{.lr = 0.1});
  expect_resumes(optim::AdagradOptions{.lr = 0.1, .lr_decay = 0.1});
  expect_resumes(optim::AdadeltaOptions{});
  expect_resumes(optim::RMSpropOptions{.lr = 0.1, .momentum = 0.9, .centered = true});
  expect_resumes(optim::ASGDOptions{.lr = 0.1, .t0 = 2});
  expect_resumes(optim::RpropOptions{.lr = 0.1});
}

// Steps of 16-bit parameters with float32 copies are those of float32 parameters, also after saving and loading.
template <class O> void expect_master_steps(O options, DType dtype) {
  const Tensor start = to(tensor({{0.3, -1.5, 2.25}, {1e-3, 7.0, -0.125}}), dtype);
  const Tensor p = clone(start).set_requires_grad(), q = to(start, kFloat32).set_requires_grad();
  optim::Fused<O> plain({q}, options);
  options.master_weights = 1;
  auto masters = std::make_unique<optim::Fused<O>>(std::vector<Tensor>{p}, options);
  for (int i = 0; i < 6; ++i) {
    const Tensor grad = to(to(sin(q), kFloat32) * (0.1 + i), dtype);
    Tensor(p).set_grad(autograd::detach(grad));
    Tensor(q).set_grad(to(autograd::detach(grad), kFloat32));
    masters->step();
    plain.step();
    EXPECT_TRUE(same_bits(p, to(q, dtype))) << optim::describe(options).name << " step " << i;
    optim::StateDict saved;
    for (const auto& [name, tensor] : masters->state_dict()) saved.emplace_back(name, clone(tensor));
    const auto master = std::ranges::find(saved, "state.0.master_param", &optim::StateDict::value_type::first);
    ASSERT_TRUE(master != saved.end());
    EXPECT_TRUE(same_bits(master->second, q));
    masters = std::make_unique<optim::Fused<O>>(std::vector<Tensor>{p}, options);
    masters->load_state_dict(saved);
  }
}

TEST(Optim, MasterWeightsTakeTheStepsOfFloat32) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    expect_master_steps(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}, dtype);
    expect_master_steps(optim::AdamOptions{.lr = 0.1, .amsgrad = true}, dtype);
    expect_master_steps(optim::AdamWOptions{.lr = 0.1}, dtype);
    expect_master_steps(optim::NAdamOptions{.lr = 0.1}, dtype);
    expect_master_steps(optim::RMSpropOptions{.lr = 0.1, .momentum = 0.9, .centered = true}, dtype);
    expect_master_steps(optim::MuonOptions{.lr = 0.1}, dtype);
  }
}

TEST(Optim, StateDictThatDoesNotFitChangesNothing) {
  Tensor p = parameter({1, 2});
  optim::Adam opt({p}, {.lr = 0.1});
  take_step(opt);
  const optim::StateDict good = opt.state_dict();
  const auto with = [&](const char* name, Tensor t) {
    optim::StateDict bad = good;
    bad.emplace_back(name, std::move(t));
    return bad;
  };
  EXPECT_ERROR(Value, "keeps no state 'sum'", opt.load_state_dict(with("state.0.sum", ones({2}))));
  EXPECT_ERROR(Value, "has shape [3]", opt.load_state_dict(with("state.0.exp_avg", ones({3}))));
  EXPECT_ERROR(Value, "does not have", opt.load_state_dict(with("state.7.exp_avg", ones({2}))));
  EXPECT_ERROR(Value, "does not have", opt.load_state_dict(with("param_groups.1.lr", ones({}))));
  EXPECT_ERROR(Value, "no option 'momentum'", opt.load_state_dict(with("param_groups.0.momentum", ones({}))));
  EXPECT_ERROR(Value, "one number", opt.load_state_dict(with("param_groups.0.lr", ones({2}))));
  EXPECT_ERROR(Value, "neither", opt.load_state_dict(with("epoch", ones({}))));
  EXPECT_ERROR(Value, "is missing", opt.load_state_dict({}));
  Tensor a = parameter({1, 2}), b = parameter({1});
  optim::Adam other({a, b});
  EXPECT_ERROR(Value, "1 parameters, this optimizer's 2", other.load_state_dict(good));
  EXPECT_EQ(opt.lr(), 0.1);
  EXPECT_EQ(other.lr(), 1e-3);
}

TEST(Optim, BadArgumentsAreNamed) {
  Tensor p = parameter({1, 2});
  EXPECT_ERROR(Value, "AdamW: invalid learning rate: -1", optim::AdamW({p}, {.lr = -1}));
  EXPECT_ERROR(Value, "invalid learning rate: nan", optim::SGD({p}, {.lr = std::nan("")}));
  EXPECT_ERROR(Value, "beta parameter at index 1: 1", optim::Adam({p}, {.betas = {0.9, 1.0}}));
  EXPECT_ERROR(Value, "Nesterov momentum requires", optim::SGD({p}, {.nesterov = true}));
  EXPECT_ERROR(Value, "eta value at index 1", optim::Rprop({p}, {.etas = {0.5, 0.9}}));
  EXPECT_ERROR(Value, "empty parameter list", optim::SGD(std::vector<Tensor>{}));
  EXPECT_ERROR(Value, "is undefined", optim::SGD({Tensor()}));
  EXPECT_ERROR(Value, "given twice", optim::SGD({p, p}));
  EXPECT_ERROR(Value, "non-leaf", optim::SGD({p * 2.0}));
  optim::SGD opt({p});
  EXPECT_ERROR(Value, "given twice", opt.add_group({p}));
  EXPECT_ERROR(Index, "no parameter group 1", opt.lr(1));
  EXPECT_ERROR(Value, "no option 'beta1'", opt.option("beta1"));
}

TEST(Optim, AStepThatFailsLeavesNoState) {
  Tensor p = parameter({1, 2});
  optim::SGD opt({p}, {.lr = 0.1, .momentum = 0.9});
  p.get()->grad = ones({3});
  EXPECT_ERROR(Runtime, "but its gradient", opt.step());
  for (const auto& [name, tensor] : opt.state_dict()) EXPECT_FALSE(name.starts_with("state.")) << name;
}

TEST(Optim, ClosureComputesTheLoss) {
  Tensor p = parameter({3});
  optim::SGD opt({p}, {.lr = 0.25});
  const Tensor loss = opt.step([&] {
    opt.zero_grad();
    Tensor l = sum(square(p));
    l.backward();
    return l;
  });
  EXPECT_EQ(loss.item<double>(), 9);
  EXPECT_EQ(p.item<double>(), 1.5);
}

Tensor rosenbrock(const Tensor& x) {
  const Tensor a = narrow(x, 0, 0, 1), b = narrow(x, 0, 1, 1);
  return sum(square(b - square(a)) * 100 + square(1 - a));
}

TEST(Optim, LbfgsReachesTheMinimumAndResumesBitForBit) {
  const auto start = [] {
    Tensor x = make_tensor(std::vector<int64_t>{2}, DType::F64);
    x.data<double>()[0] = -1.2;
    x.data<double>()[1] = 1;
    return x.set_requires_grad();
  };
  const optim::LBFGSOptions options{.max_iter = 5, .tolerance_change = 1e-15, .history_size = 4, .strong_wolfe = true};
  const auto take_steps = [](optim::LBFGS& opt, const Tensor& x, int n) {
    for (int i = 0; i < n; ++i)
      opt.step([&] {
        opt.zero_grad();
        Tensor loss = rosenbrock(x);
        loss.backward();
        return loss;
      });
  };
  Tensor x = start(), y = start();
  optim::LBFGS through({x}, options), before({y}, options), after({y});
  take_steps(through, x, 15);
  EXPECT_NEAR(x.data<double>()[0], 1, 1e-6);
  EXPECT_NEAR(x.data<double>()[1], 1, 1e-6);
  take_steps(before, y, 3);
  after.load_state_dict(before.state_dict());
  take_steps(after, y, 12);
  EXPECT_TRUE(same_bits(x, y));

  Tensor z = parameter({1});
  optim::LBFGS other({z});
  EXPECT_ERROR(Value, "not of the 1 elements", other.load_state_dict(before.state_dict()));
  EXPECT_ERROR(Value, "needs a closure", other.step());
}

TEST(Optim, MuonWantsMatrices) {
  EXPECT_ERROR(Value, "only supports 2D parameters, parameter 0 has shape [2]", optim::Muon({parameter({1, 2})}));
  Tensor p = ones({2, 2}).set_requires_grad();
  optim::Muon opt({p}, {.lr = 0.1});
  take_step(opt);
  EXPECT_LT(p.data<float>()[0], 1);
}

TEST(Optim, RuleOfOnesOwn) {
  struct SignDescent : optim::Optimizer {
    explicit SignDescent(std::vector<Tensor> params, double lr) : Optimizer("SignDescent") {
      add_options(std::move(params), {{"lr", lr}});
    }
    void update(optim::Group& group) override {
      for (Tensor& p : group.params)
        if (p.grad()) sub_(p, sign(p.grad()) * group.options[0].option.value);
    }
  };
  Tensor p = parameter({1, -1});
  SignDescent opt({p}, 0.25);
  take_step(opt);
  EXPECT_EQ(p.data<float>()[0], 0.75F);
  EXPECT_EQ(p.data<float>()[1], -0.75F);
}

}  // namespace
}  // namespace strata
