// A digit is a few strokes: splines through control points in the unit square. An image is a variant of its digit, with
// perturbed points, warped by slow waves, rotated, slanted, scaled and moved, then drawn with a pen of varying width
// and pressure, on a slightly noisy background.
#include "nn/data/synthetic_digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/parallel.h"
#include "device/philox.h"

namespace strata::data {
namespace {

constexpr int kSide = 28, kPixels = kSide * kSide;
constexpr uint64_t kBlocksPerImage = 512;  // of the random stream: far more than an image uses
constexpr float kTurn = 2 * std::numbers::pi_v<float>;

struct Point {
  float x, y;
};
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

// Variants of each digit: x to the right, y down. Strokes that share an end meet in a corner.
const std::array<std::vector<Glyph>, 10>& glyphs() {
  static const std::array<std::vector<Glyph>, 10> all = {{
    {{{{.5F, .05F},
       {.24F, .2F},
       {.17F, .5F},
       {.26F, .83F},
       {.5F, .95F},
       {.75F, .82F},
       {.83F, .5F},
       {.74F, .18F},
       {.5F, .05F}}},
     {{{.6F, .06F},
       {.33F, .14F},
       {.2F, .45F},
       {.25F, .8F},
       {.46F, .94F},
       {.7F, .78F},
       {.8F, .45F},
       {.72F, .15F},
       {.48F, .08F}}}},
    {{{{.52F, .05F}, {.51F, .5F}, {.48F, .95F}}},
     {{{.32F, .28F}, {.44F, .17F}, {.54F, .05F}}, {{.54F, .05F}, {.52F, .5F}, {.51F, .95F}}},
     {{{.34F, .25F}, {.52F, .06F}}, {{.52F, .06F}, {.51F, .94F}}, {{.3F, .94F}, {.72F, .94F}}}},
    {{{{.2F, .26F}, {.34F, .08F}, {.62F, .07F}, {.77F, .28F}, {.62F, .56F}, {.4F, .76F}, {.19F, .93F}},
      {{.19F, .93F}, {.5F, .91F}, {.83F, .92F}}},
     {{{.22F, .22F},
       {.42F, .06F},
       {.7F, .14F},
       {.72F, .4F},
       {.48F, .7F},
       {.24F, .9F},
       {.18F, .8F},
       {.34F, .76F},
       {.56F, .88F},
       {.84F, .88F}}}},
    {{{{.22F, .16F}, {.45F, .05F}, {.72F, .16F}, {.68F, .38F}, {.42F, .47F}},
      {{.42F, .47F}, {.72F, .55F}, {.79F, .77F}, {.52F, .95F}, {.2F, .85F}}},
     {{{.2F, .08F}, {.76F, .08F}},
      {{.76F, .08F}, {.44F, .42F}},
      {{.44F, .42F}, {.74F, .54F}, {.78F, .78F}, {.5F, .95F}, {.2F, .84F}}}},
    {{{{.58F, .05F}, {.36F, .36F}, {.14F, .64F}}, {{.14F, .64F}, {.86F, .62F}}, {{.62F, .3F}, {.6F, .95F}}},
     {{{.26F, .07F}, {.22F, .32F}, {.22F, .52F}},
      {{.22F, .52F}, {.5F, .54F}, {.78F, .5F}},
      {{.75F, .06F}, {.71F, .5F}, {.68F, .95F}}}},
    {{{{.76F, .07F}, {.3F, .08F}},
      {{.3F, .08F}, {.25F, .44F}},
      {{.25F, .44F}, {.52F, .37F}, {.78F, .54F}, {.75F, .82F}, {.48F, .95F}, {.2F, .86F}}},
     {{{.34F, .1F}, {.28F, .42F}},
      {{.28F, .42F}, {.58F, .4F}, {.76F, .62F}, {.62F, .88F}, {.36F, .95F}, {.2F, .86F}},
      {{.34F, .1F}, {.8F, .06F}}}},
    {{{{.68F, .06F},
       {.42F, .24F},
       {.25F, .56F},
       {.3F, .86F},
       {.54F, .95F},
       {.75F, .78F},
       {.66F, .56F},
       {.44F, .54F},
       {.28F, .7F}}},
     {{{.55F, .05F},
       {.32F, .3F},
       {.22F, .65F},
       {.36F, .92F},
       {.62F, .93F},
       {.74F, .74F},
       {.6F, .58F},
       {.36F, .64F},
       {.25F, .76F}}}},
    {{{{.18F, .1F}, {.5F, .09F}, {.82F, .1F}}, {{.82F, .1F}, {.58F, .48F}, {.42F, .95F}}},
     {{{.2F, .14F}, {.48F, .08F}, {.8F, .09F}}, {{.8F, .09F}, {.6F, .5F}, {.46F, .95F}}, {{.36F, .5F}, {.76F, .48F}}},
     {{{.17F, .24F}, {.2F, .1F}}, {{.2F, .1F}, {.8F, .09F}}, {{.8F, .09F}, {.66F, .4F}, {.5F, .95F}}}},
    {{{{.7F, .17F},
       {.5F, .05F},
       {.28F, .18F},
       {.38F, .4F},
       {.64F, .58F},
       {.76F, .8F},
       {.5F, .95F},
       {.25F, .8F},
       {.38F, .57F},
       {.64F, .38F},
       {.71F, .17F}}},
     {{{.5F, .05F}, {.29F, .16F}, {.32F, .4F}, {.5F, .48F}, {.69F, .38F}, {.7F, .15F}, {.5F, .05F}},
      {{.5F, .48F}, {.26F, .6F}, {.25F, .85F}, {.5F, .95F}, {.75F, .84F}, {.73F, .6F}, {.5F, .48F}}}},
    {{{{.72F, .2F}, {.5F, .05F}, {.26F, .2F}, {.31F, .44F}, {.56F, .47F}, {.73F, .22F}},
      {{.73F, .22F}, {.7F, .6F}, {.62F, .95F}}},
     {{{.7F, .18F}, {.46F, .06F}, {.25F, .24F}, {.36F, .46F}, {.62F, .42F}, {.73F, .2F}},
      {{.73F, .2F}, {.75F, .62F}, {.56F, .93F}, {.26F, .88F}}}},
  }};
  return all;
}

// The random numbers of one image, drawn in order.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t image) : seed_(seed), next_(image * kBlocksPerImage) {}
  uint32_t word() {
    if (used_ == 4) {
      block_ = philox(seed_, next_++);
      used_ = 0;
    }
    return block_.word[used_++];
  }
  float uniform(float low, float high) { return low + (high - low) * uniform_f32(word()); }
  float spread(float scale) { return scale * (uniform(-1, 1) + uniform(-1, 1) + uniform(-1, 1)); }  // nearly normal
  uint32_t below(size_t n) { return static_cast<uint32_t>(static_cast<uint64_t>(word()) * n >> 32); }

