#include "cuda/custom/host_compiler.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/file.h"
#include "base/process.h"
#include "base/sha256.h"
#include "cuda/libs/nvrtc.h"
#include "cuda/runtime/kernel_cache.h"

namespace strata::cuda {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

std::string hash_of(std::string_view text) {
  return sha256(Bytes(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

std::string content_of(const std::string& path) {
  const auto file = FileBytes::read(path);
  return {reinterpret_cast<const char*>(file->data()), file->size()};
}

// A folder with a name of its own that is removed with this object, unless it is moved elsewhere.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& inside) {
    static std::atomic<int> next{0};
    path_ = fmt::format("{}/.build-{}-{}", inside, getpid(), next++);
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) fail_io(error.value(), fmt::format("load_inline: cannot create the folder {}", path_));
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  // Renames it; if another process has made `to` meanwhile, that one stays.
  void move_to(const std::string& to) {
    std::error_code error;
    fs::rename(path_, to, error);
    if (!error) path_.clear();
    else if (!fs::exists(to)) fail_io(error.value(), fmt::format("load_inline: cannot create {}", to));
  }

 private:
  std::string path_;
};

struct Compiler {
  Texts words;  // its path and options: CXX may be "ccache g++"
  std::string version;
};

Texts split_at_spaces(std::string_view text) {
  Texts out;
  for (size_t at = 0; (at = text.find_first_not_of(' ', at)) != text.npos;) {
    const size_t end = std::min(text.find(' ', at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

Compiler find_compiler() {
  const char* own = std::getenv("CXX");
  Texts words = split_at_spaces(own ? own : "");
  const Texts names = words.empty() ? Texts{"c++", "g++", "clang++"} : Texts{words[0]};
  std::string path;
  for (const std::string& name : names)
    if (path.empty()) path = find_program(name);
  STRATA_CHECK(
    !path.empty(), NotImplemented,
    "load_inline: there is no C++ compiler ({}) to compile host functions; install one (apt install g++, dnf "
    "install gcc-c++, conda install cxx-compiler) or name it in the environment variable CXX",
    !words.empty() ? fmt::format("CXX is {}", own) : std::string("c++, g++ and clang++ are not in PATH"));
  words.resize(std::max<size_t>(words.size(), 1));
  words[0] = path;
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<std::string, std::string>;
  const std::lock_guard lock(*mutex);
  std::string& version = (*known)[own ? own + path : path];
  if (version.empty()) {
    const WorkFolder work(fs::temp_directory_path().string());
    const std::string log = work.path() + "/log";
    std::string why;
    Texts question = words;
    question.emplace_back("--version");
    const int status = run_program(question, work.path(), log, why);
    STRATA_CHECK(status == 0, NotImplemented, "load_inline: the C++ compiler {} does not work ({})", path,
                 status < 0 ? why : fmt::format("{} --version returned {}", path, status));
    version = content_of(log);
  }
  return {words, fmt::format("{} {} {}", own ? own : "", path, version)};
}

std::string library_path() {
  Dl_info self;
  STRATA_CHECK(dladdr(reinterpret_cast<const void*>(&build_library), &self) && self.dli_fname, Runtime,
               "load_inline: the file of libstrata is not known");
  std::error_code error;
  const fs::path real = fs::canonical(self.dli_fname, error);
  return error ? self.dli_fname : real.string();
}

// The folder of the public headers: beside the folder of the library, in the build tree, a prefix and a wheel.
std::string header_folder() {
  const fs::path lib = fs::path(library_path()).parent_path();
  for (const fs::path& place : {lib / "../include", lib / "../../include"}) {
    std::error_code error;
    if (fs::exists(place / "strata/torch.h", error)) return fs::canonical(place).string();
  }
  fail(ErrorKind::NotImplemented,
       fmt::format("load_inline: the C++ headers of Strata are not installed; expected strata/torch.h in "
                   "{}/include",
                   lib.parent_path().string()));
}

// Identifies the headers by their contents.
const std::string& header_identity(const std::string& folder) {
  static const auto* text = new std::string([&] {
    Texts files;
    for (const auto& entry : fs::recursive_directory_iterator(folder + "/strata"))
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    std::ranges::sort(files);
    std::string all;
    for (const std::string& file : files) all += file.substr(folder.size()) + "\n" + content_of(file);
    return hash_of(all);
  }());
  return *text;
}

constexpr const char* kPrefix = "#include <strata/torch.h>\n";

Texts base_flags(const std::string& headers) {
  return {"-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-I" + headers};
}

// The headers, compiled once: otherwise they take several seconds each time. "" if that fails, with Clang, or if there is
// no cache; then the prefix is compiled from its text.
std::string precompiled_prefix(const std::string& cache, const Compiler& compiler, const Texts& flags,
                               const std::string& headers) {
  // Clang's file has the path of its source, which is renamed here.
  if (cache.empty() || compiler.version.find("clang") != compiler.version.npos) return "";
  std::string all = compiler.version + header_identity(headers);
  for (const std::string& flag : flags) all += "\n" + flag;
  const std::string folder = cache + "/headers-" + hash_of(all).substr(0, 32), file = folder + "/prefix.h";
  if (fs::exists(file)) return file;
  static auto* one_at_a_time = new std::mutex;
  const std::lock_guard lock(*one_at_a_time);
  if (fs::exists(file)) return file;
  try {
    WorkFolder work(cache);
    write_file(work.path() + "/prefix.h", kPrefix);
    Texts words = compiler.words;
    words.insert(words.end(), flags.begin(), flags.end());
    for (const char* word : {"-x", "c++-header", "prefix.h", "-o", "prefix.h.gch"}) words.emplace_back(word);
    std::string why;
    if (run_program(words, work.path(), work.path() + "/log", why) != 0) return "";
    work.move_to(folder);
    return file;
  } catch (const Error&) { return ""; }  // a full disk, a folder that cannot be written
}

std::string cache_for_extensions(const std::string& own) {
  if (!own.empty()) return own;
  const std::string folder = cache_folder();
  if (folder.empty()) return "";
  std::error_code error;
  fs::create_directories(folder + "/extensions", error);
  return error || access((folder + "/extensions").c_str(), W_OK) != 0 ? "" : folder + "/extensions";
}

// Files of the user may change between two compilations, and their contents are not part of the key.
bool reads_other_files(const HostUnit& unit) {
  return unit.text.find("#include \"/") != unit.text.npos || std::ranges::any_of(unit.flags, [](const std::string& f) {
           return f.starts_with("-I") || f.starts_with("-include") || f.starts_with("-isystem") ||
                  f.starts_with("-iquote");
         });
}
}  // namespace

HostLibrary build_library(const HostUnit& unit, bool again) {
  const Compiler compiler = find_compiler();
  const std::string headers = header_folder(), library = library_path();
  const bool reads = reads_other_files(unit);
  const std::string cache = reads && unit.folder.empty() ? "" : cache_for_extensions(unit.folder);
  const Texts flags = base_flags(headers);

  std::string all = compiler.version + header_identity(headers) + library + "\n" + unit.name;
  for (const Texts* list : {&flags, &unit.flags, &unit.link_flags})
    for (const std::string& flag : *list) all += "\nflag " + hash_of(flag);
  const std::string key = hash_of(all + "\n" + unit.text).substr(0, 32);
  const std::string file = unit.name + ".so",
                    kept = cache.empty() ? "" : fmt::format("{}/{}-{}", cache, unit.name, key);
  if (!kept.empty()) {
    if (again || reads) {
      std::error_code ignored;
      fs::remove_all(kept, ignored);
    }
    if (fs::exists(kept + "/" + file)) return {kept + "/" + file, false, ""};
  }

  const std::string prefix = precompiled_prefix(cache_for_extensions(""), compiler, flags, headers);
  auto work = std::make_unique<WorkFolder>(cache.empty() ? fs::temp_directory_path().string() : cache);
  for (const auto& [name, text] : unit.files) write_file(work->path() + "/" + name, text);
  write_file(work->path() + "/unit.cpp", (prefix.empty() ? kPrefix : "") + unit.text);
  Texts words = compiler.words;
  words.insert(words.end(), flags.begin(), flags.end());
  if (!prefix.empty()) {
    words.emplace_back("-include");
    words.push_back(prefix);
  }
  words.insert(words.end(), unit.flags.begin(), unit.flags.end());
  // Some compilers link the C++ library statically. Its symbols stay inside then: two copies that share some of their
  // objects crash.
  for (const std::string& word :
       {std::string("-shared"), std::string("unit.cpp"), std::string("-o"), file, library,
        "-Wl,-rpath," + fs::path(library).parent_path().string(), std::string("-Wl,--exclude-libs,ALL")})
    words.push_back(word);
  words.insert(words.end(), unit.link_flags.begin(), unit.link_flags.end());

  const std::string log_file = work->path() + "/log";
  std::string why;
  const int status = run_program(words, work->path(), log_file, why);
  STRATA_CHECK(status >= 0, Runtime, "load_inline: {}", why);
  if (status != 0) {
    const std::string log = content_of(log_file);
    throw CompileError(fmt::format("{} does not compile ({}):\n{}", unit.name, compiler.words[0], log), log);
  }
  if (kept.empty()) {
    const std::string folder = work->path();
    HostLibrary made{folder + "/" + file, true, folder};
    static_cast<void>(work.release());  // removed after loading
    return made;
  }
  work->move_to(kept);
  return {kept + "/" + file, true, ""};
}

}  // namespace strata::cuda
