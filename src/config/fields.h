#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace burnish::config {

/// Rewrites a file name in a text that stood in `folder` for the current folder.
using Relocate = std::string (*)(const std::string& text, const std::filesystem::path& folder);

/// Moves relative names into the folder, as a Relocate; addresses (scheme://...) stay.
std::string seen_from(const std::string& name, const std::filesystem::path& folder);
/// Moves what may be a name or something else, a model's id say, as a Relocate: it is a name where there is such a file in the folder. In
/// "file:part" the file is looked for.
std::string seen_from_if_there(const std::string& name, const std::filesystem::path& folder);

/// A condition that must hold for an option to decide anything.
struct Condition {
  std::string belongs_to;        ///< the condition in words, as "lora_type dora"
  std::function<bool()> counts;  ///< tells whether it holds, by the values that the options have when it is asked
  bool may_be_repeated = false;  ///< whether an option that is given at its own value is no wish
};

/// Says who needs to know of an option: whoever trains for the first time, whoever trains often, or whoever looks for it.
enum class Level { first_run, usual, all };

/// Says what has to train for an option to decide what is learned.
enum class LearnedBy { all, adapters, whole };

/// An option of a verb: its name on the command line (`--name`, dashes work too) and in TOML, and where its value lives.
struct Field {
  using Slot = std::variant<std::string*, int64_t*, double*, bool*, std::vector<std::string>*>;
  std::string group = {}, name = {};
  Slot slot = {};
  std::string doc = {};
  std::vector<std::string> aliases = {};
  std::string label = {};  ///< see Row::label
  bool positional = false;
  bool takes_numbers = false;             ///< whether TOML may write numbers into this list: see Fields::numbers
  Relocate relocate = nullptr;            ///< moves the file names of an option that names files
  std::vector<std::string> choices = {};  ///< the words that a text may be; none: any
  bool checks_choices = false;            ///< whether a word that is not among them is refused here
  std::optional<double> least = {}, most = {};
  std::string unit = {};                   ///< unit of a number: "pixels", "GiB", "steps"
  std::vector<Condition> conditions = {};  ///< conditions that all have to hold for it to count
  std::string dataset_key = {};            ///< key of the option in a table of a dataset_config; "" where a dataset has none of its own
  bool is_of_visits = false;               ///< see Row::of_visits
  bool is_repeated = false;                ///< see Row::repeated
  bool decides_what_is_learned = false;    ///< whether it decides what is learned, so that a saved state is no good under another value
  std::function<std::string()> learned_as = {};  ///< see Row::learned_as
  LearnedBy learned_by = LearnedBy::all;
  bool acts_outside = false;                  ///< see Row::acts_outside
  std::vector<std::string> called_else = {};  ///< see Row::called
  Level level = Level::usual;
};

/// Puts words as "a, b or c"; an empty word, which leaves an option out, is not said.
std::string either(std::vector<std::string> words);

/// Says more about the option that was listed last.
class Row {
 public:
  explicit Row(Field& field) : field_(&field) {}
  /// Says what people call it where its name is not that: "Pictures per step". Help begins with it, and so do fields of forms.
  Row& label(std::string label) { return field_->label = std::move(label), *this; }
  /// Lists the words that a text may be. Where the option's doc has "{words}", they are put there, as "a, b or c".
  Row& one_of(std::vector<std::string> choices) {
    field_->checks_choices = true;
    return known(std::move(choices));
  }
  /// Lists words that somebody else checks, who may know more of them, as one_of does.
  Row& known(std::vector<std::string> choices);
  Row& at_least(double least) { return field_->least = least, *this; }
  Row& at_most(double most) { return field_->most = most, *this; }
  Row& in(std::string unit) { return field_->unit = std::move(unit), *this; }
  Row& counts_when(std::string belongs_to, std::function<bool()> counts) {
    return field_->conditions.push_back({std::move(belongs_to), std::move(counts)}), *this;
  }
  /// Adds a condition to an option that commands repeat at its own value.
  Row& matters_when(std::string belongs_to, std::function<bool()> counts) {
    return field_->conditions.push_back({std::move(belongs_to), std::move(counts), true}), *this;
  }
  /// Marks an option that each dataset of a dataset_config may have for itself, there under its own name or another key.
  Row& of_dataset(std::string key = "") { return field_->dataset_key = key.empty() ? field_->name : std::move(key), *this; }
  /// Marks an option of a dataset that says how visits of a sample differ, which no cache of what encoders made of it has settled.
  Row& of_visits() { return field_->is_of_visits = true, *this; }
  /// Marks an option that DiffSynth-Studio's commands of both halves of a split run name: where a cache has settled it, that is said and
  /// not refused.
  Row& repeated() { return field_->is_repeated = true, *this; }
  Row& decides_what_is_learned() { return field_->decides_what_is_learned = true, *this; }
  /// Marks one for which a fingerprint has other words than its name and value: what they are, "" where there is nothing to say, or another
  /// option says it.
  Row& learned_as(std::function<std::string()> words, LearnedBy by = LearnedBy::all) {
    field_->learned_as = std::move(words);
    field_->learned_by = by;
    return decides_what_is_learned();
  }
  /// Marks an option that has something done outside of the program: a command started, an address told. A settings file may give it only
  /// to who trusts that file (--trust_settings), and to_toml leaves it out, so that settings that are passed on do nothing to others.
  Row& acts_outside() { return field_->acts_outside = true, *this; }
  /// Lists words of other programs that are answered with the option's name.
  Row& called(std::vector<std::string> words) { return field_->called_else = std::move(words), *this; }
  Row& level(Level level) { return field_->level = level, *this; }

