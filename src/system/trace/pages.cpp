// The flame graph, and the page with it and the tables.
#include <fmt/core.h>

#include <map>
#include <memory>

#include "system/trace/outputs.h"

namespace strata::tracing {

namespace {

struct Frame {
  int64_t ns = 0;
  uint64_t calls = 0;
  std::map<std::pair<Layer, std::string>, std::unique_ptr<Frame>> inside;
};

constexpr double kWidth = 1200;
constexpr int kRow = 17;

const char* color_of(Layer layer) {
  static constexpr const char* kColors[] = {"#b8a9d9", "#9fc5e8", "#f6d38b", "#f2a97e", "#d9d9d9",
                                            "#e6a3b3", "#93c99b", "#8fb8bd", "#b7c4cf", "#7fa8d9"};
  return kColors[static_cast<int>(layer)];
}

int depth_of(const Frame& f) {
  int most = 0;
  for (const auto& [name, inner] : f.inside) most = std::max(most, depth_of(*inner));
  return most + 1;
}

void draw(const Frame& f, double x, int row, double scale, int64_t all, std::string& out) {
  for (const auto& [what, inner] : f.inside) {
    const double width = static_cast<double>(inner->ns) * scale;
    if (width >= 0.3) {
      const std::string name = escaped_xml(what.second);
      out += fmt::format(
        "<g><title>{}: {}\n{:.3f} ms, {:.1f}%, {} calls</title><rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" "
        "height=\"{}\" fill=\"{}\" rx=\"2\"/>",
        tracing::name_of(what.first), name, static_cast<double>(inner->ns) / 1e6,
        100.0 * static_cast<double>(inner->ns) / static_cast<double>(all), inner->calls, x, row * kRow,
        std::max(0.3, width - 0.5), kRow - 1, color_of(what.first));
      if (width > 40) {
        const auto letters = static_cast<size_t>((width - 6) / 6.6);
        out += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>", x + 3, row * kRow + 12,
                           escaped_xml(what.second.substr(0, letters)));
      }
      out += "</g>\n";
      draw(*inner, x, row + 1, scale, all, out);
    }
    x += width;
  }
}

std::string table_of(const Trace& t, const char* by, const char* title) {
  const std::vector<Row> rows = t.rows(by);
  if (rows.empty()) return {};
  std::string text = fmt::format(
    "<h2>{}</h2>\n<div class=\"wide\"><table><thead><tr><th>{}</th><th>calls</th><th>total ms</th><th>self ms</th>"
    "<th>device ms</th><th>MB</th><th>GB/s</th></tr></thead><tbody>\n",
    title, by);
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 200); ++i) {
    const Row& r = rows[i];
    const auto ms = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
    const int64_t time = r.device_ns ? r.device_ns : r.total_ns;
    text += fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{:.3f}</td><td>{:.3f}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
      escaped_xml(r.key), r.calls, ms(r.total_ns), ms(r.self_ns),
      r.device_ns ? fmt::format("{:.3f}", ms(r.device_ns)) : "",
      r.bytes ? fmt::format("{:.3f}", static_cast<double>(r.bytes) / 1e6) : "",
      r.bytes && time ? fmt::format("{:.2f}", static_cast<double>(r.bytes) / static_cast<double>(time)) : "");
  }
  return text + "</tbody></table></div>\n";
}

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ground:#fff;--ink:#1d2733;--line:#d8dee6;--head:#f3f5f8}
@media(prefers-color-scheme:dark){:root{--ground:#14181d;--ink:#dfe5ec;--line:#333c46;--head:#1d232a}}
body{font:15px/1.5 system-ui,sans-serif;background:var(--ground);color:var(--ink);margin:0 auto;max-width:1240px;padding:16px}
h1{font-size:22px}h2{font-size:17px;margin-top:28px}.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{background:var(--head);cursor:pointer}
svg{max-width:none}
)";
constexpr const char* kScript = R"(
for (const table of document.querySelectorAll('table'))
  table.querySelectorAll('th').forEach((head, column) => head.addEventListener('click', () => {
    const body = table.tBodies[0], rows = [...body.rows], down = head.dataset.down !== '1';
    head.dataset.down = down ? '1' : '0';
    const value = row => { const t = row.cells[column].textContent; const n = parseFloat(t); return column && !isNaN(n) ? n : column ? -1 : t; };
    rows.sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1); });
    body.append(...rows);
  }));
)";

}  // namespace

std::string escaped_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (c == '\'') out += "&#39;";
    else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') out += '?';
    else out += c;
  }
  return out;
}

std::string make_flame_svg(const Recording& r, std::span<const uint32_t> order, std::span<const int32_t> parent,
                           std::span<const int64_t>) {
  Frame root;
  std::vector<Frame*> frame(r.events.size(), nullptr);
  for (const uint32_t i : order) {
    const Event& e = r.events[i];
    if (e.layer == Layer::Device) continue;  // its time is not the host's
    Frame& outer =
      parent[i] >= 0 && frame[static_cast<size_t>(parent[i])] ? *frame[static_cast<size_t>(parent[i])] : root;
    std::unique_ptr<Frame>& own = outer.inside[{e.layer, e.name}];
    if (!own) own = std::make_unique<Frame>();
    own->ns += e.end_ns - e.begin_ns;
    ++own->calls;
    frame[i] = own.get();
    if (&outer == &root) root.ns += e.end_ns - e.begin_ns;
  }
  const int height = depth_of(root) * kRow + 4;
  std::string out = fmt::format(
    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{}\" viewBox=\"0 0 {:.0f} {}\" "
    "font-family=\"monospace\" font-size=\"11\" role=\"img\" aria-label=\"Flame "
    "graph\">\n<style>text{{fill:#1d2733;pointer-events:none}}"
    "rect:hover{{stroke:#1d2733}}</style>\n",
    kWidth, height, kWidth, height);
  if (root.ns > 0) draw(root, 0, 0, kWidth / static_cast<double>(root.ns), root.ns, out);
  return out + "</svg>\n";
}

std::string make_html(const Trace& t) {
  const Recording& r = t.recording();
  int64_t begin = INT64_MAX, end = INT64_MIN;
  for (const Event& e : r.events) {
    begin = std::min(begin, e.begin_ns);
    end = std::max(end, e.end_ns);
  }
  const double ms = r.events.empty() ? 0 : static_cast<double>(end - begin) / 1e6;
  return page_of(
    "Strata trace",
    fmt::format("<h1>Strata trace</h1>\n<p>{} spans in {:.3f} ms{}</p>\n<h2>Where the time goes, from the program to "
                "the driver</h2>\n<div class=\"wide\">{}</div>\n",
                r.events.size(), ms, r.dropped ? fmt::format("; {} were dropped", r.dropped) : "", t.flame_svg()) +
      table_of(t, "layer", "Layers") + table_of(t, "op", "Ops") + table_of(t, "autograd", "Backward steps") +
      table_of(t, "kernel", "Kernels") + table_of(t, "device", "On the device") +
      table_of(t, "line", "Lines of the program") + table_of(t, "module", "Modules") +
      table_of(t, "user", "Named blocks") + fmt::format("<script>{}</script>\n", kScript));
}

std::string page_of(const std::string& title, const std::string& body) {
  return fmt::format(
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
    "content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\"><title>{}</title>\n"
    "<style>{}</style></head><body>\n{}</body></html>\n",
    escaped_xml(title), kStyle, body);
}

}  // namespace strata::tracing
