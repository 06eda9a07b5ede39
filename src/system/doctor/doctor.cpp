#include "system/doctor/doctor.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "cuda/runtime/diagnosis.h"
#include "cuda/runtime/runtime.h"
#include "system/doctor/check.h"

namespace strata::doctor {
namespace {

std::vector<const Check*> all() {
  std::vector<const Check*> list;
  for (const auto& table :
       {driver_checks(), gpu_checks(), build_checks(), toolkit_checks(), library_checks(), python_checks(),
        environment_checks(), container_checks(), system_checks(), mac_checks(), probe_checks(), torch_checks()})
    for (const Check& c : table) list.push_back(&c);
  return list;
}

const CheckInfo& info_of(const std::string& id) {
  for (const CheckInfo& c : checks())
    if (c.id == id) return c;
  fail_assert("every check is in the list", __FILE__, __LINE__);
}

std::string name_of_mode(int mode) { return mode == 0 ? "Default" : mode == 2 ? "Prohibited" : "Exclusive Process"; }

void add_driver_facts(const Facts& f, std::vector<Fact>& out) {
  const DriverFacts& d = f.driver;
  if (d.module_loaded)
    out.push_back({"driver", "kernel module", to_text(d.module_version) + (d.open_module ? ", open" : "")});
  if (const Copy* c = d.library.used())
    out.push_back(
      {"driver", "libcuda", fmt::format("{}{}", c->real, d.cuda.empty() ? "" : ", CUDA " + to_text(d.cuda))});
  if (!f.container.kind.empty()) out.push_back({"container", "container", f.container.kind});
  if (f.container.wsl) out.push_back({"container", "system", "WSL"});
  if (f.container.nixos) out.push_back({"container", "system", "NixOS"});
  for (size_t i = 0; i < f.gpus.size(); ++i) {
    const GpuFacts& g = f.gpus[i];
    out.push_back(
      {"gpu", fmt::format("cuda:{}", i),
       fmt::format(
         "{}, compute capability {}, {:.1f} GiB, compute mode {}{}", g.name, g.capability(),
         static_cast<double>(g.memory) / (1 << 30), name_of_mode(g.compute_mode),
         g.memory_free ? fmt::format(", {:.1f} GiB free", static_cast<double>(g.memory_free) / (1 << 30)) : "")});
  }
}

std::vector<Fact> facts_of(const Facts& f) {
  std::vector<Fact> out;
  add_driver_facts(f, out);
  if (f.build.kernels) {
    std::string machine_code;
    for (const int a : f.build.machine_code) machine_code += fmt::format("sm_{}, ", a);
    for (const int a : f.build.exact) machine_code += fmt::format("sm_{}a, ", a);
    out.push_back(
      {"build", "kernels", fmt::format("{}PTX for {}.{} and newer", machine_code, f.build.ptx / 10, f.build.ptx % 10)});
  }
  for (const Toolkit& t : f.toolkits)
    out.push_back({"toolkit", "CUDA " + to_text(t.version), fmt::format("{} (by {})", t.folder, t.found_by)});
  for (const LibraryFacts& l : f.libraries)
    if (const Copy* c = l.used())
      out.push_back({"libraries", l.name,
                     fmt::format("{} {} (by {}{})", to_text(l.version), c->real, c->found_by,
                                 l.copies.size() > 1 ? fmt::format("; {} more", l.copies.size() - 1) : "")});
  if (f.torch.found)
    out.push_back(
      {"python", "torch",
       fmt::format("{}, CUDA {}, {}", f.torch.version, f.torch.cuda.empty() ? "none" : f.torch.cuda, f.torch.folder)});
  if (f.torch.asked && f.torch.found && f.torch.failure.empty())
    out.push_back({"torch", "torch.cuda.is_available()", f.torch.available ? "True" : "False"});
  return out;
}

BuildFacts build_of(const Options& o) {
  BuildFacts b = this_build();
  if (!o.architectures) return b;
  b.kernels = !o.architectures->empty();
  b.machine_code.clear();
  b.exact.clear();
  b.ptx = 75;
  for (const std::string& one : split(*o.architectures, ' '))
    if (const Version n = numbers_in(one); !n.empty()) (one.ends_with('a') ? b.exact : b.machine_code).push_back(n[0]);
  return b;
}

// The device of the probes: the one that is named, or cuda where the facts say that it works.
std::string device_to_probe(const Options& o, const Facts& f) {
  if (!o.device.empty()) return o.device;
  return f.m().real() && f.driver.count > 0 && cuda::Runtime::why_not(DeviceType::Cuda).empty() ? "cuda" : "";
}

bool contains(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

void check_options(const Options& o) {
  const std::vector<std::string> known = sections();
  for (const std::string& s : o.sections) {
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    STRATA_CHECK(contains(known, s), Value, "doctor: there is no section '{}'; there are {}", s, list);
  }
  STRATA_CHECK(o.seconds > 0 && o.seconds < 1e6, Value, "doctor: seconds is {}, expected more than 0", o.seconds);
  if (o.device.empty()) return;
  DeviceType type{};
  try {
    type = device_from_name(o.device).type;
  } catch (const Error&) { fail(ErrorKind::Value, fmt::format("doctor: there is no device '{}'", o.device)); }
  STRATA_CHECK(type == DeviceType::Cuda || type == DeviceType::Vgpu, Value,
               "doctor: the probes are for devices cuda and vgpu, not '{}'", o.device);
}

}  // namespace

const std::vector<CheckInfo>& checks() {
  static const auto* list = [] {
    auto* out = new std::vector<CheckInfo>;
    for (const Check* c : all()) {
      const std::string id = c->id, section = id.substr(0, id.find('.'));
      out->push_back(
        {id, section, c->severity, c->title, c->explanation, c->fix, "docs/reference/doctor.md#" + section});
    }
    return out;
  }();
  return *list;
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const CheckInfo& c : checks())
    if (!contains(names, c.section)) names.push_back(c.section);
  return names;
}

std::vector<std::string> topics() {
  std::vector<std::string> names;
  for (const Topic& t : all_topics()) names.emplace_back(t.name);
  return names;
}

std::string explain(const std::string& id) {
  for (const Topic& t : all_topics())
    if (id == t.name) return t.text;
  for (const CheckInfo& c : checks())
    if (id == c.id) return fmt::format("{}: {}\n\n{}\n\n{}\n\n{}\n", c.id, c.title, c.explanation, c.fix, c.page);
  std::string close;
  for (const CheckInfo& c : checks())
    if (c.id.find(id) != c.id.npos || c.section == id) close += "\n  " + c.id;
  std::string list;
  for (const std::string& t : topics()) list += (list.empty() ? "" : ", ") + t;
  fail(ErrorKind::Value,
       fmt::format("doctor: there is no check or topic '{}'{}; topics are {}, and `strata doctor --list` shows "
                   "the checks",
                   id, close.empty() ? "" : "; did you mean one of these?" + close, list));
}

int Report::status() const {
  int worst = 0;
  for (const Finding& f : findings) worst = std::max(worst, f.check->severity == Severity::Error ? 2 : 1);
  return worst;
}

Report examine(const Options& o) {
  check_options(o);
  const Machine machine = o.root.empty() && !o.environment
                            ? Machine()
                            : Machine(o.root, o.environment ? *o.environment : std::map<std::string, std::string>());
  Report report;
  for (const std::string& s : sections())
    if (o.sections.empty() ? s != "torch" || o.torch : contains(o.sections, s)) report.sections.push_back(s);
  GatherOptions g;
  const auto wants = [&](const char* s) { return contains(report.sections, s); };
  g.torch = wants("torch");
  g.open_libraries = wants("libraries");
  g.seconds = o.seconds;
  g.package_folders = o.package_folders;
  g.build = build_of(o);
  const Facts facts = gather(machine, g);
  for (const Fact& fact : facts_of(facts))
    if (wants(fact.section.c_str())) report.facts.push_back(fact);
  if (wants("probe") && o.probes) report.probed = device_to_probe(o, facts);
  if (!report.probed.empty()) report.probes = run_probes(report.probed);
  for (const Check* c : all()) {
    const CheckInfo& info = info_of(c->id);
    if (!contains(report.sections, info.section)) continue;
    ++report.checked;
    Finding finding{&info, {}};
    c->look(facts, finding.evidence);
    for (const Probe& p : report.probes)
      if ("probe." + p.name == info.id && !p.failure.empty())
        finding.evidence.push_back(report.probed + ": " + p.failure);
    if (!finding.evidence.empty()) report.findings.push_back(finding);
  }
  return report;
}

std::string short_form() {
  const Machine machine;
  GatherOptions g;
  g.open_driver = g.open_libraries = false;  // the driver has just been tried
  g.build = this_build();
  Facts facts = gather(machine, g);
  facts.dead.clear();
  std::string text;
  for (const Check* c : all()) {
    const std::string section = info_of(c->id).section;
    if (section == "python" || section == "libraries" || section == "toolkit" || section == "system") continue;
    Evidence evidence;
    c->look(facts, evidence);
    if (evidence.empty() || (c->severity == Severity::Warning && std::string(c->id) != "gpu.none")) continue;
    text += fmt::format("\n  {}: {} ({}); try: {}", c->id, c->title, evidence[0], first_line(c->fix));
  }
  return text.empty() ? "\n`strata doctor` looks for the cause"
                      : "\nfound by `strata doctor`, which explains it:" + text;
}

[[maybe_unused]] static const bool told = (cuda::diagnosis = short_form, true);

}  // namespace strata::doctor
