#include "nn/files/checkpoint.h"

#include <fmt/core.h>

#include "files/safetensors_header.h"
#include "nn/files/torch_file.h"

namespace strata {
namespace {

void flatten(const Tree& tree, const std::string& path, TensorDict& out) {
  if (const auto* t = tree.get<Tensor>()) {
    out.emplace_back(path.empty() ? "tensor" : path, *t);
  } else if (const auto* list = tree.get<TreeList>()) {
    for (size_t i = 0; i < list->items.size(); ++i)
      flatten(list->items[i], fmt::format("{}{}{}", path, path.empty() ? "" : ".", i), out);
  } else if (const auto* dict = tree.get<TreeDict>()) {
    for (size_t i = 0; i < dict->keys.size(); ++i) {
      const auto* text = dict->keys[i].get<std::string>();
      const auto* number = dict->keys[i].get<int64_t>();
      flatten(dict->values[i],
              fmt::format("{}{}{}", path, path.empty() ? "" : ".",
                          text ? *text : std::to_string(number ? *number : static_cast<int64_t>(i))),
              out);
    }
  }
}

// Large files that cannot be a checkpoint are rejected by their first bytes, before memory is allocated.
std::shared_ptr<FileBytes> open(const std::string& path, bool mmap) {
  if (mmap) return FileBytes::map(path);
  const auto start = FileBytes::read(path, 16);
  if (!files::is_zip(start->bytes()) && !files::is_bare_pickle(start->bytes()))
    files::header_length(start->bytes(), path);
  return FileBytes::read(path);
}

void check_no_bare_pickle(const FileBytes& file) {
  STRATA_CHECK(!files::is_bare_pickle(file.bytes()), Runtime,
               "'{}' is a bare pickle (PyTorch's format before version 1.6, or another program's), which cannot be "
               "read without running "
               "it. Where you trust it, load it with PyTorch and save it again with torch.save or as safetensors",
               file.name());
}
}  // namespace

void save(const std::string& path, const TensorDict& tensors, const Metadata& metadata) {
  const files::SafeTensorsWriter writer(tensors, metadata);
  AtomicFile file(path, writer.size());
  writer.write([&](Bytes piece) { file.write(piece); });
  file.commit();
}

void save_tree(const std::string& path, const Tree& tree) {
  const SafeTensors contents = files::to_safetensors(tree);
  save(path, contents.tensors, contents.metadata);
}

SafeTensors load(const std::string& path, bool mmap) {
  const auto file = open(path, mmap);
  check_no_bare_pickle(*file);
  if (!files::is_zip(file->bytes())) return files::read_safetensors(file);
  SafeTensors result;
  flatten(files::read_torch(file), "", result.tensors);
  return result;
}

SafeTensors load_safetensors(const std::string& path, bool mmap) {
  if (!mmap) files::header_length(FileBytes::read(path, 8)->bytes(), path);
  return files::read_safetensors(mmap ? FileBytes::map(path) : FileBytes::read(path));
}

Tree load_tree(const std::string& path, bool mmap) { return files::read_any(open(path, mmap)); }

Tree files::read_any(const std::shared_ptr<FileBytes>& file) {
  check_no_bare_pickle(*file);
  if (is_zip(file->bytes())) return read_torch(file);
  return to_tree(read_safetensors(file), file->name());
}

}  // namespace strata
