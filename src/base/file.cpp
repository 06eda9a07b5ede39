#include "base/file.h"

#include <fmt/core.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"

namespace strata {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // below the 2 GiB limit of one read or write

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

template <class F> auto retry(F f) {  // retries system calls that a signal interrupts
  for (;;)
    if (const auto result = f(); result >= 0 || errno != EINTR) return result;
}

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode)                    ? "a folder"
         : S_ISFIFO(mode)                 ? "a pipe"
         : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
         : S_ISSOCK(mode)                 ? "a socket"
                                          : "not a regular file";
}

// Paths are passed to the system as C strings, which end at the first zero byte: the rest would silently be dropped.
void check_path(const std::string& path) {
  STRATA_CHECK(!path.empty(), Value, "the path of a file is empty; give its name");
  STRATA_CHECK(path.find('\0') == std::string::npos, Value, "the path '{}' has a zero byte in it",
               path.substr(0, path.find('\0')));
}

struct RegularFile {
  const std::string& path;
  Descriptor descriptor;
  size_t size = 0;

  // O_NONBLOCK: opening a pipe must not wait for a writer.
  explicit RegularFile(const std::string& name)
      : RegularFile(name, retry([&] {
                      check_path(name);
                      return ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
                    })) {}
  RegularFile(const std::string& name, int fd) : path(name), descriptor{fd} {
    if (descriptor.fd < 0) fail_io(errno, fmt::format("cannot open '{}'", path));
    struct stat info {};
    if (::fstat(descriptor.fd, &info) < 0) fail_io(errno, fmt::format("cannot read '{}'", path));
    if (!S_ISREG(info.st_mode))
      throw IoError(S_ISDIR(info.st_mode) ? EISDIR : EINVAL,
                    fmt::format("cannot read '{}': it is {}; expected a regular file", path, kind_of(info.st_mode)));
    size = static_cast<size_t>(info.st_size);
  }
  void read(std::byte* to, size_t bytes, int64_t offset) const {
    while (bytes) {
      const ssize_t n = retry([&] { return ::pread(descriptor.fd, to, std::min(bytes, kMostBytes), offset); });
      if (n < 0) fail_io(errno, fmt::format("cannot read '{}'", path));
      if (n == 0)
        throw IoError(EIO, fmt::format("cannot read '{}': it was cut short to {} of {} bytes while it was read", path,
                                       offset, size));
      to += n;
      offset += n;
      bytes -= static_cast<size_t>(n);
    }
  }
};

// The path that writing to `path` replaces: follows symbolic links, including dangling ones.
std::string follow_links(std::string path) {
  for (int hops = 0; hops < 40; ++hops) {
    char text[4096];
    const ssize_t n = ::readlink(path.c_str(), text, sizeof text);
    if (n < 0 || n == sizeof text) return path;
    const std::string next(text, static_cast<size_t>(n));
    const size_t slash = path.rfind('/');
    path = next.starts_with('/') || slash == std::string::npos ? next : path.substr(0, slash + 1) + next;
  }
  fail_io(ELOOP, fmt::format("cannot write '{}'", path));
}

std::string fresh_name(const std::string& folder) {
  static std::atomic<uint32_t> counter{0};
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return fmt::format("{}/.strata-{}-{:x}-{}.tmp", folder, ::getpid(), now.tv_nsec, counter.fetch_add(1));
}
}  // namespace

std::shared_ptr<FileBytes> FileBytes::read(const std::string& path, size_t most) {
  const RegularFile file(path);
  const size_t size = std::min(file.size, most);
  if (!size) return std::shared_ptr<FileBytes>(new FileBytes(nullptr, 0, true, path));
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STRATA_CHECK(data != MAP_FAILED, OutOfMemory, "no memory for the {} bytes of '{}'; load it with mmap=True to map it",
               size, path);
  const std::shared_ptr<FileBytes> result(new FileBytes(static_cast<std::byte*>(data), size, true, path));
  (void)::madvise(data, size, MADV_HUGEPAGE);  // fewer page faults
  constexpr int64_t kPiece = int64_t{8} << 20;
  parallel_for(static_cast<int64_t>(size), kPiece, [&](int64_t begin, int64_t end) {
    file.read(result->data_ + begin, static_cast<size_t>(end - begin), begin);
  });
  return result;
}

namespace {
void* map_private(const RegularFile& file) {
  if (!file.size) return nullptr;
  void* data = ::mmap(nullptr, file.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.descriptor.fd, 0);
  if (data == MAP_FAILED) fail_io(errno, fmt::format("cannot map '{}' ({} bytes)", file.path, file.size));
  return data;
}

// A descriptor of folder/name, opened part by part without following links; -1 with errno set.
int open_below(const std::string& folder, const std::string& name, const std::string& path) {
  STRATA_CHECK(!name.empty() && name.front() != '/' && name.find('\0') == std::string::npos, Runtime,
               "cannot open '{}' below '{}': a relative name of a file is expected", name, folder);
  Descriptor at{retry([&] { return ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY); })};
  for (size_t begin = 0; at.fd >= 0;) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    STRATA_CHECK(part != "..", Runtime, "cannot open '{}': it leads out of the folder '{}'", path, folder);
    const bool last = end == name.size();
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY);
    const int next = retry([&] { return ::openat(at.fd, part.empty() ? "." : part.c_str(), flags); });
    STRATA_CHECK(next >= 0 || (errno != ELOOP && errno != ENOTDIR), Runtime,
                 "cannot open '{}': '{}' is a link or no folder; links are not followed here", path, part);
    if (last || next < 0) return next;
    ::close(std::exchange(at.fd, next));
    begin = end + 1;
  }
  return -1;
}
}  // namespace

