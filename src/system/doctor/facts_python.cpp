// Facts about Python packages, and about an installed PyTorch.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "system/doctor/child.h"
#include "system/doctor/facts.h"

namespace strata::doctor {
namespace {

// PyPI's form of a name: lower case, one dash in place of each run of "-", "_" and ".".
std::string normalized(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool separator = c == '-' || c == '_' || c == '.';
    if (separator && (out.empty() || out.back() == '-')) continue;
    out += separator ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

void add_folders_of(const Machine& m, const std::string& prefix, std::vector<std::string>& out) {
  for (const std::string& lib : {prefix + "/lib", prefix + "/local/lib"})
    for (const std::string& name : m.list(lib))
      if (name.starts_with("python3"))
        for (const char* kind : {"/site-packages", "/dist-packages"})
          if (const std::string folder = lib + "/" + name + kind; m.is_folder(folder)) out.push_back(folder);
}

std::vector<std::string> find_folders(const Machine& m) {
  std::vector<std::string> all;
  for (const std::string& folder : split(m.variable("PYTHONPATH"), ':'))
    if (m.is_folder(folder)) all.push_back(folder);
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (m.is_set(name)) add_folders_of(m, m.variable(name), all);
  if (m.is_set("HOME")) add_folders_of(m, m.variable("HOME") + "/.local", all);
  if (const std::string python = program_on_path(m, "python3"); !python.empty())
    add_folders_of(m, folder_of(folder_of(python)), all);
  add_folders_of(m, "/usr/local", all);
  add_folders_of(m, "/usr", all);
  std::vector<std::string> unique;
  for (const std::string& folder : all)
    if (std::find(unique.begin(), unique.end(), folder) == unique.end()) unique.push_back(folder);
  return unique;
}

// "Requires-Dist: nvidia-cudnn-cu12==9.1.0.70; platform_system == …"
std::map<std::string, std::string> requirements(const std::string& metadata) {
  std::map<std::string, std::string> found;
  for (const std::string& line : split(metadata, '\n')) {
    if (!line.starts_with("Requires-Dist: nvidia-")) continue;
    const std::string rest = line.substr(15);
    const size_t equal = rest.find("==");
    if (equal == rest.npos) continue;
    const size_t end = rest.find_first_of(";) ,", equal + 2);
    found[normalized(trimmed(rest.substr(0, rest.find_first_of("=( "))))] =
      trimmed(rest.substr(equal + 2, end == rest.npos ? end : end - equal - 2));
  }
  return found;
}

// The value of `name = 'text'` in a Python file; "" for None.
std::string assigned(const std::string& source, const std::string& name) {
  for (const std::string& line : split(source, '\n')) {
    if (!line.starts_with(name)) continue;
    const size_t equal = line.find('='), open = line.find_first_of("'\"", equal == line.npos ? 0 : equal);
    if (equal == line.npos || open == line.npos) continue;
    return line.substr(open + 1, line.find(line[open], open + 1) - open - 1);
  }
  return {};
}

constexpr const char* kAskTorch = R"(
import json
out = {}
try:
    import torch
    out["version"], out["cuda"] = str(torch.__version__), torch.version.cuda
    out["available"] = bool(torch.cuda.is_available())
    out["architectures"] = list(torch.cuda.get_arch_list()) if out["cuda"] else []
    if not out["available"]:
        try:
            torch.cuda.init()
        except Exception as e:
            out["reason"] = str(e)
    if not out.get("architectures") and out["cuda"]:
        out["architectures"] = torch._C._cuda_getArchFlags().split() if hasattr(torch._C, "_cuda_getArchFlags") else []
except BaseException as e:
    out["failure"] = type(e).__name__ + ": " + str(e)
print("\n" + json.dumps(out))
)";

}  // namespace

void gather_python(Facts& f, const GatherOptions& options) {
  const Machine& m = f.m();
  f.package_folders = options.package_folders.empty() ? find_folders(m) : options.package_folders;
  for (const std::string& folder : f.package_folders)
    for (const std::string& name : m.list(folder)) {
      const bool wheel = name.ends_with(".dist-info"), egg = name.ends_with(".egg-info");
      const size_t dash = name.find('-');
      if ((!wheel && !egg) || dash == name.npos) continue;
      Package p;
      p.name = normalized(name.substr(0, dash));
      p.folder = folder;
      p.text = name.substr(dash + 1, name.size() - dash - 1 - std::string(".dist-info").size() + (egg ? 1 : 0));
      if (egg) p.text = p.text.substr(0, p.text.find('-'));
      p.version = numbers_in(p.text);
      f.packages.push_back(std::move(p));
    }
  TorchFacts& t = f.torch;
  for (const std::string& folder : f.package_folders) {
    const std::string source = m.read(folder + "/torch/version.py");
    if (source.empty() || t.found) continue;
    t.found = true;
    t.folder = folder + "/torch";
    t.version = assigned(source, "__version__");
    t.cuda = assigned(source, "cuda");
    t.hip = !assigned(source, "hip").empty();
    t.has_cuda_library = m.exists(t.folder + "/lib/libtorch_cuda.so");
    for (const std::string& name : m.list(folder))
      if (name.starts_with("torch-") && name.ends_with(".dist-info"))
        t.requirements = requirements(m.read(folder + "/" + name + "/METADATA"));
  }
}

void gather_torch(Facts& f, const GatherOptions& options) {
  const Machine& m = f.m();
  TorchFacts& t = f.torch;
  t.asked = true;
  if (!t.found) return;
  // The interpreter of the environment that the package is in, or that on PATH.
  const std::string prefix = folder_of(folder_of(folder_of(folder_of(t.folder))));
  t.python = m.exists(prefix + "/bin/python3") ? prefix + "/bin/python3" : program_on_path(m, "python3");
  if (t.python.empty()) {
    t.failure = "there is no python3 to ask";
    return;
  }
  // By its own path: a virtual environment is known by the link that is started.
  const ChildResult answer =
    run_child({m.root() + t.python, "-c", kAskTorch}, m.variables(), false, std::max(options.seconds, 1e-3));
  const std::vector<std::string> lines = split(answer.output, '\n');
  const auto told = nlohmann::json::parse(lines.empty() ? "" : lines.back(), nullptr, false);
  if (!answer.failure.empty() || !told.is_object()) {
    t.failure = answer.failure.empty() ? "its answer is not readable" : answer.failure;
    return;
  }
  const auto text = [&](const char* key) {
    return told.contains(key) && told[key].is_string() ? told[key].get<std::string>() : "";
  };
  t.failure = text("failure");
  t.reason = text("reason");
  if (!text("version").empty()) {
    t.version = text("version");
    t.cuda = text("cuda");
  }
  t.available = told.contains("available") && told["available"] == true;
  if (told.contains("architectures") && told["architectures"].is_array())
    for (const auto& one : told["architectures"])
      if (one.is_string()) t.architectures.push_back(one.get<std::string>());
}

}  // namespace strata::doctor
