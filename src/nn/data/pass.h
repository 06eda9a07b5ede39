// One pass of a loader over its data, and what its workers share.
#pragma once
#include "nn/data/loader.h"

namespace strata::data {

struct LoaderPass {
  LoaderPass() = default;
  LoaderPass(const LoaderPass&) = delete;
  LoaderPass& operator=(const LoaderPass&) = delete;
  virtual ~LoaderPass() = default;
  virtual void advance() = 0;  // to the next batch; throws what making it threw

  Example batch;
  bool over = false;
};

std::unique_ptr<LoaderPass> pass_over(DatasetRef dataset, const LoaderOptions& options, BatchSampler& batches,
                                      uint64_t seed);
std::unique_ptr<LoaderPass> pass_over(IterableDatasetRef dataset, const LoaderOptions& options, uint64_t seed);

// The same batches on a device, one copied ahead.
std::unique_ptr<LoaderPass> prefetched(std::unique_ptr<LoaderPass> pass, Device device);

// Into how many batches so many samples are cut.
int64_t batches_of(int64_t samples, int64_t batch_size, bool drop_last);

// In its scope, get_worker_info() gives this.
class AsWorker {
 public:
  AsWorker(int id, int num_workers, uint64_t seed);
  AsWorker(const AsWorker&) = delete;
  AsWorker& operator=(const AsWorker&) = delete;
  ~AsWorker();

 private:
  WorkerInfo info_;
};

// Throws the exception that is being handled, with the place named: the same kind where it is an Error.
[[noreturn]] void rethrow_at(const std::string& place);

}  // namespace strata::data
