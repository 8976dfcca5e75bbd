#include "foreign/scripts.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"

namespace burnish::foreign {

namespace of_scripts {
namespace {

/// What variables may come to in all: they can double themselves in every line.
constexpr size_t kMostText = 1 << 20;

void check_size(size_t size) {
  if (size > kMostText) data_error("import", "the script's variables grow beyond {} characters, which no command line has", kMostText);
}

std::string in_small(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_first_of_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The name at the start of a text, "" for none.
std::string_view name_at(std::string_view text) {
  if (text.empty() || !is_first_of_name(text[0])) return {};
  size_t size = 1;
  while (size < text.size() && is_of_name(text[size])) ++size;
  return text.substr(0, size);
}

/// NAME= or NAME+= at the start of a word.
struct Assignment {
  std::string name;
  bool appends;
  std::string value;
};

std::optional<Assignment> assignment_of(std::string_view word) {
  auto name = name_at(word);
  auto rest = word.substr(name.size());
  bool appends = rest.starts_with("+=");
  if (name.empty() || !(appends || rest.starts_with("="))) return {};
  return Assignment{std::string(name), appends, std::string(rest.substr(appends ? 2 : 1))};
}

/// Whether a command is run: `perhaps` where what the script asks is not its own to answer.
enum class Runs { yes, no, perhaps };

Runs both(Runs a, Runs b) {
  if (a == Runs::no || b == Runs::no) return Runs::no;
  return a == Runs::yes && b == Runs::yes ? Runs::yes : Runs::perhaps;
}
Runs opposite(Runs a) { return a == Runs::yes ? Runs::no : a == Runs::no ? Runs::yes : a; }

/// The branches that a line of a script stands in.
class Branches {
 public:
  void begin(Runs condition) { open_.push_back({condition, condition == Runs::yes, condition == Runs::perhaps}); }
  void otherwise(Runs condition) {
    if (open_.empty()) return;
    auto& branch = open_.back();
    branch.now = branch.is_settled ? Runs::no : branch.may_be_settled && condition == Runs::yes ? Runs::perhaps : condition;
    branch.is_settled = branch.is_settled || branch.now == Runs::yes;
    branch.may_be_settled = branch.may_be_settled || condition == Runs::perhaps;
  }
  void end() {
    if (!open_.empty()) open_.pop_back();
  }
  Runs now() const {
    auto runs = Runs::yes;
    for (const auto& branch : open_) runs = both(runs, branch.now);
    return runs;
  }

 private:
  struct Branch {
    Runs now;
    bool is_settled, may_be_settled;  ///< whether an earlier branch was taken
  };
  std::vector<Branch> open_;
};

/// Compares as tests of a shell and of a batch file do.
Runs compared(const std::string& a, const std::string& relation, const std::string& b) {
  auto of = [](bool holds) { return holds ? Runs::yes : Runs::no; };
  if (relation == "==" || relation == "=") return of(a == b);
  if (relation == "!=") return of(a != b);
  auto left = parse_number<double>(a), right = parse_number<double>(b);
  if (!left || !right) return Runs::perhaps;
  auto word = in_small(relation);
  if (!word.empty() && word[0] == '-') word.erase(0, 1);
  if (word == "eq" || word == "equ") return of(*left == *right);
  if (word == "ne" || word == "neq") return of(*left != *right);
  if (word == "gt" || word == "gtr") return of(*left > *right);
  if (word == "ge" || word == "geq") return of(*left >= *right);
  if (word == "lt" || word == "lss") return of(*left < *right);
  return word == "le" || word == "leq" ? of(*left <= *right) : Runs::perhaps;
}

/// A test's words, without its brackets.
Runs tested(Command words) {
  if (!words.empty() && (words[0] == "[" || words[0] == "[[" || words[0] == "test")) words.erase(words.begin());
  if (!words.empty() && (words.back() == "]" || words.back() == "]]")) words.pop_back();
  auto is_open = [](const std::string& word) { return word.find('$') != word.npos; };  // what the script does not set
  if (std::ranges::any_of(words, is_open)) return Runs::perhaps;
  if (!words.empty() && words[0] == "!") return opposite(tested({words.begin() + 1, words.end()}));
  if (words.empty()) return Runs::no;
  if (words.size() == 1) return words[0].empty() || words[0] == "-n" ? Runs::no : Runs::yes;  // -n of a word that came to nothing
  if (words.size() == 2 && (words[0] == "-n" || words[0] == "-z")) return words[1].empty() == (words[0] == "-z") ? Runs::yes : Runs::no;
  return words.size() == 3 ? compared(words[0], words[1], words[2]) : Runs::perhaps;
}

/// The words of a command as it is read.
class Words {
 public:
  const Command& all() const { return words_; }
  Command& all() { return words_; }
  const std::string& word() const { return word_; }
  bool inside() const { return inside_; }

  void end() {
    if (inside_) words_.push_back(word_);
    drop();
  }
  void drop() {
    word_.clear();
    inside_ = false;
  }
  /// Begins a word that may stay empty.
  void begin() { inside_ = true; }
  void add(std::string_view text) {
    check_size(word_.size() + text.size());
    word_ += text;
    inside_ = true;
  }

  /// Adds a value: outside of quotes it is several words where it holds blanks, but not where it is assigned.
  void put(const std::string& value, bool is_quoted) {
    if (is_quoted || (may_assign() && assignment_of(word_))) return add(value);
    for (const char& c : value) {
      if (is_blank(c) || c == '\n') end();
      else add({&c, 1});
    }
  }
  void put_items(const Command& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) end();
      add(items[i]);
    }
  }

