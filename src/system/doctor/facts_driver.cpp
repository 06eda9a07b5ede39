// Facts about the driver: the kernel's module, device nodes, libcuda, and what it tells about the GPUs.
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>

#include "cuda/driver/api.h"
#include "cuda/libs/nvml.h"
#include "system/doctor/child.h"
#include "system/doctor/facts.h"

namespace strata::doctor {
namespace {

using cuda::driver::Table;

bool module_on_disk(const Machine& m, const std::string& release) {
  for (const std::string& base : std::vector<std::string>{"/lib/modules/" + release, "/usr/lib/modules/" + release})
    for (const char* folder : {"/updates/dkms", "/updates", "/extra", "/extra/nvidia", "/kernel/drivers/video",
                               "/kernel/drivers/video/nvidia", "/video", "/weak-updates/nvidia", "/kernel/nvidia"})
      for (const std::string& name : m.list(base + folder))
        if (name == "nvidia.ko" || name.starts_with("nvidia.ko.") || name == "nvidia-current.ko") return true;
  for (const std::string& folder : m.list("/lib/modules/" + release + "/kernel"))
    if (folder.starts_with("nvidia-")) return true;
  return false;
}

// One secure-boot variable of the firmware: four bytes of attributes, then 1 or 0.
bool secure_boot(const Machine& m) {
  const std::string value = m.read("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c");
  return value.size() >= 5 && value[4] == 1;
}

// Runs in a child: "key value" lines about the driver and its GPUs.
std::string ask_driver(const std::string& file) {
  std::string text;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    return fmt::format("error {}\n", first_line(why ? why : "unknown error"));
  }
  Table t;
#define STRATA_DOCTOR_LOAD(name, symbol, parameters) \
  t.name = reinterpret_cast<decltype(t.name)>(dlsym(library, symbol));
  STRATA_DRIVER_ENTRIES(STRATA_DOCTOR_LOAD)
#undef STRATA_DOCTOR_LOAD
  if (!t.cuDriverGetVersion || !t.cuInit || !t.cuDeviceGetCount || !t.cuDeviceGet || !t.cuDeviceGetAttribute)
    return "error it has no cuInit or no cuDriverGetVersion\n";
  int version = 0;
  t.cuDriverGetVersion(&version);
  text += fmt::format("cuda {}.{}\n", version / 1000, version % 1000 / 10);
  const int init = t.cuInit(0);
  const char* name = nullptr;
  if (t.cuGetErrorName) t.cuGetErrorName(init, &name);
  text += fmt::format("init {} {}\n", init, name ? name : "");
  int count = 0;
  if (init != 0 || t.cuDeviceGetCount(&count) != 0) return text;
  text += fmt::format("count {}\n", count);
  for (int i = 0; i < count; ++i) {
    int device = 0, major = 0, minor = 0, mode = 0;
    size_t memory = 0;
    char label[256] = "GPU";
    if (t.cuDeviceGet(&device, i) != 0) continue;
    t.cuDeviceGetAttribute(&major, cuda::driver::kMajor, device);
    t.cuDeviceGetAttribute(&minor, cuda::driver::kMinor, device);
    t.cuDeviceGetAttribute(&mode, 20 /* compute mode */, device);
    if (t.cuDeviceTotalMem) t.cuDeviceTotalMem(&memory, device);
    if (t.cuDeviceGetName) t.cuDeviceGetName(label, sizeof label, device);
    char bus[32] = "-";
    if (const auto ask = reinterpret_cast<int (*)(char*, int, int)>(dlsym(library, "cuDeviceGetPCIBusId")))
      ask(bus, sizeof bus, device);
    text += fmt::format("gpu {}.{} {} {} {} {}\n", major, minor, mode, memory, bus, label);
  }
  return text;
}

// Runs in a child too.
std::string ask_nvml(const std::string& file, const std::vector<GpuFacts>& gpus) {
  const Library library({.name = "NVML", .files = {file}});
  cuda::nvml::Functions f;
  if (!cuda::nvml::load(library, f) || f.init() != 0) return "";
  std::string text;
  for (unsigned i = 0; i < gpus.size(); ++i) {
    const cuda::nvml::Device device = cuda::nvml::find_device(f, gpus[i].bus_id, i);
    if (!device) continue;
    const cuda::nvml::Sample s = cuda::nvml::sample(f, device);
    text += fmt::format("nvml {} {} {} {}\n", i, s.memory_total - s.memory_used, s.uncorrected_errors, s.mig ? 1 : 0);
  }
  return text;
}

void read_answer(const std::string& text, Facts& f) {
  DriverFacts& d = f.driver;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() < 2) continue;
    const std::string rest = line.substr(words[0].size() + 1);
    if (words[0] == "error") d.library.error = rest;
    if (words[0] == "cuda") d.cuda = numbers_in(rest);
    if (words[0] == "count") d.count = std::stoi(words[1]);
    if (words[0] == "init") {
      d.init = std::stoi(words[1]);
      d.init_name = words.size() > 2 ? words[2] : "";
    }
    if (words[0] == "gpu" && words.size() >= 6) {
      GpuFacts g;
      const Version capability = numbers_in(words[1]);
      g.major = capability.at(0);
      g.minor = capability.at(1);
      g.compute_mode = std::stoi(words[2]);
      g.memory = std::stoull(words[3]);
      g.bus_id = words[4] == "-" ? "" : words[4];
      for (size_t i = 5; i < words.size(); ++i) g.name += (i > 5 ? " " : "") + words[i];
      f.gpus.push_back(g);
    }
    if (words[0] == "nvml" && words.size() == 5) {
      GpuFacts& g = f.gpus.at(std::stoul(words[1]));
      g.memory_free = static_cast<uint64_t>(std::max<int64_t>(0, std::stoll(words[2])));
      g.ecc_errors = std::stoll(words[3]);
      g.mig = words[4] == "1";
    }
  }
}

}  // namespace

