#include "nn/files/checkpoint.h"

namespace strata {

void save(const std::string& path, const TensorDict& tensors, const Metadata& metadata) {
  const files::SafeTensorsWriter writer(tensors, metadata);
  AtomicFile file(path, writer.size());
  writer.write([&](Bytes piece) { file.write(piece); });
  file.commit();
}

SafeTensors load(const std::string& path) { return files::read_safetensors(FileBytes::map(path)); }

}  // namespace strata
