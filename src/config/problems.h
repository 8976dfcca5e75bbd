#pragma once
#include <functional>
#include <set>

#include "base/error.h"
#include "config/fields.h"

namespace burnish::config {

/// What is wrong with an option: a sentence that names it, and perhaps others that it does not go with.
struct Problem {
  std::string option;  ///< "" where the sentence names none
  std::string sentence;
};

/// A config Error about several options at once; its own sentence is the first.
class Refusal : public Error {
 public:
  Refusal(const char* room, std::vector<Problem> problems)
      : Error(Exit::config, room, problems.at(0).sentence), room_(room), problems_(std::move(problems)) {}
  const std::vector<Problem>& problems() const { return problems_; }
  /// A line a problem, each as what() has one.
  std::string lines() const;

 private:
  const char* room_;
  std::vector<Problem> problems_;
};

/// Gathers what is wrong with the options of a run, so that all of it is said at once: of each option the first thing that is found. A
/// sentence names options as they are spelled, and the first that it names is the one that it is about.
class Problems {
 public:
  /// `fields` must outlive it.
  explicit Problems(const Fields& fields) : fields_(fields) {}

  template <class... A>
  void add(fmt::format_string<A...> text, A&&... args) {
    add_sentence(fmt::format(text, std::forward<A>(args)...));
  }
  /// Adds what a check throws as a config Error.
  void gather(const std::function<void()>& check);
  /// Adds values that are no numbers, outside of their range or none of their choices. What comes later about such an option is not added:
  /// it follows from its value.
  void check_values();
  const std::vector<Problem>& list() const { return list_; }
  /// A Refusal where there are any.
  void refuse(const char* room) const;

 private:
  void add_sentence(std::string sentence);
  void check_value(const Field& field);

  const Fields& fields_;
  std::vector<Problem> list_;
  std::set<std::string> wrong_values_;  ///< options of which check_values found something
};

/// [{"option": ..., "sentence": ...}]
std::string to_json(const std::vector<Problem>& problems);

}  // namespace burnish::config
