#include "cuda/runtime/images.h"

#include <fmt/core.h>
#include <zstd.h>

#include <map>

#include "base/error.h"

namespace strata::cuda {
namespace {

constexpr size_t kLargest = size_t{1} << 30;  // no image is; a damaged size must not reserve all memory

// From `.visible .entry name(` to the brace that closes its body.
std::string_view entry_of(std::string_view ptx, const std::string& kernel) {
  const size_t begin = ptx.find(".visible .entry " + kernel + "(");
  int depth = 0;
  for (size_t i = begin; i < ptx.size(); ++i) {
    if (ptx[i] == '{') ++depth;
    if (ptx[i] == '}' && --depth == 0) return ptx.substr(begin, i + 1 - begin);
  }
  return ptx.substr(begin);
}

// The images that have a kernel of a name. Built once, since every file has to be unpacked for it.
const std::multimap<std::string, const Image*>& images_by_kernel() {
  static const std::multimap<std::string, const Image*> all = [] {
    constexpr std::string_view kEntry = ".visible .entry ";
    std::multimap<std::string, const Image*> found;
    for (const Image& image : images()) {
      const std::string ptx = image.ptx.unpack(image.name);
      for (size_t at = ptx.find(kEntry); at != std::string::npos; at = ptx.find(kEntry, at)) {
        at += kEntry.size();
        found.emplace(ptx.substr(at, ptx.find('(', at) - at), &image);
      }
    }
    return found;
  }();
  return all;
}

}  // namespace

size_t Packed::unpacked_bytes() const {
  const unsigned long long size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  return size > kLargest ? 0 : static_cast<size_t>(size);  // the codes for errors are the largest numbers
}

std::string Packed::unpack(const char* name) const {
  const auto refuse = [&](const char* why) {
    fail(ErrorKind::Io, fmt::format("the device kernels '{}' inside libstrata are damaged ({}): install Strata again; "
                                    "the CPU can still be used",
                                    name, why));
  };
  if (ZSTD_getFrameContentSize(bytes.data(), bytes.size()) > kLargest) refuse("no size");
  std::string out(unpacked_bytes(), '\0');
  const size_t size = ZSTD_decompress(out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size)) refuse(ZSTD_getErrorName(size));
  if (size != out.size()) refuse("a wrong size");
  return out;
}

std::vector<const Image*> images_with(const std::string& kernel) {
  std::vector<const Image*> found;
  const auto [first, last] = images_by_kernel().equal_range(kernel);
  for (auto i = first; i != last; ++i) found.push_back(i->second);
  return found;
}

std::string ptx_of(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string file = dot == std::string::npos ? "" : name.substr(0, dot), kernel = name.substr(dot + 1);
  const Image* found = nullptr;
  std::string files;
  const auto [first, last] = images_by_kernel().equal_range(kernel);
  for (auto i = first; i != last; ++i) {
    if (!file.empty() && file != i->second->name) continue;
    files += fmt::format("{}{}.{}", files.empty() ? "" : ", ", i->second->name, kernel);
    STRATA_CHECK(!found, Value, "ptx: more than one file has a kernel '{}': {}; give one of these", kernel, files);
    found = i->second;
  }
  STRATA_CHECK(found, Value,
               "ptx: there is no kernel '{}'; vgpu.counters() gives the names of those that were launched", name);
  const std::string ptx = found->ptx.unpack(found->name);
  return std::string(entry_of(ptx, kernel));
}

}  // namespace strata::cuda
