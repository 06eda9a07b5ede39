#include "cuda/runtime/stream.h"

#include <fmt/core.h>

#include <map>
#include <mutex>

#include "base/error.h"
#include "base/trace.h"
#include "cuda/driver/vgpu.h"
#include "cuda/runtime/device_times.h"
#include "cuda/runtime/faults.h"
#include "record/op.h"

namespace strata::cuda {
namespace {

// Streams set by this thread; allocated on first use, since most threads set none.
thread_local std::map<const Gpu*, Stream>* chosen = nullptr;
struct Janitor {
  ~Janitor() { delete std::exchange(chosen, nullptr); }
};

bool fits(Grid g, const int (&most)[3]) {  // all from 1 to the maximum
  const auto inside = [](uint32_t n, int m) { return n - 1 < static_cast<uint32_t>(m); };
  return inside(g.x, most[0]) && inside(g.y, most[1]) && inside(g.z, most[2]);
}

[[noreturn, gnu::cold]] void refuse_launch(const Gpu& gpu, const Function& f, Grid grid, Grid block, uint32_t shared) {
  const Properties& p = gpu.properties;
  fail(ErrorKind::Internal,
       fmt::format(
         "{}: kernel {} cannot be launched on {} with a grid of {}x{}x{}, blocks of {}x{}x{} threads and {} bytes "
         "of shared memory; the device allows {}x{}x{}, {}x{}x{} with at most {} threads, and {} bytes",
         thread_state.op ? thread_state.op->name : "launch", f.name(), to_string(gpu.device()), grid.x, grid.y, grid.z,
         block.x, block.y, block.z, shared, p.max_grid[0], p.max_grid[1], p.max_grid[2], p.max_block[0], p.max_block[1],
         p.max_block[2], p.max_threads_per_block, p.shared_per_block_optin));
}

[[noreturn, gnu::cold]] void fail_launch(const Gpu& gpu, const Function& f, Grid grid, Grid block, uint32_t shared,
                                         driver::CUresult r) {
  auto* where = program_line.load();
  const std::string line = where ? where() : "";
  gpu.refuse(r,
             fmt::format(
               "launch kernel {} with a grid of {}x{}x{}, blocks of {}x{}x{} threads and {} bytes of shared memory{}{}",
               f.name(), grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, line.empty() ? "" : ", from ", line)
               .c_str());
}
}  // namespace

Stream Stream::standard(Gpu& gpu) { return {gpu, nullptr, nullptr}; }

Stream Stream::current(Gpu& gpu) {
  if (chosen) [[unlikely]]
    if (const auto found = chosen->find(&gpu); found != chosen->end()) return found->second;
  return standard(gpu);
}

void Stream::set_current(const Stream& s) {
  need_values(nullptr, "stream");
  swap_current(s);
}

void Stream::swap_current(const Stream& s) {
  static thread_local Janitor janitor;
  (void)janitor;
  if (!chosen) chosen = new std::map<const Gpu*, Stream>;
  chosen->insert_or_assign(&s.gpu(), s);
}

Stream Stream::create(Gpu& gpu, int priority) {
  gpu.activate();
  driver::CUstream handle = nullptr;
  gpu.check(gpu.table().cuStreamCreateWithPriority(&handle, driver::kStreamNonBlocking, priority), "create a stream");
  return {gpu, handle, std::shared_ptr<void>(handle, [&gpu](void* h) {
            if (gpu.enter()) gpu.table().cuStreamDestroy(static_cast<driver::CUstream>(h));
          })};
}

namespace {
// Facts of a launch. What the driver tells about a kernel is asked once per kernel.
[[gnu::cold]] void describe(tracing::Span& span, const Gpu& gpu, const Function& f, driver::CUfunction function,
                            Grid grid, Grid block, uint32_t shared_bytes) {
  namespace key = tracing::key;
  span.text(key::kernel, tracing::intern(f.name()));
  span.fact(key::grid_x, grid.x);
  span.fact(key::grid_y, grid.y);
  span.fact(key::grid_z, grid.z);
  span.fact(key::block_x, block.x);
  span.fact(key::block_y, block.y);
  span.fact(key::block_z, block.z);
  span.fact(key::shared, shared_bytes);
  struct Known {
    int registers;
    std::map<uint64_t, int> blocks;  // per multiprocessor, by threads and shared memory
  };
  static std::mutex lock;
  static auto* const known = new std::map<driver::CUfunction, Known>;
  const std::lock_guard hold(lock);
  const tracing::Quiet quiet;
  const driver::Table& t = gpu.table();
  auto [at, fresh] = known->try_emplace(function, Known{-1, {}});
  if (fresh && t.cuFuncGetAttribute(&at->second.registers, driver::kFunctionRegisters, function) != driver::kSuccess)
    at->second.registers = -1;
  const int threads = static_cast<int>(block.x * block.y * block.z);
  auto [blocks, first] =
    at->second.blocks.try_emplace(uint64_t{shared_bytes} << 32 | static_cast<uint64_t>(threads), 0);
  if (first && t.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks->second, function, threads, shared_bytes) !=
                 driver::kSuccess)
    blocks->second = 0;
  if (at->second.registers >= 0) span.fact(key::registers, at->second.registers);
  if (blocks->second > 0 && gpu.properties.max_threads_per_multiprocessor > 0)
    span.number(key::occupancy,
                static_cast<double>(blocks->second) * threads / gpu.properties.max_threads_per_multiprocessor);
}
}  // namespace

