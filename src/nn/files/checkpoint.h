// Saving and loading: safetensors both ways; PyTorch's checkpoints one way, without running their pickles.
#pragma once
#include "nn/files/safetensors.h"
#include "nn/files/tree.h"

namespace strata {

// Writes named tensors as a safetensors file, whole or not at all: whatever goes wrong, whenever the process is killed, the
// path names the old file or the new one. A full disk and the like throw Io.
STRATA_API void save(const std::string& path, const TensorDict& tensors, const Metadata& metadata = {});
STRATA_API void save_tree(const std::string& path, const Tree& tree);  // nested: dicts, lists, numbers, texts

// Reads a safetensors file. A checkpoint of torch.save (.pt, .pth) is read too; nested dicts become names with dots, what is no
// tensor is left out. With mmap the tensors use the memory of the file, which is read when it is touched; a file that another
// program writes to or cuts short meanwhile changes them, or ends the process (SIGBUS).
STRATA_API SafeTensors load(const std::string& path, bool mmap = false);
STRATA_API Tree load_tree(const std::string& path, bool mmap = false);  // as it was nested when saved

STRATA_API SafeTensors load_safetensors(const std::string& path, bool mmap = false);  // and no other format

namespace files {
STRATA_API Tree read_any(const std::shared_ptr<FileBytes>& file);  // told apart by the first bytes
}

}  // namespace strata
