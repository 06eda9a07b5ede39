// DataLoader: shared parts of epochs over indices and over streams.
#include "nn/data/loader.h"

#include <fmt/core.h>

#include "nn/data/pass.h"

namespace strata::data {
namespace {

thread_local const WorkerInfo* this_worker = nullptr;

void check(const LoaderOptions& o) {
  STRATA_CHECK(o.batch_size > 0, Value, "DataLoader: batch_size must be positive, got {}", o.batch_size);
  STRATA_CHECK(o.num_workers >= 0, Value, "DataLoader: num_workers must not be negative, got {}", o.num_workers);
  STRATA_CHECK(o.prefetch_factor > 0, Value, "DataLoader: prefetch_factor must be positive, got {}", o.prefetch_factor);
}

}  // namespace

AsWorker::AsWorker(int id, int num_workers, uint64_t seed) : info_{id, num_workers, seed} { this_worker = &info_; }
AsWorker::~AsWorker() { this_worker = nullptr; }
const WorkerInfo* get_worker_info() { return this_worker; }

void rethrow_at(const std::string& place) {
  try {
    throw;
  } catch (const Error& e) {
    fail(e.kind(), fmt::format("DataLoader, {}: {}", place, e.what()));
  } catch (const std::exception& e) { fail(ErrorKind::Runtime, fmt::format("DataLoader, {}: {}", place, e.what())); }
}

DataLoader::DataLoader(DatasetRef dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  STRATA_CHECK(dataset_, Value, "DataLoader: there is no data set");
  check(options_);
  STRATA_CHECK(!(options_.sampler && options_.shuffle), Value, "DataLoader: sampler and shuffle exclude each other");
  STRATA_CHECK(!(options_.fetch && options_.collate_fn), Value, "DataLoader: fetch and collate_fn exclude each other");
  batches_ = options_.batch_sampler;
  if (batches_) {
    STRATA_CHECK(options_.batch_size == 1 && !options_.shuffle && !options_.sampler && !options_.drop_last, Value,
                 "DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last");
    return;
  }
  std::shared_ptr<Sampler> sampler = options_.sampler;
  if (!sampler && options_.shuffle && dataset_->size() > 0)
    sampler = std::make_shared<RandomSampler>(dataset_->size(), options_.generator);
  if (!sampler) sampler = std::make_shared<SequentialSampler>(dataset_->size());
  batches_ = std::make_shared<BatchSampler>(std::move(sampler), options_.batch_size, options_.drop_last);
}

DataLoader::DataLoader(IterableDatasetRef dataset, LoaderOptions options)
    : stream_(std::move(dataset)), options_(std::move(options)) {
  STRATA_CHECK(stream_, Value, "DataLoader: there is no data set");
  check(options_);
  STRATA_CHECK(!options_.shuffle && !options_.sampler && !options_.batch_sampler, Value,
               "DataLoader: a stream has no positions; leave out shuffle, sampler and batch_sampler");
  STRATA_CHECK(!options_.fetch, Value, "DataLoader: a stream has no positions; give collate_fn in place of fetch");
}

int64_t DataLoader::size() const {
  if (batches_) return batches_->size();
  const std::optional<int64_t> n = stream_->size();
  STRATA_CHECK(n, Type, "DataLoader: the stream does not know its size; override size() of the data set to tell it");
  return batches_of(*n, options_.batch_size, options_.drop_last);
}

DataLoader::Iterator DataLoader::begin() {
  // As in Python: nothing is drawn from the generator, the epoch number is mixed into the seeds.
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  const uint64_t seed =
    (generator_or_default(options_.generator).initial_seed() + kMix * ++passes_) % (uint64_t{1} << 62);
  auto pass = stream_ ? pass_over(stream_, options_, seed) : pass_over(dataset_, options_, *batches_, seed);
  if (options_.prefetch_device && options_.prefetch_device->type != DeviceType::Cpu) {
    STRATA_CHECK(options_.prefetch_device->type != DeviceType::Meta, Value,
                 "DataLoader: prefetch_device must be a device with memory, got meta");
    pass = prefetched(std::move(pass), require_available(*options_.prefetch_device));
  }
  pass->advance();  // may throw: the threads already belong to an object that stops them
  return Iterator(std::move(pass));
}

DataLoader::Iterator::Iterator() = default;
DataLoader::Iterator::Iterator(std::unique_ptr<LoaderPass> pass) : pass_(std::move(pass)) {}
DataLoader::Iterator::Iterator(Iterator&&) noexcept = default;
DataLoader::Iterator& DataLoader::Iterator::operator=(Iterator&&) noexcept = default;
DataLoader::Iterator::~Iterator() = default;
const Example& DataLoader::Iterator::operator*() const { return pass_->batch; }
DataLoader::Iterator& DataLoader::Iterator::operator++() {
  pass_->advance();
  return *this;
}
bool DataLoader::Iterator::operator==(std::default_sentinel_t) const { return !pass_ || pass_->over; }

}  // namespace strata::data
