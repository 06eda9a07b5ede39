// Messages on standard error: progress, warnings, the reason for failing.
#pragma once
#include <fmt/core.h>

#include <cstdio>

namespace strata::cli {

// Opens closed standard input, output and error, so that no file of ours gets one of their numbers. Using them fails as
// if they were closed.
void open_standard_files();

void write_error(const std::string& text);

// Ignores a closed or full standard error: the command continues, and its exit status still counts.
template <class... T> void say(fmt::format_string<T...> format, T&&... values) {
  write_error(fmt::format(format, std::forward<T>(values)...));
}

}  // namespace strata::cli
