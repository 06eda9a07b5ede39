#include "base/library.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace strata {
namespace {

std::string path_of(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name) return {};
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(map->l_name, failed);
  return failed ? std::string(map->l_name) : real.string();
}

// The first line of the loader's message: it names the file itself.
std::string loader_message() {
  const char* text = dlerror();
  const std::string all = text ? text : "unknown error";
  return all.substr(0, all.find('\n'));
}

// A name without a folder that the loader does not find means that the library is absent; other errors mean a broken
// file.
bool is_absent(const std::string& message) { return message.find("No such file") != std::string::npos; }

std::mutex package_lock;
std::vector<std::string>& package_folders() {
  static auto* list = new std::vector<std::string>;
  return *list;
}

std::vector<std::string> folders() {
  std::vector<std::string> all;
  if (const char* text = std::getenv("LD_LIBRARY_PATH")) {
    std::string rest = text;
    for (size_t at = 0; at != std::string::npos;) {
      at = rest.find(':');
      if (const std::string one = rest.substr(0, at); !one.empty()) all.push_back(one);
      if (at != std::string::npos) rest = rest.substr(at + 1);
    }
  }
  for (const char* folder : {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/local/lib", "/usr/lib/wsl/lib"})
    all.emplace_back(folder);
  const std::lock_guard hold(package_lock);
  for (const std::string& packages : package_folders()) {
    std::error_code failed;
    const auto first = static_cast<std::ptrdiff_t>(all.size());
    for (const auto& entry : std::filesystem::directory_iterator(packages + "/nvidia", failed))
      all.push_back((entry.path() / "lib").string());
    std::sort(all.begin() + first, all.end());
  }
  return all;
}
}  // namespace

void set_package_folders(std::vector<std::string> folders) {
  const std::lock_guard hold(package_lock);
  package_folders() = std::move(folders);
}

Library::Library(const LibrarySpec& spec) : name_(spec.name), advice_(spec.advice), files_(spec.files) {
  const char* given = spec.variable ? std::getenv(spec.variable) : nullptr;
  if (given && *given) files_ = {given};
  int mode = RTLD_NOW | (spec.global ? RTLD_GLOBAL : RTLD_LOCAL);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which refuse it: their own functions come first
  if (spec.own_first) mode |= RTLD_DEEPBIND;
#endif
  std::string tried, broken;
  for (const std::string& file : files_) {
    handle_ = dlopen(file.c_str(), mode);
    if (handle_) {
      path_ = path_of(handle_);
      return;
    }
    const std::string message = loader_message();
    if (!is_absent(message) && broken.empty()) broken = message;
    tried += (tried.empty() ? "" : ", ") + file;
  }
  if (broken.empty() && !given) broken = open_in_folders(mode);
  if (handle_) return;
  const std::string where = given ? fmt::format(" (named by {})", spec.variable) : "";
  why_ = broken.empty() ? fmt::format("{} was not found (tried {}{})", name_, tried, where)
                        : fmt::format("{} does not load{}: {}", name_, where, broken);
  if (!advice_.empty()) why_ += "; " + advice_;
}

// Folders that the loader does not search by itself: a toolkit that is not in its cache, and Python packages.
std::string Library::open_in_folders(int mode) {
  std::string broken;
  for (const std::string& folder : folders())
    for (const std::string& file : files_) {
      const std::filesystem::path candidate = std::filesystem::path(folder) / file;
      std::error_code failed;
      if (!std::filesystem::exists(candidate, failed)) continue;
      handle_ = dlopen(candidate.c_str(), mode);
      if (handle_) {
        path_ = path_of(handle_);
        return {};
      }
      if (broken.empty()) broken = loader_message();
    }
  return broken;
}

void* Library::address_of(const char* symbol) const { return handle_ ? dlsym(handle_, symbol) : nullptr; }

void Library::refuse(const std::string& why) {
  why_ = fmt::format("{} at {} cannot be used: {}", name_, path_, why);
  if (!advice_.empty()) why_ += "; " + advice_;
}

void Library::require() const { STRATA_CHECK(why_.empty(), NotImplemented, "{}", why_); }

std::vector<std::string> Library::shadowed() const {
  std::vector<std::string> found;
  for (const std::string& folder : folders())
    for (const std::string& file : files_) {
      const std::filesystem::path candidate = std::filesystem::path(folder) / std::filesystem::path(file).filename();
      std::error_code failed;
      const std::string real = std::filesystem::canonical(candidate, failed).string();
      if (!failed && real != path_ && std::ranges::find(found, real) == found.end()) found.push_back(real);
    }
  return found;
}

}  // namespace strata
