// Finds the loop of a kernel's PTX that computes.
#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "system/explain/journey.h"

namespace strata::journey {
namespace {

std::string_view trimmed(std::string_view s) {
  const size_t begin = s.find_first_not_of(" \t\r");
  if (begin == s.npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t\r") + 1 - begin);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    all.emplace_back(trimmed(text.substr(at, end - at)));
    at = end + 1;
  }
  return all;
}

bool contains(std::string_view s, std::string_view part) { return s.find(part) != s.npos; }

// The label that a line defines, or an empty text.
std::string_view label_of(std::string_view line) {
  return line.ends_with(':') ? line.substr(0, line.size() - 1) : std::string_view();
}
std::string_view target_of(std::string_view line) {
  const size_t at = line.find("bra");
  if (at == line.npos || (!line.starts_with("bra") && !line.starts_with('@'))) return {};
  const size_t begin = line.find_last_of(" \t");
  return line.ends_with(';') ? line.substr(begin + 1, line.size() - begin - 2) : std::string_view();
}

// Arithmetic counts most, then memory; integer instructions compute addresses.
int weight_of(std::string_view line) {
  static constexpr std::array<std::string_view, 9> kMath = {"mma.", "wgmma.", "fma.", "ex2.", "lg2.",
                                                            "sin.", "rcp.",   "sqrt", "tanh."};
  if (line.starts_with('@')) line = trimmed(line.substr(std::min(line.find(' '), line.size())));
  for (const std::string_view m : kMath)
    if (line.starts_with(m)) return 8;
  for (const std::string_view m : {"add.", "mul.", "sub.", "div.", "max.", "min."})
    if (line.starts_with(m) && (contains(line, ".f32") || contains(line, ".f64") || contains(line, ".f16"))) return 8;
  if (line.starts_with("ld.global") || line.starts_with("st.global") || line.starts_with("ld.shared")) return 3;
  return 0;
}

struct Part {
  size_t begin, end;  // [begin, end)
  bool is_loop;
  int weight = 0;
  double density() const { return static_cast<double>(weight) / static_cast<double>(end - begin + 24); }
};

// Loops without loops inside, and blocks without branches.
std::vector<Part> parts_of(const std::vector<std::string>& lines) {
  std::vector<Part> parts;
  std::map<std::string_view, size_t> labels;
  size_t begin = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view label = label_of(lines[i]), target = target_of(lines[i]);
    if (!label.empty()) labels[label] = i;
    if (label.empty() && target.empty()) continue;
    if (i > begin) parts.push_back({begin, i, false});
    begin = i + 1;
    const auto at = target.empty() ? labels.end() : labels.find(target);
    if (at != labels.end()) parts.push_back({at->second, i + 1, true});
  }
  if (lines.size() > begin) parts.push_back({begin, lines.size(), false});
  std::erase_if(parts, [&](const Part& outer) {
    return outer.is_loop && std::any_of(parts.begin(), parts.end(), [&](const Part& p) {
             return p.is_loop && &p != &outer && p.begin >= outer.begin && p.end <= outer.end &&
                    p.end - p.begin < outer.end - outer.begin;
           });
  });
  return parts;
}

}  // namespace

InnerLoop inner_loop(const std::string& ptx, size_t most) {
  const std::vector<std::string> lines = lines_of(ptx);
  std::vector<Part> parts = parts_of(lines);
  const Part* best = nullptr;
  for (Part& p : parts) {
    bool math = false;
    for (size_t i = p.begin; i < p.end; ++i) {
      const int w = weight_of(lines[i]);
      p.weight += w;
      math |= w == 8;
    }
    if (p.is_loop && math) p.weight *= 4;
    if (p.weight > 0 && (!best || p.density() > best->density())) best = &p;
  }
  InnerLoop found;
  found.all_lines = lines.size();
  if (!best) return found;
  found.is_loop = best->is_loop;
  // Of a long part the window with most of the work, of a short one its surroundings too.
  size_t from = best->begin, end = std::min(best->end, from + most);
  if (best->end - best->begin > most) {
    int most_work = -1;
    for (size_t i = best->begin; i + most <= best->end; ++i) {
      int work = 0;
      for (size_t k = i; k < i + most; ++k) work += weight_of(lines[k]);
      if (work > most_work) {
        most_work = work;
        from = i;
        end = i + most;
      }
    }
  } else if (end - from < most / 2) {
    const size_t more = (most / 2 - (end - from)) / 2;
    from -= std::min(from, more);
    end = std::min(lines.size(), end + more);
  }
  found.first_line = from + 1;
  for (size_t i = from; i < end; ++i)
    if (!lines[i].empty()) found.lines.push_back(lines[i]);
  return found;
}

}  // namespace strata::journey
