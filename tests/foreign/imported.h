#pragma once
#include "foreign/program.h"
#include "tests/foreign/run_options.h"

namespace burnish::test {

/// What became of a program's settings.
struct Imported {
  std::map<std::string, std::string> values;  ///< of options that are not as they are by themselves
  foreign::Import said;

  /// Returns the value of an option without quotes; "" where it is as it is by itself.
  std::string operator[](const std::string& option) const {
    auto it = values.find(option);
    auto text = it == values.end() ? "" : it->second;
    return text.starts_with('"') ? foreign::Value::parse(text).get<std::string>() : text;
  }
};

/// Applies a program's rows to settings, which are JSON.
inline Imported imported(const foreign::Program& program, const std::string& json) {
  RunOptions options;
  Imported result;
  foreign::apply(program.table(), foreign::Settings(foreign::Value::parse(json)), true, options.fields, result.said);
  static const auto untouched = RunOptions().values();
  for (const auto& [name, text] : options.values()) {
    if (text != untouched.at(name)) result.values[name] = text;
  }
  return result;
}

}  // namespace burnish::test
