// Checks of environment variables.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "system/doctor/check.h"

namespace strata::doctor {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 6 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// "9.0", "9.0a", "8.6+PTX", "Hopper": the forms of TORCH_CUDA_ARCH_LIST.
bool is_torch_architecture(std::string text) {
  if (text.ends_with("+PTX")) text.resize(text.size() - 4);
  if (!text.empty() && (text.back() == 'a' || text.back() == 'f') && text.find('.') != text.npos) text.pop_back();
  const size_t dot = text.find('.');
  if (dot != text.npos) return is_number(text.substr(0, dot)) && is_number(text.substr(dot + 1));
  for (const char* name : {"Kepler", "Kepler+Tesla", "Maxwell", "Maxwell+Tegra", "Pascal", "Volta", "Turing", "Ampere",
                           "Ada", "Hopper", "Blackwell", "Blackwell+Tegra", "All", "Common", "Auto"})
    if (text == name) return true;
  return false;
}

// "90", "90a-real", "native": the forms of CMAKE_CUDA_ARCHITECTURES.
bool is_cmake_architecture(std::string text) {
  for (const char* end : {"-real", "-virtual"})
    if (text.ends_with(end)) text.resize(text.size() - std::string(end).size());
  if (!text.empty() && (text.back() == 'a' || text.back() == 'f')) text.pop_back();
  return is_number(text) || text == "native" || text == "all" || text == "all-major" || text == "OFF";
}

std::vector<std::string> listed(const Facts& f, const char* name) {
  std::string text = f.m().variable(name);
  std::replace(text.begin(), text.end(), ';', ' ');
  std::replace(text.begin(), text.end(), ',', ' ');
  return split(text, ' ');
}

// The GPUs that CUDA_VISIBLE_DEVICES leaves; -1: it cannot be told.
int visible(const Facts& f, std::string& bad) {
  const int all = static_cast<int>(f.m().list("/proc/driver/nvidia/gpus").size());
  int count = 0;
  for (const std::string& one : split(f.m().variable("CUDA_VISIBLE_DEVICES"), ',')) {
    const std::string text = trimmed(one);
    if (text.starts_with("GPU-") || text.starts_with("MIG-")) return -1;
    if (!is_number(text) || (all > 0 && std::stoi(text) >= all)) {
      bad = text;
      return count;
    }
    ++count;
  }
  return count;
}

constexpr Check kEnvironment[] = {
  {"environment.visible-devices-hide", kError, "CUDA_VISIBLE_DEVICES hides all GPUs",
   "An empty value, or one that begins with a number that does not exist, leaves no GPU. It must be set before the "
   "program uses a GPU for the first time.",
   "unset CUDA_VISIBLE_DEVICES",
   [](const Facts& f, Evidence& found) {
     std::string bad;
     if (f.m().is_set("CUDA_VISIBLE_DEVICES") && f.gpu_expected && visible(f, bad) == 0)
       found.push_back(fmt::format("CUDA_VISIBLE_DEVICES=\"{}\"", f.m().variable("CUDA_VISIBLE_DEVICES")));
   }},
  {"environment.visible-devices-invalid", kWarning, "CUDA_VISIBLE_DEVICES has an entry that does not exist",
   "The driver ignores it and all entries after it, without a message.", "nvidia-smi -L\nexport CUDA_VISIBLE_DEVICES=0",
   [](const Facts& f, Evidence& found) {
     std::string bad;
     if (f.m().is_set("CUDA_VISIBLE_DEVICES") && f.gpu_expected && visible(f, bad) > 0 && !bad.empty())
       found.push_back(
         fmt::format("\"{}\" in CUDA_VISIBLE_DEVICES=\"{}\"", bad, f.m().variable("CUDA_VISIBLE_DEVICES")));
   }},
  {"environment.cuda-home-missing", kWarning, "A variable names a CUDA toolkit that does not exist",
   "Builds of extensions look there first, and CMake then reports that it could NOT find CUDA.",
   "export CUDA_HOME=/usr/local/cuda\nunset CUDA_PATH CUDA_ROOT CUDA_TOOLKIT_ROOT_DIR",
   [](const Facts& f, Evidence& found) {
     for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "CUDA_NVCC_EXECUTABLE"})
       if (const std::string value = f.m().variable(name); !value.empty() && !f.m().exists(value))
         found.push_back(fmt::format("{}={}", name, value));
   }},
  {"environment.cuda-home-conflict", kWarning, "CUDA_HOME and CUDA_PATH name different toolkits",
   "Some build tools read one, some the other.", "export CUDA_PATH=$CUDA_HOME",
   [](const Facts& f, Evidence& found) {
     const std::string a = f.m().resolve(f.m().variable("CUDA_HOME")), b = f.m().resolve(f.m().variable("CUDA_PATH"));
     if (f.m().is_set("CUDA_HOME") && f.m().is_set("CUDA_PATH") && !a.empty() && !b.empty() && a != b)
       found.push_back(fmt::format("CUDA_HOME={}, CUDA_PATH={}", a, b));
   }},
  {"environment.architecture-format", kWarning, "A list of GPU architectures is not written as its reader expects",
   "TORCH_CUDA_ARCH_LIST wants \"9.0\", CMAKE_CUDA_ARCHITECTURES \"90\"; neither takes \"sm_90\".",
   "export TORCH_CUDA_ARCH_LIST=9.0\nexport CMAKE_CUDA_ARCHITECTURES=90",
   [](const Facts& f, Evidence& found) {
     for (const std::string& one : listed(f, "TORCH_CUDA_ARCH_LIST"))
       if (!is_torch_architecture(one)) found.push_back(fmt::format("\"{}\" in TORCH_CUDA_ARCH_LIST", one));
     for (const char* name : {"CMAKE_CUDA_ARCHITECTURES", "CUDAARCHS"})
       for (const std::string& one : listed(f, name))
         if (!is_cmake_architecture(one)) found.push_back(fmt::format("\"{}\" in {}", one, name));
   }},
  {"environment.architecture-missing", kWarning, "TORCH_CUDA_ARCH_LIST lacks a GPU of this machine",
   "Extensions that are built now have no kernels for it: \"no kernel image is available for execution on the "
   "device\".",
   "export TORCH_CUDA_ARCH_LIST=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | paste -sd';')",
   [](const Facts& f, Evidence& found) {
     const std::vector<std::string> list = listed(f, "TORCH_CUDA_ARCH_LIST");
     for (const GpuFacts& g : f.gpus) {
       const bool there = std::any_of(list.begin(), list.end(), [&](const std::string& one) {
         const Version v = numbers_in(one);
         if (v.size() < 2) return !is_number(one.substr(0, 1));  // a name, such as Hopper
         const bool later = v[0] < g.major || (v[0] == g.major && v[1] <= g.minor);
         return later && (v[0] == g.major || one.ends_with("+PTX"));
       });
       if (!list.empty() && !there)
         found.push_back(fmt::format("{} has compute capability {}, TORCH_CUDA_ARCH_LIST={}", g.name, g.capability(),
                                     f.m().variable("TORCH_CUDA_ARCH_LIST")));
     }
   }},
  {"environment.library-path", kWarning, "LD_LIBRARY_PATH names CUDA folders that do not exist",
   "It is left from a toolkit that was removed. Libraries are then found elsewhere, in another version, or not at all.",
   "unset LD_LIBRARY_PATH",
   [](const Facts& f, Evidence& found) {
     for (const std::string& folder : split(f.m().variable("LD_LIBRARY_PATH"), ':'))
       if (!f.m().exists(folder) && (folder.find("cuda") != folder.npos || folder.find("cudnn") != folder.npos ||
                                     folder.find("nvidia") != folder.npos))
         found.push_back(folder);
   }},
  {"environment.preload", kWarning, "LD_PRELOAD replaces a CUDA library",
   "The preloaded file is used by every program, whatever version it was made for.", "unset LD_PRELOAD",
   [](const Facts& f, Evidence& found) {
     std::string text = f.m().variable("LD_PRELOAD");
     std::replace(text.begin(), text.end(), ' ', ':');
     for (const std::string& file : split(text, ':'))
       for (const char* name : {"libcuda", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvrtc"})
         if (base_name(file).starts_with(name)) found.push_back(file);
   }},
  {"environment.launch-blocking", kWarning, "CUDA_LAUNCH_BLOCKING=1 makes every launch wait",
   "It helps to find the line of a fault. Programs run much slower while it is set.", "unset CUDA_LAUNCH_BLOCKING",
   [](const Facts& f, Evidence& found) {
     if (f.m().variable("CUDA_LAUNCH_BLOCKING") == "1") found.push_back("CUDA_LAUNCH_BLOCKING=1");
   }},
  {"environment.jit", kWarning, "A variable changes how the driver compiles PTX",
   "CUDA_FORCE_PTX_JIT compiles everything at each start, CUDA_DISABLE_PTX_JIT refuses kernels without machine code, "
   "CUDA_CACHE_DISABLE forgets what was compiled.",
   "unset CUDA_FORCE_PTX_JIT CUDA_DISABLE_PTX_JIT CUDA_CACHE_DISABLE CUDA_DISABLE_JIT",
   [](const Facts& f, Evidence& found) {
     for (const char* name : {"CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT", "CUDA_DISABLE_JIT", "CUDA_CACHE_DISABLE"})
       if (f.m().variable(name) == "1") found.push_back(fmt::format("{}=1", name));
   }},
  {"environment.tf32-override", kWarning, "NVIDIA_TF32_OVERRIDE changes the numbers of products",
   "NVIDIA's libraries then use TF32, with 10 bits of mantissa, for all float32 products, or for none, whatever a "
   "program "
   "asks for.",
   "unset NVIDIA_TF32_OVERRIDE",
   [](const Facts& f, Evidence& found) {
     if (f.m().is_set("NVIDIA_TF32_OVERRIDE"))
       found.push_back("NVIDIA_TF32_OVERRIDE=" + f.m().variable("NVIDIA_TF32_OVERRIDE"));
   }},
  {"environment.slow-settings", kWarning, "A variable of Strata for tests and debugging is set",
   "It makes programs slower, or switches kernels off.",
   "unset STRATA_CUDA_FORCE_PTX STRATA_NO_ONEDNN STRATA_NO_WINOGRAD STRATA_GUARD_PAGES STRATA_VGPU_CHECK",
   [](const Facts& f, Evidence& found) {
     for (const char* name : {"STRATA_CUDA_FORCE_PTX", "STRATA_NO_ONEDNN", "STRATA_NO_WINOGRAD", "STRATA_GUARD_PAGES",
                              "STRATA_VGPU_CHECK", "STRATA_VGPU_DELAYED"})
       if (const std::string value = f.m().variable(name); !value.empty() && value != "0")
         found.push_back(fmt::format("{}={}", name, value));
   }},
};

}  // namespace

std::span<const Check> environment_checks() { return kEnvironment; }

}  // namespace strata::doctor
