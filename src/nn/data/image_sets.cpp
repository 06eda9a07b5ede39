#include "nn/data/image_sets.h"

#include <fmt/core.h>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/gzip.h"
#include "nn/data/idx.h"
#include "strata/ops/movement/copy.h"

namespace strata::data {
namespace {

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// The file `stem` or `stem`.gz in one of the usual folders.
std::optional<std::string> find_idx(const std::string& root, const std::string& name, const std::string& stem) {
  for (const std::string& folder : {root, root + "/" + name + "/raw", root + "/raw"})
    for (const char* packed : {"", ".gz"})
      if (std::string path = folder + "/" + stem + packed; is_file(path)) return path;
  return std::nullopt;
}
Tensor read_part(const std::string& root, const std::string& name, const std::string& stem) {
  const std::optional<std::string> path = find_idx(root, name, stem);
  if (!path)
    throw IoError(ENOENT,
                  fmt::format("{0}: neither '{2}' nor '{2}.gz' is in '{1}', '{1}/{0}/raw' or '{1}/raw'; download it "
                              "from Python with strata.vision.datasets.{0}(root, download=True), or name the folder "
                              "that holds it",
                              name, root, stem));
  return read_idx(*path);
}

constexpr size_t kImage = 3 * 32 * 32, kRecord = kImage + 1;

// Appends a batch file of CIFAR-10: records of a label and an image.
void add_batch(Bytes file, const std::string& name, std::vector<std::byte>& images, std::vector<int64_t>& labels) {
  STRATA_CHECK(
    !file.empty() && file.size() % kRecord == 0, Runtime,
    "'{}' has {} bytes; a CIFAR-10 batch is a number of records of {} bytes. The file is damaged: download it again",
    name, file.size(), kRecord);
  for (; !file.empty(); file = file.subspan(kRecord)) {
    const auto label = std::to_integer<int64_t>(file[0]);
    STRATA_CHECK(label < 10, Runtime,
                 "'{}': label {} at record {}; expected 0 to 9. Is this CIFAR-10 in its binary version?", name, label,
                 labels.size());
    labels.push_back(label);
    images.insert(images.end(), file.begin() + 1, file.begin() + kRecord);
  }
}

std::vector<std::string> batch_names(bool train) {
  if (!train) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
}

// The requested members of a tar file, in the requested order.
void read_tar(const std::string& path, const std::vector<std::string>& wanted, std::vector<std::byte>& images,
              std::vector<int64_t>& labels) {
  constexpr size_t kBlock = 512, kMost = 10001 * kRecord;
  const auto file = FileBytes::read(path);
  ByteStream stream(file->bytes(), path);
  std::array<char, kBlock> header;
  std::vector<std::byte> body;
  std::vector<std::vector<std::byte>> parts(wanted.size());
  while (stream.read(reinterpret_cast<std::byte*>(header.data()), kBlock) == kBlock && header[0] != 0) {
    STRATA_CHECK(std::memcmp(header.data() + 257, "ustar", 5) == 0, Runtime,
                 "'{}' is not a tar archive; download it again", path);
    const std::string member(header.data(), strnlen(header.data(), 100));
    size_t size = 0;
    for (size_t i = 124; i < 135; ++i) {
      if (header[i] == 0 || header[i] == ' ') continue;
      STRATA_CHECK(header[i] >= '0' && header[i] <= '7', Runtime,
                   "'{}': the size of member '{}' is not an octal number", path, member);
      size = size * 8 + static_cast<size_t>(header[i] - '0');
    }
    const std::string name = member.substr(member.rfind('/') + 1);
    const auto place = static_cast<size_t>(std::find(wanted.begin(), wanted.end(), name) - wanted.begin());
    STRATA_CHECK(size <= kMost, Runtime, "'{}': member '{}' has {} bytes; a CIFAR-10 batch has {}", path, member, size,
                 10000 * kRecord);
    body.resize((size + kBlock - 1) / kBlock * kBlock);
    STRATA_CHECK(stream.read(body.data(), body.size()) == body.size(), Runtime,
                 "'{}' ends inside member '{}'; it is truncated, download it again", path, member);
    if (place == wanted.size()) continue;
    STRATA_CHECK(parts[place].empty(), Runtime, "'{}': member '{}' is there twice", path, member);
    body.resize(size);
    parts[place] = std::exchange(body, {});
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    STRATA_CHECK(!parts[i].empty(), Runtime, "'{}': '{}' of CIFAR-10's binary version is missing; download it again",
                 path, wanted[i]);
    add_batch(parts[i], path + ":" + wanted[i], images, labels);
  }
}
}  // namespace

ImageSet mnist(const std::string& root, bool train, const std::string& name) {
  const std::string part = train ? "train" : "t10k";
  const Tensor images = read_part(root, name, part + "-images-idx3-ubyte");
  const Tensor labels = read_part(root, name, part + "-labels-idx1-ubyte");
  STRATA_CHECK(images.dtype() == DType::U8 && images.dim() == 3, Runtime,
               "{}: the images in '{}' are {} of shape {}; expected uint8 of three dimensions", name, root,
               name_of(images.dtype()), to_string(images.shape()));
  STRATA_CHECK(labels.dtype() == DType::U8 && labels.dim() == 1 && labels.size(0) == images.size(0), Runtime,
               "{}: the labels in '{}' are {} of shape {}; expected uint8, one for each of the {} images", name, root,
               name_of(labels.dtype()), to_string(labels.shape()), images.size(0));
  for (int64_t i = 0; i < labels.numel(); ++i)
    STRATA_CHECK(labels.data<uint8_t>()[i] < 10, Runtime, "{}: label {} at position {} in '{}'; expected 0 to 9", name,
                 labels.data<uint8_t>()[i], i, root);
  return {images, strata::to(labels, DType::I64)};
}

bool has_mnist(const std::string& root, const std::string& name) {
  for (const char* part : {"train", "t10k"})
    for (const char* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"})
      if (!find_idx(root, name, std::string(part) + kind)) return false;
  return true;
}

ImageSet cifar10(const std::string& root, bool train) {
  const std::vector<std::string> wanted = batch_names(train);
  std::vector<std::byte> images;
  std::vector<int64_t> labels;
  bool found = false;
  for (const std::string& folder : {root, root + "/cifar-10-batches-bin"}) {
    if (!is_file(folder + "/" + wanted[0])) continue;
    for (const std::string& name : wanted) {
      const auto file = FileBytes::read(folder + "/" + name);
      add_batch(file->bytes(), file->name(), images, labels);
    }
    found = true;
    break;
  }
  if (const std::string archive = root + "/cifar-10-binary.tar.gz"; !found && is_file(archive)) {
    read_tar(archive, wanted, images, labels);
    found = true;
  }
  if (!found)
    throw IoError(ENOENT,
                  fmt::format("CIFAR10: '{1}' is in neither '{0}' nor '{0}/cifar-10-batches-bin', and there is no "
                              "'{0}/cifar-10-binary.tar.gz'; download it from Python with "
                              "strata.vision.datasets.CIFAR10(root, download=True)",
                              root, wanted[0]));
  const auto n = static_cast<int64_t>(labels.size());
  ImageSet set{make_tensor(Shape(std::initializer_list<int64_t>{n, 3, 32, 32}), DType::U8),
               make_tensor(Shape(std::initializer_list<int64_t>{n}), DType::I64)};
  std::copy(images.begin(), images.end(), set.images.bytes());
  std::copy(labels.begin(), labels.end(), set.labels.data<int64_t>());
  return set;
}

}  // namespace strata::data
