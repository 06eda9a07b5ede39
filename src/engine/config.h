// How an engine is built.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/api.h"
#include "engine/network.h"
#include "engine/passes.h"
#include "engine/quantize/table.h"

namespace strata::engine {

// The sizes of inputs that an engine is for. It is tuned for `opt`.
struct OptimizationProfile {
  struct Range {
    std::vector<int64_t> min, opt, max;
    bool operator==(const Range&) const = default;
  };
  std::map<std::string, Range> ranges = {};  // by the name of the input

  OptimizationProfile& set(const std::string& input, std::vector<int64_t> min, std::vector<int64_t> opt,
                           std::vector<int64_t> max) {
    ranges[input] = {std::move(min), std::move(opt), std::move(max)};
    return *this;
  }
  bool operator==(const OptimizationProfile&) const = default;
};
STRATA_API std::string to_string(const OptimizationProfile& profile);  // "x: 1x8 .. 4x8 (tuned for 2x8)"
// Throws Value if a range is not one of the network's inputs, or does not fit its type.
STRATA_API void check_profile(const OptimizationProfile& profile, const Network& network);

struct BuilderConfig {
  bool fp16 = false, bf16 = false, int8 = false;  // precisions that may be used besides float32
  int level = 3;                                  // 0: kernels are not timed; 1 to 5: for longer and longer
  double time_limit = 60;                         // seconds for timing kernels
  size_t workspace_limit = 0;                     // bytes that a kernel may ask for; 0: as everywhere
  size_t most_specializations = 256;              // sizes of inputs that are kept, by engine and context
  size_t most_bytes = size_t{1} << 32;            // of memory that the specialisations of a context keep
  bool cuda_graphs = true;                        // on a GPU, runs of the same sizes are one launch
  bool graphs_now = true;                         // the build makes the graphs of the profiles, not their first run
  std::string timing_cache = {};                  // a file; empty: none
  std::vector<OptimizationProfile> profiles = {};
  CalibrationTable calibration = {};  // for int8: the sizes of values, from calibrate()
  // Is told what is being done and how much of it is done (0 to 1). Returns false to stop: the build throws Runtime.
  std::function<bool(const std::string& what, double done)> progress = {};
};

}  // namespace strata::engine
