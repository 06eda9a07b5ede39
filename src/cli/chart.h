// Charts of curves as SVG: the same for the plot file and for pages, where a script shows the values under the pointer.
#pragma once
#include <string>
#include <vector>

namespace strata::cli {

struct Series {
  std::string name;
  std::vector<double> x, y;  // what is not finite, or not above 0 on a logarithmic axis, is left out
  bool faint = false, dots = false;
  int color = 0;  // of a series of well-distinguished colors
};

struct Chart {
  std::string title, x_name;
  bool log = false;        // the vertical axis
  bool from_zero = false;  // the vertical axis begins at 0
  bool percent = false;    // values up to 100
  std::vector<Series> series;
};

constexpr int kChartWidth = 440, kChartHeight = 280;
std::string chart_svg(const Chart& chart);  // one <svg>, which is styled by kChartStyle
std::string color_of(int number);           // a CSS color
// At most `most` points: means of as many neighbours as necessary.
Series thinned(const Series& series, size_t most);
// A step of 1, 2 or 5 times a power of ten that splits `range` into about `count` parts.
double nice_step(double range, int count);

extern const char* const kChartStyle;   // CSS, for light and dark screens
extern const char* const kChartScript;  // JavaScript that shows values; wants an element with the id "tip"

}  // namespace strata::cli
