#include "cuda/runtime/images.h"

#include <fmt/core.h>

#include <string_view>

#include "base/error.h"

namespace strata::cuda {
namespace {

// From `.visible .entry name(` to the brace that closes its body; empty if it is not there.
std::string_view entry_of(std::string_view ptx, const std::string& kernel) {
  const size_t begin = ptx.find(".visible .entry " + kernel + "(");
  if (begin == std::string_view::npos) return {};
  int depth = 0;
  for (size_t i = begin; i < ptx.size(); ++i) {
    if (ptx[i] == '{') ++depth;
    if (ptx[i] == '}' && --depth == 0) return ptx.substr(begin, i + 1 - begin);
  }
  return ptx.substr(begin);
}

// The embedded text has no spaces after commas.
std::string spaced(std::string_view ptx) {
  std::string text;
  for (const char c : ptx) {
    text += c;
    if (c == ',') text += ' ';
  }
  return text;
}

}  // namespace

std::string ptx_of(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string file = dot == std::string::npos ? "" : name.substr(0, dot), kernel = name.substr(dot + 1);
  std::string_view found;
  std::string files;
  for (const Image& image : images()) {
    if (!file.empty() && file != image.name) continue;
    const std::string_view entry = entry_of(image.ptx, kernel);
    if (entry.empty()) continue;
    files += fmt::format("{}{}.{}", files.empty() ? "" : ", ", image.name, kernel);
    STRATA_CHECK(found.empty(), Value, "ptx: more than one file has a kernel '{}': {}; give one of these", kernel,
                 files);
    found = entry;
  }
  STRATA_CHECK(!found.empty(), Value,
               "ptx: there is no kernel '{}'; vgpu.counters() gives the names of those that were launched", name);
  return spaced(found);
}

}  // namespace strata::cuda
