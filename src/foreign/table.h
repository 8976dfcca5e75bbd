#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/fields.h"
#include "foreign/settings.h"

namespace burnish::foreign {

/// The outcome for one value: what our option gets, or why nothing; `note` is then what is different here.
struct Outcome {
  std::optional<Value> value;
  std::string note;
};
Outcome carried(Value value, std::string note = "");
Outcome left_out(std::string why);

/// A value of theirs, beside all the others of its file, which it may depend on.
using Convert = std::function<Outcome(const Value& value, const Settings& all)>;

/// A line of a program's table: their name, ours, and how the value changes.
struct Row {
  std::string theirs;  ///< unfolded; "a.*" means all below a that no other row names
  std::string ours;    ///< "" where there is nothing to carry it to
  Convert convert;     ///< left out for a row that needs nothing here, which `why_needless` says
  Value absent;        ///< value that the program takes when the name is not given; null: as good as not given
  std::string why_needless = "";

  /// The same row with what the program takes when the name is not given.
  Row otherwise(Value value) &&;
};

/// A name of theirs and what the program takes when it is not given.
struct Key {
  std::string name;
  Value absent;
  Key(const char* name, Value absent = nullptr) : name(name), absent(std::move(absent)) {}
  Key(std::string name, Value absent = nullptr) : name(std::move(name)), absent(std::move(absent)) {}
};

Row same(std::string theirs, std::string ours, std::string note = "");
Row rewritten(std::string theirs, std::string ours, Convert convert, Value absent = nullptr);
/// A word of theirs to a word of ours, whatever its case; for others `why_others`.
Row words(std::string theirs, std::string ours, std::map<std::string, std::string> ours_by_theirs, std::string why_others,
          Value absent = nullptr);
/// Rows that carry nothing: told with the reason when they ask for something else than the program does by itself.
std::vector<Row> no_place(const std::vector<Key>& theirs, const std::string& why);
/// The same of what the program does by itself too, and what is not done here: told also when it is not given.
std::vector<Row> not_done(const std::vector<Key>& theirs, const std::string& why);
/// Rows of names that other rows look at: not told.
std::vector<Row> looked_at(const std::vector<Key>& theirs);
/// Rows of names that change nothing of what is learned, with the reason: told by name alone.
std::vector<Row> needless(const std::vector<Key>& theirs, const std::string& why);

/// Tells whether two values of theirs ask for the same.
bool means_the_same(const Value& a, const Value& b);

/// A program's table out of rows and lists of rows.
struct Table {
  std::vector<Row> rows;
  Table& operator<<(Row row);
  Table& operator<<(const std::vector<Row>& more);
};

/// The result of importing settings, but for the values, which are in the fields.
struct Import {
  std::map<std::string, std::vector<std::string>> origins;  ///< names of theirs that an option of ours comes from
  std::vector<std::string> not_carried;                     ///< "name = value: why"
  std::vector<std::string> different;                       ///< notes on what is carried and means something else here
  std::set<std::string> needless;                           ///< names of theirs
  std::map<std::filesystem::path, std::string> beside;      ///< texts of files that lie beside the settings, which name them
};

/// Puts the settings where the table says. A name that the table does not have is not carried; `whole` settings are those of a run, whose
/// absent names count as well.
void apply(const Table& table, const Settings& settings, bool whole, config::Fields& fields, Import& imported);

}  // namespace burnish::foreign
