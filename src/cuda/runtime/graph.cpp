#include "cuda/runtime/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/graph_params.h"
#include "tensor/promise.h"

namespace strata::cuda {

// The captured work. Shared by all executable graphs that run it, since its memory is in use.
struct Graph::Recording {
  explicit Recording(const Stream& s, uint64_t number) : stream(s), pool(number) {}
  ~Recording() {
    Gpu& gpu = stream.gpu();
    const bool incomplete = open;
    if (incomplete) set_open(false);
    if (gpu.enter()) {
      if (incomplete) gpu.table().cuStreamEndCapture(stream.handle(), &graph);
      if (graph) gpu.table().cuGraphDestroy(graph);
    }
    if (incomplete) gpu.allocator->end_pool();
    gpu.allocator->release_pool(pool);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  Stream stream;
  uint64_t pool;  // of the allocator: allocations made while recording
  bool open = false;
  driver::CUgraph graph = nullptr;
  Ref<Storage> random_base;    // two numbers on the device: the seed, and the start of a replay's random numbers
  uint64_t random_blocks = 0;  // number of blocks that a replay draws

  static Recording* open_on(const Gpu& gpu) {
    Opened& o = opened();
    std::lock_guard lock(o.mutex);
    const auto found = o.of.find(&gpu);
    return found == o.of.end() ? nullptr : found->second;
  }
  void set_open(bool on) {
    open = on;
    Opened& o = opened();
    std::lock_guard lock(o.mutex);
    if (on) o.of[&stream.gpu()] = this;
    else o.of.erase(&stream.gpu());
  }

 private:
  struct Opened {
    std::mutex mutex;
    std::map<const Gpu*, Recording*> of;  // at most one for each device
  };
  static Opened& opened() {  // never destroyed: a graph may outlive static objects
    static auto* const all = new Opened;
    return *all;
  }
};

struct Graph::State {
  ~State() {
    if (exec && recorded->stream.gpu().enter()) recorded->stream.gpu().table().cuGraphExecDestroy(exec);
  }
  // its own recording; the one that the executable graph runs, another graph's after an update
  std::shared_ptr<Recording> recorded, running;
  driver::CUgraphExec exec = nullptr;
};

Graph Graph::begin(const Stream& s) {
  need_values(nullptr, "capture");
  static std::atomic<uint64_t> numbers{0};
  Gpu& gpu = s.gpu();
  STRATA_CHECK(s.handle(), Runtime, "a graph cannot be captured on the default stream; create a stream");
  gpu.activate();
  auto state = std::make_shared<State>();
  state->recorded = std::make_shared<Recording>(s, ++numbers);
  // Allocated before the recording: memory of its pool may be reused by other work of the graph.
  state->recorded->random_base = gpu.allocator->allocate(2 * sizeof(uint64_t), s.handle());
  constexpr int kRelaxed = 2;  // other threads, and the allocator, may continue to call the driver
  gpu.allocator->begin_pool(state->recorded->pool, s.handle());
  const driver::CUresult r = gpu.table().cuStreamBeginCapture(s.handle(), kRelaxed);
  if (r != driver::kSuccess) gpu.allocator->end_pool();
  gpu.check(r, "start to capture a graph");
  state->recorded->set_open(true);
  return Graph(std::move(state));
}

void Graph::end() {
  need_values(nullptr, "capture");
  Recording& r = *state_->recorded;
  STRATA_CHECK(r.open, Runtime, "capture_end: nothing is being captured");
  Gpu& gpu = r.stream.gpu();
  gpu.activate();
  gpu.check(gpu.table().cuStreamEndCapture(r.stream.handle(), &r.graph), "capture a graph");
  r.set_open(false);
  gpu.allocator->end_pool();
  gpu.check(gpu.table().cuGraphInstantiate(&state_->exec, r.graph, 0), "make a graph ready");
  state_->running = state_->recorded;
}

void Graph::replay(const Stream& s) const {
  need_values(nullptr, "replay");
  STRATA_CHECK(state_->exec, Runtime, "replay: the graph has not been captured yet");
  const Recording& r = *state_->running;
  Gpu& gpu = r.stream.gpu();
  STRATA_CHECK(&s.gpu() == &gpu, Runtime, "replay: the graph is of {}, the stream of {}", to_string(gpu.device()),
               to_string(s.gpu().device()));
  gpu.activate();
  if (r.random_blocks > 0) {
    static const Function begin("random", "begin_replay");
    const Generator::Draw draw = default_generator().reserve(r.random_blocks);
    const auto base = reinterpret_cast<uint64_t>(r.random_base->data);
    s.launch(begin, {1}, {1}, 0, RandomBaseParams{base, draw.seed, draw.first});
  }
  gpu.check(gpu.table().cuGraphLaunch(state_->exec, s.handle()), "replay a graph");
}

bool is_capturing(Device d) {
  if (d.type == DeviceType::Meta) return false;  // parameters of an optimizer may be there
  const Gpu& gpu = Runtime::gpu(d);
  if (!gpu.allocator->capturing()) return false;
  int status = 0;
  gpu.activate();
  gpu.check(gpu.table().cuStreamIsCapturing(stream_of(d).handle(), &status), "ask whether a stream is captured");
  return status != 0;
}

RandomDraw Graph::reserve(Generator& generator, uint64_t blocks, Device d) {
  Recording* graph = is_capturing(d) ? Recording::open_on(Runtime::gpu(d)) : nullptr;
  if (!graph) {
    const Generator::Draw draw = generator.reserve(blocks);
    return {draw.seed, draw.first, 0};
  }
  STRATA_CHECK(&generator == &default_generator(), Runtime,
               "random numbers of a custom generator cannot be captured in a graph, since replays would repeat "
               "them; use the default generator, which goes on from replay to replay");
  const uint64_t first = graph->random_blocks;
  graph->random_blocks += blocks;
  return {0, first, reinterpret_cast<uint64_t>(graph->random_base->data)};
}

namespace {

std::vector<driver::CUgraphNode> nodes_of(const Gpu& gpu, driver::CUgraph graph) {
  size_t count = 0;
  gpu.check(gpu.table().cuGraphGetNodes(graph, nullptr, &count), "list the nodes of a graph");
  std::vector<driver::CUgraphNode> nodes(count);
  if (count) gpu.check(gpu.table().cuGraphGetNodes(graph, nodes.data(), &count), "list the nodes of a graph");
  return nodes;
}

// "kernel Add_f32", "copy".
std::string describe(const Gpu& gpu, const std::vector<driver::CUgraphNode>& nodes, size_t k) {
  if (k >= nodes.size()) return "nothing";
  const driver::Table& t = gpu.table();
  int type = -1;
  if (t.cuGraphNodeGetType(nodes[k], &type) != driver::kSuccess) return "a node";
  driver::CUDA_KERNEL_NODE_PARAMS p{};
  if (type == driver::kNodeKernel && t.cuGraphKernelNodeGetParams(nodes[k], &p) == driver::kSuccess)
    return fmt::format("kernel {} <<<{}x{}x{}, {}x{}x{}>>>", gpu.modules->name_of(p.func), p.gridDimX, p.gridDimY,
                       p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ);
  constexpr const char* kNames[] = {"a kernel", "a copy", "a fill", "a call of the host", "a graph"};
  return type >= 0 && type < static_cast<int>(std::size(kNames)) ? kNames[type]
                                                                 : fmt::format("a node of type {}", type);
}
}  // namespace

void Graph::update(const Graph& other) {
  STRATA_CHECK(state_->exec && other.state_->exec, Runtime, "update: {} graph has not been captured yet",
               state_->exec ? "the other" : "this");
  const Recording &mine = *state_->running, &theirs = *other.state_->recorded;
  Gpu& gpu = mine.stream.gpu();
  STRATA_CHECK(&theirs.stream.gpu() == &gpu, Runtime, "update: the graph is of {}, the other one of {}",
               to_string(gpu.device()), to_string(theirs.stream.gpu().device()));
  gpu.activate();
  driver::CUgraphExecUpdateResultInfo info{};
  const driver::CUresult r = gpu.table().cuGraphExecUpdate(state_->exec, theirs.graph, &info);
  if (r == driver::kSuccess) {
    state_->running = other.state_->recorded;
    return;
  }
  if (r != driver::kGraphExecUpdateFailure) gpu.refuse(r, "update a graph");
  const auto had = nodes_of(gpu, mine.graph), has = nodes_of(gpu, theirs.graph);
  // The driver names a node of the other graph, or none if this graph has more nodes.
  const auto named = static_cast<size_t>(std::find(has.begin(), has.end(), info.errorNode) - has.begin());
  const size_t k = info.errorNode ? named : std::min(had.size(), has.size());
  fail(ErrorKind::Runtime,
       fmt::format(
         "update: the other graph does not fit. This graph has {} nodes, the other one {}; node {} is {} here and "
         "{} there. An update needs the same kinds of work in the same order: capture the same ops with the same "
         "dtypes and layouts, or capture a new graph.",
         had.size(), has.size(), k, describe(gpu, had, k), describe(gpu, has, k)));
}

}  // namespace strata::cuda
