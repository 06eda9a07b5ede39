#include "nn/files/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace strata {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(EventFile, HasRecordsOfTheSizeThatTheySay) {
  const testing::TempFolder folder;
  EventFile events(folder.path() + "/a/b");
  events.add_scalar("loss", 0.5, 3);
  events.add_text("note", "hello", -1);
  events.flush();
  const std::string all = contents(events.path());
  size_t records = 0;
  for (size_t at = 0; at < all.size(); ++records) {
    uint64_t size = 0;
    std::memcpy(&size, all.data() + at, sizeof size);
    at += 8 + 4 + size + 4;
    ASSERT_LE(at, all.size());
  }
  EXPECT_EQ(records, 3u);
  EXPECT_NE(all.find("brain.Event:2"), std::string::npos);
  EXPECT_NE(all.find("hello"), std::string::npos);
}

TEST(EventFile, FilesOfOneFolderHaveDifferentNames) {
  const testing::TempFolder folder;
  const EventFile one(folder.path()), two(folder.path());
  EXPECT_NE(one.path(), two.path());
}

TEST(EventFile, SaysWhereItCannotWrite) {
  EXPECT_ERROR(Io, "/dev/null/x", EventFile("/dev/null/x"));
  EXPECT_ERROR(Io, "/proc", EventFile("/proc"));
}

}  // namespace
}  // namespace strata
