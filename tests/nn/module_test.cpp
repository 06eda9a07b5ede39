// Module in C++: registration, traversal, state, modes, hooks, printing.
#include <gtest/gtest.h>

#include "strata/strata.h"
#include "tests/expect_error.h"

using namespace strata;  // as a user's program would

namespace {

struct Net : nn::Module {
  nn::Conv2d conv1 = add("conv1", nn::Conv2d(1, 4, 3, {.padding = 1}));
  nn::MaxPool2d pool = add("pool", nn::MaxPool2d(2));
  nn::Linear fc = add("fc", nn::Linear(4 * 4 * 4, 10));
  Tensor scale = add_parameter("scale", ones({1}));
  Tensor count = add_buffer("count", zeros({1}, DType::I64));
  Tensor forward(const Tensor& x) override { return mul(fc(flatten(pool(relu(conv1(x))), 1)), scale); }
};

bool close(const Tensor& a, const Tensor& b) { return all(isclose(a, b)).item<bool>(); }

std::vector<std::string> names(const nn::NamedTensors& list) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : list) out.push_back(name);
  return out;
}

}  // namespace

TEST(Module, NamesItsTensorsInOrder) {
  const Net net;
  EXPECT_EQ(names(net.named_parameters()),
            (std::vector<std::string>{"scale", "conv1.weight", "conv1.bias", "fc.weight", "fc.bias"}));
  EXPECT_EQ(names(net.state_dict()),
            (std::vector<std::string>{"scale", "count", "conv1.weight", "conv1.bias", "fc.weight", "fc.bias"}));
  EXPECT_EQ(net.parameters(false).size(), 1u);
  EXPECT_EQ(net.buffers().size(), 1u);
  EXPECT_EQ(net.modules().size(), 4u);
  EXPECT_TRUE(net.conv1.weight().requires_grad());
}

TEST(Module, PrintsAsPyTorchDoes) {
  EXPECT_EQ(Net().repr(), R"(Net(
  (conv1): Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
  (pool): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
  (fc): Linear(in_features=64, out_features=10, bias=True)
))");
}

TEST(Module, TrainsThroughBackward) {
  manual_seed(1);
  Net net;
  const Tensor y = net(randn({2, 1, 8, 8}));
  EXPECT_EQ(to_string(y.shape()), "[2, 10]");
  sum(y).backward();
  for (const auto& [name, p] : net.named_parameters()) EXPECT_TRUE(p.grad()) << name;
  net.zero_grad();
  for (const Tensor& p : net.parameters()) EXPECT_FALSE(p.grad());
}

TEST(Module, CopiesShareState) {
  Net a;
  Net b = a;  // a handle, as a Tensor is
  b.eval();
  EXPECT_FALSE(a.is_training());
  EXPECT_FALSE(a.conv1.is_training());
  EXPECT_TRUE(a.is_same(b));
  EXPECT_EQ(a.fc.weight().get(), b.fc.weight().get());
}

TEST(Module, MembersFollowConversions) {
  Net net;
  TensorImpl* before = net.scale.get();
  net.to(DType::F64);
  EXPECT_EQ(net.scale.get(), before);
  EXPECT_EQ(net.scale.dtype(), DType::F64);
  EXPECT_EQ(net.count.dtype(), DType::I64);
  EXPECT_EQ(net.fc.weight().dtype(), DType::F64);
  nn::Conv2d conv(3, 4, 3);
  conv.to("channels_last");
  EXPECT_EQ(conv.weight().strides()[1], 1);
  EXPECT_ERROR(Runtime, "invalid device 'channels'", conv.to("channels"));
  EXPECT_EQ(net(randn({2, 1, 8, 8}, {}, DType::F64)).dtype(), DType::F64);
}

TEST(Module, LoadsWhatItSaved) {
  manual_seed(1);
  Net a;
  manual_seed(2);
  Net b;
  b.load_state_dict(a.state_dict());
  const Tensor x = randn({2, 1, 8, 8});
  EXPECT_TRUE(all(eq(a(x), b(x))).item<bool>());
}

