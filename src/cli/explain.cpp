// `strata explain`: runs one op and shows all layers, the kernels considered and why, and the time of each span.
#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "autograd/autograd.h"
#include "base/trace.h"
#include "cli/commands.h"
#include "cli/sample_call.h"

namespace strata::cli {
namespace {

struct Options : SampleOptions {
  bool backward = false, json = false, replay = false;
  std::string compile, html;
  std::vector<std::string> inputs;
  int calls = 4;
};

// In a build tree Python finds the package beside the command.
void offer_own_package() {
  std::error_code failed;
  const auto command = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto folder = command.parent_path().parent_path() / "python";
  if (failed || !std::filesystem::exists(folder / "strata/__init__.py", failed)) return;
  const char* given = std::getenv("PYTHONPATH");
  setenv("PYTHONPATH", (given && *given ? given + (":" + folder.string()) : folder.string()).c_str(), 1);
}

// A compiled function of a Python file: Python explains it, in place of this process.
int explain_compiled(const Options& o) {
  constexpr const char* kRun =
    "import importlib.util, runpy, sys\n"
    "if not importlib.util.find_spec('strata'):\n"
    "    print(f'strata: explain --compile: {sys.executable} has no package strata; set STRATA_PYTHON to a Python that "
    "'\n"
    "          'has it, or PYTHONPATH to its folder', file=sys.stderr)\n"
    "    sys.exit(2)\n"
    "runpy.run_module('strata._explain_command', run_name='__main__', alter_sys=True)\n";
  const char* chosen = std::getenv("STRATA_PYTHON");
  const std::string python = chosen && *chosen ? chosen : "python3";
  offer_own_package();
  std::vector<std::string> words = {
    python, "-c", kRun, "--compile", o.compile, "--device", o.device, "--calls", std::to_string(o.calls)};
  for (const std::string& input : o.inputs) words.push_back("--input=" + input);
  if (o.backward) words.emplace_back("--backward");
  if (o.replay) words.emplace_back("--replay");
  if (o.json) words.emplace_back("--json");
  if (!o.html.empty()) words.push_back("--html=" + o.html);
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  execvp(python.c_str(), list.data());
  fail(ErrorKind::Io,
       fmt::format("explain --compile: cannot run '{}': {}; set STRATA_PYTHON to the Python that has the "
                   "package strata",
                   python, std::strerror(errno)));
}

void print_spans(const tracing::Recording& recording) {
  std::vector<tracing::Event> events = recording.events;
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<int64_t> open;
  for (const tracing::Event& e : events) {
    while (!open.empty() && e.begin_ns >= open.back()) open.pop_back();
    const std::string label = fmt::format("{}{}: {} {}", std::string(2 * open.size() + 2, ' '),
                                          tracing::name_of(e.layer), e.name, recording.detail(e));
    fmt::print("{:<72} {:>10.2f} us\n", label, static_cast<double>(e.end_ns - e.begin_ns) / 1e3);
    open.push_back(e.end_ns);
  }
}

int explain(const Options& o) {
  if (!o.compile.empty()) return explain_compiled(o);
  STRATA_CHECK(!o.op.empty(), Value,
               "explain: name an op, such as add, or a compiled function with --compile model.py:Net");
  const SampleCall call_of(o);
  const OpRecord& op = *call_of.op;
  if (o.backward)
    for (const Tensor& t : call_of.sample->tensors)
      if (is_floating(t.dtype())) Tensor(t).set_requires_grad(true);
  const auto run = [&] { return call_of.run(); };
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
  const tracing::Recording recording = tracing::stop();

  if (o.json) {
    nlohmann::json kernels = nlohmann::json::array(), spans = nlohmann::json::array();
    for (const auto& line : seen.lines)
      kernels.push_back({{"op", line.op->name},
                         {"kernel", line.kernel->name},
                         {"facts", facts_of(*line.kernel)},
                         {"reason", verdict(line)},
                         {"workspace", line.workspace}});
    for (const auto& e : recording.events)
      spans.push_back({{"layer", tracing::name_of(e.layer)},
                       {"name", e.name},
                       {"detail", recording.detail(e)},
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
  print_spans(recording);
  for (const Tensor& t : outs) fmt::print("\nresult {} {}\n", name_of(t.dtype()), to_string(t.shape()));
  return 0;
}
}  // namespace

void add_explain(CLI::App& app, Run& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
    app.add_subcommand("explain",
                       "Run one op and show every layer it passes, which kernel ran and why; or a compiled "
                       "network, and what was fused and why");
  add_sample_options(*command, *options, false);
  command->add_option("--compile", options->compile, "A module or function of a Python file, e.g. model.py:Net");
  command->add_option("--input", options->inputs, "With --compile: an argument, e.g. 'f(8,3,32,32)'; once for each")
    ->allow_extra_args(false);
  command->add_flag("--replay", options->replay, "With --compile: replay calls");
  command->add_option("--calls", options->calls, "With --replay: calls before the one that is explained")
    ->capture_default_str();
  command->add_option("--html", options->html, "With --compile: write a page");
  command->add_flag("--backward", options->backward, "Also run the gradient");
  command->add_flag("--json", options->json, "Machine-readable output");
  command->footer("Example: strata explain add 'f(512,512), f(512)' --backward");
  command->callback([&run, options] { run = [options] { return explain(*options); }; });
}

}  // namespace strata::cli
