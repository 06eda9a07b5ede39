// The `strata` command: parses the arguments, runs one subcommand, turns errors into messages and exit statuses.
#include <fmt/core.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <system_error>
#include <typeinfo>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cuda/runtime/images.h"
#include "record/op.h"

namespace strata::cli {
namespace {

int exit_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::OutOfMemory:
    case ErrorKind::Io:
    case ErrorKind::Internal: return 2;
    case ErrorKind::NotImplemented: return 3;
    default: return 1;
  }
}

void print_build_info() {
  const bool kernels = !cuda::images().empty();
  fmt::print("strata {}\ncompiler    g++ {}\nback ends   cpu{}\nops         {}\n", STRATA_VERSION, __VERSION__,
             kernels ? ", cuda, vgpu" : "", all_ops().size());
  if (!kernels) return;
  size_t packed = 0, ptx = 0, machine = 0;
  for (const cuda::Image& image : cuda::images()) {
    packed += image.ptx.bytes.size() + image.machine.bytes.size();
    ptx += image.ptx.unpacked_bytes();
    machine += image.machine.unpacked_bytes();
  }
  const auto mb = [](size_t bytes) { return static_cast<double>(bytes) / 1e6; };
  fmt::print("kernels     {} files: PTX {:.1f} MB", cuda::images().size(), mb(ptx));
  if (machine) fmt::print(", machine code for sm_{} {:.1f} MB", cuda::built_architectures(), mb(machine));
  fmt::print("; {:.1f} MB packed\n", mb(packed));
}

// The parser's messages have several lines.
std::string one_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n')) text.replace(at, 1, ", ");
  return text;
}

int run(int argc, char** argv) {
  CLI::App app{"Strata: a deep-learning stack you can see through.", "strata"};
  app.footer("Example: strata explain softmax 'f(64,1000), dim=1'");
  app.set_version_flag("--version", std::string("strata ") + STRATA_VERSION);
  bool build_info = false;
  app.add_flag("--build-info", build_info, "What this build contains");
  Run chosen;
  add_ops(app, chosen);
  add_explain(app, chosen);
  add_devices(app, chosen);
  add_doctor(app, chosen);
  add_libraries(app, chosen);
  add_tune(app, chosen);
  add_trace(app, chosen);
  add_train(app, chosen);
  add_bench(app, chosen);
  add_report(app, chosen);
  add_onnx(app, chosen);
  add_engine(app, chosen);
  add_completion(app, chosen);
  add_help(app, chosen);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    const auto given = app.get_subcommands();
    say("strata: {}; `strata {}--help` lists what there is\n", one_line(e.what()),
        given.empty() ? "" : given[0]->get_name() + " ");
    return 1;
  }
  if (build_info) {
    print_build_info();
    return 0;
  }
  return chosen ? chosen() : welcome();
}
}  // namespace
}  // namespace strata::cli

int main(int argc, char** argv) {
  using strata::cli::say;
  strata::cli::open_standard_files();
  std::signal(SIGPIPE, SIG_IGN);  // `strata ops | head -1` then fails in print instead
  try {
    const int status = strata::cli::run(argc, argv);
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
    if (errno != EPIPE) say("strata: cannot write to standard output\n");
    return status ? status : 2;
  } catch (const strata::Error& e) {
    say("strata: {}\n", e.what());
    return strata::cli::exit_status(e.kind());
  } catch (const std::system_error& e) {
    if (e.code().value() == EPIPE) return 2;  // the reader has closed the pipe: nothing to report
    say("strata: {}\n", e.code().message());
  } catch (const std::bad_alloc&) { say("strata: out of memory\n"); } catch (const std::length_error&) {
    say("strata: out of memory\n");
  } catch (const std::exception& e) {
    say("strata: internal error: an unexpected C++ exception of type {}; this is a bug in Strata, please report it\n",
        typeid(e).name());
  }
  return 2;
}
