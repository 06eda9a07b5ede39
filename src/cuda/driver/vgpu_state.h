// State of the virtual driver: devices, handles, queues. Its functions hold one global lock while they run.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>

#include "cuda/driver/vgpu.h"

namespace strata::cuda::driver::virtual_gpu {

inline constexpr size_t kMostCounters = 1 << 16;  // launches whose counters are kept

// A point in a queue: an event's record, done when the queue has reached it.
struct Moment {
  bool done = false;
  int64_t nanoseconds = 0;
};

struct Work {
  std::function<void()> run;      // throws vgpu::Fault if a kernel faults
  std::shared_ptr<Moment> after;  // runs only after this is done; null: immediately
  uint64_t number = 0;            // order of the calls, which the default stream keeps
};

// Description of a captured node, for graph queries.
struct NodeInfo {
  int type = kNodeMemcpy;
  CUfunction function = nullptr;  // of a kernel node, and its launch
  vgpu::Launch launch = {};
};
struct Node {
  CUgraphNode handle;
  NodeInfo info;
  std::function<void()> run;
};

struct Graph {
  std::vector<Node> work;
  std::vector<std::weak_ptr<vgpu::Module>> modules;  // that contain its kernels
  std::set<struct Stream*> streams;                  // that capture into it
};

struct Stream {
  int device = 0, priority = 0;
  bool blocking = true;  // synchronizes with the default stream
  std::deque<Work> queue;
  std::shared_ptr<Graph> capture;
  bool origin = false;  // where the capture began
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<Moment> last;
  std::shared_ptr<Graph> captured;  // recorded in a capturing stream
};

struct Device {
  vgpu::Profile profile;
  std::unique_ptr<vgpu::Memory> memory;
  Stream default_stream;
  CUmemoryPool default_pool = nullptr, pool = nullptr;
  int retained = 0;
  CUresult dead = kSuccess;  // after a kernel fault every call returns this, until the primary context is reset
  std::string why_dead;
};

struct Function {
  int device = 0;
  CUmodule module = nullptr;
  const vgpu::Program* program = nullptr;
  int max_dynamic_shared = 0;
};

struct LoadedModule {
  int device = 0;
  std::shared_ptr<vgpu::Module> module;
  std::map<std::string, CUfunction> functions;
};

struct Link {
  std::string text;                // the added PTX
  std::pair<char*, size_t> log{};  // buffer for error messages
};

struct Pool {
  int device = 0;
  uint64_t used = 0, used_high = 0, threshold = 0;
  int reuse[3] = {1, 1, 1};
  uint64_t most = 0;  // bytes; 0: no limit
};

struct State {
  VgpuOptions options;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<CUmodule, std::unique_ptr<LoadedModule>> modules;
  std::map<CUfunction, std::unique_ptr<Function>> functions;
  std::map<CUlinkState, Link> links;
  std::map<CUmemoryPool, std::unique_ptr<Pool>> pools;
  std::map<uint64_t, CUmemoryPool> pooled;                          // allocations that belong to a pool
  std::map<unsigned long long, std::pair<int, uint64_t>> physical;  // cuMemCreate: device, and handle of its memory
  uint32_t checks = 0;
  uint64_t limit = 0;
  std::map<CUstream, std::unique_ptr<Stream>> streams;
  std::map<CUevent, std::unique_ptr<Event>> events;
  std::map<CUgraph, std::shared_ptr<Graph>> graphs;
  std::map<CUgraphExec, std::shared_ptr<Graph>> execs;
  std::map<uint64_t, int> pinned;  // host blocks from cuMemHostAlloc, by device
  std::deque<vgpu::Counters> counters;
  std::mt19937_64 order;
  uint64_t works = 0, handles = 0;
  bool initialised = false;

  template <class Handle> Handle fresh() {  // numbers, never addresses: a stale handle is detected, not dereferenced
    return reinterpret_cast<Handle>(static_cast<uintptr_t>(++handles << 8 | 0x5a));
  }
};

State& state();
std::recursive_mutex& lock();
CUresult say(CUresult code, std::string message);  // stores the message for vgpu_message()
CUresult current(Device*& device);                 // of the calling thread; checks that it is alive
int current_ordinal();                             // -1: none
// null handle: the default stream; returns null if there is no such stream
Stream* find_stream(CUstream stream, Device& device);

// Queues (vgpu_queue.cpp)
CUresult enqueue(Device& device, Stream& stream, std::function<void()> run, std::shared_ptr<Moment> after = nullptr,
                 const NodeInfo& info = {});
CUresult drain(Device& device, Stream* stream);  // until the stream's queue is empty; null: all of the device
CUresult reach(Device& device, const std::shared_ptr<Moment>& moment);
bool run_one(Device& device);  // runs one piece of work; false: none can run

// Under the host check, device memory is accessible only while one of these objects exists.
class MemoryOpen {
 public:
  MemoryOpen();
  ~MemoryOpen();
  MemoryOpen(const MemoryOpen&) = delete;
  MemoryOpen& operator=(const MemoryOpen&) = delete;
};

// Runs an entry under the lock and catches all exceptions: C callers only know codes.
CUresult code_of(const std::exception& e);
template <class F> CUresult guarded(const F& f) {
  const std::lock_guard<std::recursive_mutex> hold(lock());
  const MemoryOpen open;
  try {
    return f();
  } catch (const std::exception& e) { return say(code_of(e), e.what()); }
}

// Each adds the entries of its file to the table.
void add_devices(Table& table);
void add_modules(Table& table);
void add_queues(Table& table);
void add_memory(Table& table);
void add_graphs(Table& table);
void add_virtual_memory(Table& table);
void add_pools(Table& table);

// Device memory of the current device (vgpu_memory.cpp), and its return to a pool (vgpu_pool.cpp).
CUresult allocate(CUdeviceptr* out, size_t bytes);
CUresult allocate_from(CUmemoryPool pool, CUdeviceptr* out, size_t bytes);
void returned(CUdeviceptr at);
CUcontext context_of(int ordinal);
const std::string& label();

}  // namespace strata::cuda::driver::virtual_gpu
