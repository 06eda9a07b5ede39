// Makes a graph of a program by running it once.
#pragma once
#include <functional>

#include "compile/graph.h"

namespace strata::graph {

struct CaptureOptions {
  // Names of the tensors that the program finds by itself: parameters and buffers. Other tensors are constants of the graph.
  std::vector<std::pair<std::string, Tensor>> states = {};
  std::vector<std::string> input_names = {};  // default: input_0, ...
  // A program that reads values (item(), if t:, NumPy) may decide by them, which a graph cannot: capture throws Runtime and names
  // the line. True: they become part of the graph as they were.
  bool allow_reads = false;
  // The same for values that no input has a part in: sizes, and what is computed from constants.
  bool allow_constant_reads = false;
  // False: ops that are made of others (linear, layer_norm) are captured as those.
  bool composites = true;
};

// Calls f with the inputs, which computes as usual, and returns the graph of the calls that it made to ops. What the program
// decides by sizes, attributes and globals is decided now. An input whose memory is part of a larger tensor is copied first.
STRATA_API Graph capture(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& inputs, const CaptureOptions& options = {});

// The name of the innermost module that is running, for the nodes of this thread's capture; set by the front ends.
STRATA_API std::string& capture_scope();

}  // namespace strata::graph
