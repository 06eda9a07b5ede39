// Data sets as streams, without positions; and which of a loader's workers is reading.
#pragma once
#include <optional>

#include "nn/data/dataset.h"

namespace strata::data {

// Gives the next sample at each call, std::nullopt at the end.
using Stream = std::function<std::optional<Example>()>;

// iterate() makes a data set. A loader calls it once for each pass, with workers once in each of their threads: every worker
// reads a stream of its own, and unless iterate() asks get_worker_info() for its share, each sample comes once per worker.
class STRATA_API IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  virtual Stream iterate() const = 0;
  virtual std::optional<int64_t> size() const { return {}; }  // samples of a pass, where that is known
};
using IterableDatasetRef = std::shared_ptr<const IterableDataset>;

// Streams one after the other.
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
  uint64_t seed = 0;  // another one for each worker and pass; follows from the loader's generator
};
// The worker whose thread this is, null outside of workers.
STRATA_API const WorkerInfo* get_worker_info();

}  // namespace strata::data
