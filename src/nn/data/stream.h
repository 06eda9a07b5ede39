// Data sets as streams, without indices; and information about the current worker.
#pragma once
#include <optional>

#include "nn/data/dataset.h"

namespace strata::data {

// Returns the next sample at each call, std::nullopt at the end.
using Stream = std::function<std::optional<Example>()>;

// Implement iterate(). A loader calls it once per epoch, with workers once in each of their threads: every worker reads
// its own stream, and unless iterate() splits the work with get_worker_info(), each sample is returned once per worker.
class STRATA_API IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  virtual Stream iterate() const = 0;
  virtual std::optional<int64_t> size() const { return {}; }  // samples per epoch, if known
};
using IterableDatasetRef = std::shared_ptr<const IterableDataset>;

// Concatenated streams.
class STRATA_API ChainDataset : public IterableDataset {
 public:
  explicit ChainDataset(std::vector<IterableDatasetRef> parts);
  Stream iterate() const override;
  std::optional<int64_t> size() const override;

 private:
  std::vector<IterableDatasetRef> parts_;
};

struct WorkerInfo {
  int id = 0, num_workers = 0;
  uint64_t seed = 0;  // a different one for each worker and epoch, derived from the loader's generator
};
// The worker of this thread, null outside of workers.
STRATA_API const WorkerInfo* get_worker_info();

}  // namespace strata::data
