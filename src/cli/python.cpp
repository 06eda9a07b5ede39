#include "cli/python.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace strata::cli {
namespace {

// In a build tree Python finds the package beside the command.
void offer_own_package() {
  std::error_code failed;
  const auto command = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto folder = command.parent_path().parent_path() / "python";
  if (failed || !std::filesystem::exists(folder / "strata/__init__.py", failed)) return;
  const char* given = std::getenv("PYTHONPATH");
  setenv("PYTHONPATH", (given && *given ? given + (":" + folder.string()) : folder.string()).c_str(), 1);
}

constexpr const char* kRun = R"(
import importlib.util, runpy, sys
command, module = sys.argv[1:3]
if not importlib.util.find_spec('strata'):
    print(f'strata: {command}: {sys.executable} has no package strata; set STRATA_PYTHON to a Python that has it, or '
          'PYTHONPATH to its folder', file=sys.stderr)
    sys.exit(2)
del sys.argv[1:3]
runpy.run_module(module, run_name='__main__', alter_sys=True)
)";

}  // namespace

void run_in_python(const std::string& command, const std::string& module, const std::vector<std::string>& arguments) {
  const char* chosen = std::getenv("STRATA_PYTHON");
  const std::string python = chosen && *chosen ? chosen : "python3";
  offer_own_package();
  std::vector<std::string> words = {python, "-c", kRun, command, module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> list;
  list.reserve(words.size() + 1);
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  execvp(python.c_str(), list.data());
  fail(ErrorKind::Io,
       fmt::format("{}: cannot run '{}': {}; set STRATA_PYTHON to the Python that has the package strata", command,
                   python, std::strerror(errno)));
}

}  // namespace strata::cli
