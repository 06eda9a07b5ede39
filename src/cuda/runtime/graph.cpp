#include "cuda/runtime/graph.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/error.h"
#include "cuda/runtime/allocator.h"

namespace strata::cuda {

// What was captured. Everybody whose executable graph runs it holds it, since its memory is in use.
struct Graph::Recording {
  explicit Recording(const Stream& s, uint64_t number) : stream(s), pool(number) {}
  ~Recording() {
    Gpu& gpu = stream.gpu();
    if (gpu.enter()) {
      if (open) gpu.table().cuStreamEndCapture(stream.handle(), &graph);  // dropped half-way
      if (graph) gpu.table().cuGraphDestroy(graph);
    }
    if (open) gpu.allocator->end_pool();
    gpu.allocator->release_pool(pool);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  Stream stream;
  uint64_t pool;  // of the allocator: what was allocated while recording
  bool open = false;
  driver::CUgraph graph = nullptr;
};

struct Graph::State {
  ~State() {
    if (exec && recorded->stream.gpu().enter()) recorded->stream.gpu().table().cuGraphExecDestroy(exec);
  }
  std::shared_ptr<Recording> recorded, running;  // its own; what the executable graph runs, another's after an update
  driver::CUgraphExec exec = nullptr;
};

Graph Graph::begin(const Stream& s) {
  static std::atomic<uint64_t> numbers{0};
  Gpu& gpu = s.gpu();
  STRATA_CHECK(s.handle(), Runtime, "a graph cannot be captured on the default stream; use a stream of your own");
  gpu.activate();
  auto state = std::make_shared<State>();
  state->recorded = std::make_shared<Recording>(s, ++numbers);
  constexpr int kRelaxed = 2;  // other threads, and the allocator, may go on calling the driver
  gpu.allocator->begin_pool(state->recorded->pool, s.handle());
  const driver::CUresult r = gpu.table().cuStreamBeginCapture(s.handle(), kRelaxed);
  if (r != driver::kSuccess) gpu.allocator->end_pool();
  gpu.check(r, "start to capture a graph");
  state->recorded->open = true;
  return Graph(std::move(state));
}

void Graph::end() {
  Recording& r = *state_->recorded;
  STRATA_CHECK(r.open, Runtime, "capture_end: nothing is being captured");
  Gpu& gpu = r.stream.gpu();
  gpu.activate();
  gpu.check(gpu.table().cuStreamEndCapture(r.stream.handle(), &r.graph), "capture a graph");
  r.open = false;
  gpu.allocator->end_pool();
  gpu.check(gpu.table().cuGraphInstantiate(&state_->exec, r.graph, 0), "make a graph ready");
  state_->running = state_->recorded;
}

void Graph::replay(const Stream& s) const {
  STRATA_CHECK(state_->exec, Runtime, "replay: the graph has not been captured yet");
  Gpu& gpu = state_->recorded->stream.gpu();
  STRATA_CHECK(&s.gpu() == &gpu, Runtime, "replay: the graph is of {}, the stream of {}", to_string(gpu.device()),
               to_string(s.gpu().device()));
  gpu.activate();
  gpu.check(gpu.table().cuGraphLaunch(state_->exec, s.handle()), "replay a graph");
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
  // The driver names a node of the other graph, or none where the graph has more of them.
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
