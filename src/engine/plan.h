// Plans: an engine as a safetensors file, which any reader of such files opens. It holds the network, its weights as they are, the
// profiles, and the kernels that were fastest on each device; packed forms of weights are made when it runs, so one plan serves all
// devices. docs/internals/engine.md has the format.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/plan_format.h"

namespace strata::engine {

// Writes the file whole or not at all.
STRATA_API void save_plan(const Engine& engine, const std::string& path);
STRATA_API std::string plan_bytes(const Engine& engine);

// The engine of a plan. Its device is the given one, else the one that it was built for. Throws Runtime, with the name of the file,
// if a byte was changed, something is missing, or it is of another version.
STRATA_API std::shared_ptr<Engine> read_plan(const std::shared_ptr<FileBytes>& file, std::optional<Device> device = {});
STRATA_API std::shared_ptr<Engine> load_plan(const std::string& path, std::optional<Device> device = {});

}  // namespace strata::engine
