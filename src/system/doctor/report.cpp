// A report as text, as JSON and as a shell script.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "system/doctor/check.h"

namespace strata::doctor {
namespace {

// Lines of at most 100 characters, all with this indentation.
std::string wrapped(const std::string& text, size_t indent) {
  std::string out, line;
  const auto flush = [&] {
    if (!line.empty()) out += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  for (const std::string& paragraph : split(text, '\n')) {
    for (const std::string& word : split(paragraph, ' ')) {
      if (!line.empty() && indent + line.size() + 1 + word.size() > 100) flush();
      line += (line.empty() ? "" : " ") + word;
    }
    flush();
  }
  return out;
}

std::string lines(const std::string& text, const std::string& before) {
  std::string out;
  for (const std::string& line : split(text, '\n')) out += before + line + "\n";
  return out;
}

std::string probe_line(const Probe& p) {
  if (!p.failure.empty()) return fmt::format("  {:<12} FAILED    {}\n", p.name, first_line(p.failure));
  if (!p.skipped.empty()) return fmt::format("  {:<12} not run   {}\n", p.name, p.skipped);
  return fmt::format("  {:<12} {:>9.3f} ms  {}\n", p.name, p.ms, p.detail);
}

}  // namespace

std::string to_text(const Report& r) {
  std::string text;
  std::string section;
  for (const std::string& s : r.sections)
    for (const Fact& f : r.facts) {
      if (f.section != s) continue;
      if (section != s) text += s + "\n";
      section = s;
      text += fmt::format("  {:<16} {}\n", f.name, f.value);
    }
  if (!r.probes.empty()) text += fmt::format("probes of {}\n", r.probed);
  for (const Probe& p : r.probes) text += probe_line(p);
  for (const Finding& f : r.findings) {
    text += fmt::format("\n{} {}\n{}", f.check->severity == Severity::Error ? "ERROR  " : "warning", f.check->id,
                        wrapped(f.check->title, 2));
    for (const std::string& e : f.evidence) text += lines(e, "  found: ");
    text += wrapped(f.check->explanation, 4) + lines(f.check->fix, "    $ ") + "    " + f.check->page + "\n";
  }
  size_t errors = 0;
  for (const Finding& f : r.findings) errors += f.check->severity == Severity::Error;
  text += fmt::format("{}{} checks, {} error{}, {} warning{}\n", text.empty() ? "" : "\n", r.checked, errors,
                      errors == 1 ? "" : "s", r.findings.size() - errors, r.findings.size() - errors == 1 ? "" : "s");
  return text;
}

std::string to_json(const Report& r) {
  using nlohmann::json;
  json facts = json::array(), findings = json::array(), probes = json::array();
  for (const Fact& f : r.facts) facts.push_back({{"section", f.section}, {"name", f.name}, {"value", f.value}});
  for (const Finding& f : r.findings)
    findings.push_back({{"id", f.check->id},
                        {"section", f.check->section},
                        {"severity", f.check->severity == Severity::Error ? "error" : "warning"},
                        {"title", f.check->title},
                        {"evidence", f.evidence},
                        {"explanation", f.check->explanation},
                        {"fix", f.check->fix},
                        {"page", f.check->page}});
  for (const Probe& p : r.probes)
    probes.push_back({{"name", p.name},
                      {"ms", p.failure.empty() && p.skipped.empty() ? json(p.ms) : json()},
                      {"detail", p.detail},
                      {"skipped", p.skipped},
                      {"failure", p.failure}});
  const json all{{"status", r.status()}, {"sections", r.sections}, {"checked", r.checked}, {"facts", facts},
                 {"findings", findings}, {"probed", r.probed},     {"probes", probes}};
  // Evidence has texts from outside, which may not be UTF-8.
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string fix_hints(const Report& r) {
  std::string text = "#!/bin/sh\n# Read every line before you run it.\n";
  for (const Finding& f : r.findings) {
    text += fmt::format("\n# {}: {}\n", f.check->id, f.check->title);
    for (const std::string& e : f.evidence) text += lines(e, "#   ");
    text += f.check->fix + "\n";
  }
  return r.findings.empty() ? text + "# Nothing to fix.\n" : text;
}

}  // namespace strata::doctor