void Stream::launch_with(const Function& f, Grid grid, Grid block, uint32_t shared_bytes, void** params,
                         bool together) const {
  if (promising.load(std::memory_order_relaxed)) [[unlikely]] {
    if (own_promiser) own_promiser->before_launch(f.name().c_str());
    if (own_read_observer) own_read_observer->reads(nullptr, f.name().c_str());  // a kernel that no op has launched
  }
  Gpu& gpu = *gpu_;
  gpu.activate();
  const Properties& p = gpu.properties;
  if (!fits(grid, p.max_grid) || !fits(block, p.max_block) ||
      uint64_t{block.x} * block.y * block.z > static_cast<uint64_t>(p.max_threads_per_block) ||
      shared_bytes > static_cast<uint32_t>(p.shared_per_block_optin)) [[unlikely]]
    refuse_launch(gpu, f, grid, block, shared_bytes);
  tracing::Span span(tracing::Layer::Runtime, "launch");
  const driver::CUfunction function = f.on(gpu);
  if (span.active()) [[unlikely]]
    describe(span, gpu, f, function, grid, block, shared_bytes);
  if (shared_bytes > static_cast<uint32_t>(p.shared_per_block)) [[unlikely]]
    gpu.check(
      gpu.table().cuFuncSetAttribute(function, driver::kFunctionMaxDynamicShared, static_cast<int>(shared_bytes)),
      "ask for shared memory");
  if (gpu.runtime.type == DeviceType::Vgpu)
    driver::set_vgpu_label(thread_state.op ? thread_state.op->name.c_str() : nullptr);
  const DeviceTime time(span, gpu, handle_, f.name().c_str());
  const driver::CUresult r = together
                               ? gpu.table().cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x,
                                                                       block.y, block.z, shared_bytes, handle_, params)
                               : gpu.table().cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                            shared_bytes, handle_, params, nullptr);
  if (r != driver::kSuccess) [[unlikely]]
    fail_launch(gpu, f, grid, block, shared_bytes, r);
}

void Stream::synchronize() const {
  need_values(nullptr, "synchronize");
  gpu_->activate();
  gpu_->check(gpu_->table().cuStreamSynchronize(handle_), "finish the work of a stream");
  raise_faults(*gpu_);
}

bool Stream::query() const {
  need_values(nullptr, "query");
  gpu_->activate();
  const driver::CUresult r = gpu_->table().cuStreamQuery(handle_);
  if (r == driver::kNotReady) return false;
  gpu_->check(r, "ask whether a stream is done");
  return true;
}

Stream stream_of(Device d) { return Stream::current(Runtime::gpu(d)); }

}  // namespace strata::cuda
