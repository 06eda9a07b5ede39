#include "cli/sample_call.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/device_option.h"

namespace strata::cli {
// By its full name, an alias, or without the namespace: glu for nn.functional.glu.
bool is_called(const OpRecord& op, const std::string& name) {
  const auto ends_so = [&](std::string_view full) { return full == name || full.ends_with("." + name); };
  return ends_so(op.name) || std::any_of(op.aliases.begin(), op.aliases.end(), ends_so);
}

namespace {

// The overload whose parameters the text fits.
const OpRecord& choose_record(const SampleOptions& o, std::unique_ptr<Sample>& sample) {
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
}  // namespace

void add_sample_options(CLI::App& command, SampleOptions& options, bool required) {
  command.add_option("op", options.op, "The op, e.g. add or linalg.det")->required(required);
  command.add_option(
    "args", options.args,
    "Its arguments, e.g. 'f(3,4), f(4), alpha=2': f(..) normal, p(..) positive, i9(..) integers, b(..) booleans");
  command.add_option("--dtype", options.dtype, "Element type of the f(..) and p(..) tensors")->capture_default_str();
  command.add_option("--device", options.device, "Where the tensors are: cpu, cuda or vgpu")->capture_default_str();
}

SampleCall::SampleCall(const SampleOptions& options) : op(&choose_record(options, sample)) {
  const Device device = device_of_option(options.device);
  if (device.type != DeviceType::Cpu) sample->move_to(device);
}

std::vector<Tensor> SampleCall::run() const {
  if (op->returns_list) return call_list(*op, sample->args);
  std::vector<Tensor> outs(op->outputs);
  call_into(*op, sample->args, outs.data());
  return outs;
}

}  // namespace strata::cli
