#include "cuda/runtime/event.h"

#include "base/error.h"
#include "tensor/promise.h"

namespace strata::cuda {

Event::Event(Gpu& gpu, bool timing) : gpu_(&gpu), timing_(timing) {
  gpu.activate();
  driver::CUevent handle = nullptr;
  gpu.check(gpu.table().cuEventCreate(&handle, timing ? 0u : unsigned{driver::kEventDisableTiming}), "create an event");
  handle_ = std::shared_ptr<void>(handle, [&gpu](void* h) {
    if (gpu.enter()) gpu.table().cuEventDestroy(static_cast<driver::CUevent>(h));
  });
}

void Event::record(const Stream& s) const {
  need_values(nullptr, "record");
  STRATA_CHECK(&s.gpu() == gpu_, Runtime, "Event.record: the event is of {}, the stream of {}",
               to_string(gpu_->device()), to_string(s.gpu().device()));
  gpu_->activate();
  gpu_->check(gpu_->table().cuEventRecord(handle(), s.handle()), "record an event");
}

void Event::wait_in(const Stream& s) const {
  need_values(nullptr, "wait");
  s.gpu().activate();
  s.gpu().check(s.gpu().table().cuStreamWaitEvent(s.handle(), handle(), 0), "make a stream wait for an event");
}

void Event::synchronize() const {
  gpu_->activate();
  gpu_->check(gpu_->table().cuEventSynchronize(handle()), "wait for an event");
}

bool Event::query() const {
  gpu_->activate();
  const driver::CUresult r = gpu_->table().cuEventQuery(handle());
  if (r == driver::kNotReady) return false;
  gpu_->check(r, "ask for an event");
  return true;
}

float Event::elapsed_ms(const Event& later) const {
  STRATA_CHECK(timing_ && later.timing_, Value,
               "elapsed_time: both events need timing; make them with Event(enable_timing=True)");
  gpu_->activate();
  float ms = 0;
  const driver::CUresult r = gpu_->table().cuEventElapsedTime(&ms, handle(), later.handle());
  STRATA_CHECK(r != driver::kNotReady && r != driver::kInvalidHandle, Runtime,
               "elapsed_time: both events must be recorded and their work done; call synchronize() first");
  gpu_->check(r, "time two events");
  return ms;
}

}  // namespace strata::cuda
