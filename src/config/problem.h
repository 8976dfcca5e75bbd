#pragma once
#include <string>
#include <vector>

namespace burnish::config {

/// A problem of an option: a sentence that names it, and perhaps others that it does not go with.
struct Problem {
  std::string option;  ///< "" where the sentence names none
  std::string sentence;
};

/// Writes [{"option": ..., "sentence": ...}].
std::string to_json(const std::vector<Problem>& problems);

}  // namespace burnish::config
