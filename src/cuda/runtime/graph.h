// Graphs: work of a stream, recorded once and replayed with one call.
#pragma once
#include <cstdint>
#include <memory>

#include "cuda/runtime/stream.h"
#include "tensor/generator.h"

namespace strata::cuda {

// A piece of a generator's stream for a kernel. Where a graph records the kernel, the seed and the place where each replay begins stand at
// `base`, and `first` counts from there; otherwise it is 0.
struct RandomDraw {
  uint64_t seed, first, base;
};

// Memory that the recorded work uses stays with the graph: addresses are part of it. Random numbers of the default generator go on
// from replay to replay, as if the work had been run anew.
class STRATA_API Graph {
 public:
  // Starts recording what is launched in the stream, which must not be the default one.
  static Graph begin(const Stream& s);
  void end();  // stops recording and makes the graph ready
  void replay(const Stream& s) const;
  // From now on it runs the work of another graph, without being made ready anew. Both must have the same kinds of work in the
  // same order; what may differ are kernels, their launches and arguments. Throws Runtime and names the first that does not
  // fit; then it stays as it was.
  void update(const Graph& other);
  // Reserves blocks of the generator for a kernel on the device; while a graph records it, of every replay to come.
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
