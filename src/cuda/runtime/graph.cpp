#include "cuda/runtime/graph.h"

#include <atomic>

#include "base/error.h"
#include "cuda/runtime/allocator.h"

namespace strata::cuda {

struct Graph::State {
  explicit State(const Stream& s, uint64_t number) : stream(s), pool(number) {}
  ~State() {
    Gpu& gpu = stream.gpu();
    if (gpu.enter()) {
      if (recording) {  // dropped half-way
        driver::CUgraph rest = nullptr;
        gpu.table().cuStreamEndCapture(stream.handle(), &rest);
        if (rest) gpu.table().cuGraphDestroy(rest);
      }
      if (exec) gpu.table().cuGraphExecDestroy(exec);
    }
    if (recording) gpu.allocator->end_pool();
    gpu.allocator->release_pool(pool);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Stream stream;
  uint64_t pool;  // of the allocator: what was allocated while recording
  bool recording = false;
  driver::CUgraphExec exec = nullptr;
};

Graph Graph::begin(const Stream& s) {
  static std::atomic<uint64_t> numbers{0};
  Gpu& gpu = s.gpu();
  STRATA_CHECK(s.handle(), Runtime, "a graph cannot be captured on the default stream; use a stream of your own");
  gpu.activate();
  auto state = std::make_shared<State>(s, ++numbers);
  constexpr int kRelaxed = 2;  // other threads, and the allocator, may go on calling the driver
  gpu.allocator->begin_pool(state->pool, s.handle());
  const driver::CUresult r = gpu.table().cuStreamBeginCapture(s.handle(), kRelaxed);
  if (r != driver::kSuccess) gpu.allocator->end_pool();
  gpu.check(r, "start to capture a graph");
  state->recording = true;
  return Graph(std::move(state));
}

void Graph::end() {
  STRATA_CHECK(state_->recording, Runtime, "capture_end: nothing is being captured");
  Gpu& gpu = state_->stream.gpu();
  gpu.activate();
  driver::CUgraph graph = nullptr;
  gpu.check(gpu.table().cuStreamEndCapture(state_->stream.handle(), &graph), "capture a graph");
  state_->recording = false;
  gpu.allocator->end_pool();
  const driver::CUresult r = gpu.table().cuGraphInstantiate(&state_->exec, graph, 0);
  gpu.table().cuGraphDestroy(graph);
  gpu.check(r, "make a graph ready");
}

void Graph::replay(const Stream& s) const {
  STRATA_CHECK(state_->exec, Runtime, "replay: the graph has not been captured yet");
  s.gpu().activate();
  s.gpu().check(s.gpu().table().cuGraphLaunch(state_->exec, s.handle()), "replay a graph");
}

}  // namespace strata::cuda