 private:
  uint64_t seed_, next_;
  PhiloxBlock block_{};
  int used_ = 4;
};

// Maps a point of the unit square to the image.
class Distortion {
 public:
  explicit Distortion(Draws& draws) {
    for (Wave& w : waves_)
      w = {draws.uniform(.4F, 1.1F), draws.uniform(.4F, 1.1F), draws.uniform(0, kTurn), draws.uniform(-.05F, .05F),
           draws.uniform(-.05F, .05F)};
    const float angle = draws.spread(.14F), slant = draws.spread(.18F), size = 19.5F;
    const float wide = size * draws.uniform(.62F, 1.02F), high = size * draws.uniform(.78F, 1.08F);
    const float c = std::cos(angle), s = std::sin(angle);
    // Slanted (to the right as y goes up), scaled, then rotated.
    a_ = c * wide;
    b_ = -slant * c * wide - s * high;
    c_ = s * wide;
    d_ = -slant * s * wide + c * high;
    x_ = kSide / 2.F - .5F + draws.spread(1.1F);
    y_ = kSide / 2.F - .5F + draws.spread(1.1F);
  }
  Point operator()(Point p) const {
    Point q = p;
    for (const Wave& w : waves_) {
      const float v = std::sin(kTurn * (w.fx * p.x + w.fy * p.y) + w.phase);
      q.x += w.dx * v;
      q.y += w.dy * v;
    }
    q.x -= .5F;
    q.y -= .5F;
    return {a_ * q.x + b_ * q.y + x_, c_ * q.x + d_ * q.y + y_};
  }