TEST(Module, RefusesAStateThatDoesNotFit) {
  Net net;
  nn::NamedTensors state = net.state_dict();
  state[0].first = "other";
  state.back().second = zeros({3});
  EXPECT_ERROR(Runtime, "Missing key(s) in state_dict: \"scale\"", net.load_state_dict(state));
  EXPECT_ERROR(Runtime, "Unexpected key(s) in state_dict: \"other\"", net.load_state_dict(state));
  EXPECT_ERROR(Runtime, "size mismatch for fc.bias: copying a param with shape [3]", net.load_state_dict(state, false));
  state.back().second = zeros({10});
  const nn::LoadResult found = net.load_state_dict(state, false);
  EXPECT_EQ(found.missing_keys, std::vector<std::string>{"scale"});
  EXPECT_EQ(found.unexpected_keys, std::vector<std::string>{"other"});
}

TEST(Module, HooksSeeAndReplaceTensors) {
  nn::Linear fc(2, 2);
  int calls = 0;
  const int64_t pre = fc.register_forward_pre_hook([&](const nn::Module&, const std::vector<Tensor>& in) {
    ++calls;
    return std::vector{zeros_like(in[0])};
  });
  fc.register_forward_hook([&](const nn::Module& m, const std::vector<Tensor>&, const std::vector<Tensor>& out) {
    EXPECT_EQ(m.name(), "Linear");
    return std::vector{add(out[0], 1)};
  });
  const Tensor x = ones({1, 2});
  EXPECT_TRUE(close(fc(x), add(fc.bias(), 1)));
  EXPECT_EQ(calls, 1);
  fc.remove_hook(pre);
  EXPECT_TRUE(close(fc(x), add(fc.forward(x), 1)));
  EXPECT_EQ(calls, 1);
}

TEST(Module, ApplyAndCastsReachChildren) {
  Net net;
  net.apply([](nn::Module& m) {
    if (const auto fc = m.as<nn::Linear>()) nn::init::ones_(fc.weight());
  });
  EXPECT_EQ(sum(net.fc.weight()).item<double>(), 640);
  EXPECT_FALSE(net.fc.as<nn::Conv2d>());
}

TEST(Module, RefusesBadRegistrations) {
  Net net;
  EXPECT_ERROR(Value, "something of that name", net.add("fc", nn::ReLU()));
  EXPECT_ERROR(Value, "can't contain", net.add("a.b", nn::ReLU()));
  EXPECT_ERROR(Value, "cannot contain itself", net.add("me", net));
  EXPECT_ERROR(Value, "computed from other tensors", net.add_parameter("p", mul(ones({1}).set_requires_grad(), 2)));
  EXPECT_ERROR(Runtime, "this module is empty", nn::Linear(nn::none)(ones({1})));
  EXPECT_ERROR(NotImplemented, "forward(const Tensor&) is not overridden", nn::Module()(ones({1})));
  EXPECT_ERROR(Value, "groups", nn::Conv2d(3, 4, 3, {.groups = 2}));
}

TEST(Containers, SequentialRunsInOrder) {
  manual_seed(3);
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2, {.bias = false}));
  const Tensor x = randn({5, 4});
  const auto first = net[0].get<nn::Linear>();
  const auto last = net[-1].get<nn::Linear>();
  EXPECT_TRUE(close(net(x), matmul(relu(add(matmul(x, t(first.weight())), first.bias())), t(last.weight()))));
  EXPECT_EQ(names(net.named_parameters()), (std::vector<std::string>{"0.weight", "0.bias", "2.weight"}));
  nn::Sequential outer(net, Net());
  EXPECT_EQ(names(outer.named_parameters())[0], "0.0.weight");
  EXPECT_ERROR(Index, "out of range", net[3]);
  EXPECT_ERROR(Type, "does not map one tensor", nn::Sequential(nn::Bilinear(2, 2, 2))(ones({1, 2})));
}

TEST(Containers, ListsAndDictsRegister) {
  nn::ModuleList list(nn::Linear(2, 2), nn::Linear(2, 2), nn::ReLU());
  EXPECT_EQ(list.repr(), R"(ModuleList(
  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)
  (2): ReLU()
))");
  nn::ModuleDict dict{{"a", nn::Linear(2, 2)}, {"b", list}};
  EXPECT_EQ(dict.parameters().size(), 6u);
  EXPECT_TRUE(dict.contains("b"));
  EXPECT_ERROR(Index, "no module 'c'", dict["c"]);
}
