// DataLoader: batches of a data set, built here or by threads ahead of time.
#pragma once
#include <concepts>
#include <iterator>
#include <optional>

#include "nn/data/sampler.h"
#include "nn/data/stream.h"

namespace strata::data {

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;
  int num_workers = 0;                 // threads; 0: a batch is built when it is requested
  int prefetch_factor = 2;             // batches that each thread may be ahead
  Generator* generator = nullptr;      // null: the default one
  std::shared_ptr<Sampler> sampler{};  // instead of shuffle
  std::function<Example(const Dataset&, const Tensor& indices)>
    fetch{};  // instead of Dataset::get_batch, for data sets with a faster method than sample by sample
  std::shared_ptr<BatchSampler> batch_sampler{};                  // instead of batch_size, shuffle, sampler, drop_last
  std::function<Example(std::span<const Example>)> collate_fn{};  // instead of collate()
  // Batches are returned on this device: each is copied during the work on the previous one, through pinned memory.
  // Using a batch in another stream than the one in which it was taken needs the usual synchronization.
  std::optional<Device> prefetch_device{};
};
struct LoaderPass;

// for (const Example& batch : loader) { … }: each epoch has a new order. Batches are in order, whatever the threads do;
// an exception of a thread is rethrown here, at its batch, with the batch named. For a stream, each worker builds
// batches of its own stream; workers take turns, without those whose stream has ended.
class STRATA_API DataLoader {
 public:
  DataLoader(DatasetRef dataset, LoaderOptions options);
  template <std::derived_from<Dataset> D>  // a data set by value: tensors in it are shared, not copied
  DataLoader(D dataset, LoaderOptions options)
      : DataLoader(DatasetRef(std::make_shared<const D>(std::move(dataset))), std::move(options)) {}
  DataLoader(IterableDatasetRef dataset, LoaderOptions options);
  template <std::derived_from<IterableDataset> D>
  DataLoader(D dataset, LoaderOptions options)
      : DataLoader(IterableDatasetRef(std::make_shared<const D>(std::move(dataset))), std::move(options)) {}
  int64_t size() const;  // batches per epoch; throws Type if a stream does not know its size

  class STRATA_API Iterator {
   public:
    using value_type = Example;
    using difference_type = std::ptrdiff_t;
    Iterator();
    Iterator(Iterator&&) noexcept;
    Iterator& operator=(Iterator&&) noexcept;
    ~Iterator();  // stops the threads
    const Example& operator*() const;
    const Example* operator->() const { return &**this; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const;

   private:
    friend class DataLoader;
    explicit Iterator(std::unique_ptr<LoaderPass> pass);
    std::unique_ptr<LoaderPass> pass_;
  };
  Iterator begin();  // starts an epoch
  std::default_sentinel_t end() const { return {}; }

 private:
  DatasetRef dataset_;
  IterableDatasetRef stream_;  // one of the two is null
  LoaderOptions options_;
  std::shared_ptr<BatchSampler> batches_;
  uint64_t passes_ = 0;
};

}  // namespace strata::data
