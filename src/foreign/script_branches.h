#pragma once
#include <string>
#include <vector>

#include "foreign/script_words.h"

namespace burnish::foreign::of_scripts {

/// Tells whether a command is run: `perhaps` where what the script asks is not its own to answer.
enum class Runs { yes, no, perhaps };

Runs both(Runs a, Runs b);
Runs opposite(Runs a);

/// The branches that a line of a script stands in.
class Branches {
 public:
  void begin(Runs condition) { open_.push_back({condition, condition == Runs::yes, condition == Runs::perhaps}); }
  void otherwise(Runs condition) {
    if (open_.empty()) return;
    auto& branch = open_.back();
    branch.now = branch.is_settled ? Runs::no : branch.may_be_settled && condition == Runs::yes ? Runs::perhaps : condition;
    branch.is_settled = branch.is_settled || branch.now == Runs::yes;
    branch.may_be_settled = branch.may_be_settled || condition == Runs::perhaps;
  }
  void end() {
    if (!open_.empty()) open_.pop_back();
  }
  Runs now() const {
    auto runs = Runs::yes;
    for (const auto& branch : open_) runs = both(runs, branch.now);
    return runs;
  }

 private:
  struct Branch {
    Runs now;
    bool is_settled, may_be_settled;  ///< whether an earlier branch was taken
  };
  std::vector<Branch> open_;
};

/// Compares as tests of a shell and of a batch file do.
Runs compared(const std::string& a, const std::string& relation, const std::string& b);
/// Answers a test's words, without its brackets.
Runs tested(Command words);

}  // namespace burnish::foreign::of_scripts
