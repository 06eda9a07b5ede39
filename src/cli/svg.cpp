#include "cli/svg.h"

#include <fmt/core.h>

#include <iterator>

namespace strata::cli {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  return out;
}

template <class... T> void append(std::string& to, fmt::format_string<T...> format, T&&... values) {
  fmt::format_to(std::back_inserter(to), format, std::forward<T>(values)...);
}

}  // namespace

Svg::Svg(int width, int height, std::string_view background) {
  append(body_,
         "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
         "font-family=\"sans-serif\">\n",
         width, height);
  rectangle({0, 0}, static_cast<float>(width), static_cast<float>(height), background);
}
void Svg::line(std::span<const Point> points, float thickness, std::string_view color) {
  append(body_, "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{:g}\" points=\"", color, thickness);
  for (const Point p : points) append(body_, "{:.1f},{:.1f} ", p.x, p.y);
  body_ += "\"/>\n";
}
void Svg::disc(Point center, float radius, std::string_view color) {
  append(body_, "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"{}\"/>\n", center.x, center.y, radius, color);
}
void Svg::rectangle(Point corner, float width, float height, std::string_view color) {
  append(body_, "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", corner.x,
         corner.y, width, height, color);
}
void Svg::text(Point at, float size, std::string_view text, std::string_view color, Anchor anchor, bool bold) {
  constexpr const char* kNames[] = {"start", "middle", "end"};
  append(body_, "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\"{} fill=\"{}\">{}</text>\n", at.x,
         at.y, size, kNames[static_cast<int>(anchor)], bold ? " font-weight=\"bold\"" : "", color, escaped(text));
}
std::string Svg::file() const { return body_ + "</svg>\n"; }

}  // namespace strata::cli
