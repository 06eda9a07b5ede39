#include "tensor/file_storage.h"

#include <cstring>

namespace strata::files {
namespace {

struct Piece {
  std::shared_ptr<FileBytes> file;
  size_t offset, bytes;
};
void release_piece(void* p) {
  const std::unique_ptr<Piece> piece(static_cast<Piece*>(p));
  piece->file->forget(piece->offset, piece->bytes);
}
}  // namespace

Ref<Storage> storage_in(const std::shared_ptr<FileBytes>& file, size_t offset, size_t bytes, DType dtype) {
  std::byte* data = file->data() + offset;
  if (reinterpret_cast<uintptr_t>(data) % size_of(dtype) != 0) {
    Ref<Storage> copy = allocate(bytes);
    std::memcpy(copy->data, data, bytes);
    return copy;
  }
  // One storage per tensor, not one per file: it has the version counter, and a write to one weight is not a write to
  // all.
  auto owner = std::make_unique<Piece>(Piece{file, offset, bytes});
  Ref<Storage> storage = adopt_memory(data, bytes, release_piece, owner.get());
  (void)owner.release();
  return storage;
}

}  // namespace strata::files
