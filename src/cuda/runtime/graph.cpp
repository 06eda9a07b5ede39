#include "cuda/runtime/graph.h"

#include <atomic>
#include <map>
#include <mutex>

#include "base/error.h"
#include "cuda/kernels/random_params.h"
#include "cuda/runtime/allocator.h"

namespace strata::cuda {

struct Graph::State {
  explicit State(const Stream& s, uint64_t number) : stream(s), pool(number) {}
  ~State() {
    Gpu& gpu = stream.gpu();
    const bool half_way = recording;
    if (half_way) set_recording(false);
    try {
      gpu.activate();
      if (half_way) {
        driver::CUgraph rest = nullptr;
        gpu.table().cuStreamEndCapture(stream.handle(), &rest);
        if (rest) gpu.table().cuGraphDestroy(rest);
        gpu.allocator->end_pool();
      }
      if (exec) gpu.table().cuGraphExecDestroy(exec);
    } catch (const Error&) {}  // a dead device has no graphs
    gpu.allocator->release_pool(pool);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Stream stream;
  uint64_t pool;  // of the allocator: what was allocated while recording
  bool recording = false;
  driver::CUgraphExec exec = nullptr;
  Ref<Storage> random_base;    // two numbers on the device: the seed, and where a replay's random numbers begin
  uint64_t random_blocks = 0;  // that a replay draws

  static State* recording_on(const Gpu& gpu) {
    Recordings& r = recordings();
    std::lock_guard lock(r.mutex);
    const auto found = r.of.find(&gpu);
    return found == r.of.end() ? nullptr : found->second;
  }
  void set_recording(bool on) {
    recording = on;
    Recordings& r = recordings();
    std::lock_guard lock(r.mutex);
    if (on) r.of[&stream.gpu()] = this;
    else r.of.erase(&stream.gpu());
  }

 private:
  struct Recordings {
    std::mutex mutex;
    std::map<const Gpu*, State*> of;  // one for each device at most
  };
  static Recordings& recordings() {  // never destroyed: a graph may end after everything else
    static auto* const all = new Recordings;
    return *all;
  }
};

Graph Graph::begin(const Stream& s) {
  static std::atomic<uint64_t> numbers{0};
  Gpu& gpu = s.gpu();
  STRATA_CHECK(s.handle(), Runtime, "a graph cannot be captured on the default stream; use a stream of your own");
  gpu.activate();
  auto state = std::make_shared<State>(s, ++numbers);
  // Before the recording: memory of its pool may have held something else earlier in the work, and would again in a replay.
  state->random_base = gpu.allocator->allocate(2 * sizeof(uint64_t), s.handle());
  constexpr int kRelaxed = 2;  // other threads, and the allocator, may go on calling the driver
  gpu.allocator->begin_pool(state->pool, s.handle());
  const driver::CUresult r = gpu.table().cuStreamBeginCapture(s.handle(), kRelaxed);
  if (r != driver::kSuccess) gpu.allocator->end_pool();
  gpu.check(r, "start to capture a graph");
  state->set_recording(true);
  return Graph(std::move(state));
}

void Graph::end() {
  STRATA_CHECK(state_->recording, Runtime, "capture_end: nothing is being captured");
  Gpu& gpu = state_->stream.gpu();
  gpu.activate();
  state_->set_recording(false);
  gpu.allocator->end_pool();
  driver::CUgraph graph = nullptr;
  gpu.check(gpu.table().cuStreamEndCapture(state_->stream.handle(), &graph), "capture a graph");
  const driver::CUresult r = gpu.table().cuGraphInstantiate(&state_->exec, graph, 0);
  gpu.table().cuGraphDestroy(graph);
  gpu.check(r, "make a graph ready");
}

void Graph::replay(const Stream& s) const {
  STRATA_CHECK(state_->exec, Runtime, "replay: the graph has not been captured yet");
  s.gpu().activate();
  if (state_->random_blocks > 0) {
    static const Function begin("random", "begin_replay");
    const Generator::Draw draw = default_generator().reserve(state_->random_blocks);
    const auto base = reinterpret_cast<uint64_t>(state_->random_base->data);
    s.launch(begin, {1}, {1}, 0, RandomBaseParams{base, draw.seed, draw.first});
  }
  s.gpu().check(s.gpu().table().cuGraphLaunch(state_->exec, s.handle()), "replay a graph");
}

bool is_capturing(Device d) {
  const Gpu& gpu = Runtime::gpu(d);
  if (!gpu.allocator->capturing()) return false;
  int status = 0;
  gpu.activate();
  gpu.check(gpu.table().cuStreamIsCapturing(stream_of(d).handle(), &status), "ask whether a stream is captured");
  return status != 0;
}

RandomDraw Graph::reserve(Generator& generator, uint64_t blocks, Device d) {
  State* graph = is_capturing(d) ? State::recording_on(Runtime::gpu(d)) : nullptr;
  if (!graph) {
    const Generator::Draw draw = generator.reserve(blocks);
    return {draw.seed, draw.first, 0};
  }
  STRATA_CHECK(&generator == &default_generator(), Runtime,
               "random numbers of a generator of your own cannot be captured in a graph, since replays would repeat "
               "them; use the default generator, which goes on from replay to replay");
  const uint64_t first = graph->random_blocks;
  graph->random_blocks += blocks;
  return {0, first, reinterpret_cast<uint64_t>(graph->random_base->data)};
}

}  // namespace strata::cuda
