#include "strata/strata.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/trace.h"

namespace strata {
namespace {
using tracing::Event, tracing::Layer, tracing::Span;

TEST(Trace, NothingIsRecordedWhenNobodyLooks) {
  {
    Span span(Layer::Op, "unseen");
    EXPECT_FALSE(span.active());
  }
  tracing::start();
  EXPECT_TRUE(tracing::stop().empty());
}

TEST(Trace, SpansNestAndShareTheIdOfTheOutermost) {
  tracing::start();
  {
    Span outer(Layer::Op, "outer");
    Span inner(Layer::Kernel, "inner");
    inner.detail("a fact");
  }
  { Span next(Layer::Op, "next"); }
  const auto events = tracing::stop();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_STREQ(events[0].name, "inner");
  EXPECT_EQ(events[0].detail, "a fact");
  EXPECT_STREQ(events[1].name, "outer");
  EXPECT_EQ(events[0].id, events[1].id);
  EXPECT_NE(events[1].id, events[2].id);
  EXPECT_LE(events[1].begin_ns, events[0].begin_ns);
  EXPECT_GE(events[1].end_ns, events[0].end_ns);
  EXPECT_STREQ(tracing::name_of(events[0].layer), "kernel");
}

TEST(Trace, OpsAndTheirKernelsAreSeen) {
  const Tensor a = ones({4});
  tracing::start();
  const Tensor b = a + a;
  const auto events = tracing::stop();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].layer, Layer::Kernel);
  EXPECT_NE(events[0].detail.find("float32[4]"), std::string::npos) << events[0].detail;
  EXPECT_EQ(events[1].layer, Layer::Op);
  EXPECT_STREQ(events[1].name, "add");
}

struct Twice : Function<Twice> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 2; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) { return {grads[0] * 2}; }
};
TEST(Trace, EventsOutliveTheNodesTheyNamed) {
  tracing::start();
  {
    Tensor x = ones({1});
    Twice::apply(x.set_requires_grad()).backward();
  }
  bool found = false;
  for (const Event& e : tracing::stop()) found |= std::string(e.name) == "Function" && e.detail == "TwiceBackward";
  EXPECT_TRUE(found);
}

TEST(Trace, ThreadsHaveNumbersAndIdsOfTheirOwn) {
  tracing::start();
  const auto work = [] {
    for (int i = 0; i < 100; ++i) Span span(Layer::Runtime, "work");
  };
  std::thread a(work), b(work);
  a.join();
  b.join();
  const auto events = tracing::stop();
  ASSERT_EQ(events.size(), 200u);
  std::vector<uint64_t> ids;
  std::vector<uint32_t> threads;
  for (const Event& e : events) {
    ids.push_back(e.id);
    threads.push_back(e.thread);
  }
  std::sort(ids.begin(), ids.end());
  std::sort(threads.begin(), threads.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(std::unique(threads.begin(), threads.end()) - threads.begin(), 2);
}

}  // namespace
}  // namespace strata
