#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace burnish::foreign {

/// A value of another program's settings, whatever file it stood in.
using Value = nlohmann::json;

/// Reads a settings file by its ending: .toml, .json, .yaml or .yml, or .env (parse_environment). Anything else is a command line, in a
/// script of a shell, in a batch file (.bat, .cmd) or as text: the options behind the first script (a word that ends in .py) that trains by
/// its name, or the first of all (without one, all of them) as an object, an option without a value as true, one with several as a list;
/// the script's name as "script", the launcher's options under "launch", and what of it was not read under kUnread. A data Error for what
/// cannot be read.
Value read_settings_file(const std::filesystem::path& path);

/// The name of what of a command was not read: its words that are no option and no option's value, and what it takes of variables and
/// commands that the script does not set.
inline const std::string kUnread = "unread";

/// The parsers behind it; `name` is for messages.
Value parse_toml(const std::string& text, const std::string& name);
Value parse_yaml(const std::string& text, const std::string& name);
Value parse_json(const std::string& text, const std::string& name);
Value parse_command_line(std::string_view text, bool is_batch_file = false);
/// Lines NAME=value of an environment as an object, also behind "export" and in quotes; NAME+=value adds to it behind a blank.
Value parse_environment(const std::string& text);

/// A value as people write it: a text without its quotes.
std::string text_of(const Value& value);

/// Tells whether a value asks for something: not null, false, 0, empty or a word like "none".
bool asks_for_something(const Value& value);

/// Settings with all tables inside each other unfolded: "optimizer.lr". Lists stay as they are. Null is the same as not given.
class Settings {
 public:
  explicit Settings(const Value& tree);

  const std::map<std::string, Value>& all() const { return values_; }
  const Value* find(const std::string& name) const;
  bool has(const std::string& name) const { return find(name) != nullptr; }
  /// Tells whether it is given and asks for something.
  bool on(const std::string& name) const;
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  std::optional<double> number(const std::string& name) const;

 private:
  std::map<std::string, Value> values_;
};

/// A value as a number, also one that is written as text; none for what is no number.
std::optional<double> number_of(const Value& value);

/// Puts a text in small letters.
std::string lower(std::string text);

}  // namespace burnish::foreign
