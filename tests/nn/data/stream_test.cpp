// Streams through a loader; batch samplers and collate functions.
#include "nn/data/stream.h"

#include <gtest/gtest.h>

#include <atomic>

#include "nn/data/loader.h"
#include "strata/ops.h"
#include "tests/expect_error.h"

namespace strata::data {
namespace {

using Lists = std::vector<std::vector<int64_t>>;
Lists run(DataLoader& loader) {
  Lists batches;
  for (const Batch& batch : loader) {
    const Tensor c = contiguous(batch[0]);
    batches.emplace_back(c.data<int64_t>(), c.data<int64_t>() + c.numel());
  }
  return batches;
}
Example number(int64_t i) { return {full({}, i, DType::I64)}; }

// begin, begin + 1, ..., end - 1; `shared` among the workers, or all of it in each.
struct Range : IterableDataset {
  int64_t begin, end;
  bool shared, knows = true;
  Range(int64_t b, int64_t e, bool s = true) : begin(b), end(e), shared(s) {}
  std::optional<int64_t> size() const override { return knows ? std::optional(end - begin) : std::nullopt; }
  Stream iterate() const override {
    const WorkerInfo* worker = shared ? get_worker_info() : nullptr;
    return [at = begin + (worker ? worker->id : 0), last = end,
            step = worker ? worker->num_workers : 1]() mutable -> std::optional<Example> {
      if (at >= last) return std::nullopt;
      const int64_t i = at;
      at += step;
      return number(i);
    };
  }
};

TEST(Streams, AreCutIntoBatches) {
  DataLoader loader(Range(0, 7), {.batch_size = 3});
  EXPECT_EQ(run(loader), (Lists{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(run(loader), (Lists{{0, 1, 2}, {3, 4, 5}, {6}}));  // from the beginning again
  EXPECT_EQ(loader.size(), 3);
  DataLoader cut(Range(0, 7), {.batch_size = 3, .drop_last = true});
  EXPECT_EQ(run(cut), (Lists{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(cut.size(), 2);
  for (int workers : {0, 2}) {
    DataLoader empty(Range(3, 3), {.batch_size = 3, .num_workers = workers});
    EXPECT_TRUE(run(empty).empty());
  }
}

// tests/python/test_data.py has the same batches.
TEST(Streams, WorkersTakeTurnsAndShareAsTheDataSetSays) {
  DataLoader shared(Range(0, 11), {.batch_size = 2, .num_workers = 3});
  const Lists expected = {{0, 3}, {1, 4}, {2, 5}, {6, 9}, {7, 10}, {8}};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run(shared), expected);
  DataLoader each(Range(0, 3, false), {.batch_size = 2, .num_workers = 2});
  EXPECT_EQ(run(each), (Lists{{0, 1}, {0, 1}, {2}, {2}}));
  // Workers 1 and 2 end first; the other continues.
  DataLoader uneven(Range(0, 4), {.batch_size = 1, .num_workers = 3});
  EXPECT_EQ(run(uneven), (Lists{{0}, {1}, {2}, {3}}));
}

TEST(Streams, ChainsComeOneAfterTheOther) {
  const auto a = std::make_shared<Range>(0, 3), none = std::make_shared<Range>(5, 5),
             b = std::make_shared<Range>(10, 12);
  const ChainDataset chain({a, none, b});
  EXPECT_EQ(chain.size(), 5);
  DataLoader loader(chain, {.batch_size = 2});
  EXPECT_EQ(run(loader), (Lists{{0, 1}, {2, 10}, {11}}));
  DataLoader two(chain, {.batch_size = 2, .num_workers = 2});
  EXPECT_EQ(run(two), (Lists{{0, 2}, {1, 11}, {10}}));
  const Stream stream = ChainDataset({}).iterate();
  EXPECT_FALSE(stream());
  a->knows = false;
  EXPECT_FALSE(chain.size());
  EXPECT_ERROR(Type, "does not know its size", loader.size());
  EXPECT_ERROR(Value, "one of the 2 data sets is null", ChainDataset({a, nullptr}));
}

struct Broken : IterableDataset {
  bool at_once = false;
  Stream iterate() const override {
    STRATA_CHECK(!at_once, Io, "cannot open the file");
    return [i = 0]() mutable -> std::optional<Example> {
      STRATA_CHECK(i < 3, Value, "sample {} is broken", i);
      return number(i++);
    };
  }
};

TEST(Streams, WhatAStreamThrowsArrivesAtItsBatch) {
  for (int workers : {0, 1}) {
    DataLoader loader(Broken(), {.batch_size = 2, .num_workers = workers});
    const std::string where = workers ? "DataLoader, worker 0, after 3 samples" : "DataLoader, after 3 samples";
    int64_t seen = 0;
    EXPECT_ERROR(Value, where + " of the stream: sample 3 is broken", [&] {
      for (const Batch& batch : loader) seen += batch[0].numel();
    }());
    EXPECT_EQ(seen, 2);
    Broken shut;
    shut.at_once = true;
    EXPECT_ERROR(Io, "after 0 samples of the stream: cannot open the file",
                 DataLoader(shut, {.num_workers = workers}).begin());
  }
}

struct Endless : IterableDataset {
  std::atomic<int64_t>* calls;
  Stream iterate() const override {
    return [this]() -> std::optional<Example> { return number(++*calls); };
  }
};

TEST(Streams, ThreadsStayWithinThePrefetchAndStopWhenLeftEarly) {
  std::atomic<int64_t> calls{0};
  Endless endless;
  endless.calls = &calls;
  {
    DataLoader loader(endless, {.batch_size = 2, .num_workers = 3, .prefetch_factor = 2});
    auto it = loader.begin();
    ++it;
    ++it;
  }
  // Three taken, two waiting at each worker, one being built.
  EXPECT_LE(calls.load(), 2 * (3 + 3 * 2 + 3));
}

TEST(Streams, WorkersKnowThemselves) {
  struct Seeds : Dataset {
    int64_t size() const override { return 40; }
    Example get(int64_t) const override {
      const WorkerInfo* w = get_worker_info();
      return {full({}, w ? static_cast<int64_t>(w->seed) : -1, DType::I64)};
    }
  };
  Generator generator(5);
  DataLoader loader(Seeds(), {.num_workers = 2, .generator = &generator});
  // (seed + number of the pass * 0x9E3779B97F4A7C15) mod 2^62, and the worker's number on top: as in Python.
  const auto first = static_cast<int64_t>((5 + 0x9E3779B97F4A7C15) % (uint64_t{1} << 62));
  for (const std::vector<int64_t>& batch : run(loader)) EXPECT_TRUE(batch[0] == first || batch[0] == first + 1);
  const auto second = static_cast<int64_t>((5 + 2 * 0x9E3779B97F4A7C15) % (uint64_t{1} << 62));
  for (const std::vector<int64_t>& batch : run(loader)) EXPECT_TRUE(batch[0] == second || batch[0] == second + 1);
  DataLoader here(Seeds(), {});
  EXPECT_EQ(run(here)[0], std::vector<int64_t>{-1});
  EXPECT_EQ(get_worker_info(), nullptr);
}

TEST(Streams, BadOptionsAreNamed) {
  EXPECT_ERROR(Value, "leave out shuffle", DataLoader(Range(0, 3), {.shuffle = true}));
  EXPECT_ERROR(Value, "leave out shuffle",
               DataLoader(Range(0, 3), {.sampler = std::make_shared<SequentialSampler>(1)}));
  EXPECT_ERROR(Value, "collate_fn in place of fetch",
               DataLoader(Range(0, 3), {.fetch = [](const Dataset&, const Tensor&) { return Example(); }}));
  EXPECT_ERROR(Value, "there is no data set", DataLoader(IterableDatasetRef(), {}));
}

DatasetRef numbers(int64_t n) { return std::make_shared<TensorDataset>(std::vector<Tensor>{arange(n)}); }

struct OddAndEven : BatchSampler {
  Batches batches() override { return Batches({arange(0, 5, 2), arange(1, 5, 2)}); }
  int64_t size() const override { return 2; }
};

TEST(BatchSamplers, DecideWhatABatchIs) {
  for (int workers : {0, 2}) {
    DataLoader own(numbers(5), {.num_workers = workers, .batch_sampler = std::make_shared<OddAndEven>()});
    EXPECT_EQ(own.size(), 2);
    EXPECT_EQ(run(own), (Lists{{0, 2, 4}, {1, 3}}));
    const auto usual = std::make_shared<BatchSampler>(std::make_shared<SequentialSampler>(5), 2, true);
    DataLoader two(numbers(5), {.num_workers = workers, .batch_sampler = usual});
    EXPECT_EQ(run(two), (Lists{{0, 1}, {2, 3}}));
  }
  EXPECT_ERROR(Value, "batch_sampler excludes",
               DataLoader(numbers(5), {.batch_size = 2, .batch_sampler = std::make_shared<OddAndEven>()}));
  EXPECT_ERROR(Value, "batch_size must be positive", BatchSampler(std::make_shared<SequentialSampler>(5), 0, false));
  EXPECT_ERROR(Value, "there is no sampler", BatchSampler(nullptr, 1, false));
  EXPECT_ERROR(Index, "batch 2 is out of range", OddAndEven().batches().at(2));
}

TEST(CollateFunctions, TakeTheSamplesOfABatch) {
  const auto sum_up = [](std::span<const Example> samples) -> Example {
    Tensor total = samples[0][0];
    for (const Example& sample : samples.subspan(1)) total = add(total, sample[0]);
    return {total};
  };
  for (int workers : {0, 2}) {
    DataLoader loader(numbers(5), {.batch_size = 2, .num_workers = workers, .collate_fn = sum_up});
    EXPECT_EQ(run(loader), (Lists{{1}, {5}, {4}}));
  }
  DataLoader stream(Range(0, 5), {.batch_size = 2, .collate_fn = sum_up});
  EXPECT_EQ(run(stream), (Lists{{1}, {5}, {4}}));
}

}  // namespace
}  // namespace strata::data
