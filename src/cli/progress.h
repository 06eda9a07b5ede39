// A progress bar on a terminal, one line per tenth elsewhere.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace strata::cli {

class Progress {
 public:
  // `label` is printed before the bar. Quiet: nothing is printed.
  Progress(std::string label, int64_t total, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();                                          // ends the line
  void update(int64_t done, const std::string& facts);  // cheap: draws at most ten times a second

 private:
  void draw(int64_t done, const std::string& facts, double seconds);
  std::string label_;
  int64_t total_, first_ = -1, tenth_ = 0;
  bool quiet_, terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

std::string duration(double seconds);  // "0:07", "1:02:03"

}  // namespace strata::cli
