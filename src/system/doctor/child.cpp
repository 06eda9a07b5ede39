#include "system/doctor/child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

namespace strata::doctor {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMost = 1 << 20;  // bytes of output that are kept

// Reads until the other end is closed. False: the time is over.
bool collect(int pipe_end, std::string& text, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd wait{pipe_end, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    char piece[4096];
    const ssize_t n = ::read(pipe_end, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    if (text.size() < kMost) text.append(piece, static_cast<size_t>(n));
  }
}

// Waits for a child that has closed its output; it may still be alive.
bool wait_until(pid_t child, int& status, Clock::time_point until) {
  for (;;) {
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child || (done < 0 && errno != EINTR)) return true;
    if (Clock::now() >= until) return false;
    ::usleep(1000);
  }
}

// `work` runs in the child, which ends without any of this process's cleanup.
ChildResult start(const std::function<void(int)>& work, double seconds) {
  ChildResult out;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    out.failure = fmt::format("no pipe: {}", std::strerror(errno));
    return out;
  }
  const pid_t child = ::fork();
  if (child < 0) {
    out.failure = fmt::format("no process: {}", std::strerror(errno));
    ::close(ends[0]);
    ::close(ends[1]);
    return out;
  }
  if (child == 0) {
    ::setpgid(0, 0);
    ::close(ends[0]);
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGPIPE})
      std::signal(signal, SIG_DFL);
    work(ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  const auto until = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  int status = 0;
  const bool ended = collect(ends[0], out.output, until) && wait_until(child, status, until);
  ::close(ends[0]);
  if (!ended) {
    ::setpgid(child, child);  // in case it has not done so itself yet
    ::kill(-child, SIGKILL);
    ::kill(child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    out.failure = fmt::format("it did not answer within {:g} s", seconds);
  } else if (WIFSIGNALED(status)) {
    out.failure = fmt::format("it was ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  } else {
    out.status = WEXITSTATUS(status);
    if (out.status) out.failure = fmt::format("it ended with status {}", out.status);
  }
  return out;
}

}  // namespace

ChildResult in_child(const std::function<std::string()>& f, double seconds) {
  return start(
    [&](int pipe_end) {
      const int nothing = ::open("/dev/null", O_RDWR);
      for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, fd);  // libraries may print
      std::string text;
      try {
        text = f();
      } catch (...) { ::_exit(1); }
      for (size_t at = 0; at < text.size();) {
        const ssize_t n = ::write(pipe_end, text.data() + at, text.size() - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) ::_exit(1);
        at += static_cast<size_t>(n);
      }
    },
    seconds);
}

ChildResult run_child(const std::vector<std::string>& words, const std::vector<std::string>& environment, bool errors,
                      double seconds) {
  std::vector<char*> argv, variables;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : environment) variables.push_back(const_cast<char*>(entry.c_str()));
  argv.push_back(nullptr);
  variables.push_back(nullptr);
  return start(
    [&](int pipe_end) {
      const int nothing = ::open("/dev/null", O_RDWR);
      ::dup2(nothing, STDIN_FILENO);
      ::dup2(pipe_end, STDOUT_FILENO);
      ::dup2(errors ? pipe_end : nothing, STDERR_FILENO);
      ::execve(argv[0], argv.data(), variables.data());
      ::_exit(127);
    },
    seconds);
}

}  // namespace strata::doctor
