#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace burnish::config {

/// A function that changes a file name of a text to what it is when the text stood in `folder` instead of the current one.
using Relocate = std::string (*)(const std::string& text, const std::filesystem::path& folder);

/// A Relocate: relative names begin in the folder.
std::string seen_from(const std::string& name, const std::filesystem::path& folder);
/// A Relocate for what may be a name or something else, a model's id say: a name where there is such a file in the folder. Of
/// "file:part" the file is looked for.
std::string seen_from_if_there(const std::string& name, const std::filesystem::path& folder);

/// An option of a verb: its name on the command line (`--name`, dashes work too) and in TOML, and where its value lives.
struct Field {
  using Slot = std::variant<std::string*, int64_t*, double*, bool*, std::vector<std::string>*>;
  std::string group, name;
  Slot slot;
  std::string doc;
  std::vector<std::string> aliases;
  bool positional = false;
  bool takes_numbers = false;   ///< whether TOML may write numbers into this list: see Fields::numbers
  Relocate relocate = nullptr;  ///< moves the file names of an option that names files
};

/// An option of another program, listed so that its commands can be pasted.
struct ForeignOption {
  std::string name;
  bool takes_value;
  std::string text;  ///< says what is done instead, or why it is refused
};

/// Lists a struct's fields once, for the command line, TOML, --help and the resolved config alike:
///   void fields(Fields& f, Options& o) { f.group("Model"); f("dtype", o.dtype, "fp32 or bf16"); }
class Fields {
 public:
  void group(std::string name) { group_ = std::move(name); }
  void operator()(std::string name, Field::Slot slot, std::string doc, std::vector<std::string> aliases = {}) {
    list_.push_back({group_, std::move(name), slot, std::move(doc), std::move(aliases)});
  }
  template <class T>
  void operator()(std::string name, T& value, std::string doc, std::vector<std::string> aliases = {}) {
    (*this)(std::move(name), Field::Slot(&value), std::move(doc), std::move(aliases));
  }
  /// An option whose text names a file, or whose list names files: names in a TOML file begin in that file's folder.
  template <class T>
  void path(std::string name, T& value, std::string doc, std::vector<std::string> aliases = {}, Relocate relocate = seen_from) {
    (*this)(std::move(name), Field::Slot(&value), std::move(doc), std::move(aliases));
    list_.back().relocate = relocate;
  }
  /// A list that is given on the command line without the option's name, before, between or behind the options.
  void positional(std::string name, std::vector<std::string>& list, std::string doc) {
    list_.push_back({group_, std::move(name), &list, std::move(doc), {}, true});
  }
  /// A list of which TOML may write whole numbers: each, or each list of them, is an item as it stands on the command line: 768,512.
  void numbers(std::string name, std::vector<std::string>& list, std::string doc) {
    list_.push_back({group_, std::move(name), &list, std::move(doc), {}, false, true});
  }
  /// An option of another program that means nothing here: it is taken, with its value, and reported in Parsed.
  void no_effect(std::string name, bool takes_value, std::string doc) {
    no_effect_.push_back({std::move(name), takes_value, std::move(doc)});
  }
  /// An option of another program that cannot be honoured: to give it is a config Error that says `why`.
  void refused(std::string name, std::string why) { refused_.push_back({std::move(name), true, std::move(why)}); }
  /// Heads the options without effect in --help.
  void title_no_effect(std::string title) { title_no_effect_ = std::move(title); }

  const std::vector<Field>& list() const { return list_; }
  const std::vector<ForeignOption>& without_effect() const { return no_effect_; }
  const std::vector<ForeignOption>& refused() const { return refused_; }
  const std::string& title_no_effect() const { return title_no_effect_; }
  std::vector<std::string> names() const;

 private:
  std::string group_;
  std::vector<Field> list_;
  std::vector<ForeignOption> no_effect_, refused_;
  std::string title_no_effect_;
};

/// Reads a TOML file into the fields and returns the names of keys without effect. File names in it begin in its folder. A file that cannot
/// be read or is no TOML is a data Error; an unknown key (with the nearest name) or a value of another kind is a config Error.
std::vector<std::string> read_toml(const std::string& path, const Fields& fields);
/// Reads a TOML text as read_toml reads a file; file names in it stay as they are.
std::vector<std::string> read_toml_text(const std::string& text, const Fields& fields);

/// The field's file names as seen from the current folder when they are written from `folder`; nothing for a field that names no files.
void relocate(const Field& field, const std::filesystem::path& folder);

/// Reads a TOML file of things in two levels whose keys are handed down: [general], then [[`list`]], then [[`list`.`items`]]. For each
/// item, and each entry of the list that has no items, `begin` gives the fields of a new thing, into which the keys of [general], of the
/// entry and of the item are read, in this order. Errors are those of read_toml.
void read_toml_items(const std::string& path, const std::string& list, const std::string& items, const std::function<Fields()>& begin);

/// Writes a field's value as TOML does.
std::string value_text(const Field& field);

/// The values as TOML, grouped, each with its doc as a comment.
std::string to_toml(const Fields& fields);

/// The options as a page of Markdown: a table a group, of names, values when they are not given, and docs.
std::string to_markdown(const std::string& verb, const std::string& summary, const Fields& fields);

/// The result of parsing a command line.
struct Parsed {
  bool help = false;
  std::string help_text;
  std::vector<std::string> without_effect;  ///< options given that mean nothing here
  std::vector<std::string> given;           ///< names of those on the command line; what a TOML file has is not among them
};

/// Reads `args` (without program and verb) into the fields: first the TOML file named by --config, or by a lone word that ends in .toml,
/// then the options, which win. The help
/// of --help is Markdown beside --markdown, and a line an option beside --names: its name, a tab, and its doc. An unknown option, a
/// malformed value, a text that is not UTF-8 (config.toml could not hold it), or a word that belongs to no option is a config Error.
Parsed read_command_line(const std::string& verb, const std::string& summary, const std::vector<std::string>& args, const Fields& fields);

}  // namespace burnish::config
