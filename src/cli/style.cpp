#include "cli/style.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace strata::cli {
namespace {

std::string with(const char* code, const std::string& text) {
  return styled() ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
}

}  // namespace

bool styled() {
  const char *off = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  const bool dumb = terminal && std::string_view(terminal) == "dumb";
  return isatty(STDOUT_FILENO) != 0 && !(off && *off) && !dumb;
}

std::string bold(const std::string& text) { return with("1", text); }
std::string red(const std::string& text) { return with("1;31", text); }
std::string yellow(const std::string& text) { return with("33", text); }

}  // namespace strata::cli