 private:
  struct Wave {
    float fx, fy, phase, dx, dy;
  };
  std::array<Wave, 3> waves_{};
  float a_, b_, c_, d_, x_, y_;
};

class Canvas {
 public:
  // A line whose width goes from `from` to `to`, with an antialiased edge of one pixel. Overlapping strokes do not add
  // up.
  void line(Point p, Point q, float from, float to) {
    const float reach = std::max(from, to) + 1;
    const int x0 = std::max(0, static_cast<int>(std::floor(std::min(p.x, q.x) - reach))),
              x1 = std::min(kSide - 1, static_cast<int>(std::ceil(std::max(p.x, q.x) + reach)));
    const int y0 = std::max(0, static_cast<int>(std::floor(std::min(p.y, q.y) - reach))),
              y1 = std::min(kSide - 1, static_cast<int>(std::ceil(std::max(p.y, q.y) + reach)));
    const float dx = q.x - p.x, dy = q.y - p.y, length2 = std::max(dx * dx + dy * dy, 1e-6F);
    for (int y = y0; y <= y1; ++y)
      for (int x = x0; x <= x1; ++x) {
        const float px = static_cast<float>(x) - p.x, py = static_cast<float>(y) - p.y;
        const float t = std::clamp((px * dx + py * dy) / length2, 0.F, 1.F);
        const float ex = px - t * dx, ey = py - t * dy;
        const float ink = std::clamp(from + t * (to - from) + .5F - std::sqrt(ex * ex + ey * ey), 0.F, 1.F);
        float& pixel = ink_[static_cast<size_t>(y) * kSide + static_cast<size_t>(x)];
        pixel = std::max(pixel, ink);
      }
  }
  void print(uint8_t* to, Draws& draws) const {
    const float strength = draws.uniform(190, 255), noise = draws.uniform(0, 14);
    for (size_t i = 0; i < kPixels; i += 4) {
      const uint32_t word = draws.word();  // a byte of noise for each of four pixels
      for (size_t k = 0; k < 4; ++k) {
        const float grain = (static_cast<float>(word >> (8 * k) & 255) / 255 - .5F) * noise;
        to[i + k] =
          static_cast<uint8_t>(std::clamp(strength * ink_[i + k] + (ink_[i + k] > 0 ? 2 : 1) * grain, 0.F, 255.F));
      }
    }
  }

 private:
  std::array<float, kPixels> ink_{};
};

// Catmull-Rom: the curve through the points, end points doubled.
Point on_spline(const Stroke& s, size_t i, float t) {
  const Point &a = s[i ? i - 1 : 0], &b = s[i], &c = s[i + 1], &d = s[std::min(i + 2, s.size() - 1)];
  const auto mix = [t](float p, float q, float r, float v) {
    return .5F * (2 * q + t * ((r - p) + t * ((2 * p - 5 * q + 4 * r - v) + t * (3 * q - p - 3 * r + v))));
  };
  return {mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y)};
}

// One image; returns its label.
int64_t draw_digit(Draws& draws, uint8_t* to) {
  const uint32_t digit = draws.below(10);
  const std::vector<Glyph>& variants = glyphs()[digit];
  const Glyph& glyph = variants[draws.below(variants.size())];
  const Distortion distort(draws);
  const float width = draws.uniform(.55F, 1.5F), pressure = draws.uniform(0, .3F), phase = draws.uniform(0, kTurn);
  // Points are perturbed by a function of their position, so that strokes which meet in a corner still meet.
  const float shake_x = draws.uniform(0, 100), shake_y = draws.uniform(0, 100), shake = draws.uniform(.01F, .05F);
  const auto shaken = [&](Point p) -> Point {
    return {p.x + shake * std::sin(37 * p.x + 53 * p.y + shake_x),
            p.y + shake * std::sin(41 * p.x + 31 * p.y + shake_y)};
  };
  Canvas canvas;
  Stroke points;
  for (const Stroke& stroke : glyph) {
    points.clear();
    for (Point p : stroke) points.push_back(shaken(p));
    Point last = distort(points[0]);
    float thick = width;
    for (size_t i = 0; i + 1 < points.size(); ++i) {
      const int steps = points.size() == 2 ? 6 : 4;
      for (int k = 1; k <= steps; ++k) {
        const Point on = on_spline(points, i, static_cast<float>(k) / static_cast<float>(steps));
        const float next = width * (1 + pressure * std::sin(5 * on.y + 3 * on.x + phase));
        const Point here = distort(on);
        canvas.line(last, here, thick, next);
        last = here;
        thick = next;
      }
    }
  }
  canvas.print(to, draws);
  return digit;
}
}  // namespace

ImageSet draw_digits(int64_t first, int64_t n, uint64_t seed) {
  STRATA_CHECK(first >= 0 && n >= 0, Value, "draw_digits: first and n must not be negative, got {} and {}", first, n);
  ImageSet set{make_tensor(Shape(std::initializer_list<int64_t>{n, kSide, kSide}), DType::U8),
               make_tensor(Shape(std::initializer_list<int64_t>{n}), DType::I64)};
  auto* images = set.images.data<uint8_t>();
  auto* labels = set.labels.data<int64_t>();
  parallel_for(n, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Draws draws(seed, static_cast<uint64_t>(first + i));
      labels[i] = draw_digit(draws, images + i * kPixels);
    }
  });
  return set;
}

ImageSet synthetic_digits(bool train, uint64_t seed) {
  constexpr int64_t kTrain = 60000, kTest = 10000;
  return train ? draw_digits(0, kTrain, seed) : draw_digits(kTrain, kTest, seed);
}

}  // namespace strata::data
