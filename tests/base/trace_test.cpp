#include "strata/strata.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/trace.h"
#include "base/trace_memory.h"
#include "base/trace_ranges.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace strata {
namespace {
using tracing::Event, tracing::Fact, tracing::Layer, tracing::Span;
namespace key = tracing::key;

TEST(Trace, NothingIsRecordedWhenNobodyLooks) {
  {
    Span span(Layer::Op, "unseen");
    EXPECT_FALSE(span.active());
  }
  tracing::start();
  EXPECT_TRUE(tracing::stop().events.empty());
  EXPECT_TRUE(tracing::stop().events.empty());  // nothing runs
}

TEST(Trace, SpansNestAndShareTheIdOfTheOutermost) {
  tracing::start();
  {
    Span outer(Layer::Op, "outer");
    EXPECT_NE(tracing::current_id(), 0u);
    Span inner(Layer::Kernel, "inner");
    inner.copied(key::detail, "a fact");
  }
  EXPECT_EQ(tracing::current_id(), 0u);
  { Span next(Layer::Op, "next"); }
  const auto r = tracing::stop();
  const auto& events = r.events;
  ASSERT_EQ(events.size(), 3u);
  EXPECT_STREQ(events[0].name, "inner");
  EXPECT_EQ(r.detail(events[0]), "a fact");
  EXPECT_STREQ(events[1].name, "outer");
  EXPECT_EQ(events[0].id, events[1].id);
  EXPECT_NE(events[1].id, events[2].id);
  EXPECT_LE(events[1].begin_ns, events[0].begin_ns);
  EXPECT_GE(events[1].end_ns, events[0].end_ns);
  EXPECT_STREQ(tracing::name_of(events[0].layer), "kernel");
}

TEST(Trace, FactsKeepTheirTypes) {
  tracing::start();
  {
    Span s(Layer::Op, "facts");
    s.fact(key::bytes, -5);
    s.number(key::occupancy, 0.375);
    s.text(key::kernel, "a name");
    s.copied(key::rejected, "");
    s.copied(key::rejected, std::string(33, 'x'));
    s.tensor(key::input, "float32", std::array<int64_t, 3>{2, 0, 1});
    s.tensor(key::output, "int64", {});
  }
  const auto r = tracing::stop();
  const std::vector<Fact> facts = r.facts(r.events.at(0));
  ASSERT_EQ(facts.size(), 7u);
  EXPECT_EQ(facts[0].integer, -5);
  EXPECT_EQ(facts[1].number, 0.375);
  EXPECT_EQ(facts[2].text, "a name");
  EXPECT_EQ(facts[3].text, "");
  EXPECT_EQ(facts[4].text, std::string(33, 'x'));
  EXPECT_EQ(facts[5].sizes, (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(tracing::to_string(facts[5]), "float32[2, 0, 1]");
  EXPECT_EQ(tracing::to_string(facts[6]), "-> int64[]");
  EXPECT_EQ(r.integer(r.events[0], key::bytes, 0), -5);
  EXPECT_EQ(r.integer(r.events[0], key::node, 7), 7);
}

TEST(Trace, OpsTheirChoicesAndTheirKernelsAreSeen) {
  const Tensor a = ones({4});
  tracing::start();
  const Tensor b = a + a;
  const auto r = tracing::stop();
  ASSERT_EQ(r.events.size(), 4u);
  EXPECT_STREQ(r.events[0].name, "allocate");
  EXPECT_EQ(r.integer(r.events[0], key::bytes, 0), 16);
  EXPECT_EQ(r.events[1].layer, Layer::Dispatch);
  EXPECT_EQ(r.events[2].layer, Layer::Kernel);
  EXPECT_NE(r.detail(r.events[2]).find("-> float32[4], bytes 48"), std::string::npos) << r.detail(r.events[2]);
  EXPECT_EQ(r.events[3].layer, Layer::Op);
  EXPECT_STREQ(r.events[3].name, "add");
  EXPECT_STREQ(r.text(r.events[1], key::kernel), r.events[2].name);
}

struct Twice : Function<Twice> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 2; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) { return {grads[0] * 2}; }
};
TEST(Trace, EventsOutliveTheNodesTheyNamed) {
  tracing::start();
  {
    Tensor x = ones({2}).set_requires_grad();
    Twice::apply(x).sum().backward();
  }
  bool found = false;
  const auto r = tracing::stop();
  for (const Event& e : r.events)
    found |= std::string(e.name) == "Function" && r.detail(e).find("TwiceBackward") != std::string::npos;
  EXPECT_TRUE(found);
}

TEST(Trace, ABackwardStepHasTheNumberOfItsForwardOp) {
  Tensor x = randn({3, 4}).set_requires_grad();
  tracing::start();
  x.exp().sum().backward();
  const auto r = tracing::stop();
  std::map<int64_t, std::string> forward;
  size_t backward = 0;
  for (const Event& e : r.events)
    if (e.layer == Layer::Op && r.integer(e, key::node, 0)) forward[r.integer(e, key::node, 0)] = e.name;
  for (const Event& e : r.events) {
    if (e.layer != Layer::Autograd) continue;
    ++backward;
    EXPECT_EQ(forward[r.integer(e, key::node, 0)], e.name);
  }
  EXPECT_EQ(backward, 2u);
}

TEST(Trace, ThreadsHaveBuffersOfTheirOwn) {
  constexpr int kThreads = 8, kSpans = 3000;
  tracing::start();
  {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([] {
        for (int i = 0; i < kSpans; ++i) {
          Span outer(Layer::Op, "outer");
          Span inner(Layer::Kernel, "inner");
          inner.fact(key::bytes, i);
        }
      });
    for (std::thread& t : threads) t.join();
  }
  const auto r = tracing::stop();
  EXPECT_EQ(r.events.size(), size_t{2} * kThreads * kSpans);
  std::map<uint32_t, int64_t> next;
  std::map<uint64_t, int> ids;
  for (const Event& e : r.events) {
    ++ids[e.id];
    if (e.layer == Layer::Kernel) { EXPECT_EQ(r.integer(e, key::bytes, -1), next[e.thread]++); }
  }
  EXPECT_EQ(next.size(), size_t{kThreads});
  for (const auto& [id, n] : ids) EXPECT_EQ(n, 2);
}

TEST(Trace, RecordingsStartAndStopWhileThreadsWork) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!done) {
        Span outer(Layer::Op, "outer");
        for (int i = 0; i < 3; ++i) {
          Span inner(Layer::Kernel, "inner");
          if (inner.active()) inner.copied(key::detail, "a text that takes some slots of the buffer");
        }
      }
    });
  for (int i = 0; i < 200; ++i) {
    tracing::start(1 << 20);
    const auto r = tracing::stop();
    for (const Event& e : r.events) {
      ASSERT_TRUE(std::string(e.name) == "outer" || std::string(e.name) == "inner");
      ASSERT_LE(e.begin_ns, e.end_ns);
      for (const Fact& f : r.facts(e)) ASSERT_EQ(f.text, "a text that takes some slots of the buffer");
    }
  }
  done = true;
  for (std::thread& t : threads) t.join();
}

