#include "nn/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/parallel.h"
#include "strata/ops.h"

namespace strata::data {

// One pass over the data. Threads take the next number that nobody has, no further ahead than the prefetch allows; batches
// wait in `done` until it is their turn.
struct DataLoader::Iterator::Pass {
  DatasetRef dataset;
  LoaderOptions options;
  Tensor order;
  int64_t batches, current = 0;
  Example batch;

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

  Pass(DatasetRef d, LoaderOptions o, Tensor positions, int64_t count)
      : dataset(std::move(d)), options(std::move(o)), order(std::move(positions)), batches(count) {
    const int64_t n = std::min<int64_t>(options.num_workers, batches);
    for (int64_t i = 0; i < n; ++i) threads.emplace_back([this] { work(); });
  }
  ~Pass() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    room.notify_all();
  }  // the threads are joined before anything they use is gone: they are the last member

  Example make(int64_t number) const {
    const int64_t begin = number * options.batch_size;
    const Tensor indices = narrow(order, 0, begin, std::min(options.batch_size, order.numel() - begin));
    try {
      return options.fetch ? options.fetch(*dataset, indices) : dataset->get_batch(indices);
    } catch (const Error& e) {  // the same error, and where it happened
      fail(e.kind(), fmt::format("DataLoader, batch {} of {}: {}", number, batches, e.what()));
    } catch (const std::exception& e) {
      fail(ErrorKind::Runtime, fmt::format("DataLoader, batch {} of {}: {}", number, batches, e.what()));
    }
  }

  void work() {
    const SerialLoops serial;  // the workers are the parallelism
    std::unique_lock lock(mutex);
    for (;;) {
      room.wait(lock, [&] {
        return stop || taken >= batches || taken - current < options.prefetch_factor * options.num_workers;
      });
      if (stop || taken >= batches) return;
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

  void load() {  // the batch of `current`
    batch.clear();
    if (current >= batches) return;
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
  void advance() {
    {
      std::lock_guard lock(mutex);
      ++current;
    }
    room.notify_all();
    load();
  }
};

DataLoader::DataLoader(DatasetRef dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  STRATA_CHECK(dataset_, Value, "DataLoader: there is no data set");
  STRATA_CHECK(options_.batch_size > 0, Value, "DataLoader: batch_size must be positive, got {}", options_.batch_size);
  STRATA_CHECK(options_.num_workers >= 0, Value, "DataLoader: num_workers must not be negative, got {}",
               options_.num_workers);
  STRATA_CHECK(options_.prefetch_factor > 0, Value, "DataLoader: prefetch_factor must be positive, got {}",
               options_.prefetch_factor);
  STRATA_CHECK(!(options_.sampler && options_.shuffle), Value, "DataLoader: sampler and shuffle exclude each other");
  if (options_.sampler) sampler_ = options_.sampler;
  else if (options_.shuffle && dataset_->size() > 0)
    sampler_ = std::make_shared<RandomSampler>(dataset_->size(), options_.generator);
  else sampler_ = std::make_shared<SequentialSampler>(dataset_->size());
}

int64_t DataLoader::size() const {
  const int64_t n = sampler_->size();
  return options_.drop_last ? n / options_.batch_size : (n + options_.batch_size - 1) / options_.batch_size;
}

DataLoader::Iterator DataLoader::begin() {
  Tensor order = contiguous(sampler_->order());
  auto pass = std::make_unique<Iterator::Pass>(dataset_, options_, std::move(order), size());
  pass->load();  // may throw: by now the threads belong to an object that stops them
  return Iterator(std::move(pass));
}

DataLoader::Iterator::Iterator() = default;
DataLoader::Iterator::Iterator(std::unique_ptr<Pass> pass) : pass_(std::move(pass)) {}
DataLoader::Iterator::Iterator(Iterator&&) noexcept = default;
DataLoader::Iterator& DataLoader::Iterator::operator=(Iterator&&) noexcept = default;
DataLoader::Iterator::~Iterator() = default;
const Example& DataLoader::Iterator::operator*() const { return pass_->batch; }
DataLoader::Iterator& DataLoader::Iterator::operator++() {
  pass_->advance();
  return *this;
}
bool DataLoader::Iterator::operator==(std::default_sentinel_t) const {
  return !pass_ || pass_->current >= pass_->batches;
}

}  // namespace strata::data
