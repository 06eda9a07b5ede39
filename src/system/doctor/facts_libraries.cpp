// Facts about libraries and toolkits: every copy, in the order in which the loader and Strata look for them.
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "system/doctor/child.h"
#include "system/doctor/facts.h"

namespace strata::doctor {
namespace {

// How a library tells its version.
enum class Asks : uint8_t { Nothing, TwoNumbers, Decimal, Thousands, NcclNumber };

struct Known {
  const char* name;
  std::vector<std::string> files;  // without the numbers after ".so"
  const char* variable;
  const char* package;  // of PyPI, without "-cu12"
  const char* symbol;
  Asks asks;
};
const std::vector<Known>& known() {
  static const auto* list = new std::vector<Known>{
    {"CUDA runtime", {"libcudart.so"}, nullptr, "nvidia-cuda-runtime", "cudaRuntimeGetVersion", Asks::Thousands},
    {"NVRTC", {"libnvrtc.so"}, "STRATA_NVRTC", "nvidia-cuda-nvrtc", "nvrtcVersion", Asks::TwoNumbers},
    {"cuBLAS", {"libcublas.so"}, nullptr, "nvidia-cublas", nullptr, Asks::Nothing},
    {"cuBLASLt", {"libcublasLt.so"}, "STRATA_CUBLASLT", "nvidia-cublas", "cublasLtGetVersion", Asks::Decimal},
    {"cuDNN", {"libcudnn.so"}, "STRATA_CUDNN", "nvidia-cudnn", "cudnnGetVersion", Asks::Decimal},
    {"NCCL", {"libnccl.so"}, "STRATA_NCCL", "nvidia-nccl", "ncclGetVersion", Asks::NcclNumber},
    {"TensorRT", {"libnvinfer.so"}, nullptr, "tensorrt-libs", nullptr, Asks::Nothing},
  };
  return *list;
}

// Runs in a child: "ok 9 5 1", or "error …".
std::string ask_version(const std::string& file, const char* symbol, Asks asks) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    return "error " + first_line(why ? why : "unknown error");
  }
  if (asks == Asks::Nothing) return "ok";
  void* address = dlsym(library, symbol);
  if (!address) return fmt::format("error it has no {}", symbol);
  int a = 0, b = 0;
  switch (asks) {
    case Asks::TwoNumbers:
      if (reinterpret_cast<int (*)(int*, int*)>(address)(&a, &b) != 0) return "error it does not tell its version";
      return fmt::format("ok {} {}", a, b);
    case Asks::Thousands:
      if (reinterpret_cast<int (*)(int*)>(address)(&a) != 0) return "error it does not tell its version";
      return fmt::format("ok {} {}", a / 1000, a % 1000 / 10);
    case Asks::NcclNumber:
      if (reinterpret_cast<int (*)(int*)>(address)(&a) != 0) return "error it does not tell its version";
      return fmt::format("ok {} {} {}", a / 10000, a / 100 % 100, a % 100);
    default: break;
  }
  const size_t n = reinterpret_cast<size_t (*)()>(address)();
  // cuDNN before 9 counts 1000 * major + 100 * minor + patch.
  if (n < 10000) return fmt::format("ok {} {} {}", n / 1000, n / 100 % 10, n % 100);
  return fmt::format("ok {} {} {}", n / 10000, n / 100 % 100, n % 100);
}

void ask(const Facts& f, LibraryFacts& l, const Known& k, const GatherOptions& options) {
  const Copy* used = l.used();
  if (!used) return;
  l.version = used->version;
  if (!options.open_libraries) return;
  l.opened = true;
  const ChildResult answer =
    in_child([&] { return ask_version(f.m().on_disk(used->path), k.symbol, k.asks); }, options.seconds);
  const std::vector<std::string> words = split(answer.output, ' ');
  if (!answer.failure.empty() || words.empty()) {
    l.error = answer.failure.empty() ? "it does not answer" : answer.failure;
  } else if (words[0] != "ok") {
    l.error = answer.output.substr(6);
  } else if (words.size() > 1) {
    l.version.clear();
    for (size_t i = 1; i < words.size(); ++i) l.version.push_back(std::stoi(words[i]));
  }
}

// The version in the name of a file, "libcudnn.so.9.5.1"; empty if it has fewer than `least` numbers.
Version version_in_name(const std::string& path, size_t least) {
  const std::string name = base_name(path);
  const Version v = numbers_in(name, ".so.");
  return v.size() >= least ? v : Version{};
}

// The package of a file below site-packages/nvidia.
const Package* package_of(const Facts& f, const std::string& path) {
  for (const Known& k : known()) {
    const bool named = std::any_of(k.files.begin(), k.files.end(),
                                   [&](const std::string& file) { return base_name(path).starts_with(file); });
    if (!named) continue;
    for (const Package& p : f.packages)
      if ((p.name == k.package || p.name.starts_with(std::string(k.package) + "-cu")) &&
          path.starts_with(p.folder + "/"))
        return &p;
  }
  return nullptr;
}

}  // namespace

