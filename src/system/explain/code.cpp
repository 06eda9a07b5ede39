// The code layer: the formula's source, and the instructions that a kernel spends its time with.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/process.h"
#include "cuda/libs/device_headers.h"
#include "cuda/runtime/images.h"
#include "record/formula.h"
#include "system/explain/layers.h"

namespace strata::journey {
namespace {

// The lines of a functor in the headers of src/device, with its numbers: "src/device/functors/arithmetic.h:12".
void add_functor(const char* header, const std::string& name, std::vector<std::string>& out) {
  for (const cuda::DeviceHeader& h : cuda::device_headers()) {
    if (std::string_view(h.name) != header) continue;
    const std::string_view text = h.text;
    const size_t begin = text.find("struct " + name + " ");
    if (begin == text.npos) return;
    const auto number = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(begin), '\n');
    out.push_back(fmt::format("src/{}:{}", header, number));
    int depth = 0;
    size_t end = begin;
    for (; end < text.size(); ++end) {
      if (text[end] == '{') ++depth;
      if (text[end] == '}' && --depth == 0) break;
    }
    const std::string_view body = text.substr(begin, std::min<size_t>(end + 1 - begin, 800));
    for (size_t at = 0; at < body.size();) {
      const size_t stop = std::min(body.find('\n', at), body.size());
      out.push_back("  " + std::string(body.substr(at, stop - at)));
      at = stop + 1;
    }
    return;
  }
}

// Machine code, if the toolkit's disassembler is there: the lines with the most floating-point instructions.
void add_machine_code(const std::string& kernel, const cuda::Image& image, std::vector<std::string>& out) {
  const std::string tool = find_program("cuobjdump");
  const std::string machine = tool.empty() ? std::string() : image.machine.unpack(image.name);
  if (machine.empty()) return;
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "strata-sass-XXXXXX").string();
  if (!mkdtemp(folder.data())) return;
  const std::string file = folder + "/kernel.fatbin", listing = folder + "/listing";
  std::ofstream(file, std::ios::binary).write(machine.data(), static_cast<std::streamsize>(machine.size()));
  std::string why;
  std::vector<std::string> lines;
  if (run_program({tool, "--dump-sass", "--function", kernel, file}, "", listing, why) == 0) {
    std::ifstream in(listing);
    for (std::string line; std::getline(in, line);) {
      const size_t at = line.find("/*"), close = line.find("*/"), end = line.find(';');
      if (at == line.npos || close == line.npos || end == line.npos || close > end) continue;
      const size_t code = line.find_first_not_of(" \t", close + 2);
      if (code < end) lines.push_back(line.substr(code, end - code));
    }
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  const auto works = [](const std::string& l) {
    for (const char* m : {"FFMA", "FADD", "FMUL", "DFMA", "DADD", "DMUL", "HMMA", "HFMA", "HGMMA", "MUFU", "IMMA"})
      if (l.starts_with(m) || l.find(std::string(" ") + m) != l.npos) return true;
    return false;
  };
  constexpr size_t kShown = 8;
  size_t best = 0, most = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto n = static_cast<size_t>(
      std::count_if(lines.begin() + static_cast<ptrdiff_t>(i),
                    lines.begin() + static_cast<ptrdiff_t>(std::min(i + kShown, lines.size())), works));
    if (n > most) {
      most = n;
      best = i;
    }
  }
  if (most == 0) return;
  out.push_back(fmt::format("SASS of {}, {} instructions, by {}", kernel, lines.size(), tool));
  for (size_t i = best; i < std::min(best + kShown, lines.size()); ++i) out.push_back("  " + lines[i]);
}

}  // namespace

Layer Describer::code(const Seen& s) {
  Layer l{"code", "", {}, {}};
  const Formula* formula = s.record->formulas ? s.record->formulas[0] : nullptr;
  if (formula) add_functor(formula->loops.header, formula->loops.name, l.lines);
  if (s.launches.empty()) {
    if (formula) l.text = "the formula, compiled for each SIMD target";
    return l;
  }
  std::vector<std::string> shown;
  for (const LaunchSeen& seen : s.launches) {
    const char* name = recording_.text(recording_.events[seen.span], tracing::key::kernel);
    if (!name || std::find(shown.begin(), shown.end(), name) != shown.end()) continue;
    shown.emplace_back(name);
    std::vector<const cuda::Image*> files = cuda::images_with(name);
    if (files.empty()) {
      l.lines.push_back(fmt::format("{} was compiled at run time", name));
      continue;
    }
    // A name may occur in several files; that of a formula's kernel is the formula's header.
    if (formula)
      std::stable_partition(files.begin(), files.end(), [&](const cuda::Image* i) {
        return std::string(formula->loops.header).ends_with(std::string("/") + i->name + ".h");
      });
    const InnerLoop loop = inner_loop(cuda::ptx_of(fmt::format("{}.{}", files[0]->name, name)));
    l.lines.push_back(fmt::format("PTX of {}, {}.cu, {} lines; {} from line {}", name, files[0]->name, loop.all_lines,
                                  loop.is_loop ? "the innermost loop" : "the block that computes", loop.first_line));
    for (const std::string& line : loop.lines) l.lines.push_back("  " + line);
    add_machine_code(name, *files[0], l.lines);
  }
  if (shown.empty()) {
    l.text = formula ? "the formula" : "";
    return l;
  }
  l.text = fmt::format("{}{}", formula ? "the formula, and " : "", "the instructions that compute");
  return l;
}

}  // namespace strata::journey
