// One call of an op with arguments that a user writes on the command line: 'f(3,4), f(4), alpha=2'.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/samples.h"

namespace strata::cli {

struct SampleOptions {
  std::string op, args, dtype = "float32", device = "cpu";
};
bool is_called(const OpRecord& op, const std::string& name);
void add_sample_options(CLI::App& command, SampleOptions& options, bool required);

struct SampleCall {
  // Chooses the overload that the arguments fit, and moves the tensors to the device. Throws Value if there is none.
  explicit SampleCall(const SampleOptions& options);
  std::vector<Tensor> run() const;

  std::unique_ptr<Sample> sample;  // before op, whose choice makes it
  const OpRecord* op;
};

}  // namespace strata::cli
