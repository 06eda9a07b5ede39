// Checks of containers, WSL, NixOS, conda and notebooks; of memory, disks and limits.
#include <fmt/core.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>

#include "system/doctor/check.h"

namespace strata::doctor {
namespace {

bool no_nodes(const Facts& f) {
  return !f.m().exists("/dev/nvidiactl") && !f.m().exists("/dev/nvidia0") && !f.m().exists("/dev/dxg");
}

// Tegra and WSL have other nodes; Colab has a check of its own.
bool contained(const Facts& f) { return !f.container.kind.empty() && !f.container.colab && !f.container.wsl; }

bool in_nix(const std::string& path) { return path.starts_with("/nix/store/"); }

std::string python_of(const Facts& f) { return f.m().resolve(program_on_path(f.m(), "python3")); }

constexpr Check kContainer[] = {
  {"container.no-gpu", kError, "The container was started without GPUs",
   "The machine has NVIDIA GPUs, but none of their device nodes is in this container. NVIDIA's container toolkit adds "
   "the "
   "nodes and the driver's libraries.",
   "docker run --gpus all …\n# on the host: sudo apt-get install nvidia-container-toolkit\n"
   "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
   [](const Facts& f, Evidence& found) {
     const std::string wanted = f.m().variable("NVIDIA_VISIBLE_DEVICES");
     if (contained(f) && f.gpu_expected && no_nodes(f) && wanted != "void" && wanted != "none")
       found.push_back(f.container.kind + ": no /dev/nvidia…");
   }},
  {"container.gpus-disabled", kError, "NVIDIA_VISIBLE_DEVICES keeps GPUs out of the container",
   "The container runtime adds the GPUs that it names: \"void\", \"none\" or nothing means none.",
   "docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=all …",
   [](const Facts& f, Evidence& found) {
     const std::string wanted = f.m().variable("NVIDIA_VISIBLE_DEVICES");
     if (contained(f) && no_nodes(f) && (wanted == "void" || wanted == "none"))
       found.push_back("NVIDIA_VISIBLE_DEVICES=" + wanted);
   }},
  {"container.capabilities", kError, "The container has GPUs without the driver's compute libraries",
   "NVIDIA_DRIVER_CAPABILITIES must have \"compute\", or libcuda is not in the container; \"utility\" adds nvidia-smi.",
   "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …",
   [](const Facts& f, Evidence& found) {
     if (contained(f) && !no_nodes(f) && !f.driver.library.used())
       found.push_back(fmt::format("NVIDIA_DRIVER_CAPABILITIES=\"{}\", and no libcuda.so.1",
                                   f.m().variable("NVIDIA_DRIVER_CAPABILITIES")));
   }},
  {"container.runtime-missing", kWarning, "Docker is installed without NVIDIA's container toolkit",
   "Containers on this machine cannot be given a GPU: \"could not select device driver with capabilities: [[gpu]]\".",
   "sudo apt-get install nvidia-container-toolkit\nsudo nvidia-ctk runtime configure --runtime=docker\n"
   "sudo systemctl restart docker",
   [](const Facts& f, Evidence& found) {
     const Machine& m = f.m();
     if (!f.container.kind.empty() || f.pci.empty()) return;
     const bool docker = m.exists("/usr/bin/dockerd") || m.exists("/usr/sbin/dockerd");
     const bool toolkit = m.exists("/usr/bin/nvidia-container-runtime") || m.exists("/usr/bin/nvidia-container-cli") ||
                          m.read("/etc/docker/daemon.json").find("nvidia") != std::string::npos;
     if (docker && !toolkit) found.push_back("/usr/bin/dockerd, and no nvidia-container-runtime");
   }},
  {"container.colab-without-gpu", kError, "This notebook has no GPU",
   "Colab gives a runtime without one unless it is asked.",
   "# Runtime -> Change runtime type -> GPU, then run the cells again",
   [](const Facts& f, Evidence& found) {
     if (f.container.colab && no_nodes(f)) found.push_back("Colab, and no /dev/nvidia0");
   }},
  {"container.wsl-no-device", kError, "WSL has no GPU",
   "/dev/dxg is the GPU of WSL 2. WSL 1, an old kernel of WSL, and Windows without NVIDIA's driver have none.",
   "wsl --update  # in Windows\nwsl --set-version <distribution> 2",
   [](const Facts& f, Evidence& found) {
     if (f.container.wsl && !f.m().exists("/dev/dxg")) found.push_back("/dev/dxg does not exist");
   }},
  {"container.wsl-no-library", kError, "WSL lacks the driver's library",
   "Windows puts libcuda into /usr/lib/wsl/lib when NVIDIA's driver for Windows is installed.",
   "# install NVIDIA's driver in Windows, then: wsl --shutdown",
   [](const Facts& f, Evidence& found) {
     if (f.container.wsl && f.m().exists("/dev/dxg") && !f.m().exists("/usr/lib/wsl/lib/libcuda.so.1"))
       found.push_back("/usr/lib/wsl/lib/libcuda.so.1 does not exist");
   }},
  {"container.wsl-linux-driver", kError, "A Linux driver hides the one of WSL",
   "In WSL the driver comes from Windows. libcuda of a Linux package is found first and cannot reach the GPU.",
   "sudo apt-get purge 'nvidia-driver-*' 'libcuda1' 'libnvidia-compute-*'\nsudo ldconfig",
   [](const Facts& f, Evidence& found) {
     const Copy* used = f.driver.library.used();
     if (f.container.wsl && used && !used->real.starts_with("/usr/lib/wsl/") &&
         f.m().exists("/usr/lib/wsl/lib/libcuda.so.1"))
       found.push_back(used->path + " is used before /usr/lib/wsl/lib/libcuda.so.1");
   }},
  {"container.nixos-driver", kError, "NixOS has no driver libraries for programs",
   "/run/opengl-driver/lib has libcuda on NixOS, if the graphics driver is enabled. Packages look there by "
   "addDriverRunpath.",
   "# configuration.nix: hardware.graphics.enable = true; services.xserver.videoDrivers = [ \"nvidia\" ];\n"
   "sudo nixos-rebuild switch",
   [](const Facts& f, Evidence& found) {
     if (f.container.nixos && f.gpu_expected && !f.m().exists("/run/opengl-driver/lib/libcuda.so.1"))
       found.push_back("/run/opengl-driver/lib/libcuda.so.1 does not exist");
   }},
  {"container.nix-python", kWarning, "Python of Nix does not find the driver of this system",
   "Programs of /nix/store use their own loader, which does not read /etc/ld.so.cache: libcuda of another distribution "
   "is not found by its name.",
   "nix run --impure github:nix-community/nixGL -- python3 program.py\n"
   "export LD_LIBRARY_PATH=/run/opengl-driver/lib  # on NixOS",
   [](const Facts& f, Evidence& found) {
     const Copy* used = f.driver.library.used();
     if (in_nix(python_of(f)) && !f.container.nixos && used && used->found_by != "LD_LIBRARY_PATH")
       found.push_back(fmt::format("{} is started, and libcuda is {}", python_of(f), used->path));
   }},
  {"container.nix-cpu-only-torch", kWarning, "PyTorch of nixpkgs was built without CUDA",
   "nixpkgs builds it with cudaSupport = false. overrideAttrs with USE_CUDA=1 only changes variables of the build: "
   "CMake "
   "then reports that it could NOT find CUDA. The option must be set with override first.",
   "# (python3Packages.pytorch.override { cudaSupport = true; }).overrideAttrs (old: { … })\n"
   "# or in the configuration: nixpkgs.config.cudaSupport = true;",
   [](const Facts& f, Evidence& found) {
     if (f.torch.found && f.torch.cuda.empty() && !f.torch.hip && in_nix(f.m().resolve(f.torch.folder)))
       found.push_back(f.torch.folder + " " + f.torch.version);
   }},
  {"container.conda-runtime", kWarning, "conda's C++ library is older than programs need",
   "In an active environment its libstdc++ is found before the system's: \"version `GLIBCXX_3.4.30' not found\".",
   "conda install -c conda-forge 'libstdcxx-ng>=12'",
   [](const Facts& f, Evidence& found) {
     const std::string file = f.m().variable("CONDA_PREFIX") + "/lib/libstdc++.so.6";
     const Version v = f.m().is_set("CONDA_PREFIX") ? numbers_in(base_name(f.m().resolve(file)), ".so.") : Version{};
     if (v.size() == 3 && v < Version{6, 0, 30}) found.push_back(fmt::format("{} is {}", file, f.m().resolve(file)));
   }},
  {"container.conda-cpu-build", kWarning, "conda installed PyTorch without CUDA",
   "The solver chose a CPU build: the package cpuonly is installed, or no build fits the driver (virtual package "
   "__cuda).",
   "conda remove cpuonly\nconda install pytorch pytorch-cuda=12.4 -c pytorch -c nvidia",
   [](const Facts& f, Evidence& found) {
     const std::string meta = f.m().variable("CONDA_PREFIX") + "/conda-meta";
     if (!f.m().is_set("CONDA_PREFIX")) return;
     for (const std::string& name : f.m().list(meta))
       if (name.starts_with("cpuonly-") || (name.starts_with("pytorch-") && name.find("_cpu") != name.npos) ||
           (name.starts_with("pytorch-") && name.find("cpu_") != name.npos))
         found.push_back(meta + "/" + name);
   }},
};

// --- memory, disks, limits ---------------------------------------------------------------------------------------------

std::string cache_folder(const Facts& f) {
  if (const std::string own = f.m().variable("STRATA_CACHE_DIR"); !own.empty()) return own;
  if (const std::string xdg = f.m().variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg;
  return f.m().is_set("HOME") ? f.m().variable("HOME") + "/.cache" : "";
}

// The nearest folder above that exists.
std::string existing(const Facts& f, std::string path) {
  while (!path.empty() && !f.m().exists(path)) path = folder_of(path);
  return path.empty() ? "/" : path;
}

uint64_t free_bytes(const Facts& f, const std::string& path) {
  struct statvfs s {};
  // The disk of another root is the one that it is a copy on; a file says otherwise.
  if (const std::string text = f.m().real() ? "" : f.m().read("/free_bytes"); !text.empty())
    return std::strtoull(text.c_str(), nullptr, 10);
  return ::statvfs(f.m().on_disk(path).c_str(), &s) == 0 ? static_cast<uint64_t>(s.f_bavail) * s.f_frsize : UINT64_MAX;
}

// "tmpfs /dev/shm tmpfs rw,size=65536k 0 0"
uint64_t shm_bytes(const Facts& f) {
  for (const std::string& line : split(f.m().read("/proc/mounts"), '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    const size_t at = line.find("size=");
    if (words.size() < 4 || words[1] != "/dev/shm" || at == line.npos) continue;
    const uint64_t n = std::strtoull(line.c_str() + at + 5, nullptr, 10);
    const size_t unit = line.find_first_not_of("0123456789", at + 5);
    const char u = unit == line.npos ? ' ' : line[unit];
    return n << (u == 'k' ? 10 : u == 'm' ? 20 : u == 'g' ? 30 : 0);
  }
  return 0;
}

constexpr Check kSystem[] = {
  {"system.cache-not-writable", kWarning, "The folder for compiled kernels and measured times cannot be written",
   "Kernels are compiled again in every process. STRATA_CACHE_DIR names another folder.",
   "export STRATA_CACHE_DIR=/tmp/strata-$USER",
   [](const Facts& f, Evidence& found) {
     const std::string folder = cache_folder(f);
     if (folder.empty()) found.push_back("neither STRATA_CACHE_DIR nor HOME is set");
     else if (const std::string there = existing(f, folder); !f.m().may_write(there)) found.push_back(there);
   }},
  {"system.disk-full", kWarning, "The disk of the home folder is nearly full",
   "Checkpoints and caches cannot be saved. A file that is being replaced keeps its old contents.",
   "df -h ~\nrm -r ~/.cache/strata  # compiled kernels; they are made again",
   [](const Facts& f, Evidence& found) {
     const std::string folder = existing(f, cache_folder(f));
     if (const uint64_t n = free_bytes(f, folder); n < (uint64_t{256} << 20))
       found.push_back(fmt::format("{}: {} MiB are free", folder, n >> 20));
   }},
  {"system.shared-memory-small", kWarning, "/dev/shm is small",
   "Data loader workers and NCCL exchange data through it. Containers get 64 MiB unless told otherwise: \"Bus error\", "
   "or "
   "NCCL's \"unhandled system error\".",
   "docker run --shm-size=8g …  # or --ipc=host",
   [](const Facts& f, Evidence& found) {
     if (const uint64_t n = shm_bytes(f); n > 0 && n <= (uint64_t{64} << 20))
       found.push_back(fmt::format("{} MiB", n >> 20));
   }},
  {"system.memory-limit", kWarning, "The container's memory limit is low",
   "A process that needs more is killed without a message (exit status 137).", "docker run --memory=16g …",
   [](const Facts& f, Evidence& found) {
     for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
       const std::string text = trimmed(f.m().read(file));
       if (text.empty() || text == "max") continue;
       if (const uint64_t n = std::strtoull(text.c_str(), nullptr, 10); n > 0 && n < (uint64_t{2} << 30))
         found.push_back(fmt::format("{}: {} MiB", file, n >> 20));
     }
   }},
};

}  // namespace

std::span<const Check> container_checks() { return kContainer; }
std::span<const Check> system_checks() { return kSystem; }

}  // namespace strata::doctor
