// The report: one page without other files, for light and dark screens, from 400 pixels on.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/chart.h"
#include "cli/run_record.h"
#include "system/trace/outputs.h"

namespace strata::cli {
namespace {

using tracing::escaped_xml;

constexpr const char* kStyle = R"(
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:16px}
.grid>*{min-width:0}.card{border:1px solid var(--line);border-radius:8px;padding:8px}
.facts{display:flex;flex-wrap:wrap;gap:8px}.facts div{background:var(--head);border-radius:8px;padding:6px 12px}.facts b{display:block;font-size:20px}
.bar{background:var(--line);border-radius:3px;height:8px;min-width:60px}.bar i{background:#2a78d6;border-radius:3px;display:block;height:100%}
.digits{display:flex;flex-wrap:wrap;gap:6px}.digits figure{margin:0;text-align:center;font-size:12px}.digits img{display:block;width:56px;height:56px;image-rendering:pixelated;border:2px solid transparent;border-radius:4px}
.digits .wrong img{border-color:#d0453a}.confusion td,.confusion th{padding:2px 5px;text-align:right;min-width:22px}
.legend{display:flex;flex-wrap:wrap;gap:4px 14px}.legend i,#tip i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:5px}
#tip{position:fixed;z-index:1;pointer-events:none;background:var(--ground);color:var(--ink);border:1px solid var(--line);border-radius:6px;padding:4px 8px;font-size:12px;box-shadow:0 2px 8px #0003;max-width:280px}
#tip[hidden]{display:none}
code,pre{font:13px ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}small{opacity:.75}h1{overflow-wrap:anywhere}
td.text{white-space:normal;text-align:left;min-width:140px}summary{cursor:pointer}
)";

std::string fact(const std::string& name, const std::string& value) {
  return fmt::format("<div><small>{}</small><b>{}</b></div>", escaped_xml(name), escaped_xml(value));
}

std::string curves(const std::vector<RunRecord>& runs, bool several) {
  std::string out = "<div class=\"grid\">\n";
  for (const Chart& c : charts_of(runs))
    if (!c.series.empty()) out += "<div class=\"card\">" + chart_svg(c) + "</div>\n";
  out += "</div>\n";
  if (runs.size() < 2) return out;
  out += "<p class=\"legend\">";
  for (size_t i = 0; i < runs.size(); ++i)
    out += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", color_of(static_cast<int>(i)),
                       escaped_xml(label_of(runs[i], several)));
  return out + "</p>\n";
}

double epoch_seconds(const RunRecord& r) {
  return r.epochs.empty() ? 0 : r.epochs.back().step_ms * static_cast<double>(r.steps_per_epoch) / 1e3;
}

std::string side_by_side(const std::vector<RunRecord>& runs, bool several) {
  double slowest = INFINITY, fastest = 0;
  for (const RunRecord& r : runs) {
    if (best_speed(r) > 0) slowest = std::min(slowest, best_speed(r));
    fastest = std::max(fastest, best_speed(r));
  }
  std::string out = fmt::format(
    "<h2>{}</h2>\n<div class=\"wide\"><table><thead><tr><th>{}</th><th>accuracy</th><th>loss</th><th>epochs</th><th>s "
    "an epoch</th>"
    "<th>images/s</th><th></th><th>speed-up</th><th>memory MB</th></tr></thead><tbody>\n",
    several ? "Runs side by side" : "Devices side by side", several ? "run" : "device");
  for (const RunRecord& r : runs) {
    const double speed = best_speed(r);
    out += fmt::format(
      "<tr><td>{}</td><td>{:.2f}%</td><td>{:.4f}</td><td>{}</td><td>{:.2f}</td><td>{:.0f}</td><td><div "
      "class=\"bar\"><i "
      "style=\"width:{:.1f}%\"></i></div></td><td>{}</td><td>{:.0f}</td></tr>\n",
      escaped_xml(label_of(r, several)), 100 * r.accuracy(), r.epochs.empty() ? NAN : r.epochs.back().loss,
      r.epochs.size(), epoch_seconds(r), speed, fastest > 0 ? 100 * speed / fastest : 0,
      speed > 0 ? fmt::format("{:.2f}x", speed / slowest) : "", r.epochs.empty() ? 0 : r.epochs.back().memory_mb);
  }
  return out + "</tbody></table></div>\n";
}

std::string bars(const char* title, const std::vector<StepPart>& parts, const std::string& clock) {
  if (parts.empty()) return {};
  double all = 0;
  for (const StepPart& p : parts) all += p.us;
  std::string out = fmt::format("<div><h3>{} <small>one step, {}</small></h3><div class=\"wide\"><table><tbody>\n",
                                title, escaped_xml(clock));
  for (size_t i = 0; i < std::min<size_t>(parts.size(), 12); ++i) {
    const StepPart& p = parts[i];
    std::string reasons;
    for (size_t k = 0; k < std::min<size_t>(p.rejected.size(), 12); ++k)
      reasons += "<li>" + escaped_xml(p.rejected[k]) + "</li>";
    if (!reasons.empty()) reasons = "<details><summary>not taken</summary><ul>" + reasons + "</ul></details>";
    out += fmt::format(
      "<tr><td>{}</td><td>{:.0f} us</td><td><div class=\"bar\"><i "
      "style=\"width:{:.1f}%\"></i></div></td><td>{:.0f}%</td>"
      "<td class=\"text\"><code>{}</code>{}</td></tr>\n",
      escaped_xml(p.name), p.us, all > 0 ? 100 * p.us / all : 0, all > 0 ? 100 * p.us / all : 0, escaped_xml(p.kernels),
      reasons);
  }
  return out + "</tbody></table></div></div>\n";
}

std::string base64(const std::string& bytes) {
  static constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t v = 0;
    for (size_t k = 0; k < 3; ++k) v = v << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (int k = 0; k < 4; ++k)
      out += i + static_cast<size_t>(k) > bytes.size() ? '=' : kLetters[v >> (18 - 6 * k) & 63];
  }
  return out;
}

