#include "app/questions.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/say.h"
#include "base/text.h"
#include "base/typed_path.h"

namespace burnish::app {

namespace {

[[noreturn]] void give_up() { throw Error(Exit::interrupted, "new", "interrupted; nothing was written"); }

/// Waits until there is something to read. Ctrl-C is looked for again and again: one that comes ahead of a read does not interrupt it.
void wait_for_answer() {
  constexpr int kMillisecondsApart = 50;
  pollfd answer{STDIN_FILENO, POLLIN, 0};
  while (!interrupted() && ::poll(&answer, 1, kMillisecondsApart) <= 0) {
  }
  if (interrupted()) give_up();
}

/// Reads by single bytes, so that what is typed ahead is left for the next question, and for a program that this one starts.
std::string read_line() {
  std::string line;
  for (char c = 0; c != '\n';) {
    wait_for_answer();
    const auto count = ::read(STDIN_FILENO, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      tell(stderr, "\n");
      give_up();
    }
    if (c != '\n') line += c;
  }
  if (!is_utf8(line)) config_error("new", "the answer is not UTF-8; type it in that encoding");
  return std::string(trim(line));
}

}  // namespace

bool can_ask() { return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0; }

void ask(const std::string& question, const std::string& otherwise, const std::function<void(const std::string&)>& take) {
  while (true) {
    tell(stderr, "{}{}: ", question, otherwise.empty() ? "" : " [" + otherwise + "]");
    try {
      auto answer = read_line();
      return take(answer.empty() ? otherwise : answer);
    } catch (const Error& error) {
      if (error.code() == Exit::interrupted) throw;
      tell(stderr, "  {}\n", without_source(error));
    }
  }
}

bool ask_whether(const std::string& question) {
  bool is_yes = false;
  ask(question + " (y or n)", "n", [&](const std::string& answer) {
    if (answer != "y" && answer != "n" && answer != "yes" && answer != "no") config_error("new", "the answer is y or n, not '{}'", answer);
    is_yes = answer.starts_with('y');
  });
  return is_yes;
}

std::string typed_name(const std::string& answer) {
  auto name = std::string(trim(answer));
  const bool is_quoted = name.size() >= 2 && name.front() == name.back() && (name.front() == '\'' || name.front() == '"');
  if (is_quoted) name = name.substr(1, name.size() - 2);
  return typed_path(name);
}

}  // namespace burnish::app