  /// Whether a word at this place may be an assignment.
  bool may_assign() const {
    static const Command kBefore{"export", "declare", "typeset", "local", "readonly", "then", "else", "do"};
    for (size_t i = 0; i < words_.size(); ++i) {
      bool is_flag = i > 0 && words_[i].starts_with('-') && !words_[i].starts_with("--");
      if (!is_flag && !assignment_of(words_[i]) && !contains(kBefore, words_[i])) return false;
    }
    return true;
  }

 private:
  Command words_;
  std::string word_;
  bool inside_ = false;
};

/// NAME=( items ).
struct Array {
  Assignment assignment;
  Command items;
};

/// What a script has set.
class Variables {
 public:
  /// Null for what it has not set.
  const std::string* find(const std::string& name) const {
    const auto* array = find_array(name);
    if (array && !array->empty()) return array->data();
    auto variable = values_.find(name);
    return variable == values_.end() ? nullptr : &variable->second;
  }
  const Command* find_array(const std::string& name) const {
    auto array = arrays_.find(name);
    return array == arrays_.end() ? nullptr : &array->second;
  }

  void set(const Assignment& assignment) {
    auto& value = values_[assignment.name];
    value = assignment.appends ? value + assignment.value : assignment.value;
    arrays_.erase(assignment.name);
    check_size(value.size());
  }
  void set(const Array& given) {
    auto& array = arrays_[given.assignment.name];
    if (!given.assignment.appends) array.clear();
    array.insert(array.end(), given.items.begin(), given.items.end());
    size_t size = 0;
    for (const auto& item : array) check_size(size += item.size() + 1);
  }

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, Command> arrays_;
};

/// A shell's script, read command by command, since each may set what the next reads.
class Shell {
 public:
  explicit Shell(std::string_view text) : text_(text) {}

  std::vector<Command> read() {
    while (at_ < text_.size()) {
      words_ = {};
      arrays_here_.clear();
      read_command();
      run();
    }
    return std::move(commands_);
  }

 private:
  enum class Link { next, and_then, or_else };

  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n'; }
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }
  void skip_to(char c) { at_ = std::min(text_.find(c, at_), text_.size()); }
  bool goes_on() const {
    bool is_mark = peek() == '\\' || peek() == '`' || peek() == '^';
    return is_mark && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'));
  }

