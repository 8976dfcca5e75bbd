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

/// Carries a value as it is.
Outcome same_value(const Value& value, const Settings& all);
/// Converts values of settings of one kind, or of all others; from the rest nothing is carried, and nothing told.
Convert only(bool (*when)(const Settings&), Convert convert);
Convert unless(bool (*when)(const Settings&), Convert convert);

/// A sentence on a value that its program does not read.
inline constexpr const char* kLeftUnread = "is left unread there for a model of this kind";

/// Tells whether settings are so: of a model with a UNet, say.
using Condition = bool (*)(const Settings&);

/// A line of a program's table: their name, ours, and how the value changes.
struct SettingRow {
  std::string theirs;  ///< unfolded; "a.*" means all below a that no other row names
  std::string ours;    ///< "" where there is nothing to carry it to
  Convert convert;     ///< left out for a row that needs nothing here, which `why_needless` says
  Value absent;        ///< value that the program takes when the name is not given; null: as good as not given
  std::string why_needless = "";

  /// Returns this row with what the program takes when the name is not given.
  SettingRow otherwise(Value value) &&;
  /// Returns this row for settings that are so; of others it says that their program leaves a given value unread.
  SettingRow where(Condition condition) &&;
};

/// A row that carries a value as it is, with a note on what is different here.
SettingRow same(std::string theirs, std::string ours, std::string note = "");
SettingRow rewritten(std::string theirs, std::string ours, Convert convert, Value absent = nullptr);
/// A row that gives our option a value where theirs asks for something.
SettingRow switched(std::string theirs, std::string ours, Value value, std::string note = "");
/// A word of theirs to a word of ours, whatever its case; for others `why_others`.
SettingRow words(std::string theirs, std::string ours, std::map<std::string, std::string> ours_by_theirs, std::string why_others,
                 Value absent = nullptr);
/// A row that carries nothing: told with the reason when it asks for something else than the program does by itself. Without a reason it is
/// not told: other rows look at it.
SettingRow no_place(std::string theirs, std::string why, Value absent = nullptr);
/// A row that changes nothing of what is learned, with the reason: told by name alone.
SettingRow needless(std::string theirs, std::string why, Value absent = nullptr);

/// Tells whether two values of theirs ask for the same.
bool means_the_same(const Value& a, const Value& b);

/// A program's table out of rows and lists of rows.
struct Table {
  std::vector<SettingRow> rows;
  Table& operator<<(SettingRow row);
  Table& operator<<(const std::vector<SettingRow>& more);
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
