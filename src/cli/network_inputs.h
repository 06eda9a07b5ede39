// Inputs of networks on the command line: sizes by name, files of tensors, random numbers for the rest.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/network.h"

namespace strata::cli {

using SizesByName = std::map<std::string, std::vector<int64_t>>;

// "x=1x3x224x224", or as trtexec writes it "x:1x3x224x224,y:5"; `option` is for messages.
SizesByName sizes_by_name(const std::vector<std::string>& given, const char* option);

struct GivenInputs {
  SizesByName sizes = {};  // of random inputs
  std::string file = {};   // safetensors, by the names of inputs
};
// A value for each input: from the file, random numbers, or nothing for one with a default. Sizes that nobody gives are 1.
onnx::Values make_inputs(const std::vector<engine::Port>& ports, Device device, const GivenInputs& given);

}  // namespace strata::cli
