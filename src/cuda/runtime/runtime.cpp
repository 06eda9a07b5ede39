#include "cuda/runtime/runtime.h"

#include <fmt/core.h>

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <set>

#include "base/error.h"
#include "cuda/driver/vgpu.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/diagnosis.h"
#include "cuda/runtime/host_memory.h"
#include "cuda/runtime/images.h"
#include "cuda/runtime/module.h"
#include "record/op.h"

namespace strata::cuda {
namespace {

std::atomic<bool> forked{false};  // this process was forked from one that had opened a device

STRATA_THREAD_LOCAL const Gpu* active = nullptr;  // the device whose context is current on this thread
STRATA_THREAD_LOCAL int8_t current[2] = {0, 0};
int slot(DeviceType type) { return type == DeviceType::Vgpu; }

// A list such as "ampere,hopper", one virtual device each; commas inside the braces of a JSON object belong to it.
driver::VgpuOptions options_from_environment() {
  driver::VgpuOptions o;
  if (const char* list = std::getenv("STRATA_VGPU_DEVICES"); list && *list) {
    o.profiles.clear();
    for (const char* p = list; *p;) {
      const char* end = p;
      for (int depth = 0; *end && (depth > 0 || *end != ','); ++end) depth += (*end == '{') - (*end == '}');
      o.profiles.emplace_back(p, end);
      p = *end ? end + 1 : end;
    }
  }
  if (const char* seed = std::getenv("STRATA_VGPU_DELAYED"); seed && *seed) {
    o.delayed = true;
    o.seed = std::strtoull(seed, nullptr, 10);
  }
  return o;
}

struct Slot {
  std::once_flag once;
  std::atomic<Runtime*> runtime{nullptr};
  std::string why;
};
Slot& slot_of(DeviceType type) {
  static auto* const slots = new Slot[2];
  return slots[slot(type)];
}

void open(DeviceType type, Slot& s) {
  if (images().empty()) {
    s.why = "this build of Strata has no device kernels; configure with -DSTRATA_CUDA=ON, which needs nvcc";
    return;
  }
  const driver::Table* table = nullptr;
  if (type == DeviceType::Vgpu) table = &driver::open_vgpu(options_from_environment());
  else table = driver::libcuda();
  if (!table) {
    s.why = driver::why_not();
    return;
  }
  if (const driver::CUresult r = table->cuInit(0); r != driver::kSuccess) {
    s.why = fmt::format("the driver does not start (code {})", r);
    return;
  }
  static std::once_flag watch;
  std::call_once(watch, [] { pthread_atfork(nullptr, nullptr, [] { forked = true; }); });
  s.runtime = new Runtime(type, *table, true);  // never deleted: tensors may outlive static objects
  devices_in_use = true;
}

Slot& ensure(DeviceType type) {
  Slot& s = slot_of(type);
  std::call_once(s.once, [&] { open(type, s); });
  return s;
}

// After these errors the context is lost.
bool is_sticky(driver::CUresult code) {
  return code == driver::kIllegalAddress || code == driver::kLaunchTimeout || code == driver::kIllegalInstruction ||
         code == driver::kMisalignedAddress || code == driver::kLaunchFailed || code == 710 /* device-side assert */ ||
         code == 714 || code == 717 || code == 718 || code == 214 /* uncorrectable memory error */;
}
}  // namespace

Runtime::Runtime(DeviceType device_type, const driver::Table& driver_table, bool never_destroyed)
    : type(device_type), table(driver_table), lasting(never_destroyed) {
  int count = 0;
  const driver::CUresult r = table.cuDeviceGetCount(&count);
  STRATA_CHECK(r == driver::kSuccess, Runtime, "the driver of '{}' could not count its devices: {}",
               to_string(Device{type, -1}), describe(r));
  gpus_.resize(static_cast<size_t>(count));
  opened_ = std::make_unique<std::atomic<Gpu*>[]>(static_cast<size_t>(count));
}

std::string (*diagnosis)() = nullptr;

namespace {
struct Failed {
  std::mutex mutex;
  std::set<const Gpu*> gpus;
};
Failed& failed() {
  static auto* const one = new Failed;
  return *one;
}
}  // namespace

std::vector<std::string> failed_devices() {
  std::vector<std::string> names;
  std::lock_guard lock(failed().mutex);
  for (const Gpu* gpu : failed().gpus) names.push_back(to_string(gpu->device()));
  return names;
}

namespace {
// Made once per process: what is wrong does not change while the driver stays closed.
const std::string& reason_from_doctor(DeviceType type) {
  static const std::string none;
  if (type != DeviceType::Cuda || !diagnosis) return none;
  static const auto* const text = new std::string(diagnosis());
  return *text;
}
}  // namespace

Runtime& Runtime::get(DeviceType type) {
  Slot& s = ensure(type);
  Runtime* r = s.runtime.load(std::memory_order_acquire);
  STRATA_CHECK(r, Runtime, "device '{}' is not available: {}{}", to_string(Device{type, -1}), s.why,
               reason_from_doctor(type));
  return *r;
}
Runtime* Runtime::opened(DeviceType type) { return slot_of(type).runtime.load(std::memory_order_acquire); }
std::string Runtime::why_not(DeviceType type) { return ensure(type).why; }

Runtime* Runtime::replace(DeviceType type, Runtime* other) {
  Slot& s = slot_of(type);
  std::call_once(s.once, [&] { s.why = "a test has replaced the runtime"; });
  devices_in_use = true;
  return s.runtime.exchange(other);
}

Gpu& Runtime::operator[](int index) {
  if (index >= 0 && index < count()) [[likely]]
    if (Gpu* open = opened_[static_cast<size_t>(index)].load(std::memory_order_acquire)) return *open;
  STRATA_CHECK(index >= 0 && index < count(), Runtime,
               "device '{}:{}' is not available: invalid device ordinal; this machine has {} ({})",
               to_string(Device{type, -1}), index, count(),
               count() == 1 ? fmt::format("'{}'", to_string(Device{type, 0}))
                            : fmt::format("up to '{}'", to_string(Device{type, static_cast<int8_t>(count() - 1)})));
  std::unique_ptr<Gpu>& gpu = gpus_[static_cast<size_t>(index)];
  std::lock_guard lock(mutex_);
  if (!gpu) gpu = std::make_unique<Gpu>(*this, index);
  opened_[static_cast<size_t>(index)].store(gpu.get(), std::memory_order_release);
  return *gpu;
}

Gpu& Runtime::gpu(Device d) { return get(d.type)[d.index < 0 ? current_index(d.type) : d.index]; }

std::string Runtime::describe(driver::CUresult code) const {
  const char *name = nullptr, *text = nullptr;
  table.cuGetErrorName(code, &name);
  table.cuGetErrorString(code, &text);
  std::string s = fmt::format("{} ({})", name ? name : "unknown error", code);
  if (text) s += fmt::format(": {}", text);
  if (type == DeviceType::Vgpu && !driver::vgpu_message().empty()) s += "\n" + driver::vgpu_message();
  return s;
}

std::atomic<std::string (*)()> program_line{nullptr};

int current_index(DeviceType type) { return current[slot(type)]; }
void set_current_index(DeviceType type, int index) {
  Runtime::get(type)[index].activate();
  current[slot(type)] = static_cast<int8_t>(index);
}

Gpu::Gpu(Runtime& owner, int ordinal, Bare)
    : runtime(owner), index(ordinal), place(owner.lasting ? ordinal : std::numeric_limits<int>::max()) {}

// If this throws, the destructor cleans up, since the delegated constructor has finished.
Gpu::Gpu(Runtime& owner, int ordinal) : Gpu(owner, ordinal, Bare{}) {
  const driver::Table& t = table();
  driver::CUdevice& d = handle;
  check(t.cuDeviceGet(&d, ordinal), "open the device");
  check(t.cuDevicePrimaryCtxRetain(&context, d), "open the device's context");
  char name[256] = "";
  check(t.cuDeviceGetName(name, sizeof name, d), "tell its name");
  properties.name = name;
  check(t.cuDeviceTotalMem(&properties.total_memory, d), "tell its memory");
  const auto read = [&](int& value, int attribute) {
    check(t.cuDeviceGetAttribute(&value, attribute, d), "tell its limits");
  };
  read(properties.major, driver::kMajor);
  read(properties.minor, driver::kMinor);
  read(properties.multiprocessors, driver::kMultiprocessors);
  read(properties.warp_size, driver::kWarpSize);
  read(properties.max_threads_per_block, driver::kMaxThreadsPerBlock);
  read(properties.max_threads_per_multiprocessor, driver::kThreadsPerMultiprocessor);
  read(properties.registers_per_multiprocessor, driver::kRegistersPerMultiprocessor);
  read(properties.shared_per_block, driver::kSharedPerBlock);
  read(properties.shared_per_block_optin, driver::kSharedOptin);
  read(properties.shared_per_multiprocessor, driver::kSharedPerMultiprocessor);
  read(properties.l2_bytes, driver::kL2Bytes);
  read(properties.clock_khz, driver::kClockRate);
  for (int k = 0; k < 3; ++k) {
    read(properties.max_grid[k], driver::kMaxGridDimX + k);
    read(properties.max_block[k], driver::kMaxBlockDimX + k);
  }
  allocator = std::make_unique<Allocator>(*this);
  modules = std::make_unique<Modules>(*this);
}
Gpu::~Gpu() {
  {
    std::lock_guard lock(failed().mutex);
    failed().gpus.erase(this);
  }
  if (enter()) {
    HostMemory::of(runtime.type).drop(*this);
    if (faults) table().cuMemFreeHost(faults);
    modules.reset();
    allocator.reset();
    table().cuDevicePrimaryCtxRelease(handle);
  }
  if (active == this) active = nullptr;  // a new one may have the same address
}

Device Gpu::device() const { return {runtime.type, static_cast<int8_t>(index)}; }
const driver::Table& Gpu::table() const { return runtime.table; }

void Gpu::activate() const {
  if (active == this && cause_.empty() && !forked.load(std::memory_order_relaxed)) [[likely]]
    return;
  STRATA_CHECK(
    !forked.load(std::memory_order_relaxed), Runtime,
    "Cannot re-initialize CUDA in forked subprocess: device '{}' was opened before fork(); start workers with "
    "the 'spawn' method",
    to_string(device()));
  {
    std::lock_guard lock(mutex_);
    STRATA_CHECK(cause_.empty(), Runtime,
                 "device '{}' has failed and cannot be used any more in this process. Cause: {}\nThe CPU stays usable; "
                 "restart the process to use the device again.",
                 to_string(device()), cause_);
  }
  check(table().cuCtxSetCurrent(context), "make the device's context current");
  active = this;
}

bool Gpu::enter() const noexcept {
  if (!context || forked.load(std::memory_order_relaxed)) return false;
  // If this fails, later driver calls report the error, or need no context.
  if (active != this && table().cuCtxSetCurrent(context) == driver::kSuccess) active = this;
  return true;
}

bool Gpu::dead() const {
  std::lock_guard lock(mutex_);
  return !cause_.empty();
}

void Gpu::refuse(driver::CUresult code, const char* what) const {
  std::string text =
    fmt::format("{}{} could not {}: {}", thread_state.op ? fmt::format("{}: ", thread_state.op->name) : "",
                to_string(device()), what, runtime.describe(code));
  if (is_sticky(code)) {
    std::lock_guard lock(mutex_);
    if (cause_.empty()) cause_ = text;
    std::lock_guard also(failed().mutex);
    failed().gpus.insert(this);
  }
  fail(code == driver::kOutOfMemory ? ErrorKind::OutOfMemory : ErrorKind::Runtime, std::move(text));
}

}  // namespace strata::cuda
