#include "cli/progress.h"
#include "cli/output.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace strata::cli {
namespace {
double since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}
}  // namespace

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

Progress::Progress(std::string label, int64_t total, bool quiet)
    : label_(std::move(label)),
      total_(total),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

void Progress::update(int64_t done, const std::string& facts) {
  if (quiet_) return;
  if (first_ < 0) first_ = done - 1;  // a resumed run does not start at 0
  if (terminal_) {
    if (done < total_ && drawn_ && since(last_) < 0.1) return;
    last_ = std::chrono::steady_clock::now();
    return draw(done, facts, since(start_));
  }
  if (done * 10 / std::max<int64_t>(total_, 1) <= tenth_ && done < total_) return;
  tenth_ = done * 10 / std::max<int64_t>(total_, 1);
  say("{} {}/{}  {}\n", label_, done, total_, facts);
}

void Progress::draw(int64_t done, const std::string& facts, double seconds) {
  constexpr int64_t kWidth = 24;
  const int64_t filled = total_ > 0 ? done * kWidth / total_ : kWidth;
  std::string bar;
  for (int64_t i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
  const double left =
    seconds / static_cast<double>(std::max<int64_t>(done - first_, 1)) * static_cast<double>(total_ - done);
  say("\r{} {} {}/{}  {}  {} left\033[K", label_, bar, done, total_, facts, duration(left));
  drawn_ = true;
}

Progress::~Progress() {
  if (drawn_) say("\n");
}

}  // namespace strata::cli
