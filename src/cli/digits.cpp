#include "cli/digits.h"
#include "cli/output.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "base/gzip.h"
#include "base/process.h"
#include "base/sha256.h"
#include "nn/data/synthetic_digits.h"

namespace strata::cli {
namespace {
namespace fs = std::filesystem;

// Checksums of the uncompressed contents: mirrors compress them differently.
struct Published {
  const char *name, *sha256;
  uint64_t size;
};
constexpr Published kFiles[] = {
  {"train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 47040016},
  {"train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", 60008},
  {"t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 7840016},
  {"t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", 10008},
};

bool is_genuine(const std::string& path, const Published& file) try {
  const auto packed = FileBytes::read(path);
  ByteStream stream(packed->bytes(), path);
  std::vector<std::byte> contents(file.size);
  return stream.read(contents.data(), contents.size()) == file.size && stream.at_end() &&
         sha256(contents) == file.sha256;
} catch (const Error&) { return false; }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The download folder; empty if the user has no home folder.
std::string cache_folder() {
  if (const std::string own = environment("STRATA_DATA"); !own.empty()) return own + "/mnist";
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/strata/mnist";
  if (const std::string home = environment("HOME"); !home.empty()) return home + "/.cache/strata/mnist";
  return {};
}

std::string find_mnist() {
  std::vector<std::string> places = {"data/mnist", "data", "mnist"};
  if (const std::string own = environment("STRATA_DATA"); !own.empty()) places.insert(places.begin(), own);
  if (const std::string cache = cache_folder(); !cache.empty()) places.push_back(cache);
  for (const std::string& place : places)
    if (data::has_mnist(place)) return place;
  return {};
}

// Runs curl, which most systems have; false if it is missing or fails.
bool fetch(const std::string& url, const std::string& path) {
  const std::string curl = find_program("curl");
  std::string why;
  return !curl.empty() && run_program({curl, "--fail", "--silent", "--location", "--connect-timeout", "5", "--max-time",
                                       "300", "--output", path, url},
                                      "", "/dev/null", why) == 0;
}

// Downloads the four files into the cache; each is verified against its published checksum before it is renamed.
bool download(const std::string& folder, bool quiet) {
  const std::string own = environment("STRATA_MNIST_URL");
  const std::vector<std::string> hosts =
    own.empty() ? std::vector<std::string>{"https://ossci-datasets.s3.amazonaws.com/mnist",
                                           "https://storage.googleapis.com/cvdf-datasets/mnist"}
                : std::vector<std::string>{own};
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  for (const Published& file : kFiles) {
    const std::string path = folder + "/" + file.name, part = path + fmt::format(".part{}", getpid());
    bool good = false;
    for (const std::string& host : hosts) {
      if (!quiet) say("fetching {}/{}\n", host, file.name);
      good = fetch(host + "/" + file.name, part) && is_genuine(part, file);
      if (good) break;
      fs::remove(part, ignored);
    }
    if (!good) return false;
    fs::rename(part, path, ignored);
    if (ignored) return false;
  }
  return true;
}

// A download that failed is noted, and not tried again from the same place for a day unless MNIST is asked for.
std::string note_of(const std::string& folder) { return folder + "/download-failed"; }
bool failed_lately(const std::string& folder) {
  std::error_code error;
  const auto written = fs::last_write_time(note_of(folder), error);
  if (error || fs::file_time_type::clock::now() - written > std::chrono::hours(24)) return false;
  std::ifstream file(note_of(folder));
  std::string host;
  std::getline(file, host);
  return host == environment("STRATA_MNIST_URL");
}
void note_failure(const std::string& folder) {
  std::ofstream(note_of(folder)) << environment("STRATA_MNIST_URL") << "\n";
}

Digits mnist_from(const std::string& folder) {
  return {"MNIST", folder, data::mnist(folder, true), data::mnist(folder, false)};
}

}  // namespace

Digits load_digits(const std::string& choice, bool may_download, bool quiet) {
  if (choice != "synthetic" && choice != "mnist" && !choice.empty()) {
    STRATA_CHECK(fs::exists(choice), Io,
                 "--data {}: there is no such folder; name one with the MNIST files, or use mnist or synthetic",
                 choice);
    STRATA_CHECK(fs::is_directory(choice), Io, "--data {}: this is a file; name the folder that holds the MNIST files",
                 choice);
    return mnist_from(choice);
  }
  if (choice != "synthetic") {
    if (const std::string found = find_mnist(); !found.empty()) return mnist_from(found);
    const std::string cache = cache_folder();
    const bool tries = may_download && !cache.empty() && (choice == "mnist" || !failed_lately(cache));
    if (tries && download(cache, quiet)) return mnist_from(cache);
    if (tries) note_failure(cache);
    if (choice == "mnist")
      fail(ErrorKind::Io, fmt::format("MNIST was not found in data/mnist, data, mnist or {}, and {}; put its four "
                                      "files into one of them, name their folder with "
                                      "--data DIR, or train on --data synthetic",
                                      cache.empty() ? "$STRATA_DATA" : cache,
                                      may_download ? "could not be downloaded" : "downloads are off"));
    if (!quiet)
      say("MNIST is not on this machine and {}; using synthetic digits (--data DIR names a folder with MNIST)\n",
          !may_download ? "downloads are off"
          : tries       ? "cannot be downloaded"
                        : "could not be downloaded in the last day (--data mnist tries again)");
  }
  return {"synthetic digits", "rendered", data::synthetic_digits(true), data::synthetic_digits(false)};
}

}  // namespace strata::cli
