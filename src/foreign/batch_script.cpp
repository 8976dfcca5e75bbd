#include "foreign/batch_script.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/text.h"
#include "foreign/script_branches.h"

namespace burnish::foreign::of_scripts {

namespace {

/// The text behind a word at the start, whatever its case; nothing where it does not stand there.
std::optional<std::string_view> behind(std::string_view text, std::string_view word) {
  if (in_small(text.substr(0, word.size())) != word) return {};
  auto rest = text.substr(word.size());
  if (!rest.empty() && !is_blank(rest[0]) && rest[0] != '(' && rest[0] != '"') return {};
  return trim(rest);
}

/// A batch file of Windows, line by line.
class Batch {
 public:
  std::vector<Command> read(std::string_view text) {
    while (!text.empty()) run_line(expanded(next_line(text)));
    return std::move(commands_);
  }

 private:
  /// A line with those that it goes on in: a caret at its end, or an option at the start of the next.
  static std::string next_line(std::string_view& text) {
    std::string line;
    bool goes_on = true;
    while (goes_on && !text.empty()) {
      auto end = std::min(text.find('\n'), text.size());
      auto part = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      while (!part.empty() && is_blank(part.back())) part.remove_suffix(1);
      goes_on = part.ends_with('^');
      line += (line.empty() ? "" : " ") + std::string(part.substr(0, part.size() - (goes_on ? 1 : 0)));
      auto after = trim(text.substr(0, text.find('\n')));
      goes_on = goes_on || (after.starts_with("--") && !line.empty());
    }
    return std::string(trim(line));
  }

  /// %X% and !X! of variables that the file sets; %% is one.
  std::string expanded(const std::string& line) const {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      char mark = line[i];
      auto end = mark == '%' || mark == '!' ? line.find(mark, i + 1) : line.npos;
      if (end == i + 1 && mark == '%') {
        text += mark;
        i = end;
        continue;
      }
      auto variable = end == line.npos ? variables_.end() : variables_.find(in_small(line.substr(i + 1, end - i - 1)));
      if (variable == variables_.end()) {
        text += mark;
        continue;
      }
      text += variable->second;
      check_size(text.size());
      i = end;
    }
    return text;
  }

  void run_line(std::string_view line) {
    while (line.starts_with('@')) line = trim(line.substr(1));
    if (line.starts_with("::") || behind(line, "rem")) return;
    while (line.starts_with(')')) {
      line = trim(line.substr(1));
      auto otherwise = behind(line, "else");
      if (!otherwise) {
        branches_.end();
        continue;
      }
      line = *otherwise;
      auto runs = Runs::yes;
      if (auto condition = behind(line, "if")) runs = take_condition(line = *condition);
      branches_.otherwise(runs);
      if (line.starts_with('(')) return run_block(line.substr(1));
    }
    if (auto condition = behind(line, "if")) return run_if(*condition);
    run_commands(line, branches_.now());
  }

  void run_if(std::string_view line) {
    auto runs = take_condition(line);
    if (!line.starts_with('(')) return run_commands(line, both(branches_.now(), runs));
    branches_.begin(runs);
    run_block(line.substr(1));
  }

  /// Runs the block behind a parenthesis, which may be closed in the same line.
  void run_block(std::string_view line) {
    auto end = std::min(line.find(')'), line.size());
    run_commands(trim(line.substr(0, end)), branches_.now());
    if (end < line.size()) run_line(line.substr(end));
  }

  /// Takes a condition from the start of a line.
  Runs take_condition(std::string_view& line) {
    bool ignores_case = false, is_not = false;
    for (auto rest = behind(line, "/i"); rest; rest = behind(line, "/i")) line = *rest, ignores_case = true;
    if (auto rest = behind(line, "not")) line = *rest, is_not = true;
    auto runs = Runs::perhaps;
    if (auto rest = behind(line, "defined")) {
      auto name = in_small(take_word(line = *rest));
      auto variable = variables_.find(name);
      runs = variable == variables_.end() ? Runs::perhaps : variable->second.empty() ? Runs::no : Runs::yes;
    } else if (behind(line, "exist") || behind(line, "errorlevel")) {
      take_word(line);
      take_word(line);
    } else {
      runs = take_comparison(line, ignores_case);
    }
    return is_not ? opposite(runs) : runs;
  }

