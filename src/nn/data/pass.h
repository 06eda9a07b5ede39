// One epoch of a loader over its data, and the state shared by its workers.
#pragma once
#include "nn/data/loader.h"

namespace strata::data {

struct LoaderPass {
  LoaderPass() = default;
  LoaderPass(const LoaderPass&) = delete;
  LoaderPass& operator=(const LoaderPass&) = delete;
  virtual ~LoaderPass() = default;
  virtual void advance() = 0;  // to the next batch; throws if building it threw

  Example batch;
  bool over = false;
};

std::unique_ptr<LoaderPass> pass_over(DatasetRef dataset, const LoaderOptions& options, BatchSampler& batches,
                                      uint64_t seed);
std::unique_ptr<LoaderPass> pass_over(IterableDatasetRef dataset, const LoaderOptions& options, uint64_t seed);

// The same batches on a device, one copied ahead.
std::unique_ptr<LoaderPass> prefetched(std::unique_ptr<LoaderPass> pass, Device device);

// The number of batches for this many samples.
int64_t batches_of(int64_t samples, int64_t batch_size, bool drop_last);

// Sets get_worker_info() for the duration of a scope.
class AsWorker {
 public:
  AsWorker(int id, int num_workers, uint64_t seed);
  AsWorker(const AsWorker&) = delete;
  AsWorker& operator=(const AsWorker&) = delete;
  ~AsWorker();

 private:
  WorkerInfo info_;
};

// Rethrows the current exception with its location added: the same kind if it is an Error.
[[noreturn]] void rethrow_at(const std::string& place);

}  // namespace strata::data
