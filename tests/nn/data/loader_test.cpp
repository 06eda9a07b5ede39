#include "nn/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "strata/ops.h"
#include "tests/expect_error.h"
#include "tests/ops/exact.h"

namespace strata::data {
namespace {

DatasetRef numbers(int64_t n) {
  return std::make_shared<TensorDataset>(std::vector<Tensor>{arange(n), reshape(arange(2 * n), {n, 2})});
}
std::vector<int64_t> values(const Tensor& t) {
  const Tensor c = contiguous(t);
  return {c.data<int64_t>(), c.data<int64_t>() + c.numel()};
}
std::vector<int64_t> run(DataLoader& loader) {
  std::vector<int64_t> all;
  for (const Example& batch : loader) {
    for (int64_t v : values(batch[0])) all.push_back(v);
    EXPECT_EQ(testing::difference(select(batch[1], 1, 0), mul(batch[0], 2)), "");
  }
  return all;
}

TEST(DataLoader, BatchesComeInOrderForAnyNumberOfThreads) {
  for (int workers : {0, 1, 4}) {
    DataLoader loader(numbers(103), {.batch_size = 10, .num_workers = workers});
    EXPECT_EQ(loader.size(), 11);
    std::vector<int64_t> expected(103);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int64_t>(i);
    EXPECT_EQ(run(loader), expected);
    EXPECT_EQ(run(loader), expected);
    DataLoader cut(numbers(103), {.batch_size = 10, .drop_last = true, .num_workers = workers});
    EXPECT_EQ(run(cut).size(), 100U);
    DataLoader empty(numbers(0), {.batch_size = 10, .shuffle = true, .num_workers = workers});
    EXPECT_TRUE(run(empty).empty());
  }
}

// tests/python/test_data.py has the same numbers.
TEST(DataLoader, ShufflesAsPythonDoes) {
  const std::vector<int64_t> first = {2, 9, 5, 4, 8, 3, 1, 7, 0, 6}, second = {3, 0, 4, 6, 9, 7, 1, 2, 5, 8};
  for (int workers : {0, 2}) {
    Generator generator(7);
    DataLoader loader(numbers(10), {.batch_size = 4, .shuffle = true, .num_workers = workers, .generator = &generator});
    EXPECT_EQ(run(loader), first);
    EXPECT_EQ(run(loader), second);
  }
  Generator again(7);
  EXPECT_EQ(values(randperm(10, &again)), first);
}

TEST(DataLoader, TakesADatasetByValue) {
  int64_t sum_of_all = 0;
  for (const Batch& batch : DataLoader(TensorDataset({arange(5)}), {.batch_size = 2}))
    sum_of_all += sum(batch[0]).item<int64_t>();
  EXPECT_EQ(sum_of_all, 10);
}

TEST(DataLoader, SamplersDecideTheOrder) {
  Generator g(1), same(1);
  DataLoader weighted(
    numbers(5),
    {.batch_size = 3, .sampler = std::make_shared<WeightedRandomSampler>(mul(eq(arange(5), 2), 1.0), 6, true, &g)});
  EXPECT_EQ(run(weighted), std::vector<int64_t>(6, 2));
  DataLoader subset(numbers(9),
                    {.batch_size = 2, .sampler = std::make_shared<SubsetRandomSampler>(arange(3, 6), &same)});
  const std::vector<int64_t> some = run(subset);
  EXPECT_EQ(std::set<int64_t>(some.begin(), some.end()), (std::set<int64_t>{3, 4, 5}));
  DataLoader more(numbers(4), {.batch_size = 3, .sampler = std::make_shared<RandomSampler>(4, nullptr, false, 10)});
  const std::vector<int64_t> ten = run(more);
  EXPECT_EQ(ten.size(), 10U);
  EXPECT_EQ(std::set<int64_t>(ten.begin(), ten.begin() + 4).size(), 4U);
  DataLoader drawn(numbers(4), {.batch_size = 3, .sampler = std::make_shared<RandomSampler>(4, nullptr, true, 50)});
  EXPECT_EQ(run(drawn).size(), 50U);
}

TEST(DataSets, CombineLikeThoseOfPython) {
  const auto a = numbers(4), b = numbers(3);
  const ConcatDataset both({a, b});
  EXPECT_EQ(both.size(), 7);
  EXPECT_EQ(both.get(5)[0].item<int>(), 1);
  EXPECT_EQ(values(both.get_batch(arange(7))[0]), (std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2}));
  const StackDataset side({a, a});
  EXPECT_EQ(side.get(1).size(), 4U);
  EXPECT_EQ(side.get_batch(arange(2)).size(), 4U);
  const Subset subset(a, arange(3, 0, -1));
  EXPECT_EQ(values(subset.get_batch(arange(3))[0]), (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(subset.get(0)[0].item<int>(), 3);
  const MapDataset doubled(a, [](Example e) -> Example { return {mul(e[0], 2)}; });
  EXPECT_EQ(values(doubled.get_batch(arange(4))[0]), (std::vector<int64_t>{0, 2, 4, 6}));
  Generator g(3);
  const std::vector<int64_t> lengths = {3, 1};
  const auto parts = random_split(a, lengths, &g);
  std::set<int64_t> seen;
  for (const auto& part : parts)
    for (int64_t v : values(part->get_batch(arange(part->size()))[0])) seen.insert(v);
  EXPECT_EQ(seen.size(), 4U);
}

struct Faulty : Dataset {
  int64_t size() const override { return 20; }
  Example get(int64_t index) const override {
    STRATA_CHECK(index != 13, Value, "sample {} is broken", index);
    if (index == 17) throw std::out_of_range("seventeen");
    return {arange(index, index + 1)};
  }
};

TEST(DataLoader, WhatADatasetThrowsArrivesAtItsBatch) {
  for (int workers : {0, 3}) {
    DataLoader loader(std::make_shared<Faulty>(), {.batch_size = 2, .num_workers = workers});
    int64_t seen = 0;
    EXPECT_ERROR(Value, "DataLoader, batch 6 of 10: sample 13 is broken", [&] {
      for (const Example& batch : loader) seen += batch[0].numel();
    }());
    EXPECT_EQ(seen, 12);
    DataLoader at_once(std::make_shared<Subset>(std::make_shared<Faulty>(), arange(13, 20)),
                       {.batch_size = 2, .num_workers = workers});
    EXPECT_ERROR(Value, "batch 0 of 4", at_once.begin());
    DataLoader other(std::make_shared<Subset>(std::make_shared<Faulty>(), arange(17, 20)),
                     {.batch_size = 2, .num_workers = workers});
    EXPECT_ERROR(Runtime, "seventeen", other.begin());
  }
}

struct Counting : Dataset {
  std::atomic<int64_t>* calls;
  int64_t size() const override { return 1000; }
  Example get(int64_t index) const override {
    ++*calls;
    return Example{arange(index, index + 1)};
  }
};

TEST(DataLoader, ThreadsStayWithinThePrefetchAndStopWhenLeftEarly) {
  std::atomic<int64_t> calls{0};
  auto dataset = std::make_shared<Counting>();
  dataset->calls = &calls;
  {
    DataLoader loader(dataset, {.batch_size = 1, .num_workers = 2, .prefetch_factor = 3});
    auto it = loader.begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++it;
    EXPECT_EQ((*it)[0].item<int>(), 1);
  }
  EXPECT_LE(calls.load(), 8);
}

TEST(DataLoader, BadOptionsAreNamed) {
  EXPECT_ERROR(Value, "batch_size must be positive, got 0", DataLoader(numbers(1), {.batch_size = 0}));
  EXPECT_ERROR(Value, "num_workers must not be negative", DataLoader(numbers(1), {.num_workers = -1}));
  EXPECT_ERROR(Value, "prefetch_factor must be positive", DataLoader(numbers(1), {.prefetch_factor = 0}));
  EXPECT_ERROR(Value, "sampler and shuffle",
               DataLoader(numbers(1), {.shuffle = true, .sampler = std::make_shared<SequentialSampler>(1)}));
  EXPECT_ERROR(Value, "there is no data set", DataLoader(DatasetRef(), {}));
  EXPECT_ERROR(Value, "have 2 and 3 samples", TensorDataset({arange(2), arange(3)}));
  EXPECT_ERROR(Index, "index 4 is out of range for 4 samples", numbers(4)->get(4));
  EXPECT_ERROR(Index, "index 9 is out of range", Subset(numbers(4), arange(9, 10)));
  EXPECT_ERROR(Value, "sum to 3, the data set has 4", random_split(numbers(4), std::vector<int64_t>{3}));
  EXPECT_ERROR(Value, "no data sets", ConcatDataset({}));
  const std::vector<Example> uneven = {{arange(1)}, {arange(1), arange(1)}};
  EXPECT_ERROR(Value, "sample 1 of the batch has 2 fields", collate(uneven));
}

}  // namespace
}  // namespace strata::data