  static Runs take_comparison(std::string_view& line, bool ignores_case) {
    auto a = std::string(take_word(line, "=="));
    std::string relation = "==";
    if (line.starts_with("==")) line = trim(line.substr(2));
    else relation = std::string(take_word(line));
    auto b = std::string(take_word(line));
    if ((a + b).find_first_of("%!") != std::string::npos) return Runs::perhaps;
    return ignores_case ? compared(in_small(a), relation, in_small(b)) : compared(a, relation, b);
  }

  /// Takes a word with its quotes from the start of a line, up to a blank or `end`.
  static std::string_view take_word(std::string_view& line, std::string_view end = " ") {
    size_t size = 0;
    bool is_quoted = false;
    while (size < line.size()) {
      if (line[size] == '"') is_quoted = !is_quoted;
      if (!is_quoted && (is_blank(line[size]) || line.substr(size).starts_with(end))) break;
      ++size;
    }
    auto word = line.substr(0, size);
    line = trim(line.substr(size));
    return word;
  }

  void run_commands(std::string_view line, Runs runs) {
    if (runs == Runs::no || line.empty()) return;
    if (auto assignment = behind(line, "set")) {
      if (runs == Runs::yes) assign(*assignment);
      return;
    }
    read_words(line);
  }

  /// X=value, "X=value", and /a or /p, whose value is not here.
  void assign(std::string_view text) {
    bool is_reckoned = text.starts_with('/');
    if (is_reckoned) take_word(text);
    if (text.starts_with('"')) text = text.substr(1, text.rfind('"') - 1);
    auto equals = text.find('=');
    if (equals == text.npos) return;
    auto name = in_small(trim(text.substr(0, equals)));
    if (is_reckoned) variables_.erase(name);
    else variables_[name] = text.substr(equals + 1);
  }

  void read_words(std::string_view line) {
    Command words;
    std::string word;
    bool is_inside = false, is_quoted = false;
    auto end_word = [&] {
      if (is_inside) words.push_back(word);
      word.clear();
      is_inside = false;
    };
    auto end_command = [&] {
      end_word();
      if (!words.empty()) commands_.push_back(words);
      words.clear();
    };
    for (size_t i = 0; i < line.size(); ++i) {
      char c = line[i];
      if (c == '"') {
        is_quoted = !is_quoted;
        is_inside = true;
      } else if (is_quoted) {
        word += c;
      } else if (is_blank(c)) {
        end_word();
      } else if (c == '&' || c == '|') {
        end_command();
      } else if (c == '>') {
        end_command();
        break;
      } else {
        word += c == '^' && i + 1 < line.size() ? line[++i] : c;
        is_inside = true;
      }
    }
    end_command();
  }

  std::map<std::string, std::string> variables_;  ///< by their names in small letters, as there
  Branches branches_;
  std::vector<Command> commands_;
};

}  // namespace

}  // namespace burnish::foreign::of_scripts

namespace burnish::foreign {

std::vector<Command> commands_of_batch(std::string_view text) { return of_scripts::Batch().read(text); }

bool looks_like_batch(std::string_view text) {
  while (!text.empty()) {
    auto end = std::min(text.find('\n'), text.size());
    auto line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    auto assignment = of_scripts::behind(line, "set");
    bool assigns = assignment && (assignment->starts_with('"') || of_scripts::assignment_of(*assignment));
    if (assigns || of_scripts::behind(line, "@echo") || of_scripts::behind(line, "rem")) return true;
  }
  return false;
}

}  // namespace burnish::foreign
