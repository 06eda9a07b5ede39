#include "cli/training_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/svg.h"

namespace strata::cli {
namespace {

constexpr const char *kPaper = "#fff", *kInk = "#20262e", *kMuted = "#6e7884", *kGrid = "#e4e8ed", *kFrame = "#bac1c9";
constexpr const char *kLoss = "#1f61bf", *kLossFaint = "#1f61bf38", *kAccuracy = "#108a5c", *kSpeed = "#d67418";
constexpr float kSmall = 14, kMedium = 17, kLarge = 26;  // text sizes
using enum Svg::Anchor;

struct Panel {
  float left, top, width, height;
  double x0, x1, y0, y1;
  float x(double v) const { return left + static_cast<float>((v - x0) / (x1 - x0)) * width; }
  float y(double v) const { return top + height - static_cast<float>((v - y0) / (y1 - y0)) * height; }
};

// A step of 1, 2 or 5 times a power of ten that splits `range` into about `count` parts.
double nice_step(double range, int count) {
  const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

std::string number(double v) { return v >= 10000 ? fmt::format("{:.0f}k", v / 1000) : fmt::format("{:g}", v); }

void straight(Svg& c, Point from, Point to, const char* color) {
  const Point ends[] = {from, to};
  c.line(ends, 1, color);
}

void frame(Svg& c, const Panel& p, const char* title) {
  straight(c, {p.left, p.top + p.height}, {p.left + p.width, p.top + p.height}, kFrame);
  c.text({p.left, p.top - 16}, kMedium, title, kInk, kStart, true);
}

void grid_line(Svg& c, const Panel& p, double value, const std::string& label) {
  straight(c, {p.left, p.y(value)}, {p.left + p.width, p.y(value)}, kGrid);
  c.text({p.left - 10, p.y(value) + 5}, kSmall, label, kMuted, kEnd);
}

void below(Svg& c, const Panel& p, float x, const std::string& label) {
  c.text({x, p.top + p.height + 20}, kSmall, label, kMuted, kMiddle);
}
void axis_name(Svg& c, const Panel& p, const char* name) {
  c.text({p.left + p.width / 2, p.top + p.height + 42}, kSmall, name, kMuted, kMiddle);
}

void epoch_ticks(Svg& c, const Panel& p, int64_t epochs) {
  const auto every = std::max<int64_t>(1, static_cast<int64_t>(nice_step(static_cast<double>(epochs), 10)));
  for (int64_t e = 1; e <= epochs; ++e)
    if (epochs <= 10 || e % every == 0) below(c, p, p.x(static_cast<double>(e)), fmt::format("{}", e));
  axis_name(c, p, "epoch");
}

// Loss by step, on a logarithmic axis: each step in a light colour, the running mean in a bold one.
void loss_panel(Svg& c, const TrainingCurve& curve) {
  double low = 1e30, high = 0;
  for (float v : curve.step_losses)
    if (std::isfinite(v) && v > 0) {
      low = std::min<double>(low, v);
      high = std::max<double>(high, v);
    }
  if (high == 0) {
    low = 0.1;
    high = 1;
  }
  low = std::max(low, high * 1e-4);
  const auto n = static_cast<double>(std::max<size_t>(curve.step_losses.size(), 2));
  const Panel p{
    86, 120, 690, 500, 0, n, std::floor(std::log10(low) * 2) / 2, std::ceil(std::log10(high) * 2 + 0.2) / 2};
  frame(c, p, "Training loss, each step and running mean");
  for (double decade = std::floor(p.y0); decade <= p.y1; ++decade)
    for (double factor : {1.0, 2.0, 5.0}) {
      const double at = decade + std::log10(factor);
      if (at >= p.y0 - 1e-9 && at <= p.y1 + 1e-9)
        grid_line(c, p, at, fmt::format("{:g}", std::pow(10, decade) * factor));
    }
  const double step = nice_step(n, 6);
  for (double s = 0; s <= n + 1e-9; s += step) below(c, p, p.x(s), number(s));
  axis_name(c, p, "step");
  if (curve.steps_per_epoch > 0)
    for (int64_t s = curve.steps_per_epoch; s < static_cast<int64_t>(curve.step_losses.size());
         s += curve.steps_per_epoch) {
      const float x = p.x(static_cast<double>(s));
      straight(c, {x, p.top}, {x, p.top + p.height}, kFrame);
    }

  std::vector<Point> raw, smooth;
  double mean = 0, weight = 0;
  constexpr double kKeep = 0.96;
  constexpr float kSpacing = 0.25F;  // pixels: a long run is drawn with a strided subset of its steps
  for (size_t i = 0; i < curve.step_losses.size(); ++i) {
    const double v = curve.step_losses[i];
    if (!std::isfinite(v)) continue;
    mean = mean * kKeep + v * (1 - kKeep);
    weight = weight * kKeep + (1 - kKeep);
    const float x = p.x(static_cast<double>(i) + 1);
    if (!raw.empty() && x - raw.back().x < kSpacing) continue;
    raw.push_back({x, p.y(std::log10(std::max(v, low)))});
    smooth.push_back({x, p.y(std::log10(std::max(mean / weight, low)))});
  }
  if (raw.empty()) return;
  c.line(raw, 1, kLossFaint);
  c.line(smooth, 2.4F, kLoss);
}

void accuracy_panel(Svg& c, const TrainingCurve& curve) {
  const auto n = static_cast<int64_t>(curve.epochs.size());
  double low = 1;
  for (const EpochPoint& e : curve.epochs) low = std::min(low, e.accuracy);
  const double floor = std::max(0.0, std::floor(low * 100 - std::max(1.0, (1 - low) * 50)));
  const Panel p{900, 120, 330, 190, 0.5, static_cast<double>(n) + 0.5, floor, 100};
  frame(c, p, "Test accuracy, %");
  const double step = nice_step(100 - floor, 4);
  for (double v = std::ceil(floor / step) * step; v <= 100 + 1e-9; v += step)
    grid_line(c, p, v, fmt::format("{:g}", v));
  std::vector<Point> line;
  for (int64_t e = 0; e < n; ++e)
    line.push_back({p.x(static_cast<double>(e + 1)), p.y(100 * curve.epochs[static_cast<size_t>(e)].accuracy)});
  if (line.size() > 1) c.line(line, 2.4F, kAccuracy);
  for (Point at : line) c.disc(at, 4.5F, kAccuracy);
  if (!line.empty()) {
    const float x = std::min(line.back().x, p.left + p.width - 30);
    c.text({x, line.back().y + (line.back().y > p.top + 40 ? -14 : 26)}, kMedium,
           fmt::format("{:.2f}", 100 * curve.epochs.back().accuracy), kAccuracy, kMiddle, true);
  }
  epoch_ticks(c, p, n);
}

void speed_panel(Svg& c, const TrainingCurve& curve) {
  const auto n = static_cast<int64_t>(curve.epochs.size());
  double high = 1;
  for (const EpochPoint& e : curve.epochs) high = std::max(high, e.images_per_second);
  const Panel p{900, 430, 330, 190, 0.5, static_cast<double>(n) + 0.5, 0, high * 1.15};
  frame(c, p, "Training speed, images per second");
  const double step = nice_step(p.y1, 4);
  for (double v = 0; v <= p.y1; v += step) grid_line(c, p, v, number(v));
  const float bar = std::min(56.0F, 0.6F * p.width / static_cast<float>(std::max<int64_t>(n, 1)));
  for (int64_t e = 0; e < n; ++e) {
    const double v = curve.epochs[static_cast<size_t>(e)].images_per_second;
    const float x = p.x(static_cast<double>(e + 1));
    c.rectangle({x - bar / 2, p.y(v)}, bar, p.top + p.height - p.y(v), kSpeed);
    if (n <= 5) c.text({x, p.y(v) - 8}, kSmall, fmt::format("{:.0f}", v), kSpeed, kMiddle, true);
  }
  epoch_ticks(c, p, n);
}

}  // namespace

std::string plot_svg(const TrainingCurve& curve) {
  Svg c(1280, 720, kPaper);
  c.text({40, 58}, kLarge, curve.title, kInk, kStart, true);
  loss_panel(c, curve);
  accuracy_panel(c, curve);
  speed_panel(c, curve);
  return c.file();
}

}  // namespace strata::cli
