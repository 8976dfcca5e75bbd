#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace burnish::studio {

/// Holds what a tool takes.
struct Input {
  enum class Kind { text, number, truth, texts_by_name, settings };
  const char* name;
  Kind kind;
  const char* meaning;
  bool is_needed = true;
  std::vector<const char*> choices = {};
};

/// A tool of `burnish mcp`: a request of the interface (docs/studio-api.md), and what an assistant is told of it. Inputs that the path
/// names become parts of it, the others the request's body; settings become their text (settings_text).
struct Tool {
  enum class Effect { reads, changes, removes };
  const char* name;
  const char* meaning;
  Effect effect;
  const char *method, *path;
  std::vector<Input> inputs;
  /// What of the answer is handed on, by the arguments; null: all of it.
  nlohmann::json (*chosen)(const nlohmann::json& answer, const nlohmann::json& arguments) = nullptr;
};

const std::vector<Tool>& tools();

/// Returns the part of a list that starts at the entry `first` of the arguments, with the number of all entries.
nlohmann::json page_of(const nlohmann::json& list, const nlohmann::json& arguments);

}  // namespace burnish::studio
