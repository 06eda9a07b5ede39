// An epoch over a stream.
#include <fmt/core.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/parallel.h"
#include "nn/data/pass.h"

namespace strata::data {
namespace {

// Splits a stream into batches.
struct Cutter {
  const LoaderOptions& options;
  Stream stream{};
  int64_t count = 0;  // samples so far

  // The next batch, empty at the end. `place` is the prefix of an error message.
  std::optional<Example> next(const IterableDataset& dataset, const std::string& place) {
    try {
      if (!stream) {
        stream = dataset.iterate();
        STRATA_CHECK(stream, Value, "iterate() of the data set returned an empty function");
      }
      std::vector<Example> samples;
      while (static_cast<int64_t>(samples.size()) < options.batch_size) {
        std::optional<Example> sample = stream();
        if (!sample) break;
        samples.push_back(std::move(*sample));
        ++count;
      }
      const bool cut = static_cast<int64_t>(samples.size()) < options.batch_size;
      if (samples.empty() || (cut && options.drop_last)) return std::nullopt;
      return options.collate_fn ? options.collate_fn(samples) : collate(samples);
    } catch (...) { rethrow_at(fmt::format("{}after {} samples of the stream", place, count)); }
  }
};

// Worker i builds batches of its own stream, as many ahead as the prefetch allows; the loader takes one of each worker
// in turn and skips those whose stream has ended. So the order depends on the streams only.
struct Streams final : LoaderPass {
  struct Result {
    Example batch;
    std::exception_ptr error;
  };
  struct Worker {
    std::deque<Result> made;
    bool ended = false;
  };
  IterableDatasetRef dataset;
  LoaderOptions options;
  Cutter here{options};  // without workers
  uint64_t seed;
  std::mutex mutex;
  std::condition_variable room, arrived;
  std::vector<Worker> workers;
  size_t turn = 0;
  bool stop = false;
  std::vector<std::jthread> threads;

  Streams(IterableDatasetRef d, const LoaderOptions& o, uint64_t first_seed)
      : dataset(std::move(d)), options(o), seed(first_seed), workers(static_cast<size_t>(o.num_workers)) {
    for (size_t i = 0; i < workers.size(); ++i) threads.emplace_back([this, i] { work(i); });
  }
  ~Streams() override {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    room.notify_all();
  }  // the threads are the last member: they are joined before anything they use is destroyed

  void work(size_t i) {
    const SerialLoops serial;  // the workers are the parallelism
    const AsWorker me(static_cast<int>(i), options.num_workers, seed + i);
    Cutter cutter{options};
    const std::string place = fmt::format("worker {}, ", i);
    Worker& mine = workers[i];
    std::unique_lock lock(mutex);
    while (!mine.ended) {
      room.wait(lock, [&] { return stop || static_cast<int64_t>(mine.made.size()) < options.prefetch_factor; });
      if (stop) return;
      lock.unlock();
      std::optional<Example> next;
      std::exception_ptr error;
      try {
        next = cutter.next(*dataset, place);
      } catch (...) { error = std::current_exception(); }
      lock.lock();
      mine.ended = !next;
      if (next || error) mine.made.push_back({next ? std::move(*next) : Example(), error});
      arrived.notify_all();
    }
  }

  void advance() override {
    batch.clear();
    if (over) return;
    if (workers.empty()) {
      std::optional<Example> next = here.next(*dataset, "");
      if (next) batch = std::move(*next);
      over = !next;
      return;
    }
    std::unique_lock lock(mutex);
    for (size_t ended = 0; ended < workers.size(); ++ended) {
      Worker& w = workers[turn];
      turn = (turn + 1) % workers.size();
      arrived.wait(lock, [&] { return w.ended || !w.made.empty(); });
      if (w.made.empty()) continue;
      Result result = std::move(w.made.front());
      w.made.pop_front();
      room.notify_all();
      if (result.error) std::rethrow_exception(result.error);
      batch = std::move(result.batch);
      return;
    }
    over = true;
  }
};

}  // namespace

std::unique_ptr<LoaderPass> pass_over(IterableDatasetRef dataset, const LoaderOptions& options, uint64_t seed) {
  return std::make_unique<Streams>(std::move(dataset), options, seed);
}

}  // namespace strata::data
