// Libraries opened at run time: messages for missing, broken and unsuitable ones.
#include "base/library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace strata {
namespace {

TEST(Library, SaysWhereItLooked) {
  const Library l({.name = "Nothing", .files = {"libno_such_1.so", "libno_such_2.so"}, .advice = "install it"});
  EXPECT_FALSE(l);
  EXPECT_EQ(l.why(), "Nothing was not found (tried libno_such_1.so, libno_such_2.so); install it");
  EXPECT_TRUE(l.path().empty());
  EXPECT_ERROR(NotImplemented, "install it", l.require());
}

TEST(Library, FindsFunctionsAndKnowsItsPath) {
  Library l({.name = "the C library", .files = {"libc.so.6"}});
  ASSERT_TRUE(l) << l.why();
  EXPECT_TRUE(l.path().ends_with("libc.so.6")) << l.path();
  EXPECT_EQ(l.find<int (*)(int)>("abs")(-3), 3);
  EXPECT_EQ(l.find<int (*)()>("no_such_function"), nullptr);
  EXPECT_TRUE(l);
  EXPECT_EQ(l.need<int (*)()>("no_such_function"), nullptr);
  EXPECT_FALSE(l);
  EXPECT_NE(l.why().find("it has no no_such_function"), std::string::npos) << l.why();
}

TEST(Library, ABrokenFileIsNotAMissingOne) {
  const testing::TempFolder folder;
  const std::string path = folder / "libbroken.so";
  std::ofstream(path) << "this is no library";
  const Library l({.name = "Broken", .files = {"libno_such.so", path}});
  EXPECT_FALSE(l);
  EXPECT_NE(l.why().find("Broken does not load"), std::string::npos) << l.why();
  EXPECT_NE(l.why().find("libbroken.so"), std::string::npos) << l.why();
}

TEST(Library, AVariableNamesTheFile) {
  setenv("STRATA_TEST_LIBRARY", "/nowhere/libmine.so", 1);
  const Library l({.name = "Mine", .files = {"libc.so.6"}, .variable = "STRATA_TEST_LIBRARY"});
  unsetenv("STRATA_TEST_LIBRARY");
  EXPECT_FALSE(l);
  EXPECT_NE(l.why().find("/nowhere/libmine.so"), std::string::npos) << l.why();
  EXPECT_NE(l.why().find("STRATA_TEST_LIBRARY"), std::string::npos) << l.why();
}

TEST(Library, FindsNvidiasPythonPackages) {
  const testing::TempFolder folder;
  const std::filesystem::path lib = std::filesystem::path(folder / "nvidia") / "cu13" / "lib";
  std::filesystem::create_directories(lib);
  const Library c({.name = "the C library", .files = {"libm.so.6"}});
  std::filesystem::copy_file(c.path(), lib / "libstrata_test_math.so");
  const LibrarySpec spec{.name = "Math", .files = {"libstrata_test_math.so"}};
  EXPECT_FALSE(Library(spec));
  set_package_folders({folder.path()});
  const Library found(spec);
  set_package_folders({"/no/such/folder"});
  ASSERT_TRUE(found) << found.why();
  EXPECT_EQ(found.path(), std::filesystem::canonical(lib / "libstrata_test_math.so").string());
  EXPECT_EQ(found.find<double (*)(double)>("sqrt")(9), 3);
}

TEST(Library, ListsOtherCopies) {
  const testing::TempFolder folder;
  std::ofstream(folder / "libc.so.6") << "a copy";
  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string kept = before ? before : "";
  setenv("LD_LIBRARY_PATH", folder.path().c_str(), 1);
  const Library l({.name = "the C library", .files = {"libc.so.6"}});
  const std::vector<std::string> copies = l.shadowed();
  if (before) setenv("LD_LIBRARY_PATH", kept.c_str(), 1);
  else unsetenv("LD_LIBRARY_PATH");
  ASSERT_FALSE(copies.empty());
  EXPECT_EQ(copies[0], std::filesystem::canonical(folder / "libc.so.6").string());
}

}  // namespace
}  // namespace strata
