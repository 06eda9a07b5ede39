#include "cli/training_plot.h"

#include <fmt/core.h>

#include "cli/chart.h"
#include "system/trace/outputs.h"

namespace strata::cli {

std::string plot_svg(const std::string& title, const std::vector<Chart>& charts) {
  constexpr int kWidth = 1280, kHeight = 720, kLarge = 830, kTop = 70;
  std::string out = fmt::format(
    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
    "<style>{2}.ground{{fill:#fff}}.head{{font:bold 26px system-ui,sans-serif;fill:#20262e}}"
    "@media(prefers-color-scheme:dark){{.ground{{fill:#14181d}}.head{{fill:#e3e8ee}}}}</style>\n"
    "<rect class=\"ground\" width=\"{0}\" height=\"{1}\"/><text class=\"head\" x=\"30\" y=\"44\">{3}</text>\n",
    kWidth, kHeight, kChartStyle, tracing::escaped_xml(title));
  for (size_t i = 0; i < charts.size(); ++i) {
    const int small = (kHeight - kTop) / 2;
    const std::string place =
      i == 0 ? fmt::format("x=\"10\" y=\"{}\" width=\"{}\" height=\"{}\"", kTop, kLarge, kHeight - kTop - 10)
             : fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", kLarge + 20,
                           kTop + static_cast<int>(i - 1) * small, kWidth - kLarge - 30, small - 10);
    std::string chart = chart_svg(charts[i]);
    out += "<svg " + place + chart.substr(4);
  }
  return out + "</svg>\n";
}

}  // namespace strata::cli
