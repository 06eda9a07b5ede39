// What one call does on every layer, with the values and times of this very call. The same as `strata explain`.
//
//   const strata::journey::Journey j = strata::journey::follow([&] { return std::vector{strata::add(a, b)}; });
//   std::cout << j.to_text();
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "record/op.h"

namespace strata::journey {

struct Fact {
  std::string name, value;
};

// One layer of a step. Layers occur in this order, those that a step does not pass are left out: call, binding, record,
// autograd, kernels, memory, launch, driver, code, cost.
struct Layer {
  std::string name, text;  // "memory", "the caching allocator of vgpu:0 had a block"
  std::vector<Fact> facts;
  std::vector<std::string> lines;  // kernels with reasons, driver calls, instructions
  double us = -1;                  // below 0: not measured
};

// One op. A composite is followed by the ops it is made of, one level deeper.
struct STRATA_API Step {
  std::string op, direction;  // "forward", or "backward"
  int depth = 0;
  double us = 0;
  std::vector<Layer> layers;
  const Layer* find(const std::string& name) const;
};

struct STRATA_API Journey {
  std::string title, device;
  uint64_t id = 0;  // of every span of the call, on all layers
  size_t spans = 0;
  double us = 0;
  std::vector<Step> steps;
  std::vector<Fact> results;                  // "float32[3]", "[5., 7., 9.]"
  std::vector<Explanation::Line> considered;  // every kernel of every op, with the reason for or against it

  std::string to_text() const;
  std::string to_json() const;
  std::string to_html() const;  // one page without other files
};

// Calls `run`, and asks every kernel of every op. With a warm-up, it is called twice: the first call loads kernels and asks them, the
// second one is shown, with typical times. No recording may be running. Counters of virtual GPUs are reset.
STRATA_API Journey follow(const std::function<std::vector<Tensor>()>& run, const std::string& title = "",
                          bool warm_up = true);

// Every op with its kernels per back end, in order: `strata explain --list`.
STRATA_API std::string list_kernels(bool json);

// The instructions of a kernel where it does most of its arithmetic: the innermost loop, or a block without loops.
struct InnerLoop {
  bool is_loop = false;
  size_t first_line = 0, all_lines = 0;  // in the text of the kernel, from 1
  std::vector<std::string> lines;
};
STRATA_API InnerLoop inner_loop(const std::string& ptx, size_t most = 24);

}  // namespace strata::journey
