// Saving when the system fails: every call of every kind that AtomicFile makes fails once with every code. This program
// defines its own write(), fsync(), ..., which replace the C library's, for libstrata too.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "tests/expect_error.h"

namespace {
struct Fault {
  const char* call = "";
  int after = 0;  // calls that still succeed
  int code = 0;
  int seen = 0;
} fault;

bool fails(const char* call) {
  if (std::string_view(fault.call) != call || fault.seen++ != fault.after) return false;
  errno = fault.code;
  return true;
}
template <class F> F* real(const char* name) { return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name)); }
}  // namespace

#pragma GCC visibility push(default)
extern "C" {
ssize_t write(int fd, const void* data, size_t size) {
  return fails("write") ? -1 : real<ssize_t(int, const void*, size_t)>("write")(fd, data, size);
}
int fsync(int fd) { return fails("fsync") ? -1 : real<int(int)>("fsync")(fd); }
int fallocate(int fd, int mode, off_t from, off_t size) {
  return fails("fallocate") ? -1 : real<int(int, int, off_t, off_t)>("fallocate")(fd, mode, from, size);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  return fails("linkat")
           ? -1
           : real<int(int, const char*, int, const char*, int)>("linkat")(from_folder, from, to_folder, to, flags);
}
int rename(const char* from, const char* to) noexcept {
  return fails("rename") ? -1 : real<int(const char*, const char*)>("rename")(from, to);
}
}
#pragma GCC visibility pop

namespace strata {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
void save(const std::string& path, const std::string& text) {
  AtomicFile file(path, text.size());
  for (const auto part :
       {std::string_view(text).substr(0, text.size() / 2), std::string_view(text).substr(text.size() / 2)})
    file.write(std::as_bytes(std::span(part)));
  file.commit();
}

TEST(FileFaults, TheOldFileStaysWholeWhateverFails) {
  const auto folder = std::filesystem::temp_directory_path() / ("strata_faults_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "file", old = "the old contents", fresh(100000, 'n');
  int tried = 0;
  for (const char* call : {"fallocate", "write", "fsync", "linkat", "rename"})
    for (const int code : {ENOSPC, EIO, EDQUOT})
      for (int after = 0;; ++after) {
        save(path, old);
        fault = {call, after, code, 0};
        std::string problem;
        try {
          save(path, fresh);
        } catch (const IoError& e) { problem = e.what(); }
        const bool failed = fault.seen > after;
        fault = {};
        if (!failed) break;  // every call of this kind has failed once
        ++tried;
        // the file already has its name by then
        const bool synced_folder = std::string_view(call) == "fsync" && after == 1;
        EXPECT_NE(problem.find(path), std::string::npos) << call << ' ' << after << ": " << problem;
        EXPECT_NE(problem.find(std::strerror(code)), std::string::npos) << problem;
        EXPECT_EQ(contents(path), synced_folder ? fresh : old) << call << ' ' << after;
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << call << " left a file behind";
      }
  EXPECT_GE(tried, 3 * 5);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace strata
