// Checks of Python packages, and of an installed PyTorch.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "system/doctor/check.h"

namespace strata::doctor {
namespace {

// 13 of "nvidia-cublas-cu13"; 0: none.
int cuda_of_package(const std::string& name) {
  if (!name.starts_with("nvidia-")) return 0;
  const size_t at = name.rfind("-cu");
  const Version n = at == name.npos ? Version{} : numbers_in(name.substr(at), "-cu");
  return n.empty() ? 0 : n[0];
}

// The oldest driver for a version of CUDA, on Linux: by major version, minor versions are compatible.
struct Needs {
  int cuda;
  const char* driver;
};
constexpr Needs kNeeds[] = {{10, "410.48"}, {11, "450.80.02"}, {12, "525.60.13"}, {13, "580.65.06"}};

const char* driver_for(int cuda) {
  for (const Needs& n : kNeeds)
    if (n.cuda == cuda) return n.driver;
  return "a newer one";
}

bool gpu_works(const Facts& f) { return f.driver.count > 0; }

constexpr Check kPython[] = {
  {"python.cpu-only-torch", kWarning, "PyTorch is installed without CUDA on a machine with a GPU",
   "The wheel of the index https://download.pytorch.org/whl/cpu, or one built without CUDA, never sees a GPU. Strata "
   "does not "
   "need PyTorch; programs that use both do.",
   "pip uninstall torch\npip install torch --index-url https://download.pytorch.org/whl/cu126",
   [](const Facts& f, Evidence& found) {
     const bool nix = f.m().resolve(f.torch.folder).starts_with("/nix/store/");
     if (f.gpu_expected && f.torch.found && f.torch.cuda.empty() && !f.torch.hip && !f.torch.has_cuda_library && !nix)
       found.push_back(fmt::format("torch {} in {}", f.torch.version, f.torch.folder));
   }},
  {"python.mixed-cuda-wheels", kWarning, "Packages for different CUDA versions are installed together",
   "They share the folder nvidia/ and overwrite each other's files, or a program opens one of each.",
   "pip list | grep -i nvidia\npip uninstall -y <the packages of the version that is not used>",
   [](const Facts& f, Evidence& found) {
     std::set<std::pair<std::string, int>> seen;
     for (const Package& p : f.packages)
       if (const int cuda = cuda_of_package(p.name)) seen.insert({p.folder, cuda});
     for (auto a = seen.begin(); a != seen.end(); ++a)
       if (const auto b = std::next(a); b != seen.end() && b->first == a->first)
         found.push_back(fmt::format("{} has nvidia-…-cu{} and nvidia-…-cu{}", a->first, a->second, b->second));
   }},
  {"python.wheel-mismatch", kWarning, "A package of NVIDIA is not the version that PyTorch was built with",
   "torch names exact versions. Another package has replaced one: symbols are missing, or cuDNN reports a version "
   "mismatch.",
   "pip install --force-reinstall torch",
   [](const Facts& f, Evidence& found) {
     for (const auto& [name, wanted] : f.torch.requirements)
       for (const Package& p : f.packages)
         if (p.name == name && p.folder == folder_of(f.torch.folder) && p.text != wanted)
           found.push_back(fmt::format("{} {} is installed, torch {} needs {}", name, p.text, f.torch.version, wanted));
   }},
  {"python.duplicate-package", kWarning, "A package is installed twice",
   "The first folder of sys.path wins. pip may upgrade the other one.",
   "python3 -c 'import torch; print(torch.__file__)'\npip uninstall torch  # until it says that it is not installed",
   [](const Facts& f, Evidence& found) {
     for (const char* name : {"torch", "strata", "tensorrt"}) {
       std::string places;
       size_t count = 0;
       for (const Package& p : f.packages)
         if (p.name == name) {
           places += fmt::format("{}{} in {}", count ? ", " : "", p.text, p.folder);
           ++count;
         }
       if (count > 1) found.push_back(fmt::format("{}: {}", name, places));
     }
   }},
};

constexpr Check kTorch[] = {
  {"torch.missing", kWarning, "PyTorch is not installed",
   "No folder of Python packages has torch/version.py. Strata does not need it.", "pip install torch",
   [](const Facts& f, Evidence& found) {
     if (!f.torch.asked || f.torch.found) return;
     found.push_back(f.package_folders.empty()
                       ? "there are no folders of Python packages"
                       : "looked in " + f.package_folders[0] + (f.package_folders.size() > 1 ? " and others" : ""));
   }},
  {"torch.cpu-only", kError, "torch.cuda.is_available() is False: this PyTorch was built without CUDA",
   "torch.version.cuda is None. The wheel of macOS and Windows on PyPI, the index .../whl/cpu, conda's cpuonly and "
   "nixpkgs "
   "without cudaSupport are such builds. No driver or toolkit changes that.",
   "pip uninstall torch\npip install torch --index-url https://download.pytorch.org/whl/cu126",
   [](const Facts& f, Evidence& found) {
     if (f.torch.asked && f.torch.found && f.torch.cuda.empty() && !f.torch.hip)
       found.push_back(fmt::format("torch {} in {}", f.torch.version, f.torch.folder));
   }},
  {"torch.driver-too-old", kError, "The driver is too old for this PyTorch",
   "The wheel has the CUDA runtime inside, and needs a driver for its major version of CUDA. The toolkit that is "
   "installed "
   "on the machine does not matter.",
   "sudo apt-get install nvidia-driver  # a newer one\n# or a wheel for an older CUDA: "
   "https://pytorch.org/get-started/previous-versions",
   [](const Facts& f, Evidence& found) {
     const Version wheel = numbers_in(f.torch.cuda);
     if (f.torch.asked && !wheel.empty() && !f.driver.cuda.empty() && wheel[0] > f.driver.cuda[0])
       found.push_back(
         fmt::format("torch {} was built for CUDA {} and needs driver {} or newer; the driver supports CUDA {}",
                     f.torch.version, f.torch.cuda, driver_for(wheel[0]), to_text(f.driver.cuda)));
   }},
  {"torch.architecture-missing", kError, "This PyTorch has no kernels for a GPU of this machine",
   "\"no kernel image is available for execution on the device\": wheels leave out old GPUs, and new GPUs need a new "
   "wheel.",
   "pip install --upgrade torch  # for a new GPU; an older release for an old one, see strata doctor --explain "
   "legacy-macos",
   [](const Facts& f, Evidence& found) {
     std::string all;
     for (const std::string& a : f.torch.architectures) all += (all.empty() ? "" : ", ") + a;
     for (const GpuFacts& g : f.gpus) {
       const int c = 10 * g.major + g.minor;
       const bool there =
         std::any_of(f.torch.architectures.begin(), f.torch.architectures.end(), [&](const std::string& a) {
           const Version n = numbers_in(a, "_");
           return !n.empty() && n[0] <= c && (a.starts_with("compute_") || n[0] / 10 == c / 10);
         });
       if (!all.empty() && !there)
         found.push_back(fmt::format("{} is sm_{}, torch {} has {}", g.name, c, f.torch.version, all));
     }
   }},
  {"torch.import-fails", kError, "import torch fails",
   "Its libraries do not load: a package of NVIDIA is missing or of another version, LD_LIBRARY_PATH has other "
   "libraries, "
   "or Python's version is not the wheel's.",
   "python3 -c 'import torch'\nenv -u LD_LIBRARY_PATH python3 -c 'import torch'\npip install --force-reinstall torch",
   [](const Facts& f, Evidence& found) {
     if (f.torch.asked && f.torch.found && !f.torch.failure.empty())
       found.push_back(fmt::format("{}: {}", f.torch.python, f.torch.failure));
   }},
  {"torch.cuda-unavailable", kError, "torch.cuda.is_available() is False",
   "The wheel has CUDA, and PyTorch could not start it. The findings of the driver and the environment above say why.",
   "strata doctor --section driver --section environment\npython3 -c 'import torch; torch.cuda.init()'",
   [](const Facts& f, Evidence& found) {
     const TorchFacts& t = f.torch;
     const Version wheel = numbers_in(t.cuda);
     if (!t.asked || !t.found || !t.failure.empty() || t.available || wheel.empty()) return;
     if (!f.driver.cuda.empty() && wheel[0] > f.driver.cuda[0]) return;
     found.push_back(t.reason.empty() ? "PyTorch does not say why" : first_line(t.reason));
     if (!gpu_works(f)) found.push_back("Strata sees no NVIDIA GPU either");
   }},
};

}  // namespace

std::span<const Check> python_checks() { return kPython; }
std::span<const Check> torch_checks() { return kTorch; }

}  // namespace strata::doctor
