// Eight concurrent threads: ops and backward passes over shared weights, hooks that are added and removed, data
// loaders. The results are those of one thread; under ThreadSanitizer (`make tsan`) these programs show unguarded
// state.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "nn/data/loader.h"
#include "strata/strata.h"

namespace strata {
namespace {

constexpr int kThreads = 8, kRounds = 20;

template <class F> void in_threads(F f) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&f, t] {
      for (int round = 0; round < kRounds; ++round) f(t, round);
    });
  for (std::thread& t : threads) t.join();
}

double only_value(const Tensor& t) {  // of a tensor all of whose elements are equal
  EXPECT_EQ(min(t).item<double>(), max(t).item<double>());
  return max(t).item<double>();
}

TEST(Threads, GradientsOfASharedLeafAddUp) {
  for (const int64_t n : {10, 40'000}) {
    const Tensor w = ones({n}).set_requires_grad();
    in_threads([&](int, int) { sum(w * 2).backward(); });
    EXPECT_EQ(only_value(w.grad()), 2.0 * kThreads * kRounds);
  }
}

TEST(Threads, OneGraphIsDifferentiatedByAll) {
  const Tensor w = ones({1000}).set_requires_grad();
  const Tensor loss = sum(square(w * 3));
  in_threads([&](int, int) { loss.backward({}, /*retain_graph=*/true); });
  EXPECT_EQ(only_value(w.grad()), 18.0 * kThreads * kRounds);
}

TEST(Threads, HooksComeAndGoDuringBackward) {
  const Tensor w = ones({1000}).set_requires_grad();
  const Tensor inner = w * 1;
  std::atomic<int> calls{0};
  in_threads([&](int t, int) {
    if (t % 2) return sum(inner * 2).backward({}, /*retain_graph=*/true);
    for (const Tensor& target : {w, inner}) {
      const int64_t id = autograd::register_hook(target, [&](const Tensor& g) {
        ++calls;
        return g;
      });
      autograd::remove_hook(target, id);
    }
  });
  EXPECT_EQ(only_value(w.grad()), 2.0 * kThreads / 2 * kRounds);
}

TEST(Threads, OpsOverSharedInputsGiveTheSameBits) {
  manual_seed(3);
  const Tensor a = randn({64, 96}), b = randn({96, 48}), image = randn({2, 8, 12, 12}), kernel = randn({16, 8, 3, 3});
  const auto compute = [&] {
    return std::vector<Tensor>{matmul(a, b),       conv2d(image, kernel),   softmax(a, 1),
                               sum(a, {0}),        std::get<0>(sort(a, 1)), transpose(a, 0, 1) * 2,
                               layer_norm(a, {96})};
  };
  const std::vector<Tensor> want = compute();
  std::atomic<int> wrong{0};
  in_threads([&](int, int) {
    const std::vector<Tensor> got = compute();
    for (size_t i = 0; i < got.size(); ++i) wrong += !all(eq(got[i], want[i])).item<bool>();
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, ANetworkIsTrainedOnByAll) {
  manual_seed(5);
  nn::Conv2d conv(3, 8, 3, {.padding = 1});
  nn::Linear linear(8, 4);
  const Tensor x = randn({2, 3, 8, 8});
  const auto loss = [&] { return sum(linear(mean(relu(conv(x)), {2, 3}))); };
  loss().backward();
  const Tensor once = clone(linear.weight().grad());
  in_threads([&](int, int) { loss().backward(); });
  const double times = 1.0 + kThreads * kRounds;
  EXPECT_LT(max(abs(linear.weight().grad() / times - once)).item<double>(),
            1e-4 * max(abs(once)).item<double>() + 1e-6);
}

TEST(Threads, LoadersWorkSideBySide) {
  const auto numbers = std::make_shared<data::TensorDataset>(std::vector<Tensor>{arange(50)});
  std::atomic<int64_t> total{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      data::DataLoader loader(numbers, {.batch_size = 7, .num_workers = t % 3});
      for (int epoch = 0; epoch < 3; ++epoch)
        for (const data::Example& batch : loader) total += sum(batch[0]).item<int64_t>();
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(total, kThreads * 3 * 49 * 25);
}

}  // namespace
}  // namespace strata