// A digit as a bitmap of 16 grays, which browsers show as it is.
std::string bitmap(const std::vector<uint8_t>& pixels) {
  std::string file;
  const auto put = [&](uint32_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) file += static_cast<char>(v >> (8 * i) & 255);
  };
  constexpr uint32_t kSide = 28, kRow = 16, kPalette = 64, kHead = 54;  // rows are multiples of four bytes
  file += "BM";
  put(kHead + kPalette + kRow * kSide, 4);
  put(0, 4);
  put(kHead + kPalette, 4);
  put(40, 4);
  put(kSide, 4);
  put(kSide, 4);
  put(1, 2);
  put(4, 2);
  for (const uint32_t v : {0u, kRow * kSide, 2835u, 2835u, 16u, 16u}) put(v, 4);
  for (uint32_t i = 0; i < 16; ++i) put((i * 17) * 0x010101u, 4);
  for (uint32_t y = kSide; y-- > 0;) {
    for (uint32_t x = 0; x < kSide; x += 2) put((pixels[y * kSide + x] >> 4) << 4 | pixels[y * kSide + x + 1] >> 4, 1);
    put(0, kRow - kSide / 2);
  }
  return base64(file);
}

std::string digits(const RunRecord& r) {
  if (r.digits.empty()) return {};
  std::string out = "<div><h3>Digits of the test set</h3><div class=\"digits\">\n";
  for (const DigitSample& d : r.digits)
    out += fmt::format(
      "<figure{}><img alt=\"a {}, read as {}\" src=\"data:image/bmp;base64,{}\"><figcaption>{}</figcaption></figure>\n",
      d.label == d.predicted ? "" : " class=\"wrong\"", d.label, d.predicted, bitmap(d.pixels),
      d.label == d.predicted ? fmt::format("{}", d.predicted) : fmt::format("{}, is {}", d.predicted, d.label));
  return out + "</div></div>\n";
}

