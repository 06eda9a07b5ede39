// `strata explain`: follows one call through all layers. Expressions and networks are explained by Python.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "autograd/autograd.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/python.h"
#include "cli/sample_call.h"
#include "strata/ops.h"
#include "system/explain/journey.h"

namespace strata::cli {
namespace {

struct Options : SampleOptions {
  bool backward = false, json = false, replay = false, list = false;
  std::string compile, html;
  std::vector<std::string> inputs, shapes;
  int calls = 4;
};

// What Python has to explain, in place of this process: `what` is one of the options of strata._explain_command.
[[noreturn]] void explain_in_python(const Options& o, const std::string& what, const std::string& value) {
  std::vector<std::string> words = {what + "=" + value, "--device", o.device, "--dtype", o.dtype};
  words.insert(words.end(), {"--calls", std::to_string(o.calls)});
  for (const std::string& input : o.inputs) words.push_back("--input=" + input);
  if (o.backward) words.emplace_back("--backward");
  if (o.replay) words.emplace_back("--replay");
  if (o.json) words.emplace_back("--json");
  if (!o.html.empty()) words.push_back("--html=" + o.html);
  run_in_python("explain", "strata._explain_command", words);
}

// f(shape) for each tensor that the op needs; the last shape serves all that follow.
std::string arguments_of(const Options& o) {
  std::string text;
  for (const OpRecord* op : all_ops()) {
    if (!is_called(*op, o.op)) continue;
    size_t tensors = 0;
    for (uint32_t i = 0; i < op->required; ++i) tensors += op->params[i].type == ParamType::Tensor;
    if (tensors == 0) continue;
    for (size_t i = 0; i < tensors; ++i)
      text += fmt::format("{}f({})", i ? ", " : "", o.shapes[std::min(i, o.shapes.size() - 1)]);
    return text;
  }
  fail(ErrorKind::Value, fmt::format("--shape: {} takes no tensors; give its arguments as text", o.op));
}

int explain_op(Options o) {
  STRATA_CHECK(o.shapes.empty() || o.args.empty(), Value, "--shape: the arguments '{}' have shapes already", o.args);
  if (!o.shapes.empty()) o.args = arguments_of(o);
  const SampleCall call_of(o);
  const OpRecord& op = *call_of.op;
  if (o.backward)
    for (const Tensor& t : call_of.sample->tensors)
      if (is_floating(t.dtype())) Tensor(t).set_requires_grad(true);
  std::vector<Tensor> ones;  // made by the first of two calls
  const auto run = [&] {
    std::vector<Tensor> outs = call_of.run();
    if (!o.backward) return outs;
    STRATA_CHECK(!outs.empty() && outs[0].requires_grad(), Runtime,
                 "{} of these arguments has no gradient; leave out --backward", op.name);
    if (ones.empty()) ones.push_back(ones_like(outs[0].detach()));
    autograd::backward(outs[0], ones[0]);
    return outs;
  };
  const journey::Journey j = journey::follow(run, o.args.empty() ? op.name : fmt::format("{}({})", op.name, o.args));
  if (!o.html.empty()) {
    write_file(o.html, j.to_html());
    if (!o.json) fmt::print("written: {}\n", o.html);
  }
  if (o.json) fmt::print("{}\n", j.to_json());
  else if (o.html.empty()) fmt::print("{}", j.to_text());
  return 0;
}

int explain(const Options& o) {
  if (o.list) {
    fmt::print("{}", journey::list_kernels(o.json));
    return 0;
  }
  if (!o.compile.empty()) explain_in_python(o, "--compile", o.compile);
  STRATA_CHECK(
    !o.op.empty(), Value,
    "explain: name an op, such as add, or write an expression, such as 'f(3) + f(3)', or name a network of a Python "
    "file, such as model.py:Net; a compiled function with --compile model.py:Net");
  if (o.op.find(".py:") != o.op.npos) explain_in_python(o, "--network", o.op);
  if (o.op.find_first_of("(+-*/@<>=[") != o.op.npos) explain_in_python(o, "--expression", o.op);
  return explain_op(o);
}
}  // namespace

void add_explain(CLI::App& app, Run& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
    "explain",
    "Follow one call through every layer, from the Python line to the instructions: of an op, an expression, or each "
    "layer of a network; or a compiled network, and what was fused and why");
  add_sample_options(*command, *options, false);
  command->add_option("--shape", options->shapes, "With an op: sizes of its tensors, e.g. 512,512; once for each")
    ->allow_extra_args(false);
  command->add_option("--compile", options->compile, "A module or function of a Python file, e.g. model.py:Net");
  command->add_option("--input", options->inputs, "Of a network: an argument, e.g. 'f(8,3,32,32)'; once for each")
    ->allow_extra_args(false);
  command->add_flag("--replay", options->replay, "With --compile: replay calls");
  command->add_option("--calls", options->calls, "With --replay: calls before the one that is explained")
    ->capture_default_str();
  command->add_option("--html", options->html, "Write a page");
  command->add_flag("--backward", options->backward, "Also run the gradient");
  command->add_flag("--list", options->list, "List every op with its kernels per back end");
  command->add_flag("--json", options->json, "Machine-readable output");
  command->footer(
    "Example: strata explain add 'f(512,512), f(512)' --backward\n         strata explain 'f(64,64) @ f(64,64)' "
    "--device vgpu\n"
    "         strata explain model.py:Net --input 'f(128,1,28,28)'");
  command->callback([&run, options] { run = [options] { return explain(*options); }; });
}

}  // namespace strata::cli
