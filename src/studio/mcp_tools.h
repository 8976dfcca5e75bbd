#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studio/client.h"

namespace burnish::studio {

/// What a tool takes.
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

/// The tools as tools/list has them. `options`: of training, as config::to_json lists them.
nlohmann::json describe(const std::vector<Tool>& tools, const nlohmann::json& options);

/// The result of tools/call. What the interface refuses, or the arguments lack, is a result too, with "isError".
nlohmann::json call(const Tool& tool, const nlohmann::json& arguments, const Ask& ask);

/// TOML of "options", an object of values by name, and of "settings", a text that stands behind them. A config Error for what is no
/// option's name or value.
std::string settings_text(const nlohmann::json& arguments);

}  // namespace burnish::studio
