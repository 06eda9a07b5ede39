#include "cuda/libs/cudnn.h"

#include "cuda/libs/libraries.h"

namespace strata::cuda::cudnn {

const Functions* functions() {
  static Functions f;
  static const bool usable = find_all(vendor_library(Vendor::Cudnn).library, [](const auto& find) {
    find(f.create, "cudnnCreate");
    find(f.set_stream, "cudnnSetStream");
    find(f.status_name, "cudnnGetErrorString");
    find(f.descriptor_create, "cudnnBackendCreateDescriptor");
    find(f.descriptor_destroy, "cudnnBackendDestroyDescriptor");
    find(f.descriptor_finalize, "cudnnBackendFinalize");
    find(f.descriptor_set, "cudnnBackendSetAttribute");
    find(f.descriptor_get, "cudnnBackendGetAttribute");
    find(f.execute, "cudnnBackendExecute");
  });
  return usable ? &f : nullptr;
}

}  // namespace strata::cuda::cudnn
