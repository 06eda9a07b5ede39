#include "system/doctor/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <deque>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX wants it declared by the user

namespace strata::doctor {
namespace {

std::string link_target(const std::string& file) {
  char text[4096];
  const ssize_t n = ::readlink(file.c_str(), text, sizeof text);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : std::string();
}

}  // namespace

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : text + at) {
    if (c != at) {
      part += c;
      continue;
    }
    if (!part.empty()) parts.push_back(part);
    part.clear();
  }
  return parts;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? std::string() : text.substr(first, last + 1 - first);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<int> numbers_in(const std::string& text, const std::string& after) {
  size_t i = text.find(after);
  std::vector<int> found;
  if (i == std::string::npos) return found;
  i += after.size();
  while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]))) {
    int n = 0;
    for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); ++i)
      if (n < 100000000) n = 10 * n + (text[i] - '0');
    found.push_back(n);
    if (i >= text.size() || text[i] != '.') break;
    ++i;
  }
  return found;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

Machine::Machine() {
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    if (const size_t at = text.find('='); at != std::string::npos)
      environment_[text.substr(0, at)] = text.substr(at + 1);
  }
}

Machine::Machine(std::string root, std::map<std::string, std::string> environment)
    : root_(std::move(root)), environment_(std::move(environment)) {
  while (root_.ends_with('/')) root_.pop_back();
}

std::string Machine::variable(const std::string& name) const {
  const auto at = environment_.find(name);
  return at == environment_.end() ? std::string() : at->second;
}
bool Machine::is_set(const std::string& name) const { return environment_.contains(name); }
std::vector<std::string> Machine::variables() const {
  std::vector<std::string> all;
  for (const auto& [name, value] : environment_) all.push_back(name + "=" + value);
  return all;
}

std::string Machine::resolve(const std::string& path) const {
  std::deque<std::string> rest;
  for (std::string& part : split(path, '/')) rest.push_back(std::move(part));
  std::string found;
  for (int links = 0; !rest.empty();) {
    const std::string part = rest.front();
    rest.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      found = folder_of(found);
      continue;
    }
    const std::string next = found + "/" + part;
    struct stat info {};
    if (::lstat((root_ + next).c_str(), &info) != 0) return {};
    if (!S_ISLNK(info.st_mode)) {
      found = next;
      continue;
    }
    const std::string target = link_target(root_ + next);
    if (target.empty() || ++links > 40) return {};
    if (target[0] == '/') found.clear();
    std::vector<std::string> parts = split(target, '/');
    rest.insert(rest.begin(), parts.begin(), parts.end());
  }
  return found.empty() ? "/" : found;
}

std::string Machine::on_disk(const std::string& path) const {
  const std::string real = resolve(path);
  return root_ + (real.empty() ? path : real);
}

bool Machine::is_folder(const std::string& path) const {
  struct stat info {};
  const std::string real = resolve(path);
  return !real.empty() && ::stat((root_ + real).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Machine::dangling(const std::string& path) const {
  struct stat info {};
  return ::lstat((root_ + path).c_str(), &info) == 0 && S_ISLNK(info.st_mode) && resolve(path).empty();
}

std::string Machine::read(const std::string& path, size_t most) const {
  const std::string real = resolve(path);
  struct stat info {};
  if (real.empty() || ::stat((root_ + real).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  const int file = ::open((root_ + real).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return {};
  std::string text;
  char piece[16384];
  while (text.size() < most) {
    const ssize_t n = ::read(file, piece, std::min(sizeof piece, most - text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(piece, static_cast<size_t>(n));
  }
  ::close(file);
  return text;
}

std::vector<std::string> Machine::list(const std::string& folder) const {
  std::vector<std::string> names;
  const std::string real = resolve(folder);
  DIR* open = real.empty() ? nullptr : ::opendir((root_ + real).c_str());
  if (!open) return names;
  while (const dirent* entry = ::readdir(open)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

int Machine::open_error(const std::string& path) const {
  const std::string real = resolve(path);
  if (real.empty()) return ENOENT;
  if (!this->real()) {
    struct stat info {};
    if (::stat((root_ + real).c_str(), &info) != 0) return errno;
    if (S_ISDIR(info.st_mode)) return EISDIR;
    return (info.st_mode & (S_IROTH | S_IWOTH)) == (S_IROTH | S_IWOTH) ? 0 : EACCES;
  }
  const int file = ::open(real.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno;
  ::close(file);
  return 0;
}

bool Machine::may_write(const std::string& folder) const {
  const std::string real = resolve(folder);
  if (real.empty()) return false;
  if (this->real()) return ::access(real.c_str(), W_OK) == 0;
  struct stat info {};
  return ::stat((root_ + real).c_str(), &info) == 0 && (info.st_mode & S_IWUSR);
}

}  // namespace strata::doctor
