#include "engine/quantize/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"

namespace strata::engine {
namespace {
constexpr const char* kTitle = "strata calibration 1";

// A name on a line of its own: without control characters.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\')
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else text += c;
  return text;
}
std::string unescaped(const std::string& text) {
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const bool is_code = text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x' &&
                         std::isxdigit(static_cast<unsigned char>(text[i + 2])) &&
                         std::isxdigit(static_cast<unsigned char>(text[i + 3]));
    if (!is_code) {
      name += text[i];
      continue;
    }
    code = static_cast<unsigned>(std::stoul(text.substr(i + 2, 2), nullptr, 16));
    name += static_cast<char>(code);
    i += 3;
  }
  return name;
}
}  // namespace

std::string to_string(const CalibrationTable& t) {
  std::string text = fmt::format("{}\nmethod {}\nsamples {}\n", kTitle, t.method, t.samples);
  text += "# value: largest element, element that becomes 127, name\n";
  for (const auto& [name, r] : t.values) text += fmt::format("value {} {} {}\n", r.largest, r.threshold, escaped(name));
  text += "# layer: error in int8 relative to the size of its result, name of the result\n";
  for (const auto& [name, error] : t.errors) text += fmt::format("layer {} {}\n", error, escaped(name));
  if (!t.floats.empty()) text += "# float: layers that stay in float32\n";
  for (const std::string& name : t.floats) text += fmt::format("float {}\n", escaped(name));
  if (!t.large.empty()) text += "# large: values that float16 cannot hold with room to spare\n";
  for (const auto& [name, largest] : t.large) text += fmt::format("large {} {}\n", largest, escaped(name));
  return text;
}

CalibrationTable table_of(const std::string& text) {
  CalibrationTable t;
  std::istringstream lines(text);
  std::string line;
  int number = 0;
  const auto refuse = [&](const char* why) {
    fail(ErrorKind::Value, fmt::format("calibration table: line {}: {}: '{}'", number, why, line.substr(0, 80)));
  };
  while (std::getline(lines, line)) {
    ++number;
    if (number == 1) {
      if (line != kTitle) refuse("expected 'strata calibration 1'");
      continue;
    }
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    const auto rest = [&] {
      std::string name;
      words.get();
      std::getline(words, name);
      if (name.empty()) refuse("a name is missing");
      return unescaped(name);
    };
    const auto read = [&] {
      double x = 0;
      if (!(words >> x) || !(x >= 0) || !std::isfinite(x)) refuse("expected a number of 0 or more");
      return x;
    };
    if (kind == "method") {
      t.method = rest();
    } else if (kind == "samples") {
      t.samples = static_cast<int64_t>(std::min(read(), 1e15));
    } else if (kind == "value") {
      CalibrationTable::Range r;
      r.largest = read();
      r.threshold = read();
      if (!t.values.emplace(rest(), r).second) refuse("the value is there twice");
    } else if (kind == "layer") {
      const double error = read();
      t.errors[rest()] = error;
    } else if (kind == "large") {
      const double largest = read();
      t.large[rest()] = largest;
    } else if (kind == "float") {
      t.floats.push_back(rest());
    } else {
      refuse("unknown word");
    }
  }
  if (number == 0) refuse("the text is empty");
  return t;
}

// --- histogram ----------------------------------------------------------------------------------------------------------
void Histogram::widen(double to) {
  if (width_ == 0) {
    width_ = to / kBins;
    if (width_ < 1e-38) width_ = 1e-38;
  }
  while (width_ * kBins < to) {  // two bins become one
    for (size_t i = 0; i < kBins / 2; ++i) bins_[i] = bins_[2 * i] + bins_[2 * i + 1];
    std::fill(bins_.begin() + kBins / 2, bins_.end(), 0);
    width_ *= 2;
  }
}

void Histogram::add(const float* x, int64_t count) {
  double top = 0;
  for (int64_t i = 0; i < count; ++i)
    if (const double v = std::abs(double{x[i]}); std::isfinite(v)) top = std::max(top, v);
  largest_ = std::max(largest_, top);
  if (top > 0) widen(top);
  for (int64_t i = 0; i < count; ++i) {
    const double v = std::abs(double{x[i]});
    if (!std::isfinite(v)) continue;
    ++count_;
    if (v == 0) zeros_ += 1;  // they are exact in any case, and would hide the others
    else bins_[std::min(kBins - 1, static_cast<size_t>(v / width_))] += 1;
  }
}

double Histogram::percentile_threshold(double percent) const {
  if (width_ == 0) return 0;
  const double wanted = static_cast<double>(count_) * percent / 100;
  double sum = zeros_;
  for (size_t i = 0; i < kBins; ++i) {
    sum += bins_[i];
    if (sum >= wanted) return std::min(largest_, width_ * static_cast<double>(i + 1));
  }
  return largest_;
}

double Histogram::entropy_threshold() const {
  if (width_ == 0) return 0;
  constexpr size_t kLevels = 128;
  std::vector<double> before(kBins + 1, 0);
  for (size_t i = 0; i < kBins; ++i) before[i + 1] = before[i] + bins_[i];
  const double total = before[kBins];
  double best = -1;
  size_t best_bins = kBins;
  for (size_t bins = kLevels; bins <= kBins; bins += kLevels / 8) {
    // The elements beyond the threshold become the last level.
    const double beyond = total - before[bins];
    double divergence = 0;
    for (size_t level = 0; level < kLevels; ++level) {
      const size_t first = level * bins / kLevels, last = (level + 1) * bins / kLevels;
      double sum = before[last] - before[first];
      size_t filled = 0;
      for (size_t i = first; i < last; ++i) filled += bins_[i] > 0;
      if (!filled) continue;
      const double q = sum / static_cast<double>(filled) / (total - beyond);
      for (size_t i = first; i < last; ++i) {
        if (bins_[i] == 0) continue;
        const double p = (bins_[i] + (i == bins - 1 ? beyond : 0)) / total;
        divergence += p * std::log(p / q);
      }
    }
    if (bins_[bins - 1] == 0 && beyond > 0) divergence += beyond / total * std::log(beyond * 1e4 / total + 1);
    if (best < 0 || divergence < best) {
      best = divergence;
      best_bins = bins;
    }
  }
  return std::min(largest_, width_ * static_cast<double>(best_bins));
}

}  // namespace strata::engine
