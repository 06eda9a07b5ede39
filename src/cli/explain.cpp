// `strata explain`: runs one op and shows all layers, the kernels considered and why, and the time of each span.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "autograd/autograd.h"
#include "base/trace.h"
#include "cli/commands.h"
#include "dispatch/samples.h"

namespace strata::cli {
namespace {

struct Options {
  std::string op, args, dtype = "float32", device = "cpu";
  bool backward = false, json = false;
};

// By its full name, an alias, or without the namespace: glu for nn.functional.glu.
bool is_called(const OpRecord& op, const std::string& name) {
  const auto ends_so = [&](std::string_view full) { return full == name || full.ends_with("." + name); };
  return ends_so(op.name) || std::any_of(op.aliases.begin(), op.aliases.end(), ends_so);
}

// The overload whose parameters the text fits.
const OpRecord& choose_record(const Options& o, std::unique_ptr<Sample>& sample) {
  std::string why;
  const DType dtype = dtype_from_name(o.dtype);
  for (const OpRecord* op : all_ops()) {
    if (!is_called(*op, o.op)) continue;
    if (o.args.empty() && op->sample_texts.empty()) continue;
    const char* text = o.args.empty() ? op->sample_texts[0] : o.args.c_str();
    try {
      sample = std::make_unique<Sample>(*op, text, dtype);
      return *op;
    } catch (const Error& e) { why += fmt::format("\n  {}", e.what()); }
  }
  STRATA_CHECK(!why.empty(), Value, "there is no op '{}'; `strata ops` lists all", o.op);
  fail(ErrorKind::Value, fmt::format("the arguments '{}' fit no form of {}:{}", o.args, o.op, why));
}

void print_spans(std::vector<tracing::Event> events) {
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<int64_t> open;
  for (const tracing::Event& e : events) {
    while (!open.empty() && e.begin_ns >= open.back()) open.pop_back();
    const std::string label =
      fmt::format("{}{}: {} {}", std::string(2 * open.size() + 2, ' '), tracing::name_of(e.layer), e.name, e.detail);
    fmt::print("{:<72} {:>10.2f} us\n", label, static_cast<double>(e.end_ns - e.begin_ns) / 1e3);
    open.push_back(e.end_ns);
  }
}

int explain(const Options& o) {
  std::unique_ptr<Sample> sample;
  const OpRecord& op = choose_record(o, sample);
  const Device device = require_available(device_from_name(o.device));
  if (device.type != DeviceType::Cpu) sample->move_to(device);
  if (o.backward)
    for (const Tensor& t : sample->tensors)
      if (is_floating(t.dtype())) Tensor(t).set_requires_grad(true);
  const auto run = [&] {
    if (op.returns_list) return call_list(op, sample->args);
    std::vector<Tensor> outs(op.outputs);
    call_into(op, sample->args, outs.data());
    return outs;
  };
  run();  // warm-up
  Explanation seen;
  {
    Scoped<Explanation*> look(thread_state.explain, &seen);
    run();
  }
  tracing::start();
  const std::vector<Tensor> outs = run();
  if (o.backward) {
    STRATA_CHECK(!outs.empty() && outs[0].requires_grad(), Runtime,
                 "{} of these arguments has no gradient; leave out --backward", op.name);
    autograd::backward(outs[0], call(find_op("full"), [&] {
                         Args args = find_op("full").defaults;
                         args[0] = Value(IntList(outs[0].shape()));
                         args[1] = Value(1.0);
                         args[2] = Value(outs[0].dtype());
                         return args;
                       }()));
  }
  const std::vector<tracing::Event> events = tracing::stop();

  if (o.json) {
    nlohmann::json kernels = nlohmann::json::array(), spans = nlohmann::json::array();
    for (const auto& line : seen.lines)
      kernels.push_back({{"op", line.op->name},
                         {"kernel", line.kernel->name},
                         {"facts", facts_of(*line.kernel)},
                         {"reason", verdict(line)},
                         {"workspace", line.workspace}});
    for (const auto& e : events)
      spans.push_back({{"layer", tracing::name_of(e.layer)},
                       {"name", e.name},
                       {"detail", e.detail},
                       {"id", e.id},
                       {"begin_ns", e.begin_ns},
                       {"end_ns", e.end_ns}});
    fmt::print("{}\n", nlohmann::json{{"schema", op.schema}, {"kernels", kernels}, {"spans", spans}}.dump(2));
    return 0;
  }
  fmt::print("{}\n", op.schema);
  if (op.has_inplace) fmt::print("{}\n", schema_of(op, Form::InPlace));
  if (op.has_out && op.outputs) fmt::print("{}\n", schema_of(op, Form::Out));
  fmt::print("  {}\n\nkernels considered, fastest first\n", op.text);
  for (const auto& line : seen.lines)
    fmt::print("  {:<20} {:<24} {:<30} {}\n", line.op->name, line.kernel->name, facts_of(*line.kernel), verdict(line));
  fmt::print("\nspans of one call\n");
  print_spans(events);
  for (const Tensor& t : outs) fmt::print("\nresult {} {}\n", name_of(t.dtype()), to_string(t.shape()));
  return 0;
}
}  // namespace

void add_explain(CLI::App& app, Run& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
    app.add_subcommand("explain", "Run one op and show every layer it passes, which kernel ran and why");
  command->add_option("op", options->op, "The op, e.g. add or linalg.det")->required();
  command->add_option(
    "args", options->args,
    "Its arguments, e.g. 'f(3,4), f(4), alpha=2': f(..) normal, p(..) positive, i9(..) integers, b(..) booleans");
  command->add_option("--dtype", options->dtype, "Element type of the f(..) and p(..) tensors")->capture_default_str();
  command->add_option("--device", options->device, "Where the tensors are: cpu, cuda or vgpu")->capture_default_str();
  command->add_flag("--backward", options->backward, "Also run the gradient");
  command->add_flag("--json", options->json, "Machine-readable output");
  command->footer("Example: strata explain add 'f(512,512), f(512)' --backward");
  command->callback([&run, options] { run = [options] { return explain(*options); }; });
}

}  // namespace strata::cli
