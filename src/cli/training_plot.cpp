#include "cli/training_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/canvas.h"

namespace strata::cli {
namespace {

constexpr Color kPaper{255, 255, 255}, kInk{32, 38, 46}, kMuted{110, 120, 132}, kGrid{228, 232, 237},
  kFrame{186, 193, 201};
constexpr Color kLoss{31, 97, 191}, kLossFaint{31, 97, 191, 0.22F}, kAccuracy{16, 138, 92}, kSpeed{214, 116, 24};

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

void frame(Canvas& c, const Panel& p, const char* title) {
  c.line({{p.left, p.top + p.height}, {p.left + p.width, p.top + p.height}}, 1.3F, kFrame);
  c.text(p.left, p.top - 16, 12, title, kInk, 0, 1.2F);
}

void grid_line(Canvas& c, const Panel& p, double value, const std::string& label) {
  c.line({{p.left, p.y(value)}, {p.left + p.width, p.y(value)}}, 1, kGrid);
  c.text(p.left - 10, p.y(value) + 5, 10, label, kMuted, 1);
}

void epoch_ticks(Canvas& c, const Panel& p, int64_t epochs) {
  const auto every = std::max<int64_t>(1, static_cast<int64_t>(nice_step(static_cast<double>(epochs), 10)));
  for (int64_t e = 1; e <= epochs; ++e)
    if (epochs <= 10 || e % every == 0)
      c.text(p.x(static_cast<double>(e)), p.top + p.height + 20, 10, fmt::format("{}", e), kMuted, 0.5F);
  c.text(p.left + p.width / 2, p.top + p.height + 42, 10, "epoch", kMuted, 0.5F);
}

// Loss by step, on a logarithmic axis: each step in a light colour, the running mean in a bold one.
void loss_panel(Canvas& c, const TrainingCurve& curve) {
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
  for (double s = 0; s <= n + 1e-9; s += step) c.text(p.x(s), p.top + p.height + 20, 10, number(s), kMuted, 0.5F);
  c.text(p.left + p.width / 2, p.top + p.height + 42, 10, "step", kMuted, 0.5F);
  if (curve.steps_per_epoch > 0)
    for (int64_t s = curve.steps_per_epoch; s < static_cast<int64_t>(curve.step_losses.size());
         s += curve.steps_per_epoch)
      c.line({{p.x(static_cast<double>(s)), p.top}, {p.x(static_cast<double>(s)), p.top + p.height}}, 1, kFrame);

  std::vector<Point> raw, smooth;
  double mean = 0, weight = 0;
  constexpr double kKeep = 0.96;
  for (size_t i = 0; i < curve.step_losses.size(); ++i) {
    const double v = curve.step_losses[i];
    if (!std::isfinite(v)) continue;
    mean = mean * kKeep + v * (1 - kKeep);
    weight = weight * kKeep + (1 - kKeep);
    const float x = p.x(static_cast<double>(i) + 1);
    raw.push_back({x, p.y(std::log10(std::max(v, low)))});
    smooth.push_back({x, p.y(std::log10(std::max(mean / weight, low)))});
  }
  if (raw.empty()) return;
  c.line(raw, 1, kLossFaint);
  c.line(smooth, 2.4F, kLoss);
}

void accuracy_panel(Canvas& c, const TrainingCurve& curve) {
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
    c.text(x, line.back().y + (line.back().y > p.top + 40 ? -14 : 26), 12,
           fmt::format("{:.2f}", 100 * curve.epochs.back().accuracy), kAccuracy, 0.5F, 1.2F);
  }
  epoch_ticks(c, p, n);
}

void speed_panel(Canvas& c, const TrainingCurve& curve) {
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
    c.rectangle(x - bar / 2, p.y(v), bar, p.top + p.height - p.y(v), kSpeed);
    if (n <= 5) c.text(x, p.y(v) - 8, 10, fmt::format("{:.0f}", v), kSpeed, 0.5F, 1.2F);
  }
  epoch_ticks(c, p, n);
}

}  // namespace

std::string plot_png(const TrainingCurve& curve) {
  Canvas c(1280, 720, kPaper);
  c.text(40, 58, 18, curve.title, kInk, 0, 1.3F);
  loss_panel(c, curve);
  accuracy_panel(c, curve);
  speed_panel(c, curve);
  return c.png();
}

}  // namespace strata::cli