TEST(Trace, MemoryIsBoundedAndWhatIsDroppedIsCounted) {
  tracing::start(200000);
  for (int i = 0; i < 20000; ++i) Span(Layer::Op, "span");
  const auto r = tracing::stop();
  EXPECT_GT(r.events.size(), 1000u);
  EXPECT_LT(r.events.size() * 48, 200000u);
  EXPECT_EQ(r.events.size() + r.dropped, 20000u);
}

TEST(Trace, SpansThatEndInAnotherOrderOrThreadAreDropped) {
  tracing::start();
  auto outer = std::make_unique<Span>(Layer::Op, "outer");
  auto inner = std::make_unique<Span>(Layer::Op, "inner");
  outer->fact(key::bytes, 1);  // it is not the innermost
  outer.reset();
  inner.reset();
  auto elsewhere = std::make_unique<Span>(Layer::Op, "elsewhere");
  std::thread([&] { elsewhere.reset(); }).join();
  { Span fine(Layer::Op, "fine"); }
  const auto r = tracing::stop();
  ASSERT_EQ(r.events.size(), 1u);
  EXPECT_STREQ(r.events[0].name, "fine");
  EXPECT_EQ(r.events[0].slots, 0);
}

TEST(Trace, ASpanOpenAcrossTwoRecordingsIsInNeither) {
  tracing::start();
  {
    Span old(Layer::Op, "old");
    (void)tracing::stop();
    tracing::start();
    Span fresh(Layer::Op, "fresh");
    old.fact(key::bytes, 1);
  }
  const auto r = tracing::stop();
  ASSERT_EQ(r.events.size(), 1u);
  EXPECT_STREQ(r.events[0].name, "fresh");
}

