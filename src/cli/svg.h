// A picture of lines, discs, rectangles and text as an SVG file.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace strata::cli {

struct Point {
  float x, y;  // in pixels from the top left
};

// Colors are CSS colors.
class Svg {
 public:
  Svg(int width, int height, std::string_view background);
  void line(std::span<const Point> points, float thickness, std::string_view color);
  void disc(Point center, float radius, std::string_view color);
  void rectangle(Point corner, float width, float height, std::string_view color);
  enum class Anchor { kStart, kMiddle, kEnd };  // the part of the text that is at the point, on its baseline
  void text(Point at, float size, std::string_view text, std::string_view color, Anchor anchor = Anchor::kStart,
            bool bold = false);
  std::string file() const;

 private:
  std::string body_;
};

}  // namespace strata::cli
