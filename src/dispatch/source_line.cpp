#include "dispatch/source_line.h"

#include <fmt/core.h>

#include "cuda/runtime/runtime.h"

namespace strata {

STRATA_THREAD_LOCAL_DECL thread_local constinit const std::string* replayed_line = nullptr;

std::string program_line() {
  const auto line = cuda::program_line.load();
  return line ? line() : std::string();
}

std::string short_program_line() {
  if (replayed_line) return *replayed_line;
  const std::string line = program_line();
  const size_t end = line.rfind("\", line ");
  if (end == std::string::npos) return line;
  const size_t quote = line.find('"'), slash = line.rfind('/', end);
  const size_t begin = (slash == std::string::npos || slash < quote ? quote : slash) + 1;
  const size_t number = end + std::string_view("\", line ").size();
  return fmt::format("{}:{}", line.substr(begin, end - begin), line.substr(number, line.find(',', number) - number));
}

}  // namespace strata
