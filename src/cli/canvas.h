// A small drawing surface for plots: anti-aliased lines, rectangles and text in a stroke font, written as PNG.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

struct Color {
  uint8_t r, g, b;
  float alpha = 1;
};
struct Point {
  float x, y;
};

class Canvas {
 public:
  Canvas(int width, int height, Color background);
  int width() const { return width_; }
  int height() const { return height_; }
  void rectangle(float x, float y, float width, float height, Color color);
  void line(const std::vector<Point>& points, float thickness, Color color);  // round joints and ends
  void disc(Point centre, float radius, Color color);
  // Text with its baseline at y; `size` is the height of a capital letter. align: 0 starts at x, 0.5 centred, 1 ends at x.
  void text(float x, float y, float size, std::string_view text, Color color, float align = 0, float weight = 1);
  void vertical_text(float x, float y, float size, std::string_view text, Color color);  // upwards, centred at y
  static float text_width(std::string_view text, float size);
  std::string png() const;  // the file's bytes

 private:
  void strokes(const std::vector<std::vector<Point>>& lines, float thickness, Color color);
  void blend(int x, int y, Color color, float coverage);
  int width_, height_;
  std::vector<uint8_t> pixels_;  // rgb
};

}  // namespace strata::cli
