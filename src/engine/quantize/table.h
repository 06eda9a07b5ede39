// What an int8 engine knows of the values of a network: how large they are, and which layers stay in float32.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/api.h"

namespace strata::engine {

struct CalibrationTable {
  struct Range {
    double largest = 0;    // of all elements seen, without sign
    double threshold = 0;  // that becomes 127
    // Of values that are nothing but zeros, or too small for a scale in float32, any.
    double scale() const { return threshold > 1e-35 && threshold < 1e38 ? threshold / 127 : 1; }
    bool operator==(const Range&) const = default;
  };
  std::string method = "min-max";
  int64_t samples = 0;
  std::map<std::string, Range> values = {};   // by name of the value in the optimised graph of float32
  std::map<std::string, double> errors = {};  // by name of a layer: its error in int8, relative to its size
  std::vector<std::string> floats = {};       // layers that stay in float32
  std::map<std::string, double> large = {};   // values near or beyond the range of float16, and their largest element
  bool operator==(const CalibrationTable&) const = default;
};

// As text: a line for each value and each layer. table_of throws Value for other texts, with the line.
STRATA_API std::string to_string(const CalibrationTable& table);
STRATA_API CalibrationTable table_of(const std::string& text);

// The elements of a value by size, and the thresholds for them.
class STRATA_API Histogram {
 public:
  static constexpr size_t kBins = 2048;
  void add(const float* x, int64_t count);  // NaN and infinity are left out
  double largest() const { return largest_; }
  int64_t count() const { return count_; }
  // The threshold for which 128 steps lose the least information (Kullback-Leibler divergence).
  double entropy_threshold() const;
  // At least so many percent of the elements are not larger.
  double percentile_threshold(double percent) const;

 private:
  void widen(double to);
  std::vector<double> bins_ = std::vector<double>(kBins, 0);
  double width_ = 0;  // of a bin; 0: nothing but zeros was seen
  double zeros_ = 0, largest_ = 0;
  int64_t count_ = 0;
};

}  // namespace strata::engine
