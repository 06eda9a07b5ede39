#include "nn/data/idx.h"

#include <fmt/core.h>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/gzip.h"
#include "nn/data/image_sets.h"
#include "strata/ops.h"
#include "tests/expect_error.h"
#include "tests/ops/exact.h"
#include "tests/temp_folder.h"

namespace strata::data {
namespace {

using testing::put;
using testing::TempFolder;

std::string big_endian(uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16 & 255), static_cast<char>(n >> 8 & 255),
          static_cast<char>(n & 255)};
}
std::string idx(int type, const std::vector<uint32_t>& sizes, const std::string& data) {
  std::string s = {0, 0, static_cast<char>(type), static_cast<char>(sizes.size())};
  for (uint32_t n : sizes) s += big_endian(n);
  return s + data;
}
std::string pack(const std::string& text) {
  z_stream z{};
  deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}
Tensor parse(const std::string& bytes) { return read_idx(std::as_bytes(std::span(bytes)), "file"); }

TEST(Idx, ReadsEveryTypeInBigEndianOrder) {
  EXPECT_EQ(testing::difference(parse(idx(8, {2, 2}, "\1\2\3\xff")),
                                to(reshape(cat({arange(1, 4), full({1}, 255)}), {2, 2}), DType::U8)),
            "");
  EXPECT_EQ(parse(idx(9, {1}, "\xff")).item<int>(), -1);
  EXPECT_EQ(parse(idx(0xB, {1}, "\xff\xfe")).item<int>(), -2);
  EXPECT_EQ(parse(idx(0xC, {1}, std::string("\0\1\0\0", 4))).item<int>(), 65536);
  EXPECT_EQ(parse(idx(0xD, {1, 1}, std::string("\x3f\xc0\0\0", 4))).item<float>(), 1.5F);
  EXPECT_EQ(parse(idx(0xE, {1}, std::string("\xc0\x04\0\0\0\0\0\0", 8))).item<double>(), -2.5);
  EXPECT_EQ(parse(idx(8, {0, 28, 28}, "")).numel(), 0);
}

TEST(Idx, PackedFilesAreReadAlike) {
  const std::string plain = idx(8, {3}, "abc"), packed = pack(plain);
  EXPECT_EQ(testing::difference(parse(plain), parse(packed)), "");
  EXPECT_EQ(testing::difference(parse(plain), parse(pack(plain.substr(0, 5)) + pack(plain.substr(5)))),
            "");  // concatenated
}

TEST(Idx, BadHeadersAreRefused) {
  EXPECT_ERROR(Runtime, "'file': too short", parse(""));
  EXPECT_ERROR(Runtime, "'file': too short", parse(std::string("\0\0\x08", 3)));
  EXPECT_ERROR(Runtime, "starts with 0x504b", parse("PK\3\4aaaa"));
  EXPECT_ERROR(Runtime, "type byte of the IDX header is 0x0a", parse(idx(0xA, {1}, "a")));
  EXPECT_ERROR(Runtime, "rank byte of the IDX header is 0", parse(std::string("\0\0\x08\0", 4)));
  EXPECT_ERROR(Runtime, "rank byte of the IDX header is 255", parse(std::string("\0\0\x08\xff", 4)));
  EXPECT_ERROR(Runtime, "ends before its 3 sizes", parse(std::string("\0\0\x08\3\0\0\0\1", 8)));
}

