#include "system/doctor/facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "cuda/runtime/diagnosis.h"
#include "cuda/runtime/images.h"

namespace strata::doctor {
namespace {

void gather_container(Facts& f) {
  const Machine& m = f.m();
  ContainerFacts& c = f.container;
  const std::string groups = m.read("/proc/1/cgroup");
  if (m.exists("/.dockerenv")) c.kind = "docker";
  else if (m.exists("/run/.containerenv")) c.kind = "podman";
  else if (groups.find("kubepods") != groups.npos || m.is_set("KUBERNETES_SERVICE_HOST")) c.kind = "kubernetes";
  else if (groups.find("docker") != groups.npos) c.kind = "docker";
  else if (groups.find("/lxc/") != groups.npos) c.kind = "lxc";
  else c.kind = m.variable("container");
  std::string release = m.read("/proc/sys/kernel/osrelease");
  std::transform(release.begin(), release.end(), release.begin(), [](unsigned char x) { return std::tolower(x); });
  c.wsl = release.find("microsoft") != release.npos;
  c.nixos = m.exists("/etc/NIXOS");
  c.colab = m.is_set("COLAB_RELEASE_TAG") || m.is_set("COLAB_GPU");
}

void gather_pci(Facts& f) {
  const Machine& m = f.m();
  const std::string folder = "/sys/bus/pci/devices";
  for (const std::string& address : m.list(folder)) {
    const std::string at = folder + "/" + address;
    const std::string vendor = trimmed(m.read(at + "/vendor")), kind = trimmed(m.read(at + "/class"));
    const bool known = m.exists("/proc/driver/nvidia/gpus/" + address);
    if (vendor != "0x10de" && !(vendor == "0xffff" && known)) continue;
    if (!kind.starts_with("0x03") && !known) continue;  // 0x0300 and 0x0302: display and 3D controllers
    const Version now = numbers_in(m.read(at + "/current_link_width")),
                  most = numbers_in(m.read(at + "/max_link_width"));
    f.pci.push_back({address, now.empty() ? 0 : now[0], most.empty() ? 0 : most[0], vendor == "0xffff"});
  }
}

void gather_xids(Facts& f) {
  for (const char* file : {"/var/log/kern.log", "/var/log/messages", "/var/log/syslog", "/var/log/dmesg"})
    for (const std::string& line : split(f.m().read(file, size_t{16} << 20), '\n'))
      if (line.find("NVRM: Xid") != line.npos) f.xids.push_back(line);
}

}  // namespace

std::string to_text(const Version& v) {
  std::string text;
  for (const int n : v) text += (text.empty() ? "" : ".") + std::to_string(n);
  return text.empty() ? "unknown" : text;
}

std::string GpuFacts::capability() const { return fmt::format("{}.{}", major, minor); }

const LibraryFacts* Facts::library(const std::string& name) const {
  for (const LibraryFacts& l : libraries)
    if (l.name == name) return &l;
  return nullptr;
}
const Package* Facts::package(const std::string& name) const {
  for (const Package& p : packages)
    if (p.name == name) return &p;
  return nullptr;
}

std::string program_on_path(const Machine& m, const std::string& name) {
  for (const std::string& folder : split(m.variable("PATH"), ':'))
    if (m.exists(folder + "/" + name)) return folder + "/" + name;
  return {};
}

BuildFacts this_build() {
  BuildFacts b;
  b.kernels = !cuda::images().empty();
  for (const std::string& one : split(cuda::built_architectures(), ' ')) {
    const Version number = numbers_in(one);
    if (number.empty()) continue;
    (std::isalpha(static_cast<unsigned char>(one.back())) ? b.exact : b.machine_code).push_back(number[0]);
  }
  return b;
}

Facts gather(const Machine& machine, const GatherOptions& options) {
  Facts f;
  f.machine = &machine;
  f.build = options.build;
  f.mac = machine.exists("/System/Library/CoreServices/SystemVersion.plist");
  gather_container(f);
  gather_pci(f);
  gather_xids(f);
  gather_python(f, options);
  gather_driver(f, options);
  gather_libraries(f, options);
  gather_toolkits(f);
  if (options.torch) gather_torch(f, options);
  if (machine.real()) f.dead = cuda::failed_devices();
  const std::string wanted = machine.variable("NVIDIA_VISIBLE_DEVICES");
  const bool asked_for = !f.container.kind.empty() && !wanted.empty() && wanted != "void" && wanted != "none";
  f.gpu_expected = !f.pci.empty() || f.container.wsl || asked_for || f.container.colab || f.driver.module_loaded ||
                   machine.exists("/dev/nvidiactl");
  return f;
}

}  // namespace strata::doctor
