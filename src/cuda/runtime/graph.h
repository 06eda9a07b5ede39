// Graphs: work of a stream, recorded once and replayed with one call.
#pragma once
#include <cstdint>
#include <memory>

#include "cuda/runtime/stream.h"
#include "tensor/generator.h"

namespace strata::cuda {

// A range of a generator's stream for a kernel. If a graph records the kernel, the seed and the start of each replay
// are stored at `base`, and `first` is relative to that; otherwise base is 0.
struct RandomDraw {
  uint64_t seed, first, base;
};

// Memory used by the recorded work belongs to the graph, since addresses are part of it. Random numbers of the default
// generator continue from replay to replay, as if the work ran again.
class STRATA_API Graph {
 public:
  // Starts recording the work of the stream, which must not be the default one.
  static Graph begin(const Stream& s);
  void end();  // stops recording and instantiates the graph
  void replay(const Stream& s) const;
  // From now on runs the work of another graph, without instantiating it again. Both must have the same kinds of nodes
  // in the same order; kernels, launch sizes and arguments may differ. Otherwise throws Runtime, names the first
  // difference, and leaves the graph unchanged.
  void update(const Graph& other);
  // Reserves blocks of the generator for a kernel on the device; while a graph records it, for every later replay.
  static RandomDraw reserve(Generator& generator, uint64_t blocks, Device d);

 private:
  struct Recording;
  struct State;
  explicit Graph(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Whether the current stream of the device records a graph.
STRATA_API bool is_capturing(Device d);

}  // namespace strata::cuda
