// The subcommands of `strata`. Each returns an exit status: 0 success, 1 user error, 2 environment, 3 not available.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace strata::cli {

using Run = std::function<int()>;

void add_ops(CLI::App& app, Run& run);
void add_explain(CLI::App& app, Run& run);
void add_devices(CLI::App& app, Run& run);
void add_doctor(CLI::App& app, Run& run);
void add_libraries(CLI::App& app, Run& run);
void add_tune(CLI::App& app, Run& run);
void add_trace(CLI::App& app, Run& run);
void add_train(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_report(CLI::App& app, Run& run);
void add_onnx(CLI::App& app, Run& run);
void add_engine(CLI::App& app, Run& run);
void add_help(CLI::App& app, Run& run);
void add_completion(CLI::App& app, Run& run);

int welcome();  // of `strata` alone

}  // namespace strata::cli
