#include "nn/files/torch_file.h"

#include <algorithm>
#include <unordered_map>

#include "nn/files/pickle.h"
#include "nn/files/zip.h"
#include "tensor/file_storage.h"

namespace strata::files {
namespace {

class Storages : public StorageSource {
 public:
  Storages(const ZipFile& zip, std::string prefix) : zip_(zip), prefix_(std::move(prefix)) {}

  Ref<Storage> storage(const std::string& key, uint64_t bytes) override {
    const std::string& file = zip_.file()->name();
    const std::string member = prefix_ + "data/" + key;
    auto found = known_.find(key);
    if (found == known_.end()) {
      const Bytes data = zip_.read(member);
      const auto offset = static_cast<size_t>(data.data() - zip_.file()->data());
      // Tensors that share a storage keep sharing it. Aligned for the widest elements: the tensor determines the dtype.
      found = known_.emplace(key, data.empty() ? allocate(0) : storage_in(zip_.file(), offset, data.size(), DType::F64))
                .first;
      sizes_[key] = data.size();
    }
    STRATA_CHECK(sizes_[key] == bytes, Runtime,
                 "'{}': member '{}' has {} bytes, its storage needs {}; the file is truncated or damaged", file, member,
                 sizes_[key], bytes);
    return found->second;
  }

 private:
  const ZipFile& zip_;
  std::string prefix_;
  std::unordered_map<std::string, Ref<Storage>> known_;
  std::unordered_map<std::string, uint64_t> sizes_;
};

bool starts_with(Bytes file, std::string_view start) {
  return file.size() >= start.size() &&
         std::equal(start.begin(), start.end(), reinterpret_cast<const char*>(file.data()));
}
}  // namespace

bool is_zip(Bytes file) { return starts_with(file, "PK\3\4") || starts_with(file, "PK\5\6"); }
// A safetensors file may start with the same two bytes, but its header starts with a brace.
bool is_bare_pickle(Bytes file) {
  return file.size() >= 9 && file[0] == std::byte{0x80} && file[1] >= std::byte{2} && file[1] <= std::byte{5} &&
         file[8] != std::byte{'{'};
}

Tree read_torch(const std::shared_ptr<FileBytes>& file) {
  const ZipFile zip(file);
  const std::string& name = file->name();
  std::string pickle;
  for (const auto& [member, _] : zip.members()) {
    if (member != "data.pkl" && !member.ends_with("/data.pkl")) continue;
    STRATA_CHECK(pickle.empty(), Runtime, "'{}': the zip archive holds several checkpoints ('{}' and '{}')", name,
                 pickle, member);
    pickle = member;
  }
  STRATA_CHECK(!pickle.empty(), Runtime, "'{}' is a zip archive without data.pkl, no checkpoint of torch.save", name);
  const std::string prefix = pickle.substr(0, pickle.size() - std::string_view("data.pkl").size());
  STRATA_CHECK(!zip.has(prefix + "constants.pkl"), Runtime,
               "'{}' is a TorchScript program, not a checkpoint; save the model's state_dict with torch.save", name);
  if (zip.has(prefix + "byteorder")) {
    const Bytes order = zip.read(prefix + "byteorder");
    STRATA_CHECK(starts_with(order, "little"), Runtime,
                 "'{}' was written on a big-endian machine; save it again on another", name);
  }
  Storages storages(zip, prefix);
  constexpr size_t kBeside = 48 << 20;  // memory that a bad file may use in addition to its size
  return read_pickle(zip.read(pickle), name, storages, file->size() + kBeside);
}

}  // namespace strata::files