TEST(Trace, OneRecordingAtATime) {
  const tracing::Session session;
  EXPECT_ERROR(Runtime, "already running", tracing::start());
  EXPECT_ERROR(Runtime, "already running", tracing::Session());
}

TEST(Trace, TablesSumUpWhatTheSpansSay) {
  tracing::Session session;
  const Tensor a = ones({64, 64});
  for (int i = 0; i < 3; ++i) matmul(a, a);
  {
    const tracing::Scope block("a block");
    a.exp();
  }
  const tracing::Trace t = session.stop();
  const auto rows = t.rows("op");
  const auto row = [&](const char* name) {
    for (const auto& r : rows)
      if (r.key == name) return r;
    return tracing::Row{};
  };
  EXPECT_EQ(row("matmul").calls, 3u);
  EXPECT_EQ(row("matmul").bytes, 3 * 3 * 64 * 64 * 4);
  EXPECT_EQ(row("exp").calls, 1u);
  EXPECT_LE(row("exp").self_ns, row("exp").total_ns);
  EXPECT_EQ(t.rows("user").at(0).key, "a block");
  int64_t all = 0, outermost = 0;
  for (const auto& r : t.rows("layer")) all += r.self_ns;
  std::map<uint64_t, std::pair<int64_t, int64_t>> ends;
  for (const Event& e : t.recording().events) {
    auto& [begin, end] = ends.try_emplace(e.id, INT64_MAX, 0).first->second;
    begin = std::min(begin, e.begin_ns);
    end = std::max(end, e.end_ns);
  }
  for (const auto& [id, times] : ends) outermost += times.second - times.first;
  EXPECT_EQ(all, outermost);  // self times add up to the outermost spans
  EXPECT_ERROR(Value, "no table by 'x'", t.rows("x"));
  EXPECT_ERROR(Value, "cannot tell the format", t.save("trace.xyz"));
  EXPECT_ERROR(Io, "nowhere", t.save("/nowhere/trace.json"));
  EXPECT_ERROR(Runtime, "stopped before", session.stop());
}

TEST(Trace, KernelsKnowTheirModuleBytesAndOperations) {
  Tensor x = randn({8, 16}).set_requires_grad();
  const Tensor w = randn({16, 4});
  tracing::Session session;
  Tensor y;
  {
    const Span module(Layer::Module, "layer");
    y = matmul(x, w);
  }
  y.sum().backward();
  const tracing::Trace t = session.stop();
  size_t inside = 0;
  for (const tracing::Work& w : t.work()) {
    if (w.module == "layer") ++inside;
    if (std::string_view(w.op) == "matmul" && w.module == "layer" && inside == 1) {
      EXPECT_EQ(w.flops, 2 * 8 * 16 * 4);
      EXPECT_EQ(w.bytes, 4 * (8 * 16 + 16 * 4 + 8 * 4));
    }
    if (std::string_view(w.op) == "sum") { EXPECT_EQ(w.module, ""); }
  }
  EXPECT_GE(inside, 2u);  // and the gradient, by the node of its forward op
  const std::string table = t.table("op", 20, {.bytes = 1e10, .flops = 1e10});
  EXPECT_NE(table.find("of peak"), std::string::npos) << table;
  EXPECT_EQ(t.table("op").find("of peak"), std::string::npos);
}