TEST(Idx, ClaimedSizesAreCheckedBeforeMemoryIsTaken) {
  const size_t before = memory_stats().peak_allocated_bytes;
  const std::vector<uint32_t> huge = {0xffffffff, 0xffffffff, 0xffffffff};
  EXPECT_ERROR(Runtime, "more than 2^64 bytes", parse(idx(8, huge, "abc")));
  EXPECT_ERROR(Runtime, "more than 2^64 bytes", parse(pack(idx(8, huge, "abc"))));
  EXPECT_ERROR(Runtime, "(100000000000 bytes), but the file holds 0 bytes", parse(idx(8, {100'000, 1'000'000}, "")));
  EXPECT_ERROR(Runtime, "(100000000000 bytes), but the file holds at most",
               parse(pack(idx(8, {100'000, 1'000'000}, ""))));
  EXPECT_ERROR(Runtime, "but the file holds 2 bytes", parse(idx(8, {3}, "ab")));
  EXPECT_ERROR(Runtime, "but the file holds 4 bytes", parse(idx(8, {300}, "abcd")));
  EXPECT_ERROR(Runtime, "but the file holds 4 bytes", parse(idx(8, {3}, "abcd")));
  EXPECT_ERROR(Runtime, "holds 2 bytes when unpacked", parse(pack(idx(8, {3}, "ab"))));
  EXPECT_ERROR(Runtime, "holds more when unpacked", parse(pack(idx(8, {3}, "abcd"))));
  // A large false claim: detected without keeping the decompressed data.
  EXPECT_ERROR(Runtime, "another number of bytes when unpacked",
               parse(pack(idx(8, {66, 1 << 20}, std::string(65 << 20, 'x')))));
  EXPECT_ERROR(Runtime, "another number of bytes when unpacked",
               parse(pack(idx(8, {65, 1 << 20}, std::string(80 << 20, 'x')))));
  EXPECT_LT(memory_stats().peak_allocated_bytes, before + (1 << 20));
  EXPECT_EQ(parse(pack(idx(8, {80, 1 << 20}, std::string(80 << 20, 'x')))).numel(), 80 << 20);  // large and true
}

TEST(Idx, GzipBombStopsAtTheClaimedSize) {
  // 200 MB of zeros after a header that claims three bytes.
  EXPECT_ERROR(Runtime, "holds more when unpacked", parse(pack(idx(8, {3}, std::string(200 << 20, '\0')))));
}

TEST(Idx, DamagedGzipIsNamed) {
  const std::string packed = pack(idx(8, {100}, std::string(100, 'x')));
  for (size_t n = 2; n < packed.size(); ++n)
    EXPECT_ERROR(Runtime, "'file': the gzip data ends too early", parse(packed.substr(0, n)));
  EXPECT_ERROR(Runtime, "bytes after the end of the gzip data", parse(packed + "rest"));
  std::string sum = packed;
  sum[sum.size() - 6] = static_cast<char>(sum[sum.size() - 6] ^ 1);
  EXPECT_ERROR(Runtime, "gzip data is damaged (incorrect data check)", parse(sum));
}

TEST(Idx, FilesThatAreNoneAreNamed) {
  TempFolder folder;
  EXPECT_ERROR(Io, "cannot open '" + (folder / "no") + "': No such file", read_idx(folder / "no"));
  EXPECT_ERROR(Io, "it is a folder; expected a regular file", read_idx(folder.path()));
  EXPECT_ERROR(Io, "it is a device; expected a regular file", read_idx("/dev/zero"));
  EXPECT_ERROR(Value, "the path of a file is empty", read_idx(""));
  EXPECT_ERROR(Value, "has a zero byte in it", read_idx(std::string("a\0b", 3)));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(Io, "it is a pipe; expected a regular file", read_idx(folder / "pipe"));
}

TEST(Mnist, IsFoundInEveryLayoutPackedOrNot) {
  const std::string images = idx(8, {2, 2, 2}, "abcdefgh"), labels = idx(8, {2}, std::string("\7\0", 2));
  for (const std::string where : {"", "MNIST/raw/", "raw/"}) {
    TempFolder folder;
    std::filesystem::create_directories(folder / where);
    EXPECT_FALSE(has_mnist(folder.path()));
    put(folder / (where + "train-images-idx3-ubyte"), images);
    put(folder / (where + "train-labels-idx1-ubyte.gz"), pack(labels));
    const ImageSet set = mnist(folder.path(), true);
    EXPECT_EQ(to_string(set.images.shape()), "[2, 2, 2]");
    EXPECT_EQ(testing::difference(set.labels, mul(arange(1, -1, -1), 7)), "");
    EXPECT_EQ(set.labels.dtype(), DType::I64);
    EXPECT_ERROR(Io, "t10k-images-idx3-ubyte.gz' is in", mnist(folder.path(), false));
    put(folder / (where + "t10k-images-idx3-ubyte.gz"), pack(images));
    put(folder / (where + "t10k-labels-idx1-ubyte"), labels);
    EXPECT_TRUE(has_mnist(folder.path()));
  }
}

TEST(Mnist, PartsThatDoNotFitAreNamed) {
  TempFolder folder;
  const auto set = [&](const std::string& images, const std::string& labels) {
    put(folder / "train-images-idx3-ubyte", images);
    put(folder / "train-labels-idx1-ubyte", labels);
    return mnist(folder.path(), true);
  };
  EXPECT_ERROR(Runtime, "the labels in", set(idx(8, {2, 1, 1}, "ab"), idx(8, {1}, "\1")));
  EXPECT_ERROR(Runtime, "label 10 at position 1", set(idx(8, {2, 1, 1}, "ab"), idx(8, {2}, "\1\n")));
  EXPECT_ERROR(Runtime, "expected uint8 of three dimensions", set(idx(8, {2}, "ab"), idx(8, {2}, "\1\2")));
}

std::string cifar_batch(char first) {
  return std::string(1, first) + std::string(3072, 'a') + "\3" + std::string(3072, 'b');
}

// A tar archive in the ustar form, written by hand.
std::string tar_member(const std::string& name, const std::string& body) {
  std::string h(512, '\0');
  h.replace(0, name.size(), name);
  h.replace(124, 11, fmt::format("{:011o}", body.size()));
  h.replace(257, 5, "ustar");
  return h + body + std::string((512 - body.size() % 512) % 512, '\0');
}

TEST(Cifar10, IsReadFromFolderAndArchiveInTheSameOrder) {
  TempFolder plain, packed;
  std::string archive = tar_member("cifar-10-batches-bin/readme.html", "hello");
  for (int i = 5; i >= 1; --i) {  // the archive's own order does not matter
    const std::string name = fmt::format("data_batch_{}.bin", i);
    put(plain / name, cifar_batch(static_cast<char>(i)));
    archive += tar_member("cifar-10-batches-bin/" + name, cifar_batch(static_cast<char>(i)));
  }
  put(packed / "cifar-10-binary.tar.gz", pack(archive + std::string(1024, '\0')));
  for (const auto* folder : {&plain, &packed}) {
    const ImageSet set = cifar10(folder->path(), true);
    EXPECT_EQ(to_string(set.images.shape()), "[10, 3, 32, 32]");
    const auto* labels = set.labels.data<int64_t>();
    EXPECT_EQ(std::vector<int64_t>(labels, labels + 10), (std::vector<int64_t>{1, 3, 2, 3, 3, 3, 4, 3, 5, 3}));
    EXPECT_EQ(set.images.data<uint8_t>()[3072], 'b');
  }
  EXPECT_ERROR(Io, "CIFAR10: 'test_batch.bin' is in neither", cifar10(plain.path(), false));
  EXPECT_ERROR(Runtime, "'test_batch.bin' of CIFAR-10's binary version is missing", cifar10(packed.path(), false));
  put(plain / "data_batch_3.bin", std::string(3074, 'a'));
  EXPECT_ERROR(Runtime, "has 3074 bytes", cifar10(plain.path(), true));
  put(plain / "data_batch_3.bin", cifar_batch('a'));
  EXPECT_ERROR(Runtime, "label 97 at record 4", cifar10(plain.path(), true));
  put(packed / "cifar-10-binary.tar.gz", pack(archive.substr(0, 5000)));
  EXPECT_ERROR(Runtime, "it is truncated", cifar10(packed.path(), true));
}

}  // namespace
}  // namespace strata::data
