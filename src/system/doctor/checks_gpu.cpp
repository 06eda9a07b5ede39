// Checks of the GPUs themselves, and of what this build has for them.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "system/doctor/check.h"

namespace strata::doctor {
namespace {

const char* meaning_of_xid(int code) {
  static const std::map<int, const char*> meanings{{13, "a kernel's illegal access or instruction"},
                                                   {31, "a page fault of a kernel"},
                                                   {43, "a program was stopped after an error"},
                                                   {45, "a program was stopped"},
                                                   {48, "a memory error that could not be corrected"},
                                                   {61, "the GPU's microcontroller failed"},
                                                   {62, "the GPU's microcontroller failed"},
                                                   {63, "a page or row of memory was retired"},
                                                   {64, "a page of memory could not be retired"},
                                                   {74, "an error of NVLink"},
                                                   {79, "the GPU has fallen off the bus"},
                                                   {92, "many memory errors were corrected"},
                                                   {94, "a contained memory error"},
                                                   {95, "an uncontained memory error"},
                                                   {119, "the GPU's system processor did not answer"},
                                                   {120, "the GPU's system processor failed"}};
  const auto at = meanings.find(code);
  return at == meanings.end() ? "see NVIDIA's list of Xid errors" : at->second;
}
bool is_hardware(int xid) { return xid != 13 && xid != 31 && xid != 43 && xid != 45; }

// "NVRM: Xid (PCI:0000:01:00): 79, pid=…"
int xid_of(const std::string& line) {
  const size_t at = line.find("): ");
  const Version n = at == line.npos ? Version{} : numbers_in(line.substr(at), "): ");
  return n.empty() ? 0 : n[0];
}

int capability(const GpuFacts& g) { return 10 * g.major + g.minor; }

// Machine code for a capability also runs on later ones of the same major version.
bool has_machine_code(const BuildFacts& b, const GpuFacts& g) {
  const int c = capability(g);
  return std::any_of(b.machine_code.begin(), b.machine_code.end(), [&](int a) { return a / 10 == c / 10 && a <= c; }) ||
         std::find(b.exact.begin(), b.exact.end(), c) != b.exact.end();
}

std::string built_for(const BuildFacts& b) {
  std::string text;
  for (const int a : b.machine_code) text += fmt::format("{}sm_{}", text.empty() ? "" : ", ", a);
  for (const int a : b.exact) text += fmt::format("{}sm_{}a", text.empty() ? "" : ", ", a);
  return text.empty() ? "no GPU" : text;
}

constexpr Check kGpu[] = {
  {"gpu.none", kWarning, "This machine has no NVIDIA GPU",
   "No NVIDIA device is on the PCI bus, and no driver is installed. The devices cpu and vgpu work; vgpu runs the "
   "kernels "
   "of cuda on the CPU. In a virtual machine the GPU must be passed through.",
   "lspci -nn | grep -i nvidia\nstrata devices",
   [](const Facts& f, Evidence& found) {
     if (!f.gpu_expected && !f.mac && f.driver.count <= 0)
       found.push_back("/sys/bus/pci/devices has no device of vendor 0x10de");
   }},
  {"gpu.off-the-bus", kError, "A GPU has fallen off the bus",
   "It does not answer to reads of its PCI configuration any more: power, heat, a loose card, or a fault.",
   "sudo reboot  # power off if that is not enough\nsudo dmesg | grep -i -e 'fallen off' -e Xid",
   [](const Facts& f, Evidence& found) {
     for (const PciGpu& g : f.pci)
       if (g.gone) found.push_back(fmt::format("{} has vendor 0xffff", g.address));
   }},
  {"gpu.xid", kWarning, "The kernel's log has errors of a GPU",
   "The driver writes an Xid with a number for each. 13, 31, 43 and 45 usually are errors of programs; others point to "
   "hardware, power or heat.",
   "sudo dmesg | grep Xid\nnvidia-smi -q -d ECC,TEMPERATURE,POWER,PAGE_RETIREMENT",
   [](const Facts& f, Evidence& found) {
     std::map<int, int> counts;
     for (const std::string& line : f.xids) ++counts[xid_of(line)];
     for (const auto& [code, n] : counts)
       found.push_back(fmt::format("Xid {} ({}){}: {} times", code, meaning_of_xid(code),
                                   is_hardware(code) ? "" : ", an error of a program", n));
   }},
  {"gpu.ecc-errors", kWarning, "A GPU has memory errors that could not be corrected",
   "Results may be wrong, and programs are stopped. Reset the GPU; if they return, the memory is failing.",
   "nvidia-smi -q -d ECC,PAGE_RETIREMENT\nsudo nvidia-smi --gpu-reset -i 0",
   [](const Facts& f, Evidence& found) {
     for (const GpuFacts& g : f.gpus)
       if (g.ecc_errors > 0)
         found.push_back(fmt::format("{}: {} errors since the driver was loaded", g.name, g.ecc_errors));
   }},
  {"gpu.compute-prohibited", kError, "A GPU does not allow computing",
   "Its compute mode is Prohibited: no program may create a context.", "sudo nvidia-smi -c DEFAULT",
   [](const Facts& f, Evidence& found) {
     for (const GpuFacts& g : f.gpus)
       if (g.compute_mode == 2) found.push_back(g.name + ": compute mode Prohibited");
   }},
  {"gpu.exclusive", kWarning, "A GPU allows one process at a time",
   "Its compute mode is Exclusive Process: a second process fails with CUDA_ERROR_DEVICE_UNAVAILABLE, data loader "
   "workers "
   "that use it included.",
   "sudo nvidia-smi -c DEFAULT",
   [](const Facts& f, Evidence& found) {
     for (const GpuFacts& g : f.gpus)
       if (g.compute_mode == 1 || g.compute_mode == 3) found.push_back(g.name + ": compute mode Exclusive Process");
   }},
  {"gpu.memory-low", kWarning, "Most memory of a GPU is in use by others",
   "Allocations fail early with an out-of-memory error. nvidia-smi lists the processes; a notebook keeps its memory "
   "until "
   "its kernel is stopped.",
   "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv\n# in your program: a smaller batch, "
   "strata.empty_cache()",
   [](const Facts& f, Evidence& found) {
     for (const GpuFacts& g : f.gpus)
       if (g.memory_free > 0 && g.memory_free * 10 < g.memory)
         found.push_back(fmt::format("{}: {} of {} MiB are free", g.name, g.memory_free >> 20, g.memory >> 20));
   }},
  {"gpu.mig", kWarning, "A GPU is split into MIG instances",
   "A process sees one instance, with a part of the memory and the multiprocessors, and cannot reach the others.",
   "nvidia-smi -L\nsudo nvidia-smi -i 0 -mig 0  # the whole GPU again",
   [](const Facts& f, Evidence& found) {
     for (const GpuFacts& g : f.gpus)
       if (g.mig) found.push_back(g.name + ": MIG is enabled");
   }},
  {"gpu.link-narrow", kWarning, "A GPU uses fewer PCI lanes than it has",
   "Copies between host and device are slower in proportion: another slot, a riser, or shared lanes.",
   "sudo lspci -vv -s <address> | grep -e LnkCap: -e LnkSta:",
   [](const Facts& f, Evidence& found) {
     for (const PciGpu& g : f.pci)
       if (g.link_width > 0 && g.max_width > 0 && g.link_width * 2 < g.max_width)
         found.push_back(fmt::format("{}: {} of {} lanes", g.address, g.link_width, g.max_width));
   }},
  {"gpu.failed", kError, "A device of this process has failed",
   "A kernel has accessed memory that is not its own, or was stopped. The device's context is lost for this process; "
   "the "
   "error names the op and the program line.",
   "STRATA_VGPU_CHECK=all python program.py  # on device vgpu: names the kernel, thread and address\n# restart the "
   "process",
   [](const Facts& f, Evidence& found) {
     for (const std::string& device : f.dead) found.push_back(device);
   }},
};

constexpr Check kBuild[] = {
  {"build.no-kernels", kError, "This build of Strata has no device kernels",
   "It was configured without CUDA, or without nvcc: the devices cuda and vgpu do not exist in it.",
   "pip install --force-reinstall strata  # the wheel has kernels\ncmake -DSTRATA_CUDA=ON …  # needs nvcc",
   [](const Facts& f, Evidence& found) {
     if (!f.build.kernels) found.push_back("libstrata has no kernel images");
   }},
  {"build.no-kernel-image", kError, "This build has no kernels for a GPU of this machine",
   "Machine code runs on its own generation of GPUs only, PTX on the generation it was compiled for and later ones.",
   "make package CUDA_ARCHS=native  # from source, on this machine",
   [](const Facts& f, Evidence& found) {
     if (!f.build.kernels) return;
     for (const GpuFacts& g : f.gpus)
       if (!has_machine_code(f.build, g) && capability(g) < f.build.ptx)
         found.push_back(
           fmt::format("{} has compute capability {}; the build has machine code for {}, and PTX for {}.{} or newer",
                       g.name, g.capability(), built_for(f.build), f.build.ptx / 10, f.build.ptx % 10));
   }},
  {"build.ptx-only", kWarning, "A GPU of this machine runs kernels that the driver compiles first",
   "The build has no machine code for its generation. The first launch of each kernel waits for the compiler, some "
   "seconds in all; the result is kept in the driver's cache.",
   "make package CUDA_ARCHS=native",
   [](const Facts& f, Evidence& found) {
     if (!f.build.kernels) return;
     for (const GpuFacts& g : f.gpus)
       if (!has_machine_code(f.build, g) && capability(g) >= f.build.ptx)
         found.push_back(fmt::format("{} has compute capability {}; the build has machine code for {}", g.name,
                                     g.capability(), built_for(f.build)));
   }},
};

}  // namespace

std::span<const Check> gpu_checks() { return kGpu; }
std::span<const Check> build_checks() { return kBuild; }

}  // namespace strata::doctor
