// Graphs: work of a stream, recorded once and replayed with one call.
#pragma once
#include <cstdint>
#include <memory>

#include "cuda/runtime/stream.h"

namespace strata::cuda {

// Memory that the recorded work uses stays with the graph: addresses are part of it.
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

 private:
  struct Recording;
  struct State;
  explicit Graph(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace strata::cuda
