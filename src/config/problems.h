#pragma once
#include <fmt/core.h>

#include <functional>
#include <set>

#include "config/fields.h"
#include "config/problem.h"

namespace burnish::config {

/// Gathers what is wrong with the options of a run, so that all of it is said at once: for each option the first thing that is found. A
/// sentence names options as they are spelled, and the first that it names is the one that it is about.
class Problems {
 public:
  /// `fields` must outlive it.
  explicit Problems(const Fields& fields) : fields_(fields) {}

  template <class... A>
  void add(fmt::format_string<A...> text, A&&... args) {
    add_sentence(fmt::format(text, std::forward<A>(args)...));
  }
  /// Adds a sentence about this option, whatever else it names.
  void add_about(std::string option, std::string sentence);
  /// Tells that a value is wrong already: what comes later about such an option is not added, since it follows from its value.
  void settle(const std::string& option) { wrong_values_.insert(option); }
  /// Adds what a check throws as a config Error.
  void gather(const std::function<void()>& check);
  /// Adds values that are no numbers, outside of their range or none of their choices, and settles them.
  void check_values();
  const std::vector<Problem>& list() const { return list_; }
  /// Throws a Refusal where there are any problems.
  void refuse(const char* room) const;

 private:
  void add_sentence(std::string sentence);
  void check_value(const Field& field);

  const Fields& fields_;
  std::vector<Problem> list_;
  std::set<std::string> wrong_values_;  ///< options about which check_values found something
};

}  // namespace burnish::config