  /// Up to what ends a command.
  void read_command() {
    link_ = std::exchange(next_link_, Link::next);
    while (at_ < text_.size()) {
      char c = peek();
      if (goes_on()) {
        words_.end();
        skip_to('\n');
        ++at_;
      } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
        if (ends_command()) return;
      } else {
        read_between_or_in();
      }
    }
    words_.end();
  }

  bool ends_command() {
    words_.end();
    char c = peek();
    bool is_doubled = (c == '&' || c == '|') && peek(1) == c;
    if (is_doubled) next_link_ = c == '&' ? Link::and_then : Link::or_else;
    at_ += is_doubled ? 2 : 1;
    if (c == '&' || c == '|') return true;
    // Command lines in documents go on without a mark: a next line that begins with an option belongs to this one.
    return !trim(rest().substr(0, rest().find('\n'))).starts_with("--");
  }

  void read_between_or_in() {
    if (is_blank(peek())) {
      words_.end();
      ++at_;
    } else if (peek() == '#' && !words_.inside()) {
      skip_to('\n');
    } else {
      read_part();
    }
  }

  /// One part of a word: a quotation, a variable, a letter.
  void read_part() {
    char c = peek();
    auto begins_array = [&] {
      auto assignment = words_.may_assign() ? assignment_of(words_.word()) : std::nullopt;
      return assignment && assignment->value.empty();
    };
    if (c == '\'') {
      auto end = std::min(text_.find('\'', at_ + 1), text_.size());
      words_.add(text_.substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
    } else if (c == '"') {
      read_quotation();
    } else if (c == '$') {
      read_variable(/*is_quoted=*/false);
    } else if (c == '(' && begins_array()) {
      read_array();
    } else if (c == '>' && (!words_.inside() || words_.word() == "1" || words_.word() == "2")) {
      skip_redirection();
    } else {
      words_.add({&c, 1});
      ++at_;
    }
  }

  void read_quotation() {
    ++at_;
    if (!is_array_to_its_end()) words_.begin();
    while (at_ < text_.size() && peek() != '"') {
      char c = peek(), next = peek(1);
      bool is_escaped = c == '\\' && (next == '"' || next == '\\' || next == '$');
      if (c == '$') {
        read_variable(/*is_quoted=*/true);
      } else {
        words_.add({is_escaped ? &next : &c, 1});
        at_ += is_escaped ? 2 : 1;
      }
    }
    ++at_;
  }

  /// "${X[@]}", which is no word where the array is empty.
  bool is_array_to_its_end() const {
    auto end = rest().find('}');
    bool is_last = rest().starts_with("${") && end != std::string_view::npos && end + 1 < rest().size() && rest()[end + 1] == '"';
    return is_last && rest().substr(0, end).ends_with("[@]");
  }

  void read_variable(bool is_quoted) {
    if (rest().starts_with("$(")) return put_as_written(end_of_parentheses() - at_);
    if (rest().starts_with("${")) {
      auto end = rest().find('}');
      return end == std::string_view::npos ? put_as_written(1) : put_braced(rest().substr(2, end - 2), end + 1, is_quoted);
    }
    auto name = std::string(name_at(rest().substr(1)));
    const auto* value = name.empty() ? nullptr : variables_.find(name);
    if (!value) return put_as_written(1 + name.size());
    at_ += 1 + name.size();
    words_.put(*value, is_quoted);
  }

  /// ${X}, ${X:-otherwise}, ${X[@]}.
  void put_braced(std::string_view body, size_t size, bool is_quoted) {
    auto name = std::string(name_at(body));
    auto how = body.substr(name.size());
    const auto* array = variables_.find_array(name);
    const auto* value = name.empty() ? nullptr : variables_.find(name);
    bool is_array = array && (how == "[@]" || how == "[*]"), is_plain = value && how.empty();
    bool has_otherwise = !name.empty() && (how.starts_with(":-") || how.starts_with(":=") || how.starts_with('-'));
    if (!is_array && !is_plain && !has_otherwise) return put_as_written(size);
    at_ += size;
    if (is_array) return words_.put_items(*array);
    bool is_taken = value && (!value->empty() || !how.starts_with(':'));
    words_.put(is_taken ? *value : unquoted(how.substr(how.starts_with('-') ? 1 : 2)), is_quoted);
  }

  static std::string unquoted(std::string_view text) {
    bool is_quoted = text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
    return std::string(is_quoted ? text.substr(1, text.size() - 2) : text);
  }

  void put_as_written(size_t size) {
    words_.add(text_.substr(at_, size));
    at_ += size;
  }

  size_t end_of_parentheses() const {
    int depth = 0;
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      if (text_[i] == '(') ++depth;
      if (text_[i] == ')' && --depth == 0) return i + 1;
    }
    return text_.size();
  }

