// compile(f, Replay{}) in C++: calls that run the graph of an earlier call.
#include <gtest/gtest.h>
#include <strata/strata.h>

#include <array>

namespace strata {
namespace {

uint64_t replayed(const graph::Replayer& r) {
  uint64_t sum = 0;
  for (const auto& [key, recording] : r.recordings()) sum += recording->replayed();
  return sum;
}

TEST(Replay, GivesTheResultsOfTheFunction) {
  int calls = 0;
  auto f = compile(
    [&](const Tensor& x, double scale) {
      ++calls;
      return tanh(x * scale) + 1;
    },
    Replay{});
  for (int i = 0; i < 9; ++i) {
    const Tensor x = randn({3, 4});
    EXPECT_TRUE(equal(f(x, 2.0), tanh(x * 2.0) + 1));
  }
  EXPECT_EQ(calls, 4);  // 1, 2, 4 and 8
  EXPECT_TRUE(equal(f(ones({3, 4}), 3.0), tanh(ones({3, 4}) * 3.0) + 1));
  EXPECT_TRUE(equal(f(ones({5}), 3.0), tanh(ones({5}) * 3.0) + 1));
  EXPECT_EQ(f.replayer().recordings().size(), 3u);
}

TEST(Replay, TakesAndReturnsLists) {
  auto f = compile(
    [](const std::vector<Tensor>& list, const std::string& how) {
      const Tensor sum = list[0] + list[1];
      return std::array{how == "twice" ? sum * 2 : sum, list[0]};
    },
    Replay{});
  for (int i = 0; i < 6; ++i) {
    const Tensor a = randn({4}), b = randn({4});
    const auto once = f(std::vector{a, b}, std::string("once")), twice = f(std::vector{a, b}, std::string("twice"));
    EXPECT_TRUE(equal(once[0] * 2, twice[0]));
    EXPECT_EQ(once[1].get(), a.get());  // the object itself
  }
  EXPECT_EQ(replayed(f.replayer()), 6u);
}

TEST(Replay, WritesToStatesAndRecordsGradients) {
  nn::Sequential net(nn::Linear(4, 4), nn::BatchNorm1d(4));
  nn::Sequential twin(nn::Linear(4, 4), nn::BatchNorm1d(4));
  {
    const NoGradGuard off;
    const auto from = net.named_parameters(), to = twin.named_parameters();
    for (size_t i = 0; i < from.size(); ++i) to[i].second.copy_(from[i].second);
  }
  auto f = compile([&](const Tensor& x) { return net(x).square().sum(); }, Replay{net.named_buffers()});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = randn({8, 4});
    for (const auto& [name, p] : net.named_parameters()) Tensor(p).set_grad({});
    for (const auto& [name, p] : twin.named_parameters()) Tensor(p).set_grad({});
    f(x).backward();
    twin(x).square().sum().backward();
    const auto a = net.named_parameters(), b = twin.named_parameters();
    for (size_t k = 0; k < a.size(); ++k) EXPECT_TRUE(equal(a[k].second.grad(), b[k].second.grad()));
    const auto c = net.named_buffers(), d = twin.named_buffers();
    for (size_t k = 0; k < c.size(); ++k) EXPECT_TRUE(equal(c[k].second, d[k].second)) << c[k].first;
  }
  EXPECT_EQ(replayed(f.replayer()), 3u);
}

TEST(Replay, RunsWhatCannotBeReplayed) {
  auto reads = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x * 2 : x - 1; }, Replay{});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = full({3}, i % 2 ? 1.0 : -1.0);
    EXPECT_TRUE(equal(reads(x), i % 2 ? x * 2 : x - 1));
  }
  EXPECT_NE(reads.replayer().recordings()[0].second->refused().find("reads values"), std::string::npos);
}

TEST(Replay, AnAuditFindsWhatTheFunctionCaptures) {
  double scale = 1;
  auto f = compile([&](const Tensor& x) { return x * scale; }, Replay{});
  for (int i = 0; i < 3; ++i) f(ones({2}));
  scale = 2;
  try {
    f(ones({2}));
    FAIL() << "call 4 is an audit";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::Runtime);
    EXPECT_NE(std::string(e.what()).find("mul got other=2; it got 1 before"), std::string::npos) << e.what();
  }
  EXPECT_EQ(f(ones({2})).sum().item<float>(), 4.0f);
}

TEST(Replay, RefusesUndefinedTensors) {
  auto f = compile([](const Tensor& x) { return x * 2; }, Replay{});
  EXPECT_THROW(f(Tensor()), Error);
}

}  // namespace
}  // namespace strata
