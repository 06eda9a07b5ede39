// The kernels that nvcc compiled for the tests.
#include <fstream>
#include <sstream>

#include "tests/cuda/vgpu/machine.h"

namespace strata::cuda::vgpu::testing {

Whole compiled(const std::string& name) {
  const std::string path = std::string(STRATA_PTX) + "/" + name + ".ptx";
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::Value, "cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return {text.str()};
}

}  // namespace strata::cuda::vgpu::testing
