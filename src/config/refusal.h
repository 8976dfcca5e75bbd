#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "config/problem.h"

namespace burnish::config {

/// A config Error about several options at once; its own sentence is the first.
class Refusal : public Error {
 public:
  Refusal(const char* room, std::vector<Problem> problems)
      : Error(Exit::config, room, problems.at(0).sentence), room_(room), problems_(std::move(problems)) {}
  const std::vector<Problem>& problems() const { return problems_; }
  /// Returns a line for each problem, as what() has one.
  std::string lines() const;

 private:
  const char* room_;
  std::vector<Problem> problems_;
};

}  // namespace burnish::config