TEST(Trace, LaunchesAndCallsOfLibrariesFindTheirTimesOnTheDevice) {
  uint64_t id = 0;
  tracing::start();
  {
    const Span op(Layer::Op, "op");
    const Span kernel(Layer::Kernel, "kernel");
    id = tracing::current_id();
    const auto launch = [](const char* name, const char* what) {
      Span span(Layer::Runtime, name);
      if (what) span.text(key::kernel, what);
    };
    launch("launch", "first");
    launch("cublasLtMatmul", nullptr);
    launch("launch", "untimed");
    launch("launch", "last");
    launch("allocate", nullptr);
  }
  tracing::Recording r = tracing::stop();
  for (const char* name : {"first", "cublasLtMatmul", "last"})
    r.add(Layer::Device, name, id, 0, 1000, 1000000, "op", 0);
  const tracing::Trace t(std::move(r));
  std::string found;
  for (const auto& [launch, device] : t.launches(id))
    found += device < 0 ? std::string("- ") : t.recording().events[static_cast<size_t>(device)].name + std::string(" ");
  EXPECT_EQ(found, "first cublasLtMatmul - last ");
  ASSERT_EQ(t.work().size(), 1u);
  EXPECT_EQ(t.work()[0].device_ns, 3000);
  EXPECT_EQ(t.work()[0].launches, 4u);
}

TEST(Trace, MemoryThatIsGivenBackIsSeenOnRequestOnly) {
  for (const bool watched : {false, true}) {
    tracing::watches_memory = watched;
    tracing::Session session;
    int64_t address = 0;
    {
      const Tensor a = ones({100});
      address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(a.data<float>()));
    }
    const tracing::Trace t = session.stop();
    tracing::watches_memory = false;
    bool freed = false;
    for (const Event& e : t.recording().events)
      freed |= std::string_view(e.name) == "free" && t.recording().integer(e, key::address, 0) == address &&
               t.recording().integer(e, key::bytes, 0) == 400;
    EXPECT_EQ(freed, watched);
  }
}

TEST(Trace, SpansAreRangesOfAnotherToolOnRequest) {
  static std::vector<std::string> log;
  static const tracing::Ranges kRanges{[](const char* name) {
                                         log.emplace_back(name);
                                         return 0;
                                       },
                                       [] {
                                         log.emplace_back("end");
                                         return 0;
                                       }};
  log.clear();
  tracing::ranges = &kRanges;
  { const Span unseen(Layer::User, "unseen"); }
  tracing::start();
  {
    const Span outer(Layer::User, "outer");
    const Span inner(Layer::User, "inner");
    tracing::ranges = nullptr;
  }
  { const Span later(Layer::User, "later"); }
  (void)tracing::stop();
  EXPECT_EQ(log, (std::vector<std::string>{"outer", "inner", "end", "end"}));
}

TEST(Trace, RandomNestingsKeepTheirOrder) {
  std::mt19937 chance(7);
  tracing::start();
  size_t opened = 0;
  const std::function<void(int)> nest = [&](int depth) {
    const int n = static_cast<int>(chance() % 4);
    for (int i = 0; i < n; ++i) {
      Span s(Layer::Op, "node");
      ++opened;
      for (uint32_t k = chance() % 3; k > 0; --k) s.copied(key::detail, std::string(chance() % 40, 'a'));
      if (depth < 6) nest(depth + 1);
    }
  };
  for (int i = 0; i < 100; ++i) nest(0);
  const tracing::Trace t(tracing::stop());
  EXPECT_EQ(t.recording().events.size(), opened);
  int64_t self = 0, total = 0;
  for (const auto& r : t.rows("op")) {
    self += r.self_ns;
    total += r.total_ns;
  }
  EXPECT_EQ(self, total);  // inner spans of the same name are not counted twice
}

TEST(Trace, FilesAreWellFormedWithHostileNames) {
  const testing::TempFolder folder;
  tracing::Session session;
  for (const char* name :
       {"</script><script>alert(1)</script>", "\"quotes\\\n\t\x01", "\xff\xfe\xc0\x80", "\xed\xa0\x80", "ünï"}) {
    const tracing::Scope block(name);
    Span s(Layer::Op, "op");
    s.copied(key::rejected, name);
    s.copied(key::rejected, "twice");
  }
  const tracing::Trace t = session.stop();
  for (const char* end : {"json", "html", "svg", "txt"}) t.save(folder.path() + "/t." + end);
  std::ifstream file(folder.path() + "/t.json");
  const auto json = nlohmann::json::parse(file);
  size_t slices = 0;
  for (const auto& e : json["traceEvents"]) slices += e["ph"] == "X";
  EXPECT_EQ(slices, 10u);
  EXPECT_EQ(t.to_html().find("<script>alert"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/t.json.part"));
}

}  // namespace
}  // namespace strata
