// A journey as text, JSON and a page.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "system/explain/journey.h"
#include "system/trace/outputs.h"

namespace strata::journey {
namespace {

using tracing::escaped_xml;

std::string time_text(double us) { return us < 0 ? "" : fmt::format("{:.2f} us", us); }

nlohmann::json to_json(const Layer& l) {
  nlohmann::json facts = nlohmann::json::object();
  for (const Fact& f : l.facts) facts[f.name] = f.value;
  nlohmann::json out{{"layer", l.name}, {"text", l.text}, {"facts", facts}, {"lines", l.lines}};
  out["us"] = l.us < 0 ? nlohmann::json() : nlohmann::json(l.us);
  return out;
}

}  // namespace

std::string Journey::to_text() const {
  std::string text = fmt::format("{}: {:.2f} us on {}, {} spans with id {}\n", title, us, device, spans, id);
  for (const Step& s : steps) {
    const std::string space(static_cast<size_t>(2 * s.depth), ' ');
    text += fmt::format("\n{}{}{}  {:.2f} us\n", space, s.op, s.direction == "backward" ? " (backward)" : "", s.us);
    for (const Layer& l : s.layers) {
      text += fmt::format("{}  {:<9} {}{}\n", space, l.name, l.text, l.us < 0 ? "" : "  " + time_text(l.us));
      const bool listed = l.name == "record" || l.name == "autograd";
      for (const Fact& f : l.facts)
        if (listed || l.name == "binding" || f.name == "bound" || f.name == "of the roofline" ||
            f.name == "SIMD target")
          if (!f.value.empty() && f.name != "node")
            text += fmt::format("{}            {}: {}\n", space, f.name, f.value);
      for (const std::string& line : l.lines) text += fmt::format("{}            {}\n", space, line);
    }
  }
  for (const Fact& f : results) text += fmt::format("\nresult {} {}\n", f.name, f.value);
  return text;
}

std::string Journey::to_json() const {
  nlohmann::json all = nlohmann::json::array(), values = nlohmann::json::array();
  for (const Step& s : steps) {
    nlohmann::json layers = nlohmann::json::array();
    for (const Layer& l : s.layers) layers.push_back(journey::to_json(l));
    all.push_back({{"op", s.op}, {"direction", s.direction}, {"depth", s.depth}, {"us", s.us}, {"layers", layers}});
  }
  for (const Fact& f : results) values.push_back({{"type", f.name}, {"values", f.value}});
  nlohmann::json kernels = nlohmann::json::array();
  for (const auto& line : considered)
    kernels.push_back({{"op", line.op->name},
                       {"kernel", line.kernel->name},
                       {"facts", facts_of(*line.kernel)},
                       {"reason", verdict(line)},
                       {"workspace", line.workspace}});
  const nlohmann::json out{{"kernels", kernels}, {"title", title}, {"device", device}, {"id", id},
                           {"spans", spans},     {"us", us},       {"steps", all},     {"results", values}};
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Journey::to_html() const {
  std::string body = fmt::format(
    "<style>li table{{width:auto}}li td{{text-align:left;white-space:normal;vertical-align:top}}"
    "li td:first-child{{white-space:nowrap}}</style>\n<h1>{}</h1>\n<p>{:.2f} us on {}; {} spans with id {}</p>\n",
    escaped_xml(title), us, escaped_xml(device), spans, id);
  for (const Step& s : steps) {
    body += fmt::format(
      "<details{} style=\"margin-left:{}px\"><summary><b>{}</b>{} <small>{:.2f} us</small></summary>\n<ol>\n",
      s.depth == 0 || steps.size() < 12 ? " open" : "", 16 * s.depth, escaped_xml(s.op),
      s.direction == "backward" ? " (backward)" : "", s.us);
    for (const Layer& l : s.layers) {
      body += fmt::format("<li><b>{}</b> {} <small>{}</small>", l.name, escaped_xml(l.text), time_text(l.us));
      if (!l.facts.empty()) {
        body += "<div class=\"wide\"><table>";
        for (const Fact& f : l.facts)
          if (!f.value.empty())
            body += fmt::format("<tr><td>{}</td><td>{}</td></tr>", escaped_xml(f.name), escaped_xml(f.value));
        body += "</table></div>";
      }
      if (!l.lines.empty()) {
        body += "<pre class=\"wide\">";
        for (const std::string& line : l.lines) body += escaped_xml(line) + "\n";
        body += "</pre>";
      }
      body += "</li>\n";
    }
    body += "</ol></details>\n";
  }
  if (!results.empty()) body += "<h2>Results</h2>\n<pre class=\"wide\">";
  for (const Fact& f : results) body += escaped_xml(f.name + " " + f.value) + "\n";
  if (!results.empty()) body += "</pre>\n";
  return tracing::page_of("strata explain: " + title, body);
}

}  // namespace strata::journey
