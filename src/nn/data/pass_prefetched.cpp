// Batches on a device, one ahead: while the work on a batch is queued, the next is built and copied in a separate
// stream.
#include <exception>
#include <map>
#include <mutex>

#include "cuda/runtime/allocator.h"
#include "cuda/runtime/event.h"
#include "cuda/runtime/in_stream.h"
#include "nn/data/pass.h"
#include "ops/transfer.h"
#include "strata/ops/movement/copy.h"

namespace strata::data {
namespace {

// One for each device, never destroyed: memory belongs to its stream.
cuda::Stream side_stream(cuda::Gpu& gpu) {
  static std::mutex mutex;
  static auto* const streams = new std::map<const cuda::Gpu*, cuda::Stream>;
  std::lock_guard lock(mutex);
  if (const auto found = streams->find(&gpu); found != streams->end()) return found->second;
  return streams->emplace(&gpu, cuda::Stream::create(gpu)).first->second;
}

class Prefetched : public LoaderPass {
 public:
  Prefetched(std::unique_ptr<LoaderPass> from, Device device)
      : from_(std::move(from)),
        gpu_(cuda::Runtime::gpu(device)),
        device_(gpu_.device()),
        side_(side_stream(gpu_)),
        copied_(gpu_) {
    fetch();
  }

  void advance() override {
    if (const std::exception_ptr error = std::exchange(error_, nullptr)) {
      fetch();  // the caller may continue with the next batch
      std::rethrow_exception(error);
    }
    batch = std::move(next_);
    if ((over = from_->over)) return;
    const cuda::Stream user = cuda::Stream::current(gpu_);
    copied_.wait_in(user);
    // The memory belongs to the side stream: freeing it waits for the work that uses it now.
    for (const Tensor& t : batch)
      if (t && t.device() == device_) gpu_.allocator->record_stream(*t->storage, user.handle());
    fetch();
  }

 private:
  void fetch() {
    next_.clear();
    try {
      from_->advance();
      if (from_->over) return;
      const cuda::InStream aside(side_);
      for (const Tensor& t : from_->batch) {
        const bool here = t && t.device().type == DeviceType::Cpu;
        next_.push_back(t ? to(here ? pin_memory(t, device_.type) : t, std::optional(device_), std::nullopt, true) : t);
      }
      copied_.record(side_);
    } catch (...) { error_ = std::current_exception(); }  // of the next batch, not of this one
  }
  std::unique_ptr<LoaderPass> from_;
  cuda::Gpu& gpu_;
  Device device_;
  cuda::Stream side_;
  cuda::Event copied_;  // of the next batch
  Example next_;
  std::exception_ptr error_;
};

}  // namespace

std::unique_ptr<LoaderPass> prefetched(std::unique_ptr<LoaderPass> pass, Device device) {
  return std::make_unique<Prefetched>(std::move(pass), device);
}

}  // namespace strata::data
