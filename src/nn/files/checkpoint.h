// Saving and loading: reads and writes safetensors; reads PyTorch's checkpoints, without running their pickles.
#pragma once
#include "files/safetensors.h"
#include "nn/files/tree.h"

namespace strata {

// Writes named tensors as a safetensors file, atomically: if anything fails or the process is killed, the path has
// either the old file or the new one. A full disk and similar errors throw Io.
STRATA_API void save(const std::string& path, const TensorDict& tensors, const Metadata& metadata = {});
STRATA_API void save_tree(const std::string& path, const Tree& tree);  // nested: dicts, lists, numbers, texts

// Reads a safetensors file. A checkpoint of torch.save (.pt, .pth) is read too; nested dicts become names with dots,
// and other values than tensors are skipped. With mmap the tensors use the memory of the file, which is read on access;
// if another program writes to the file or truncates it, the tensors change, or the process dies by SIGBUS.
STRATA_API SafeTensors load(const std::string& path, bool mmap = false);
STRATA_API Tree load_tree(const std::string& path, bool mmap = false);  // nested as it was saved

STRATA_API SafeTensors load_safetensors(const std::string& path, bool mmap = false);  // no other format

namespace files {
STRATA_API Tree read_any(const std::shared_ptr<FileBytes>& file);  // detects the format from the first bytes
}

}  // namespace strata
