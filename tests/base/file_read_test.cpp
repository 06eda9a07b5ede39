// Reading files into memory, and the state of a child of fork().
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "base/fork.h"
#include "base/parallel.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace strata {
namespace {

std::string text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

TEST(ReadFile, IsIndependentOfTheFile) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/file";
  std::string text(40 << 20, 'x');  // several pieces
  text[text.size() - 1] = 'y';
  write_file(path, text);
  const auto read = FileBytes::read(path);
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  EXPECT_EQ(read->size(), text.size());
  EXPECT_TRUE(text_of(read->bytes()) == text);
  EXPECT_EQ(read->name(), path);
  EXPECT_EQ(FileBytes::read(path)->size(), 0u);
}

TEST(ReadFile, ReadsTheStart) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/file";
  write_file(path, "0123456789");
  EXPECT_EQ(text_of(FileBytes::read(path, 4)->bytes()), "0123");
  EXPECT_EQ(text_of(FileBytes::read(path, 100)->bytes()), "0123456789");
}

TEST(ReadFile, RefusesWhatIsNoRegularFile) {
  const testing::TempFolder folder;
  EXPECT_ERROR(Io, "cannot open", FileBytes::read(folder.path() + "/missing"));
  EXPECT_ERROR(Io, "it is a folder", FileBytes::read(folder.path()));
  EXPECT_ERROR(Io, "it is a device", FileBytes::read("/dev/zero"));
  EXPECT_ERROR(Value, "zero byte", FileBytes::read(std::string("a\0b", 3)));
}

TEST(ReadFile, ForgetsWholePagesOnly) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/file";
  write_file(path, std::string(5 * 4096, 'x'));
  const auto read = FileBytes::read(path);
  read->forget(100, 3 * 4096);
  const std::string text = text_of(read->bytes());
  EXPECT_EQ(text.substr(0, 4096), std::string(4096, 'x'));  // the first page is shared with the 100 bytes before
  EXPECT_EQ(text.substr(3 * 4096), std::string(2 * 4096, 'x'));
}

// The alarm ends a child that hangs.
template <class F> int status_of_child(F f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    f();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Fork, AChildFindsLocksFreeAndRunsLoops) {
  static std::mutex mutex;
  hold_over_fork(mutex, ForkOrder::Packed);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      const std::lock_guard lock(mutex);
      std::atomic<int64_t> sum{0};
      parallel_for(1000, 10, [&](int64_t begin, int64_t end) { sum += end - begin; });
    }
  });
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(status_of_child([&] {
                const std::lock_guard lock(mutex);
                std::atomic<int64_t> sum{0};
                parallel_for(1000, 10, [&](int64_t begin, int64_t end) { sum += end - begin; });
                if (sum != 1000) ::_exit(1);
              }),
              0);
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace strata