void gather_driver(Facts& f, const GatherOptions& options) {
  const Machine& m = f.m();
  DriverFacts& d = f.driver;
  d.release = trimmed(m.read("/proc/sys/kernel/osrelease"));
  for (const std::string& line : split(m.read("/proc/modules"), '\n')) {
    if (line.starts_with("nvidia ")) d.module_loaded = true;
    if (line.starts_with("nouveau ")) d.nouveau_loaded = true;
  }
  const std::string about = m.read("/proc/driver/nvidia/version");
  d.module_loaded |= !about.empty();
  d.open_module = about.find("Open Kernel Module") != about.npos;
  if (const size_t at = about.find("Kernel Module"); at != about.npos)
    for (const std::string& word : split(first_line(about.substr(at)), ' '))
      if (d.module_version.empty() && word.find('.') != word.npos) d.module_version = numbers_in(word);
  d.module_on_disk = module_on_disk(m, d.release);
  d.secure_boot = secure_boot(m);
  if (d.module_loaded && !f.container.wsl) {
    size_t gpus = m.list("/proc/driver/nvidia/gpus").size();
    if (gpus == 0) gpus = f.pci.size();
    for (const char* node : {"/dev/nvidiactl", "/dev/nvidia-uvm"}) d.nodes[node] = m.open_error(node);
    for (size_t i = 0; i < gpus; ++i) {
      const std::string node = fmt::format("/dev/nvidia{}", i);
      // A container may have some of the GPUs only.
      if (f.container.kind.empty() || m.exists(node)) d.nodes[node] = m.open_error(node);
    }
  }
  d.library.name = "the CUDA driver";
  d.library.copies = copies_of(f, {"libcuda.so"});
  LibraryFacts nvml;
  nvml.copies = copies_of(f, {"libnvidia-ml.so"});
  const Copy* used = d.library.used();
  if (!used || !options.open_driver) return;
  d.library.opened = true;
  const ChildResult answer = in_child([&] { return ask_driver(m.on_disk(used->path)); }, options.seconds);
  read_answer(answer.output, f);
  if (!answer.failure.empty()) d.library.error = answer.failure;
  if (nvml.used())
    read_answer(in_child([&] { return ask_nvml(m.on_disk(nvml.used()->path), f.gpus); }, options.seconds).output, f);
}

}  // namespace strata::doctor
