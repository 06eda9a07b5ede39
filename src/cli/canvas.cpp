#include "cli/canvas.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cli/stroke_font.h"

namespace strata::cli {
namespace {

float distance(Point p, Point a, Point b) {
  const float dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  const float t = length > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.0F, 1.0F) : 0.0F;
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

void put32(std::string& to, uint32_t v) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<char>(v >> shift));
}

void put_chunk(std::string& to, const char* type, const std::string& data) {
  put32(to, static_cast<uint32_t>(data.size()));
  const std::string body = type + data;
  to += body;
  put32(to,
        static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

}  // namespace

Canvas::Canvas(int width, int height, Color background) : width_(width), height_(height) {
  pixels_.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (size_t i = 0; i < pixels_.size(); i += 3) {
    pixels_[i] = background.r;
    pixels_[i + 1] = background.g;
    pixels_[i + 2] = background.b;
  }
}

void Canvas::blend(int x, int y, Color color, float coverage) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  uint8_t* p = &pixels_[(static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)) * 3];
  const float a = std::clamp(coverage * color.alpha, 0.0F, 1.0F);
  const uint8_t to[3] = {color.r, color.g, color.b};
  for (int k = 0; k < 3; ++k)
    p[k] = static_cast<uint8_t>(std::lround(static_cast<float>(p[k]) * (1 - a) + static_cast<float>(to[k]) * a));
}

void Canvas::rectangle(float x, float y, float width, float height, Color color) {
  const auto share = [](float low, float high, int pixel) {
    const auto p = static_cast<float>(pixel);
    return std::clamp(std::min(high, p + 1) - std::max(low, p), 0.0F, 1.0F);
  };
  for (int row = static_cast<int>(std::floor(y)); static_cast<float>(row) < y + height; ++row)
    for (int column = static_cast<int>(std::floor(x)); static_cast<float>(column) < x + width; ++column)
      blend(column, row, color, share(x, x + width, column) * share(y, y + height, row));
}

// All strokes of a drawing cover a pixel once, however many of them touch it: joints are not darker.
void Canvas::strokes(const std::vector<std::vector<Point>>& lines, float thickness, Color color) {
  const float reach = thickness / 2 + 1;
  float left = 1e9F, right = -1e9F, top = 1e9F, bottom = -1e9F;
  for (const auto& line : lines)
    for (Point p : line) {
      left = std::min(left, p.x);
      right = std::max(right, p.x);
      top = std::min(top, p.y);
      bottom = std::max(bottom, p.y);
    }
  if (left > right) return;
  const int x0 = std::max(0, static_cast<int>(left - reach)),
            x1 = std::min(width_ - 1, static_cast<int>(right + reach));
  const int y0 = std::max(0, static_cast<int>(top - reach)),
            y1 = std::min(height_ - 1, static_cast<int>(bottom + reach));
  if (x1 < x0 || y1 < y0) return;
  const size_t columns = static_cast<size_t>(x1) - static_cast<size_t>(x0) + 1;
  std::vector<float> cover(columns * (static_cast<size_t>(y1) - static_cast<size_t>(y0) + 1));
  for (const auto& line : lines)
    for (size_t i = 0; i < std::max<size_t>(line.size(), 2) - 1; ++i) {
      const Point a = line[i], b = line[std::min(i + 1, line.size() - 1)];
      const int ax = std::max(x0, static_cast<int>(std::min(a.x, b.x) - reach)),
                bx = std::min(x1, static_cast<int>(std::max(a.x, b.x) + reach));
      const int ay = std::max(y0, static_cast<int>(std::min(a.y, b.y) - reach)),
                by = std::min(y1, static_cast<int>(std::max(a.y, b.y) + reach));
      for (int y = ay; y <= by; ++y)
        for (int x = ax; x <= bx; ++x) {
          const float d = distance({static_cast<float>(x) + 0.5F, static_cast<float>(y) + 0.5F}, a, b);
          float& c = cover[static_cast<size_t>(y - y0) * columns + static_cast<size_t>(x - x0)];
          c = std::max(c, std::clamp(thickness / 2 + 0.5F - d, 0.0F, 1.0F));
        }
    }
  for (int y = y0; y <= y1; ++y)
    for (int x = x0; x <= x1; ++x)
      if (const float c = cover[static_cast<size_t>(y - y0) * columns + static_cast<size_t>(x - x0)]; c > 0)
        blend(x, y, color, c);
}

void Canvas::line(const std::vector<Point>& points, float thickness, Color color) {
  strokes({points}, thickness, color);
}
void Canvas::disc(Point centre, float radius, Color color) { strokes({{centre, centre}}, 2 * radius, color); }

float Canvas::text_width(std::string_view text, float size) {
  float width = 0;
  for (char c : text) width += glyph(c).advance;
  return std::max(0.0F, width - 1) * size / 6;
}

void Canvas::text(float x, float y, float size, std::string_view text, Color color, float align, float weight) {
  const float scale = size / 6;
  float at = x - align * text_width(text, size);
  std::vector<std::vector<Point>> lines;
  for (char c : text) {
    for (const auto& stroke : glyph(c).strokes) {
      auto& line = lines.emplace_back();
      for (Point p : stroke) line.push_back({at + p.x * scale, y + (p.y - 6) * scale});
    }
    at += glyph(c).advance * scale;
  }
  strokes(lines, weight * std::max(1.1F, size / 8), color);
}

void Canvas::vertical_text(float x, float y, float size, std::string_view text, Color color) {
  const float scale = size / 6;
  float at = y + text_width(text, size) / 2;
  std::vector<std::vector<Point>> lines;
  for (char c : text) {
    for (const auto& stroke : glyph(c).strokes) {
      auto& line = lines.emplace_back();
      for (Point p : stroke) line.push_back({x + (p.y - 6) * scale, at - p.x * scale});
    }
    at -= glyph(c).advance * scale;
  }
  strokes(lines, std::max(1.1F, size / 8), color);
}

std::string Canvas::png() const {
  std::string rows;  // each row after a filter byte: 0, as it is
  const size_t stride = static_cast<size_t>(width_) * 3;
  for (int y = 0; y < height_; ++y) {
    rows.push_back(0);
    rows.append(reinterpret_cast<const char*>(&pixels_[static_cast<size_t>(y) * stride]), stride);
  }
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  const int status =
    compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  STRATA_CHECK(status == Z_OK, Internal, "png: zlib failed with {}", status);
  packed.resize(size);
  std::string header;
  put32(header, static_cast<uint32_t>(width_));
  put32(header, static_cast<uint32_t>(height_));
  header += std::string("\x08\x02\0\0\0", 5);  // 8 bits, rgb
  std::string file = "\x89PNG\r\n\x1a\n";
  put_chunk(file, "IHDR", header);
  put_chunk(file, "IDAT", packed);
  put_chunk(file, "IEND", {});
  return file;
}

}  // namespace strata::cli
