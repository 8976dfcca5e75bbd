#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/places.h"

// Starting the program without loading libtorch each time, for tests that start it often.
namespace burnish::test {

/// The words that the shell makes of a text; none where it would do more than quotes and expansions (redirect, say).
inline std::optional<std::vector<std::string>> shell_words(const std::string& text) {
  wordexp_t words{};
  bool is_plain = ::wordexp(text.c_str(), &words, WRDE_NOCMD) == 0;
  std::vector<std::string> list(words.we_wordv, words.we_wordv + (is_plain ? words.we_wordc : 0));
  ::wordfree(&words);
  if (!is_plain) return std::nullopt;
  return list;
}

/// What NAME=VALUE words say. None where there are other words, or names that are not the program's own: libraries read theirs while they
/// are loaded.
inline std::optional<std::map<std::string, std::string>> own_variables(const std::string& text) {
  std::map<std::string, std::string> variables;
  auto words = shell_words(text);
  if (!words) return std::nullopt;
  for (const auto& word : *words) {
    auto equals = word.find('=');
    bool is_own = word.starts_with("BURNISH_") || word.starts_with("DIFFSYNTH_");
    if (!is_own || equals == word.npos) return std::nullopt;
    variables[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return variables;
}

/// A process (program_forks.cpp) whose forks run the program one after the other. It ends with this.
class ProgramForks {
 public:
  ProgramForks() {
    std::array<int, 2> to{}, from{};
    if (::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      ::execl(test::kForks, test::kForks, static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = ::fdopen(to[1], "w");
    from_ = ::fdopen(from[0], "r");
  }
  ProgramForks(const ProgramForks&) = delete;
  ~ProgramForks() {
    std::fclose(to_);
    std::fclose(from_);
    ::waitpid(pid_, nullptr, 0);
  }

  /// The status of waitpid after a run that the request describes.
  int run(const std::string& request) {
    std::fprintf(to_, "%s\n", request.c_str());
    std::fflush(to_);
    int status = -1;
    if (std::fscanf(from_, "%d", &status) != 1) throw std::runtime_error("program_forks has ended");
    return status;
  }

 private:
  pid_t pid_ = -1;
  std::FILE *to_ = nullptr, *from_ = nullptr;
};

/// The status of the program's run, or none where it has to be started in full: by something in front of it, or because it starts itself.
inline std::optional<int> run_forked(const std::string& arguments, const std::string& before, const std::string& output) {
  auto words = shell_words(arguments);
  auto variables = own_variables(before);
  if (!words || !variables || (!words->empty() && words->front() == "launch")) return std::nullopt;
  std::string request;
  try {
    request = nlohmann::json({{"arguments", *words}, {"environment", *variables}, {"output", output}}).dump();
  } catch (const nlohmann::json::type_error&) {  // bytes that are no UTF-8
    return std::nullopt;
  }
  thread_local ProgramForks forks;
  return forks.run(request);
}

}  // namespace burnish::test
