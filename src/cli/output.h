// What the command says on standard error: progress, warnings, the reason why it ends.
#pragma once
#include <fmt/core.h>

#include <cstdio>

namespace strata::cli {

// Opens what the caller closed of standard input, output and error, so that no file of ours gets one of their numbers. Using
// them fails as if they were closed.
void open_standard_files();

void write_error(const std::string& text);

// Nobody can be told that standard error is closed or full: the command goes on, and its exit status still counts.
template <class... T> void say(fmt::format_string<T...> format, T&&... values) {
  write_error(fmt::format(format, std::forward<T>(values)...));
}

}  // namespace strata::cli
