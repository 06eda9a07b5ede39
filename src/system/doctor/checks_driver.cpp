// Checks of NVIDIA's driver.
#include <fmt/core.h>

#include <cerrno>
#include <cstring>

#include "system/doctor/check.h"

namespace strata::doctor {
namespace {

bool expects_module(const Facts& f) { return !f.pci.empty() && !f.container.wsl && f.container.kind.empty() && !f.mac; }

// libcuda starts and shows devices, or was not asked.
bool starts(const DriverFacts& d) { return d.library.error.empty() && d.init == 0; }

bool versions_differ(const DriverFacts& d) {
  const Copy* used = d.library.used();
  return !d.module_version.empty() && used && used->version.size() >= 2 && used->version != d.module_version;
}

bool is_stub(const Copy& c) { return c.path.find("/stubs/") != std::string::npos; }

void init_failed(const Facts& f, Evidence& found, std::initializer_list<int> codes) {
  for (const int code : codes)
    if (f.driver.init == code) found.push_back(fmt::format("cuInit returns {} {}", code, f.driver.init_name));
}

constexpr Check kDriver[] = {
  {"driver.module-missing", kError, "NVIDIA's kernel module is not installed for the running kernel",
   "The machine has an NVIDIA GPU, but /lib/modules has no nvidia module for this kernel. The driver was never "
   "installed, "
   "or the kernel was updated and the module was not built again.",
   "sudo apt-get install linux-headers-$(uname -r)\nsudo apt-get install nvidia-driver  # or: sudo dkms autoinstall",
   [](const Facts& f, Evidence& found) {
     const DriverFacts& d = f.driver;
     if (expects_module(f) && !d.module_loaded && !d.module_on_disk && !d.nouveau_loaded)
       found.push_back(fmt::format("no nvidia.ko below /lib/modules/{}", d.release));
   }},
  {"driver.module-not-loaded", kError, "NVIDIA's kernel module is installed, but not loaded",
   "Without the module there are no device nodes, and libcuda cannot start. It is loaded at boot, or by modprobe.",
   "sudo modprobe nvidia\nsudo dmesg | grep -i nvrm  # why it does not load",
   [](const Facts& f, Evidence& found) {
     const DriverFacts& d = f.driver;
     if (expects_module(f) && !d.module_loaded && d.module_on_disk && !d.nouveau_loaded && !d.secure_boot)
       found.push_back("/proc/modules has no nvidia");
   }},
  {"driver.secure-boot", kError, "Secure Boot keeps NVIDIA's kernel module from being loaded",
   "With Secure Boot the kernel loads signed modules only. A module that DKMS has built is signed with a key of this "
   "machine, which the firmware must be told to trust.",
   "sudo mokutil --import /var/lib/dkms/mok.pub  # then reboot and enroll the key\nmokutil --sb-state",
   [](const Facts& f, Evidence& found) {
     const DriverFacts& d = f.driver;
     if (expects_module(f) && !d.module_loaded && d.module_on_disk && !d.nouveau_loaded && d.secure_boot)
       found.push_back("the firmware's variable SecureBoot is 1, and /proc/modules has no nvidia");
   }},
  {"driver.nouveau", kError, "The free driver nouveau has taken the GPU",
   "nouveau and NVIDIA's module cannot share a GPU. nouveau has no CUDA.",
   "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf\nsudo update-initramfs -u && sudo "
   "reboot",
   [](const Facts& f, Evidence& found) {
     if (f.driver.nouveau_loaded && !f.driver.module_loaded)
       found.push_back("/proc/modules has nouveau, and no nvidia");
   }},
  {"driver.device-nodes", kError, "Device nodes of the driver are missing",
   "libcuda reaches the kernel module through /dev/nvidiactl, /dev/nvidia-uvm and one /dev/nvidiaN per GPU. "
   "nvidia-modprobe creates them.",
   "sudo nvidia-modprobe -c 0 -u\nls -l /dev/nvidia*",
   [](const Facts& f, Evidence& found) {
     for (const auto& [node, error] : f.driver.nodes)
       if (error == ENOENT && f.container.kind.empty()) found.push_back(node + " does not exist");
   }},
  {"driver.permissions", kError, "This user may not open the driver's device nodes",
   "The nodes must be readable and writable for the user. In a container, the device must be in the allowed list of "
   "its "
   "control group too, which --gpus or --device arranges.",
   "ls -l /dev/nvidia*\nsudo usermod -aG video,render $USER  # then log in again\nsudo chmod a+rw /dev/nvidia*",
   [](const Facts& f, Evidence& found) {
     for (const auto& [node, error] : f.driver.nodes)
       if (error == EACCES || error == EPERM) found.push_back(fmt::format("{}: {}", node, std::strerror(error)));
   }},
  {"driver.node-broken", kError, "A device node of the driver does not answer",
   "The node exists, but the kernel refuses to open it: the GPU was reset, was removed, or has failed.",
   "nvidia-smi -q\nsudo dmesg | grep -i -e nvrm -e xid | tail",
   [](const Facts& f, Evidence& found) {
     for (const auto& [node, error] : f.driver.nodes)
       if (error == EIO || error == ENODEV || error == ENXIO || error == EISDIR || error == ENOTDIR)
         found.push_back(fmt::format("{}: {}", node, std::strerror(error)));
   }},
  {"driver.library-missing", kError, "libcuda.so.1 is not installed",
   "The kernel module is one half of the driver, libcuda the other. Minimal installations and containers may lack it.",
   "sudo apt-get install libcuda1  # Debian; of the same version as the module\nldconfig -p | grep libcuda",
   [](const Facts& f, Evidence& found) {
     if (f.driver.module_loaded && f.container.kind.empty() && !f.driver.library.used() && !f.container.nixos)
       found.push_back("libcuda.so.1 is in no folder of the loader");
   }},
  {"driver.ldconfig", kError, "The loader does not know the folder of libcuda",
   "libcuda is in a folder that /etc/ld.so.conf lists, but the loader's cache was made before.", "sudo ldconfig",
   [](const Facts& f, Evidence& found) {
     const Copy* used = f.driver.library.used();
     if (used && used->found_by == "a folder that ldconfig has not read")
       found.push_back(used->path + " is not in /etc/ld.so.cache");
   }},
  {"driver.stub-library", kError, "The stub of libcuda is found before the real one",
   "The toolkit has a libcuda without code, for linking. In LD_LIBRARY_PATH it hides the driver's.",
   "export LD_LIBRARY_PATH=$(echo \"$LD_LIBRARY_PATH\" | tr : '\\n' | grep -v /stubs | paste -sd:)",
   [](const Facts& f, Evidence& found) {
     const Copy* used = f.driver.library.used();
     if (used && is_stub(*used)) found.push_back(used->path + ", by " + used->found_by);
   }},
  {"driver.shadowed", kWarning, "There are several versions of libcuda",
   "The first one that the loader finds is used. If it is not that of the kernel module, cuInit fails.",
   "ldconfig -p | grep libcuda\nsudo apt-get purge <the package of the old file>",
   [](const Facts& f, Evidence& found) {
     const auto& copies = f.driver.library.copies;
     if (copies.empty() || is_stub(copies[0])) return;
     for (size_t i = 1; i < copies.size(); ++i)
       if (!is_stub(copies[i]) && copies[i].version != copies[0].version)
         found.push_back(fmt::format("{} ({}) is used before {} ({})", copies[0].path, to_text(copies[0].version),
                                     copies[i].path, to_text(copies[i].version)));
   }},
  {"driver.version-mismatch", kError, "libcuda and the kernel module have different versions",
   "Both halves of the driver must be of one version. After an update the old module stays loaded until the next boot.",
   "sudo reboot\nsudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia  # without a reboot",
   [](const Facts& f, Evidence& found) {
     const Copy* used = f.driver.library.used();
     if (versions_differ(f.driver) && !is_stub(*used))
       found.push_back(fmt::format("the module has version {}, {} is {}", to_text(f.driver.module_version), used->real,
                                   to_text(used->version)));
   }},
  {"driver.library-broken", kError, "libcuda cannot be opened",
   "The file is damaged, is for another processor, crashes when it is opened, or lacks a library that it needs.",
   "file -L /usr/lib/x86_64-linux-gnu/libcuda.so.1\nsudo apt-get install --reinstall libcuda1",
   [](const Facts& f, Evidence& found) {
     const Copy* used = f.driver.library.used();
     if (used && !is_stub(*used) && !f.driver.library.error.empty())
       found.push_back(used->path + ": " + f.driver.library.error);
   }},
  {"driver.too-old", kError, "The driver is older than CUDA 12.0, which Strata needs",
   "A driver runs programs for its own version of CUDA and older ones. Version 525 is the first for CUDA 12.",
   "sudo apt-get install nvidia-driver  # 525 or newer\nnvidia-smi  # shows the version",
   [](const Facts& f, Evidence& found) {
     if (!f.driver.cuda.empty() && f.driver.cuda[0] < 12)
       found.push_back(fmt::format("the driver supports CUDA {}", to_text(f.driver.cuda)));
   }},
  {"driver.no-device", kError, "The driver starts, but shows no GPU",
   "The kernel module sees the GPU, libcuda does not: CUDA_VISIBLE_DEVICES hides it, the container has no GPU, or MIG "
   "is "
   "on without an instance.",
   "env | grep VISIBLE_DEVICES\nnvidia-smi -L\nsudo nvidia-smi mig -cgi 0 -C  # creates a MIG instance",
   [](const Facts& f, Evidence& found) {
     if (!f.gpu_expected || versions_differ(f.driver) || f.m().is_set("CUDA_VISIBLE_DEVICES")) return;
     init_failed(f, found, {100});
     if (starts(f.driver) && f.driver.count == 0) found.push_back("cuDeviceGetCount gives 0");
   }},
  {"driver.fabric-manager", kError, "The fabric manager does not run",
   "GPUs that are connected by NVSwitch need nvidia-fabricmanager, of the driver's version, before CUDA starts.",
   "sudo systemctl enable --now nvidia-fabricmanager\nnvidia-smi -q -i 0 | grep -A2 Fabric",
   [](const Facts& f, Evidence& found) { init_failed(f, found, {802}); }},
  {"driver.compatibility-library", kError, "A forward-compatibility libcuda is used where it cannot be",
   "The package cuda-compat has a newer libcuda for older kernel modules. It works on data-center GPUs only, and only "
   "for "
   "some pairs of versions.",
   "sudo apt-get purge 'cuda-compat-*'\nunset LD_LIBRARY_PATH  # if it has /usr/local/cuda/compat",
   [](const Facts& f, Evidence& found) {
     if (!versions_differ(f.driver) || f.driver.init == 804) init_failed(f, found, {803, 804});
   }},
  {"driver.does-not-start", kError, "The driver does not start", "cuInit fails. The kernel's log usually says why.",
   "nvidia-smi\nsudo dmesg | grep -i nvrm | tail",
   [](const Facts& f, Evidence& found) {
     const DriverFacts& d = f.driver;
     for (const int other : {0, 100, 802, 803, 804})
       if (d.init == other) return;
     if (!d.cuda.empty() && d.cuda[0] < 12) return;
     if (!versions_differ(d)) found.push_back(fmt::format("cuInit returns {} {}", d.init, d.init_name));
   }},
};

}  // namespace

std::span<const Check> driver_checks() { return kDriver; }

}  // namespace strata::doctor
