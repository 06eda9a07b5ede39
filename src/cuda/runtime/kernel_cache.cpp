#include "cuda/runtime/kernel_cache.h"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "cuda/runtime/images.h"

namespace strata::cuda {
namespace {

constexpr std::string_view kMagic = "strata kernel 1\n";
Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The header of a file: a magic text, the key of the code, and its SHA-256.
std::string head(const std::string& key, std::string_view code) {
  return fmt::format("{}{}\n{}\n", kMagic, key, sha256(bytes_of(code)));
}
}  // namespace

std::string cache_folder() {
  if (environment("STRATA_CUDA_CACHE") == "0") return "";
  if (std::string folder = environment("STRATA_CACHE_DIR"); !folder.empty()) return folder;
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/strata";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/strata";
}

KernelCache KernelCache::of(DeviceType type) {
  const std::string folder = cache_folder();
  const bool wanted = type != DeviceType::Vgpu || environment("STRATA_CUDA_CACHE") == "1";
  return KernelCache(folder.empty() || !wanted ? "" : folder + "/kernels");
}

std::string KernelCache::key(std::string_view ptx, int major, int minor, int driver_version) {
  return sha256(bytes_of(fmt::format("{} sm_{}{} driver {}", sha256(bytes_of(ptx)), major, minor, driver_version)));
}

std::optional<std::string> KernelCache::find(const std::string& key) const {
  if (!keeps()) return std::nullopt;
  try {
    const auto file = FileBytes::read(path(key));
    const std::string_view all(reinterpret_cast<const char*>(file->data()), file->size());
    const size_t begin = head(key, "").size();
    if (all.size() <= begin) return std::nullopt;
    std::string code(all.substr(begin));
    if (all.substr(0, begin) != head(key, code)) return std::nullopt;
    return code;
  } catch (const Error&) { return std::nullopt; }
}

void KernelCache::store(const std::string& key, std::string_view code) const noexcept {
  if (!keeps()) return;
  try {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (!error) write_file(path(key), head(key, code) + std::string(code));
  } catch (const std::exception&) {}  // read-only, full, no folder: the next process compiles again
}

namespace {

// A buffer for the messages of the driver's compiler.
struct Log {
  char text[8192] = "";
  int options[2] = {driver::kJitErrorLog, driver::kJitErrorLogBytes};
  void* values[2] = {text, reinterpret_cast<void*>(sizeof text)};
};

[[noreturn]] void refuse(const Gpu& gpu, driver::CUresult r, const std::string& name, const Log& log) {
  gpu.refuse(r, fmt::format("load the kernels of {}.cu. This build has machine code for sm_{} and PTX; the device is "
                            "sm_{}{}.{}{}",
                            name, built_architectures(), gpu.properties.major, gpu.properties.minor,
                            *log.text ? "\n" : "", log.text)
                  .c_str());
}

std::string compile(const Gpu& gpu, const std::string& name, std::string_view ptx) {
  const driver::Table& t = gpu.table();
  Log log;
  driver::CUlinkState link = nullptr;
  driver::CUresult r = t.cuLinkCreate(2, log.options, log.values, &link);
  if (r != driver::kSuccess) refuse(gpu, r, name, log);
  void* code = nullptr;
  size_t bytes = 0;
  // Including the terminating zero, which the driver requires for text.
  r = t.cuLinkAddData(link, driver::kJitInputPtx, const_cast<char*>(ptx.data()), ptx.size() + 1, name.c_str(), 0,
                      nullptr, nullptr);
  if (r == driver::kSuccess) r = t.cuLinkComplete(link, &code, &bytes);
  std::string out;
  if (r == driver::kSuccess) out.assign(static_cast<const char*>(code), bytes);  // it is freed with the linker
  t.cuLinkDestroy(link);
  if (r != driver::kSuccess) refuse(gpu, r, name, log);
  return out;
}

bool is_of_another_kind(driver::CUresult r) {  // the driver rejects this code, but may compile the PTX
  return r == driver::kNoBinaryForGpu || r == driver::kInvalidImage || r == driver::kInvalidPtx ||
         r == driver::kInvalidValue;
}

// Null: the driver accepts no machine code, for example because CUDA_FORCE_PTX_JIT is set.
driver::CUmodule load_kept(Gpu& gpu, const KernelCache& cache, const std::string& name, std::string_view ptx) {
  const driver::Table& t = gpu.table();
  driver::CUmodule module = nullptr;
  int version = 0;
  gpu.check(t.cuDriverGetVersion(&version), "tell the driver's version");
  const std::string key = KernelCache::key(ptx, gpu.properties.major, gpu.properties.minor, version);
  if (const auto kept = cache.find(key)) {
    const driver::CUresult r = t.cuModuleLoadData(&module, kept->data());
    if (r == driver::kSuccess) return module;
    if (!is_of_another_kind(r)) refuse(gpu, r, name, {});
  }
  const std::string code = compile(gpu, name, ptx);
  const driver::CUresult r = t.cuModuleLoadData(&module, code.data());
  if (is_of_another_kind(r)) return nullptr;
  if (r != driver::kSuccess) refuse(gpu, r, name, {});
  cache.store(key, code);
  return module;
}
}  // namespace

driver::CUmodule load_ptx(Gpu& gpu, const KernelCache& cache, const std::string& name, std::string_view ptx) {
  driver::CUmodule module = cache.keeps() ? load_kept(gpu, cache, name, ptx) : nullptr;
  if (module) return module;
  Log log;
  const driver::CUresult r = gpu.table().cuModuleLoadDataEx(&module, ptx.data(), 2, log.options, log.values);
  if (r != driver::kSuccess) refuse(gpu, r, name, log);
  return module;
}

}  // namespace strata::cuda
