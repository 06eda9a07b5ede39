// Threads that share leaves, hooks and graphs.
#include <thread>

#include "tests/autograd/values.h"

namespace strata {
namespace {
using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& t : threads) t.join();
}

TEST(AutogradThreads, HooksComeAndGoWhileOthersRunBackward) {
  const Tensor x = leaf({1, 2, 3}), y = x * 1;
  std::atomic<int> calls = 0;
  in_threads(4, [&](int i) {
    for (int n = 0; n < 200; ++n) {
      if (i % 2) {
        sum(y * 2).backward({}, true);
        continue;
      }
      for (const Tensor& t : {x, y})
        autograd::remove_hook(t, autograd::register_hook(t, [&](const Tensor& g) {
                                ++calls;
                                return g * 1;
                              }));
    }
  });
  EXPECT_EQ(numbers(x.grad()), (Numbers{800, 800, 800}));
}

TEST(AutogradThreads, RetainedGradientsOfTensorsThatEnd) {
  const Tensor x = leaf({1, 2, 3});
  for (int n = 0; n < 100; ++n) {
    Tensor y = x * 2;
    autograd::retain_grad(y);
    const Tensor loss = sum(y);
    std::thread other([&] { loss.backward(); });
    y = {};
    other.join();
  }
  EXPECT_EQ(numbers(x.grad()), (Numbers{200, 200, 200}));
}

TEST(AutogradThreads, AGraphIsFreedOnce) {
  for (int n = 0; n < 50; ++n) {
    const Tensor x = leaf({1, 2, 3}), loss = sum(exp(x * 2));
    std::atomic<int> done = 0;
    in_threads(4, [&](int) {
      try {
        loss.backward();
        ++done;
      } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find("second time"), std::string::npos); }
    });
    EXPECT_GE(done, 1);
  }
}

TEST(AutogradThreads, GradientsAreReadAndDroppedWhileOthersRunBackward) {
  const Tensor x = leaf({1, 2, 3});
  in_threads(4, [&](int i) {
    for (int n = 0; n < 300; ++n) {
      if (i % 2) {
        sum(x * 2).backward();
      } else {
        const Tensor seen = x.grad();
        EXPECT_TRUE(!seen || seen->same_shape(*x));
        Tensor(x).set_grad({});
      }
    }
  });
  Tensor(x).set_grad({});
  sum(x * 2).backward();
  EXPECT_EQ(sum(x.grad()).item<double>(), 6);
}

}  // namespace
}  // namespace strata
