#pragma once
#include <stdexcept>
#include <string>

namespace burnish {

/// The program's exit status, which tells a script how it ended.
enum class Exit { done = 0, internal = 1, config = 2, data = 3, no_fit = 4, interrupted = 130 };

/// Returns `text` with blanks for line ends and other control characters, which names from files may hold, and with the middle of words
/// left out that are longer than any path.
std::string one_line(const std::string& text);

/// Returns an exception's sentence without the source that stands in brackets before it: "sentence" of "[room] sentence".
std::string without_source(const std::exception& error);

/// A failure that a user can act on: one sentence that says what was expected, what was found, and what to try.
/// `what()` reads "[room] sentence".
class Error : public std::runtime_error {
 public:
  Error(Exit code, const char* room, const std::string& text);
  Exit code() const { return code_; }

 private:
  Exit code_;
};

}  // namespace burnish
