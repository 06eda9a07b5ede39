#include "cli/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "system/trace/outputs.h"

namespace strata::cli {
namespace {

using tracing::escaped_xml;

constexpr double kLeft = 52, kTop = 34, kWidth = kChartWidth - kLeft - 14, kHeight = kChartHeight - kTop - 44;

std::string number(double v) {
  if (v == 0) return "0";
  const double size = std::fabs(v);
  return size >= 1e6   ? fmt::format("{:.4g}M", v / 1e6)
         : size >= 1e4 ? fmt::format("{:.4g}k", v / 1e3)
                       : fmt::format("{:.4g}", v);
}

template <class... T> void append(std::string& to, fmt::format_string<T...> format, T&&... values) {
  fmt::format_to(std::back_inserter(to), format, std::forward<T>(values)...);
}

struct Scale {
  double x0 = 0, x1 = 1, y0 = 0, y1 = 1;
  bool log = false;
  double x(double v) const { return kLeft + (v - x0) / (x1 - x0) * kWidth; }
  double y(double v) const { return kTop + kHeight - ((log ? std::log10(v) : v) - y0) / (y1 - y0) * kHeight; }
};

bool is_shown(const Chart& c, double v) { return std::isfinite(v) && (!c.log || v > 0); }

Scale scale_of(const Chart& c) {
  double low = INFINITY, high = -INFINITY, first = INFINITY, last = -INFINITY;
  for (const Series& s : c.series)
    for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
      first = std::min(first, s.x[i]);
      last = std::max(last, s.x[i]);
      if (!is_shown(c, s.y[i])) continue;
      low = std::min(low, s.y[i]);
      high = std::max(high, s.y[i]);
    }
  Scale r;
  r.log = c.log;
  if (!(first <= last)) {
    first = 0;
    last = 1;
  }
  if (!(low <= high)) {
    low = c.log ? 0.1 : 0;
    high = 1;
  }
  r.x0 = first == last ? first - 0.5 : first;
  r.x1 = first == last ? last + 0.5 : last;
  if (c.log) {
    low = std::max(low, high * 1e-4);
    r.y0 = std::floor(std::log10(low) * 2) / 2;
    r.y1 = std::max(r.y0 + 0.5, std::ceil(std::log10(high) * 2 + 0.1) / 2);
    return r;
  }
  r.y0 = c.from_zero ? 0 : low;
  r.y1 = c.percent ? 100 : high;
  const double room = std::max((r.y1 - r.y0) * 0.08, std::fabs(r.y1) * 1e-3 + 1e-12);
  if (!c.from_zero) r.y0 -= room;
  if (!c.percent) r.y1 += room;
  if (r.y1 <= r.y0) r.y1 = r.y0 + 1;
  return r;
}

void add_axes(std::string& out, const Chart& c, const Scale& r) {
  const auto grid = [&](double at, double value) {
    append(out,
           "<path class=\"grid\" d=\"M{:.1f} {:.1f}h{:.1f}\"/><text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" "
           "text-anchor=\"end\">{}</text>\n",
           kLeft, at, kWidth, kLeft - 6, at + 4, number(value));
  };
  if (c.log) {
    for (double decade = std::floor(r.y0); decade <= r.y1; ++decade)
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double at = decade + std::log10(factor), value = std::pow(10, decade) * factor;
        if (at >= r.y0 - 1e-9 && at <= r.y1 + 1e-9) grid(r.y(value), value);
      }
  } else {
    const double step = nice_step(r.y1 - r.y0, 5);
    for (double v = std::ceil(r.y0 / step) * step; v <= r.y1 + 1e-9 * step; v += step)
      grid(r.y(v), std::fabs(v) < step / 1e6 ? 0 : v);
  }
  const double step = std::max(nice_step(r.x1 - r.x0, 6), 1.0);
  for (double v = std::ceil(r.x0 / step) * step; v <= r.x1 + 1e-9; v += step)
    append(out, "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", r.x(v),
           kTop + kHeight + 17, number(v));
  append(out,
         "<path class=\"axis\" d=\"M{:.1f} {:.1f}h{:.1f}\"/><text class=\"tick\" x=\"{:.1f}\" y=\"{}\" "
         "text-anchor=\"middle\">{}</text>\n",
         kLeft, kTop + kHeight, kWidth, kLeft + kWidth / 2, kChartHeight - 8, escaped_xml(c.x_name));
}

void add_series(std::string& out, const Chart& c, const Scale& r, const Series& s) {
  append(out, "<g style=\"color:{}\"><title>{}</title><polyline class=\"curve{}\" points=\"", color_of(s.color),
         escaped_xml(s.name), s.faint ? " faint" : "");
  const size_t n = std::min(s.x.size(), s.y.size());
  for (size_t i = 0; i < n; ++i)
    if (is_shown(c, s.y[i]))
      append(out, "{:.1f},{:.1f} ", r.x(s.x[i]), std::clamp(r.y(s.y[i]), kTop - 20.0, kTop + kHeight));
  out += "\"/>";
  if (s.dots)
    for (size_t i = 0; i < n; ++i)
      if (is_shown(c, s.y[i])) append(out, "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>", r.x(s.x[i]), r.y(s.y[i]));
  out += "</g>\n";
}

}  // namespace

