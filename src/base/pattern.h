#pragma once
#include <memory>
#include <string>

namespace burnish {

/// A regular expression for whole names, as users write them: ECMAScript's, without back references.
///
/// What it takes to match grows with the name and the expression, never exponentially: "(a*)*b" ends at once. Expressions that could
/// still take long, of more than 1000 characters or with more than 4 looks ahead, are refused.
class Pattern {
 public:
  /// Throws a config Error of `room` about `option` for what is no such expression.
  Pattern(const char* room, const std::string& option, const std::string& text);
  bool matches(const std::string& name) const;

 private:
  struct Compiled;
  std::shared_ptr<Compiled> compiled_;  ///< shared by all patterns of this text
};

/// Returns the expression that fits a text alone.
std::string literally(const std::string& text);

}  // namespace burnish