std::string confusion(const RunRecord& r) {
  if (r.confusion.empty()) return {};
  std::string out =
    "<div><h3>Confusion <small>rows: what it is; columns: what was read</small></h3><div class=\"wide\"><table "
    "class=\"confusion\"><thead><tr><th></th>";
  for (size_t i = 0; i < r.confusion.size(); ++i) out += fmt::format("<th>{}</th>", i);
  out += "</tr></thead><tbody>\n";
  for (size_t i = 0; i < r.confusion.size(); ++i) {
    out += fmt::format("<tr><th>{}</th>", i);
    const auto all = std::accumulate(r.confusion[i].begin(), r.confusion[i].end(), int64_t{0});
    for (size_t k = 0; k < r.confusion[i].size(); ++k) {
      const int64_t n = r.confusion[i][k];
      const double share = all > 0 ? static_cast<double>(n) / static_cast<double>(all) : 0;
      out += fmt::format("<td style=\"background:rgb({} / {:.2f})\">{}</td>", i == k ? "42 120 214" : "208 69 58",
                         n == 0   ? 0
                         : i == k ? 0.1 + 0.5 * share
                                  : std::min(1.0, 0.15 + 3 * share),
                         n == 0 ? "" : std::to_string(n));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div></div>\n";
}

std::string details(const RunRecord& r, bool several, bool open) {
  std::string out =
    fmt::format("<details{}><summary><h2 style=\"display:inline\">{}</h2></summary>\n<div class=\"grid\">\n",
                open ? " open" : "", escaped_xml(label_of(r, several)));
  out += bars("Time by layer", r.layers, r.clock) + bars("Slowest ops, with their kernels", r.ops, r.clock) +
         digits(r) + confusion(r);
  out += "</div>\n<h3>Environment</h3><div class=\"wide\"><table><tbody>\n";
  for (const auto& [name, value] : r.environment)
    out += fmt::format("<tr><td>{}</td><td class=\"text\">{}</td></tr>\n", escaped_xml(name), escaped_xml(value));
  return out + fmt::format("</tbody></table></div>\n<h3>To reproduce it</h3>\n<pre>{}</pre>\n</details>\n",
                           escaped_xml(r.command));
}

}  // namespace

std::string report_page(const std::vector<RunRecord>& runs) {
  const bool several = of_several_names(runs);
  const RunRecord& best = *std::max_element(runs.begin(), runs.end(),
                                            [](const auto& a, const auto& b) { return a.accuracy() < b.accuracy(); });
  const std::string title =
    several ? fmt::format("{} runs of strata train", runs.size()) : fmt::format("{}: {}", runs[0].name, runs[0].data);
  std::string body =
    fmt::format("<style>{}{}</style>\n<h1>{}</h1>\n<div class=\"facts\">", kStyle, kChartStyle, escaped_xml(title));
  body += fact(runs.size() > 1 ? "best test accuracy, " + label_of(best, several) : "test accuracy",
               fmt::format("{:.2f}%", 100 * best.accuracy()));
  body += fact("epochs", fmt::format("{}", best.epochs.size())) + fact("images", fmt::format("{}", best.images)) +
          fact("parameters", fmt::format("{}", best.parameters)) +
          fact("images/s", fmt::format("{:.0f}", best_speed(best))) + fact("started", best.started) +
          "</div>\n<h2>Curves</h2>\n";
  body += curves(runs, several) + side_by_side(runs, several);
  for (const RunRecord& r : runs) body += details(r, several, runs.size() == 1);
  body += fmt::format("<div id=\"tip\" hidden></div>\n<script>{}</script>\n", kChartScript);
  return tracing::page_of(title, body);
}

}  // namespace strata::cli
