// An epoch over a data set by index.
#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/parallel.h"
#include "nn/data/pass.h"
#include "strata/ops.h"

namespace strata::data {
namespace {

// Threads take the next free number, no further ahead than the prefetch allows; batches wait in `done` until it is
// their turn.
struct Positions final : LoaderPass {
  DatasetRef dataset;
  LoaderOptions options;
  Batches wanted;
  int64_t current = -1;
  uint64_t seed;

  struct Result {
    Example batch;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::condition_variable room, arrived;
  std::map<int64_t, Result> done;
  int64_t taken = 0;
  bool stop = false;
  std::vector<std::jthread> threads;

  Positions(DatasetRef d, const LoaderOptions& o, Batches b, uint64_t first_seed)
      : dataset(std::move(d)), options(o), wanted(std::move(b)), seed(first_seed) {
    const int64_t n = std::min<int64_t>(options.num_workers, wanted.size());
    for (int64_t i = 0; i < n; ++i) threads.emplace_back([this, i] { work(static_cast<int>(i)); });
  }
  ~Positions() override {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    room.notify_all();
  }  // the threads are the last member: they are joined before anything they use is destroyed

  Example make(int64_t number) const {
    try {
      const Tensor indices = wanted.at(number);
      if (options.fetch) return options.fetch(*dataset, indices);
      return options.collate_fn ? options.collate_fn(dataset->samples(indices)) : dataset->get_batch(indices);
    } catch (...) { rethrow_at(fmt::format("batch {} of {}", number, wanted.size())); }
  }

  void work(int id) {
    const SerialLoops serial;  // the workers are the parallelism
    const AsWorker me(id, options.num_workers, seed + static_cast<uint64_t>(id));
    std::unique_lock lock(mutex);
    for (;;) {
      room.wait(lock, [&] {
        return stop || taken >= wanted.size() ||
               taken - std::max<int64_t>(current, 0) < options.prefetch_factor * options.num_workers;
      });
      if (stop || taken >= wanted.size()) return;
      const int64_t number = taken++;
      lock.unlock();
      Result result;
      try {
        result.batch = make(number);
      } catch (...) { result.error = std::current_exception(); }
      lock.lock();
      done.emplace(number, std::move(result));
      arrived.notify_all();
    }
  }

  void advance() override {
    batch.clear();
    {
      std::lock_guard lock(mutex);
      ++current;
    }
    room.notify_all();
    if ((over = current >= wanted.size())) return;
    if (threads.empty()) {
      batch = make(current);
      return;
    }
    std::unique_lock lock(mutex);
    arrived.wait(lock, [&] { return done.contains(current); });
    Result result = std::move(done.extract(current).mapped());
    if (result.error) std::rethrow_exception(result.error);
    batch = std::move(result.batch);
  }
};

}  // namespace

std::unique_ptr<LoaderPass> pass_over(DatasetRef dataset, const LoaderOptions& options, BatchSampler& batches,
                                      uint64_t seed) {
  return std::make_unique<Positions>(std::move(dataset), options, batches.batches(), seed);
}

}  // namespace strata::data
