#include "cuda/runtime/faults.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "record/op.h"

namespace strata::cuda {

FaultSink fault_sink(Gpu& gpu) {
  static std::mutex mutex;
  FaultSink sink{};
  if (!gpu.faults.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex);
    if (!gpu.faults.load(std::memory_order_relaxed)) {
      gpu.activate();
      void* memory = nullptr;
      gpu.check(gpu.table().cuMemHostAlloc(&memory, sizeof(FaultReport), 0), "allocate pinned memory");
      *static_cast<FaultReport*>(memory) = {};
      driver::CUdeviceptr address = 0;
      const driver::CUresult r = gpu.table().cuMemHostGetDevicePointer(&address, memory, 0);
      if (r != driver::kSuccess) gpu.table().cuMemFreeHost(memory);
      gpu.check(r, "map pinned memory");
      gpu.fault_address = address;
      gpu.faults.store(static_cast<FaultReport*>(memory), std::memory_order_release);
    }
  }
  sink.report = gpu.fault_address;
  sink.op = -1;
  if (const OpRecord* op = thread_state.op) {
    const auto& all = all_ops();
    sink.op = static_cast<int32_t>(std::find(all.begin(), all.end(), op) - all.begin());
  }
  return sink;
}

void raise_faults(const Gpu& gpu) {
  FaultReport* report = gpu.faults.load(std::memory_order_acquire);
  if (!report || !std::atomic_ref(report->code).load(std::memory_order_relaxed)) [[likely]]
    return;
  const FaultReport found = *report;
  *report = {};
  const auto& all = all_ops();
  const std::string op =
    found.op >= 0 && static_cast<size_t>(found.op) < all.size() ? all[static_cast<size_t>(found.op)]->name : "a kernel";
  const std::string where =
    fmt::format("(detected by a kernel on {}; raised when the host next waits for it)", to_string(gpu.device()));
  switch (static_cast<FaultCode>(found.code)) {
    case FaultCode::Index:
      fail(ErrorKind::Index, fmt::format("{}: index {} is out of bounds for dimension with size {} {}", op, found.value,
                                         found.limit, where));
    case FaultCode::Target:
      fail(ErrorKind::Index,
           fmt::format("{}: Target {} is out of bounds; there are {} classes {}", op, found.value, found.limit, where));
    case FaultCode::Division:
      fail(ErrorKind::Runtime, fmt::format("{}: ZeroDivisionError: an integer was divided by zero {}", op, where));
    case FaultCode::Probability:
      fail(ErrorKind::Runtime, fmt::format("{}: all elements of input should be between 0 and 1, found {} {}", op,
                                           std::bit_cast<double>(found.value), where));
    case FaultCode::Start:
      fail(
        ErrorKind::Index,
        fmt::format("{}: a sequence starts at {}, where {} was the limit: starts must begin with 0, not decrease, end "
                    "with the number of rows, and no sequence may be longer than max_q or max_k {}",
                    op, found.value, found.limit, where));
    case FaultCode::Offset:
      fail(ErrorKind::Runtime,
           fmt::format("{}: offset {} is out of order or beyond the size {} {}", op, found.value, found.limit, where));
    case FaultCode::None: break;
  }
}

}  // namespace strata::cuda