std::vector<SearchFolder> search_folders(const Facts& f) {
  const Machine& m = f.m();
  std::vector<SearchFolder> all;
  for (const std::string& folder : split(m.variable("LD_LIBRARY_PATH"), ':'))
    all.push_back({folder, "LD_LIBRARY_PATH"});
  std::vector<std::string> files{"/etc/ld.so.conf"};
  for (const std::string& name : m.list("/etc/ld.so.conf.d"))
    if (name.ends_with(".conf")) files.push_back("/etc/ld.so.conf.d/" + name);
  for (const std::string& file : files)
    for (const std::string& line : split(m.read(file), '\n'))
      if (const std::string folder = trimmed(line.substr(0, line.find('#'))); folder.starts_with('/'))
        all.push_back({folder, "the loader's cache"});
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
                             "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"})
    all.push_back({folder, "the system's folders"});
  for (const char* folder : {"/usr/local/cuda/lib64", "/usr/local/lib", "/usr/lib/wsl/lib", "/run/opengl-driver/lib"})
    all.push_back({folder, "a usual folder"});
  for (const std::string& packages : f.package_folders) {
    for (const std::string& name : m.list(packages + "/nvidia"))
      all.push_back({packages + "/nvidia/" + name + "/lib", "a Python package"});
    all.push_back({packages + "/tensorrt_libs", "a Python package"});
  }
  return all;
}

bool in_loader_cache(const Machine& m, const std::string& path) {
  const std::string cache = m.read("/etc/ld.so.cache", size_t{16} << 20);
  return cache.empty() || cache.find(path) != cache.npos;
}

std::vector<Copy> copies_of(const Facts& f, const std::vector<std::string>& names) {
  std::vector<Copy> found;
  const Machine& m = f.m();
  for (const SearchFolder& folder : search_folders(f)) {
    // The newest major version first, as Strata looks for them; of its files the shortest name, which programs open.
    std::vector<std::string> files;
    for (const std::string& file : m.list(folder.path))
      for (const std::string& name : names)
        if (file.starts_with(name + ".") && std::isdigit(static_cast<unsigned char>(file[name.size() + 1])))
          files.push_back(file);
    std::sort(files.begin(), files.end(), [](const std::string& a, const std::string& b) {
      const Version x = version_in_name(a, 1), y = version_in_name(b, 1);
      return x[0] != y[0] ? x[0] > y[0] : a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    for (const std::string& file : files) {
      Copy c{folder.path + "/" + file, m.resolve(folder.path + "/" + file), folder.why, {}};
      if (c.real.empty() || std::any_of(found.begin(), found.end(), [&](const Copy& o) { return o.real == c.real; }))
        continue;
      if (c.found_by == "the loader's cache" && !in_loader_cache(m, c.path))
        c.found_by = "a folder that ldconfig has not read";
      c.version = version_in_name(c.real, 2);
      if (const Package* p = package_of(f, c.path); c.version.empty() && p) c.version = p->version;
      if (c.version.empty()) c.version = version_in_name(c.real, 1);
      found.push_back(c);
    }
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const Copy& c) { return c.found_by != "a folder that ldconfig has not read"; });
  return found;
}

void gather_libraries(Facts& f, const GatherOptions& options) {
  const Machine& m = f.m();
  for (const Known& k : known()) {
    LibraryFacts l;
    l.name = k.name;
    l.copies = copies_of(f, k.files);
    if (k.variable) l.variable = m.variable(k.variable);
    if (!l.variable.empty()) {
      const std::string real = m.resolve(l.variable);
      std::erase_if(l.copies, [&](const Copy& c) { return !real.empty() && c.real == real; });
      if (real.empty()) {
        l.error = fmt::format("{} names {}, which does not exist", k.variable, l.variable);
        l.copies.clear();  // nothing else is tried
      } else l.copies.insert(l.copies.begin(), {l.variable, real, k.variable, version_in_name(real, 1)});
    }
    if (l.error.empty()) ask(f, l, k, options);
    f.libraries.push_back(std::move(l));
  }
}

void gather_toolkits(Facts& f) {
  const Machine& m = f.m();
  f.nvcc = program_on_path(m, "nvcc");
  const auto add = [&](const std::string& folder, const char* found_by) {
    const std::string real = m.resolve(folder);
    if (real.empty() ||
        !(m.exists(real + "/bin/nvcc") || m.exists(real + "/version.json") || m.exists(real + "/version.txt")))
      return;
    for (const Toolkit& t : f.toolkits)
      if (t.folder == real) return;
    Version v = numbers_in(m.read(real + "/version.txt"), "CUDA Version ");
    const std::string json = m.read(real + "/version.json");
    if (const size_t at = json.find("\"cuda\""); v.empty() && at != json.npos)
      v = numbers_in(json.substr(at), "\"version\" : \"");
    if (v.empty()) v = numbers_in(base_name(real), "cuda-");
    f.toolkits.push_back({real, v, found_by});
  };
  if (!f.nvcc.empty()) add(folder_of(folder_of(m.resolve(f.nvcc))), "PATH");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"})
    if (m.is_set(name)) add(m.variable(name), name);
  for (const std::string& name : m.list("/usr/local"))
    if (name.starts_with("cuda")) add("/usr/local/" + name, "/usr/local");
  add("/opt/cuda", "/opt/cuda");
  add("/Developer/NVIDIA", "/Developer/NVIDIA");
}

}  // namespace strata::doctor