const char* const kChartStyle = R"(
svg.chart{display:block;width:100%;height:auto;font:12px system-ui,sans-serif;touch-action:pan-y}
svg.chart text{fill:#20262e}svg.chart .title{font-size:14px;font-weight:600}svg.chart .tick{fill:#5d6773}
svg.chart .grid{stroke:#e4e8ed}svg.chart .axis{stroke:#bac1c9}svg.chart .cursor{stroke:#6e7884;stroke-dasharray:3 3}
svg.chart .curve{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}svg.chart .faint{stroke-width:1;opacity:.3}
svg.chart circle{fill:currentColor}
@media(prefers-color-scheme:dark){svg.chart text{fill:#e3e8ee}svg.chart .tick{fill:#95a0ad}svg.chart .grid{stroke:#2b323b}
svg.chart .axis{stroke:#4a545f}}
)";

const char* const kChartScript = R"(
const tip = document.getElementById('tip');
for (const svg of document.querySelectorAll('svg[data-chart]')) {
  const d = JSON.parse(svg.dataset.chart), cursor = svg.querySelector('.cursor');
  const hide = () => { tip.hidden = true; cursor.setAttribute('d', ''); };
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), scale = d.size[0] / box.width;
    const x = d.x[0] + ((event.clientX - box.left) * scale - d.box[0]) / d.box[2] * (d.x[1] - d.x[0]);
    let at = null;
    const rows = [];
    for (const s of d.series) {
      let best = -1;
      for (let i = 0; i < s.x.length; ++i)
        if (s.y[i] !== null && (best < 0 || Math.abs(s.x[i] - x) < Math.abs(s.x[best] - x))) best = i;
      if (best < 0) continue;
      if (at === null || Math.abs(s.x[best] - x) < Math.abs(at - x)) at = s.x[best];
      rows.push([s, best]);
    }
    if (at === null) return hide();
    const head = document.createElement('b');
    head.textContent = d.name + ' ' + at;
    tip.replaceChildren(head);
    for (const [s, i] of rows.slice(0, 12)) {
      const line = document.createElement('div'), mark = document.createElement('i');
      mark.style.background = s.color;
      line.append(mark, s.name + ': ' + Number(s.y[i].toPrecision(5)));
      tip.append(line);
    }
    cursor.setAttribute('d', `M${d.box[0] + (at - d.x[0]) / (d.x[1] - d.x[0]) * d.box[2]} ${d.box[1]}v${d.box[3]}`);
    tip.hidden = false;
    const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - tip.offsetWidth - 4);
    tip.style.left = Math.max(left, 4) + 'px';
    tip.style.top = event.clientY + 14 + 'px';
  });
}
)";

double nice_step(double range, int count) {
  const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

std::string color_of(int number) {
  static constexpr const char* kFirst[] = {"#2a78d6", "#1a9a68", "#d67418", "#b04ac0"};
  if (number < 4) return kFirst[number];
  return fmt::format("hsl({:.0f} 60% 50%)", std::fmod(number * 137.508, 360));
}

Series thinned(const Series& s, size_t most) {
  const size_t n = std::min(s.x.size(), s.y.size()), each = (n + most - 1) / std::max<size_t>(most, 1);
  if (each <= 1) return s;
  Series r = s;
  r.x.clear();
  r.y.clear();
  for (size_t i = 0; i < n; i += each) {
    const size_t end = std::min(n, i + each);
    double sum = 0;
    for (size_t k = i; k < end; ++k) sum += s.y[k];
    r.x.push_back(s.x[end - 1]);
    r.y.push_back(sum / static_cast<double>(end - i));
  }
  return r;
}

std::string chart_svg(const Chart& c) {
  const Scale r = scale_of(c);
  nlohmann::json series = nlohmann::json::array();
  for (const Series& s : c.series) {
    if (s.name.empty()) continue;
    nlohmann::json x = nlohmann::json::array(), y = nlohmann::json::array();
    for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
      x.push_back(s.x[i]);
      y.push_back(std::isfinite(s.y[i]) ? nlohmann::json(std::stod(fmt::format("{:.6g}", s.y[i]))) : nlohmann::json());
    }
    series.push_back({{"name", s.name}, {"color", color_of(s.color)}, {"x", x}, {"y", y}});
  }
  const nlohmann::json data{{"name", c.x_name},
                            {"series", series},
                            {"x", {r.x0, r.x1}},
                            {"size", {kChartWidth, kChartHeight}},
                            {"box", {kLeft, kTop, kWidth, kHeight}}};
  const std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string out = fmt::format(
    "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" "
    "data-chart=\"{}\">\n<text class=\"title\" x=\"8\" y=\"18\">{}</text>\n",
    kChartWidth, kChartHeight, escaped_xml(c.title), escaped_xml(text), escaped_xml(c.title));
  add_axes(out, c, r);
  for (const Series& s : c.series) add_series(out, c, r, s);
  return out + "<path class=\"cursor\" d=\"\"/></svg>\n";
}

}  // namespace strata::cli