  /// NAME=( words on any number of lines ).
  void read_array() {
    Array array{*assignment_of(words_.word()), {}};
    words_.drop();
    auto before = std::exchange(words_, {});
    words_.all() = {"="};  // none of its words assigns
    ++at_;
    while (at_ < text_.size() && peek() != ')') {
      if (peek() == '\n' || goes_on()) {
        words_.end();
        ++at_;
      } else {
        read_between_or_in();
      }
    }
    words_.end();
    ++at_;
    array.items.assign(words_.all().begin() + 1, words_.all().end());
    words_ = std::move(before);
    arrays_here_.push_back(std::move(array));
  }

  /// "> file" and "2>&1".
  void skip_redirection() {
    words_.drop();
    while (peek() == '>' || peek() == '&' || (is_blank(peek()) && at_ < text_.size())) ++at_;
    while (at_ < text_.size() && !is_blank(peek()) && std::string_view("\n;&|").find(peek()) == std::string_view::npos) ++at_;
  }

  /// Takes words of the language from the start of a command, and opens and closes branches by them.
  void take_keywords() {
    auto& words = words_.all();
    while (!words.empty()) {
      const auto word = words[0];
      if (word == "if" || word == "elif") {
        bool goes_on = next_link_ != Link::next;  // with a second test
        auto runs = goes_on ? Runs::perhaps : tested({words.begin() + 1, words.end()});
        word == "if" ? branches_.begin(runs) : branches_.otherwise(runs);
        words.clear();
        return;
      }
      if (word == "else") branches_.otherwise(Runs::yes);
      else if (word == "fi") branches_.end();
      else if (word != "then" && word != "do" && word != "done" && word != "{" && word != "}" && word != "time") return;
      words.erase(words.begin());
    }
  }

  void run() {
    take_keywords();
    const auto& words = words_.all();
    auto runs = branches_.now();
    if (link_ == Link::and_then) runs = both(runs, succeeded_);
    if (link_ == Link::or_else) runs = both(runs, opposite(succeeded_));
    if (runs == Runs::no) return;
    if (!words.empty() && (words[0] == "[" || words[0] == "[[" || words[0] == "test")) {
      succeeded_ = both(runs, tested(words));
      return;
    }
    succeeded_ = runs;
    if (!words_.may_assign()) return commands_.push_back(words);
    if (runs != Runs::yes) return;
    for (const auto& word : words) {
      if (auto assignment = assignment_of(word)) variables_.set(*assignment);
    }
    for (const auto& array : arrays_here_) variables_.set(array);
  }

  std::string_view text_;
  size_t at_ = 0;
  Words words_;
  std::vector<Array> arrays_here_;
  Variables variables_;
  Branches branches_;
  Link link_ = Link::next, next_link_ = Link::next;
  Runs succeeded_ = Runs::yes;
  std::vector<Command> commands_;
};

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

  /// What stands behind a parenthesis, which may be closed in the same line.
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
}  // namespace of_scripts

std::vector<Command> commands_of_shell(std::string_view text) { return of_scripts::Shell(text).read(); }

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
