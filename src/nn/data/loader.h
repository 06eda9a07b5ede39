// DataLoader: batches of a data set, made here or by threads ahead of time.
#pragma once
#include <iterator>
#include <optional>

#include "nn/data/sampler.h"

namespace strata::data {

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;
  int num_workers = 0;                 // threads; 0: a batch is made when it is asked for
  int prefetch_factor = 2;             // batches that each thread may be ahead
  Generator* generator = nullptr;      // null: the default one
  std::shared_ptr<Sampler> sampler{};  // in place of shuffle
  std::function<Example(const Dataset&, const Tensor& indices)>
    fetch{};  // in place of Dataset::get_batch: a collate function of your own
};

// for (const Example& batch : loader) { … }: each pass is a new order. Batches come in order, whatever the threads do; what a
// thread throws is rethrown here, at its batch, with the batch named.
class STRATA_API DataLoader {
 public:
  DataLoader(DatasetRef dataset, LoaderOptions options);
  int64_t size() const;  // batches of a pass

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
    struct Pass;
    explicit Iterator(std::unique_ptr<Pass> pass);
    std::unique_ptr<Pass> pass_;
  };
  Iterator begin();  // starts a pass
  std::default_sentinel_t end() const { return {}; }

 private:
  DatasetRef dataset_;
  LoaderOptions options_;
  std::shared_ptr<Sampler> sampler_;
};

}  // namespace strata::data
