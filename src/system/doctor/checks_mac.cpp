// Checks of macOS, whose last version with CUDA is 10.13, and the topics of --explain.
#include <fmt/core.h>

#include "system/doctor/check.h"

namespace strata::doctor {
namespace {

// The text after a key of a property list: "<key>ProductVersion</key> <string>10.13.6</string>".
std::string plist_value(const std::string& text, const std::string& key) {
  const size_t at = text.find("<key>" + key + "</key>");
  const size_t open = at == text.npos ? text.npos : text.find("<string>", at);
  const size_t close = open == text.npos ? text.npos : text.find("</string>", open);
  return close == text.npos ? "" : text.substr(open + 8, close - open - 8);
}

std::string system_value(const Facts& f, const char* key) {
  return plist_value(f.m().read("/System/Library/CoreServices/SystemVersion.plist"), key);
}
constexpr const char* kWebDriver = "/Library/Extensions/NVDAStartupWeb.kext/Contents/Info.plist";

bool has_cuda(const Facts& f) { return f.mac && numbers_in(system_value(f, "ProductVersion")) < Version{10, 14}; }

constexpr Check kMac[] = {
  {"mac.no-cuda", kWarning, "This version of macOS has no CUDA",
   "NVIDIA's last driver for macOS is for 10.13, and its last toolkit is CUDA 10.2. Apple's GPUs have Metal (MPS in "
   "PyTorch). "
   "Strata's devices here are cpu and vgpu.",
   "# PyTorch: device=\"mps\"; for CUDA a machine with Linux or Windows and an NVIDIA GPU, or a notebook in the cloud",
   [](const Facts& f, Evidence& found) {
     if (f.mac && !has_cuda(f)) found.push_back("macOS " + system_value(f, "ProductVersion"));
   }},
  {"mac.webdriver-missing", kError, "NVIDIA's web driver is not installed",
   "macOS 10.13 has no driver for Pascal GPUs by itself. The web driver must be that of the build of macOS.",
   "sw_vers -buildVersion\n# install the web driver of that build, then CUDA 10.2's driver",
   [](const Facts& f, Evidence& found) {
     if (has_cuda(f) && !f.m().exists(kWebDriver))
       found.push_back("/Library/Extensions/NVDAStartupWeb.kext does not exist");
   }},
  {"mac.webdriver-mismatch", kError, "NVIDIA's web driver is for another build of macOS",
   "The driver only starts on the build that it was made for. A security update of macOS changes the build.",
   "sw_vers -buildVersion\n# install the web driver of that build and restart",
   [](const Facts& f, Evidence& found) {
     const std::string wanted = plist_value(f.m().read(kWebDriver), "NVDARequiredOS");
     const std::string build = system_value(f, "ProductBuildVersion");
     if (has_cuda(f) && !wanted.empty() && wanted != build)
       found.push_back(fmt::format("the driver needs build {}, this is {}", wanted, build));
   }},
  {"mac.sip", kError, "System Integrity Protection keeps NVIDIA's kernel extensions from being loaded",
   "The extensions must be allowed once in Security & Privacy, or the protection of extensions be switched off from "
   "the "
   "recovery system.",
   "csrutil status\n# restart with Cmd-R, then: csrutil enable --without kext",
   [](const Facts& f, Evidence& found) {
     if (has_cuda(f) && f.m().variable("SIP_STATUS") == "enabled") found.push_back("SIP_STATUS=enabled");
   }},
  {"mac.cudart-missing", kError, "libcudart.dylib is not installed",
   "ImportError: Library not loaded: @rpath/libcudart.10.2.dylib. The toolkit 10.2 puts it into /usr/local/cuda/lib.",
   "ls /usr/local/cuda/lib/libcudart*\nexport DYLD_LIBRARY_PATH=/usr/local/cuda/lib:$DYLD_LIBRARY_PATH",
   [](const Facts& f, Evidence& found) {
     if (!has_cuda(f)) return;
     for (const std::string& name : f.m().list("/usr/local/cuda/lib"))
       if (name.starts_with("libcudart.")) return;
     found.push_back("/usr/local/cuda/lib has no libcudart");
   }},
  {"mac.library-path", kError, "DYLD_LIBRARY_PATH lacks CUDA's folder",
   "Programs that were linked without its path do not find libcudart and libcudnn. SIP removes the variable for "
   "programs of "
   "the system, /usr/bin/python among them.",
   "export DYLD_LIBRARY_PATH=/usr/local/cuda/lib:$DYLD_LIBRARY_PATH",
   [](const Facts& f, Evidence& found) {
     if (has_cuda(f) && f.m().exists("/usr/local/cuda/lib") &&
         f.m().variable("DYLD_LIBRARY_PATH").find("/usr/local/cuda") == std::string::npos)
       found.push_back(fmt::format("DYLD_LIBRARY_PATH=\"{}\"", f.m().variable("DYLD_LIBRARY_PATH")));
   }},
  {"mac.cudnn-version", kError, "cuDNN is not the version for CUDA 10.2",
   "PyTorch 1.7 was built with cuDNN 7.6. Another major version lacks the symbols that it needs.",
   "# unpack cuDNN 7.6.5 for CUDA 10.2 and macOS into /usr/local/cuda",
   [](const Facts& f, Evidence& found) {
     if (!has_cuda(f)) return;
     for (const std::string& name : f.m().list("/usr/local/cuda/lib")) {
       const Version v = numbers_in(name, "libcudnn.");
       if (!v.empty() && v[0] != 7) found.push_back("/usr/local/cuda/lib/" + name);
     }
   }},
};

constexpr Topic kTopics[] = {
  {"legacy-macos", R"(macOS 10.13, CUDA 10.2, a Pascal GPU (sm_61) and PyTorch 1.7

Can it still work? Yes, if every part is of one set: the last one that NVIDIA and PyTorch made for macOS.
  macOS      10.13.6, build 17G…; 10.14 and later have no NVIDIA driver
  driver     NVIDIA web driver 387.10.10.10.40.x, of exactly this build   (checks mac.webdriver-missing, -mismatch)
  extensions allowed in Security & Privacy                                (check mac.sip)
  toolkit    CUDA 10.2 in /usr/local/cuda, with Xcode 10.1                (check mac.cudart-missing)
  cuDNN      7.6.5 for CUDA 10.2                                          (check mac.cudnn-version)
  PyTorch    1.7.0, built from source: there is no wheel with CUDA for macOS
             CUDA_HOME=/usr/local/cuda TORCH_CUDA_ARCH_LIST=6.1 USE_CUDA=1 python setup.py install
  Python     3.6 to 3.8
  paths      DYLD_LIBRARY_PATH=/usr/local/cuda/lib                        (check mac.library-path)

torch.cuda.is_available() is False? In this order: the web driver runs (kextstat | grep NVDA), libcuda and libcudart are
found, PyTorch was built with CUDA (torch.version.cuda), and its architectures have sm_61 (torch.cuda.get_arch_list()).

nvcc is not found? export PATH=/usr/local/cuda/bin:$PATH
"no kernel image is available"? PyTorch was built without 6.1 in TORCH_CUDA_ARCH_LIST.
A symbol of cuDNN is missing? Another cuDNN is found first: otool -L libtorch_cuda.dylib

Strata has no Metal back end and does not run on these GPUs under macOS: its driver interface is that of CUDA 12. A
Pascal GPU (sm_61) works under Linux with driver 525 to 580, which CUDA 12 supports, if Strata is built with
CUDA_ARCHS=61; drivers after 580 do not support Pascal. On any machine, device vgpu runs the same kernels on the CPU:
`strata explain add 'f(3)' --device vgpu` shows the way of one call, and `strata train --device vgpu` a training.
)"},
  {"is-available", R"(Why is torch.cuda.is_available() False?

It is True if all of these hold; `strata doctor --torch` looks at them in this order.
  1. PyTorch was built with CUDA: torch.version.cuda is not None              torch.cpu-only, container.nix-cpu-only-torch
  2. the kernel has loaded NVIDIA's module, of the version of libcuda         driver.module-not-loaded, driver.version-mismatch
  3. this process may open /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidia0   driver.permissions, container.no-gpu
  4. the driver is new enough for the CUDA of the wheel                       torch.driver-too-old
  5. CUDA_VISIBLE_DEVICES leaves a GPU                                        environment.visible-devices-hide
The toolkit and nvcc are not needed. A GPU that is seen may still lack kernels: torch.architecture-missing.
)"},
  {"versions", R"(Which versions must match?

  driver           runs every CUDA up to its own: nvidia-smi shows it as "CUDA Version". 12.x needs driver 525, 13.x 580
  CUDA runtime     comes with a program (PyTorch's wheel has it inside); its major version must not be above the driver's
  toolkit, nvcc    needed to build only; need not match the wheel's runtime, except when building extensions for it
  machine code     sm_86 runs on 8.6 and 8.9, not on 9.0: same major version, same or newer minor version
  PTX              compute_80 runs on 8.0 and everything newer; the driver compiles it at the first launch
  cuDNN            9.x for CUDA 12 and 13; its parts must be of one release
  cuBLAS           together with cuBLASLt of the same release
)"},
};

}  // namespace

std::span<const Check> mac_checks() { return kMac; }
std::span<const Topic> all_topics() { return kTopics; }

}  // namespace strata::doctor
