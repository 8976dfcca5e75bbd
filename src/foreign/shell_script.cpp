#include "foreign/shell_script.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "foreign/script_branches.h"

namespace burnish::foreign::of_scripts {

namespace {

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

  /// Tells whether a word at this place may be an assignment.
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

/// The variables that a script has set.
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

  /// Reads up to what ends a command.
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
      words_.add(literal(text_.substr(at_ + 1, end - at_ - 1)));
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
        words_.add(is_escaped ? literal({&next, 1}) : std::string(1, c));
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

}  // namespace

}  // namespace burnish::foreign::of_scripts

namespace burnish::foreign {

std::vector<Command> commands_of_shell(std::string_view text) { return of_scripts::Shell(text).read(); }

}  // namespace burnish::foreign