std::shared_ptr<FileBytes> FileBytes::map(const std::string& path) {
  const RegularFile file(path);
  return std::shared_ptr<FileBytes>(new FileBytes(static_cast<std::byte*>(map_private(file)), file.size, true, path));
}

std::shared_ptr<FileBytes> FileBytes::map_below(const std::string& folder, const std::string& name) {
  STRATA_CHECK(!folder.empty(), Runtime, "cannot open '{}': no folder to look in is known", name);
  const std::string path = folder + (folder.back() == '/' ? "" : "/") + name;
  const RegularFile file(path, open_below(folder, name, path));
  struct stat info {};
  STRATA_CHECK(::fstat(file.descriptor.fd, &info) == 0 && info.st_nlink == 1, Runtime,
               "cannot open '{}': the file has several names (hard links); copy it", path);
  return std::shared_ptr<FileBytes>(new FileBytes(static_cast<std::byte*>(map_private(file)), file.size, true, path));
}

std::shared_ptr<FileBytes> FileBytes::copy(Bytes bytes, std::string name) {
  constexpr size_t kAlign = 64;  // the alignment of tensors
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlign, (bytes.size() / kAlign + 1) * kAlign));
  STRATA_CHECK(data, OutOfMemory, "no memory for {} bytes of {}", bytes.size(), name);
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  return std::shared_ptr<FileBytes>(new FileBytes(data, bytes.size(), false, std::move(name)));
}

void FileBytes::forget(size_t offset, size_t bytes) {
  if (!mapped_) return;
  static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
  if (begin < end) (void)::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

FileBytes::~FileBytes() {
  if (!mapped_) std::free(data_);
  else if (size_) ::munmap(data_, size_);
}

AtomicFile::AtomicFile(const std::string& path, size_t size) : shown_(path), size_(size) {
  check_path(path);
  target_ = follow_links(path);
  const size_t slash = target_.rfind('/');
  folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : target_.substr(0, slash);
  STRATA_CHECK(slash + 1 < target_.size(), Value, "cannot write '{}': it names a folder; add a file name", path);

  struct stat old {};
  const bool replaces = ::stat(target_.c_str(), &old) == 0;
  if (replaces && !S_ISREG(old.st_mode))
    throw IoError(
      S_ISDIR(old.st_mode) ? EISDIR : EINVAL,
      fmt::format("cannot write '{}': it is {}; give the name of a regular file", path, kind_of(old.st_mode)));
  // Renaming does not need write permission for the old file, so check it: a write-protected file must not be replaced.
  if (replaces && ::access(target_.c_str(), W_OK) < 0) fail_io(errno, fmt::format("cannot write '{}'", path));

  // An unnamed file leaves nothing behind when the process is killed. Not every file system supports them.
  file_ = retry([&] { return ::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666); });
  if (file_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT)) {
    const std::string name = fresh_name(folder_);
    file_ = retry([&] { return ::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666); });
    if (file_ >= 0) temporary_ = name;
  }
  if (file_ < 0)
    fail_io(errno, fmt::format("cannot write '{}': no file can be made in the folder '{}'", path, folder_));
  if (replaces) (void)::fchmod(file_, old.st_mode & 07777);  // best effort: the file may have another owner
  if (size && retry([&] { return ::fallocate(file_, 0, 0, static_cast<off_t>(size)); }) < 0 && errno != EOPNOTSUPP &&
      errno != ENOSYS && errno != EINVAL) {
    const int code = errno;
    discard();
    fail_writing(code);
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::fail_writing(int code) const {
  fail_io(code, fmt::format("cannot write '{}' ({} of {} bytes written; what was there before is unchanged)", shown_,
                            written_, size_));
}

void AtomicFile::write(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = retry([&] { return ::write(file_, bytes.data(), std::min(bytes.size(), kMostBytes)); });
    if (n < 0) fail_writing(errno);
    written_ += static_cast<size_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void AtomicFile::commit() {
  STRATA_ASSERT(written_ == size_);
  if (retry([&] { return ::fsync(file_); }) < 0) fail_writing(errno);
  if (temporary_.empty()) {  // link the file under a temporary name, which rename() needs
    const std::string name = fresh_name(folder_), self = fmt::format("/proc/self/fd/{}", file_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) < 0) fail_writing(errno);
    temporary_ = name;
  }
  if (::close(std::exchange(file_, -1)) < 0 && errno != EINTR) fail_writing(errno);
  if (::rename(temporary_.c_str(), target_.c_str()) < 0) fail_writing(errno);
  temporary_.clear();
  // The new name must survive a power failure too. File systems that cannot sync a folder return EINVAL.
  const Descriptor folder{retry([&] { return ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); })};
  if (folder.fd >= 0 && retry([&] { return ::fsync(folder.fd); }) < 0 && errno != EINVAL)
    fail_io(errno, fmt::format("'{}' is written, but its folder could not be synced", shown_));
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path, text.size());
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace strata
