// Runs a function in a child process: opening a library or starting a driver may crash or hang, and the doctor must
// not.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace strata::doctor {

struct ChildResult {
  std::string output;
  std::string failure;  // empty: the child has ended by itself, with status 0
  int status = 0;       // of a program that has ended by itself
};

// The text that f returns.
ChildResult in_child(const std::function<std::string()>& f, double seconds);
// A program with its arguments: what it prints on standard output, and on standard error too if `errors`.
ChildResult run_child(const std::vector<std::string>& words, const std::vector<std::string>& environment, bool errors,
                      double seconds);

}  // namespace strata::doctor