 private:
  Field* field_;  ///< valid until the next field is listed
};

/// An option of another program, listed so that its commands can be pasted.
struct ForeignOption {
  std::string name;
  bool takes_value;
  std::string text;  ///< what is done instead, or why it is refused
};

/// Lists a struct's fields once, for the command line, TOML, --help and the resolved config alike:
///   void fields(Fields& f, Options& o) { f.group("Model"); f("dtype", o.dtype, "fp32 or bf16"); }
class Fields {
 public:
  /// Heads the options that follow; `level` is theirs where a row does not say another.
  void group(std::string name, Level level = Level::usual) {
    group_ = std::move(name);
    level_ = level;
  }
  Row operator()(std::string name, Field::Slot slot, std::string doc, std::vector<std::string> aliases = {}) {
    return add({.group = group_, .name = std::move(name), .slot = slot, .doc = std::move(doc), .aliases = std::move(aliases)});
  }
  template <class T>
  Row operator()(std::string name, T& value, std::string doc, std::vector<std::string> aliases = {}) {
    return (*this)(std::move(name), Field::Slot(&value), std::move(doc), std::move(aliases));
  }
  /// Lists an option whose text names a file, or whose list names files: names in a TOML file begin in that file's folder.
  template <class T>
  Row path(std::string name, T& value, std::string doc, std::vector<std::string> aliases = {}, Relocate relocate = seen_from) {
    auto row = (*this)(std::move(name), Field::Slot(&value), std::move(doc), std::move(aliases));
    list_.back().relocate = relocate;
    return row;
  }
  /// Lists an option whose list is given without the option's name, before, between or behind the options.
  Row positional(std::string name, std::vector<std::string>& list, std::string doc) {
    return add({.group = group_, .name = std::move(name), .slot = &list, .doc = std::move(doc), .aliases = {}, .positional = true});
  }
  /// Lists an option whose list TOML may write as whole numbers: each, or each list of them, is an item as on the command line: 768,512.
  Row numbers(std::string name, std::vector<std::string>& list, std::string doc) {
    return add({.group = group_, .name = std::move(name), .slot = &list, .doc = std::move(doc), .aliases = {}, .takes_numbers = true});
  }
  /// Returns the row of an option that is listed already; std::logic_error for another name.
  Row row(const std::string& name);
  /// Calls a function with each option that is listed already.
  void each(const std::function<void(Field&)>& say) { std::ranges::for_each(list_, say); }
  /// Lists an option of another program that means nothing here: it is taken, with its value, and reported in Parsed.
  void no_effect(std::string name, bool takes_value, std::string doc) {
    no_effect_.push_back({std::move(name), takes_value, std::move(doc)});
  }
  /// Lists an option of another program that cannot be honoured: to give it is a config Error that says `why`.
  void refused(std::string name, std::string why) { refused_.push_back({std::move(name), true, std::move(why)}); }
  /// Heads the options without effect in --help.
  void title_no_effect(std::string title) { title_no_effect_ = std::move(title); }

  const std::vector<Field>& list() const { return list_; }
  const std::vector<ForeignOption>& without_effect() const { return no_effect_; }
  const std::vector<ForeignOption>& refused() const { return refused_; }
  const std::string& title_no_effect() const { return title_no_effect_; }
  std::vector<std::string> names() const;

 private:
  Row add(Field field) {
    field.level = level_;
    list_.push_back(std::move(field));
    return Row(list_.back());
  }

  std::string group_;
  Level level_ = Level::usual;
  std::vector<Field> list_;
  std::vector<ForeignOption> no_effect_, refused_;
  std::string title_no_effect_;
};

/// Reads a TOML file into the fields and returns the names of keys without effect. File names in it begin in its folder. Throws a data
/// Error for a file that cannot be read or is no TOML, and a Refusal of all unknown keys (with the nearest name) and wrong values, and,
/// unless the file is trusted, of options that act outside.
std::vector<std::string> read_toml(const std::string& path, const Fields& fields, bool is_trusted = false);
/// Reads a text of TOML in that way; file names in it stay as they are.
std::vector<std::string> read_toml_text(const std::string& text, const Fields& fields, bool is_trusted = false);

/// Moves the field's file names, written from `folder`, to names seen from the current folder; nothing for a field that names no files.
void relocate(const Field& field, const std::filesystem::path& folder);

/// Reads a TOML file of things in two levels whose keys are handed down: [general], then [[`list`]], then [[`list`.`items`]]. For each
/// item, and each entry of the list that has no items, `begin` gives the fields of a new thing, into which the keys of [general], of the
/// entry and of the item are read, in this order. Errors are those of read_toml.
void read_toml_items(const std::string& path, const std::string& list, const std::string& items, const std::function<Fields()>& begin);

/// Says why an option or key that is not among the fields is refused, or gives the nearest name, in a sentence. `where` names it: "option".
std::string why_unknown(const std::string& where, const std::string& name, const Fields& fields);

/// Writes a field's value as TOML does.
std::string value_text(const Field& field);

/// Writes the values as TOML, grouped, each with its doc as a comment; without options that act outside.
std::string to_toml(const Fields& fields);

}  // namespace burnish::config
