#include "foreign/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/text.h"

namespace burnish::foreign {

namespace {

bool is_rest(const SettingRow& row) { return row.theirs.ends_with(".*"); }

bool names(const SettingRow& row, const std::string& name) {
  return is_rest(row) ? lies_below(name, row.theirs.substr(0, row.theirs.size() - 2)) : row.theirs == name;
}

bool is_truth(const Value& value) {
  auto word = lower(text_of(value));
  return word == "true" || word == "false" || word == "1" || word == "0";
}

/// Puts the value where an option's lives; false when it is of another kind.
struct Put {
  const Value& value;

  bool operator()(std::string* out) const {
    if (value.is_array() || value.is_object()) return false;
    *out = text_of(value);
    return true;
  }
  bool operator()(int64_t* out) const {
    auto number = number_of(value);
    if (!number || *number != std::floor(*number) || std::abs(*number) > 9e15) return false;
    *out = static_cast<int64_t>(*number);
    return true;
  }
  bool operator()(double* out) const {
    auto number = number_of(value);
    if (number) *out = *number;
    return number.has_value();
  }
  bool operator()(bool* out) const {
    if (!is_truth(value)) return false;
    *out = asks_for_something(value);
    return true;
  }
  bool operator()(std::vector<std::string>* out) const {
    for (const auto& item : value.is_array() ? value : Value::array({value})) out->push_back(text_of(item));
    return true;
  }
};

std::string shown(const std::string& name, const Value& value) {
  auto text = text_of(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text.empty() ? name : name + " = " + text;
}

const config::Field& field_named(const std::string& name, const config::Fields& fields) {
  auto field = std::find_if(fields.list().begin(), fields.list().end(), [&](const auto& f) { return f.name == name; });
  if (field == fields.list().end()) throw std::logic_error("a table of foreign settings names no option: " + name);
  return *field;
}

/// One name of theirs, through all rows that have it.
struct Applied {
  std::string why_not;  ///< of what one of them could not carry, though another carried the rest
};

void apply_row(const SettingRow& row, const std::string& name, const Value& value, const Settings& settings, config::Fields& fields,
               Import& imported, Applied& applied) {
  auto outcome = row.convert(value, settings);
  if (!outcome.value) {
    if (!outcome.note.empty()) applied.why_not = outcome.note;
    return;
  }
  const auto& field = field_named(row.ours, fields);
  auto& origins = imported.origins[row.ours];
  // Of a list each origin adds its own; what was there without any is the option's default.
  if (auto* list = std::get_if<std::vector<std::string>*>(&field.slot); list && origins.empty()) (*list)->clear();
  if (!std::visit(Put{*outcome.value}, field.slot)) {
    if (origins.empty()) imported.origins.erase(row.ours);
    applied.why_not = fmt::format("{} takes another kind of value", row.ours);
    return;
  }
  origins.push_back(name);
  if (!outcome.note.empty()) imported.different.push_back(shown(name, value) + ": " + outcome.note);
}

}  // namespace

Outcome carried(Value value, std::string note) { return {std::move(value), std::move(note)}; }
Outcome left_out(std::string why) { return {{}, std::move(why)}; }

Outcome same_value(const Value& value, const Settings&) { return carried(value); }

Convert only(bool (*when)(const Settings&), Convert convert) {
  return [when, convert = std::move(convert)](const Value& value, const Settings& all) {
    return when(all) ? convert(value, all) : left_out("");
  };
}

Convert unless(bool (*when)(const Settings&), Convert convert) {
  return [when, convert = std::move(convert)](const Value& value, const Settings& all) {
    return when(all) ? left_out("") : convert(value, all);
  };
}

SettingRow same(std::string theirs, std::string ours, std::string note) {
  return {std::move(theirs), std::move(ours), [note](const Value& value, const Settings&) { return carried(value, note); }, nullptr};
}

SettingRow SettingRow::otherwise(Value value) && {
  absent = std::move(value);
  return std::move(*this);
}

SettingRow SettingRow::where(Condition condition) && {
  convert = [condition, name = theirs, otherwise = absent, convert = std::move(convert)](const Value& value, const Settings& all) {
    if (condition(all)) return convert(value, all);
    return left_out(all.has(name) && !means_the_same(value, otherwise) ? kLeftUnread : "");
  };
  return std::move(*this);
}

SettingRow rewritten(std::string theirs, std::string ours, Convert convert, Value absent) {
  return {std::move(theirs), std::move(ours), std::move(convert), std::move(absent)};
}

SettingRow words(std::string theirs, std::string ours, std::map<std::string, std::string> ours_by_theirs, std::string why_others,
                 Value absent) {
  auto convert = [ours_by_theirs, why_others](const Value& value, const Settings&) {
    auto it = ours_by_theirs.find(lower(text_of(value)));
    return it == ours_by_theirs.end() ? left_out(why_others) : carried(it->second);
  };
  return {std::move(theirs), std::move(ours), convert, std::move(absent)};
}

SettingRow switched(std::string theirs, std::string ours, Value value, std::string note) {
  return rewritten(std::move(theirs), std::move(ours), [value, note](const Value& given, const Settings&) {
    return asks_for_something(given) ? carried(value, note) : left_out("");
  });
}

SettingRow no_place(std::string theirs, std::string why, Value absent) {
  auto convert = [why, absent](const Value& value, const Settings&) { return left_out(means_the_same(value, absent) ? "" : why); };
  return rewritten(std::move(theirs), "", convert, absent);
}

SettingRow needless(std::string theirs, std::string why, Value absent) {
  return {std::move(theirs), "", nullptr, std::move(absent), std::move(why)};
}

bool means_the_same(const Value& a, const Value& b) {
  if (!asks_for_something(a) || !asks_for_something(b)) return asks_for_something(a) == asks_for_something(b);
  auto of_a = number_of(a), of_b = number_of(b);
  if (of_a && of_b) return *of_a == *of_b;
  return lower(text_of(a)) == lower(text_of(b));
}

Table& Table::operator<<(SettingRow row) {
  rows.push_back(std::move(row));
  return *this;
}

Table& Table::operator<<(const std::vector<SettingRow>& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return *this;
}

namespace {

/// A row whose name is not given: what the program takes then, where that is not what a run takes by itself.
void apply_absent(const SettingRow& row, const Settings& settings, config::Fields& fields, Import& imported) {
  const auto name = row.theirs + " (its default)";
  const bool is_first = !row.ours.empty() && !imported.origins.contains(row.ours);
  const auto before = is_first ? config::value_text(field_named(row.ours, fields)) : "";
  // What is given goes before what another name takes by itself.
  auto origins = imported.origins.find(row.ours);
  auto is_given = [](const std::string& origin) { return !origin.ends_with("(its default)"); };
  if (origins != imported.origins.end() && std::ranges::any_of(origins->second, is_given)) return;
  const auto num_different = imported.different.size();
  Applied applied;
  apply_row(row, name, row.absent, settings, fields, imported, applied);
  if (!applied.why_not.empty()) imported.not_carried.push_back(shown(name, row.absent) + ": " + applied.why_not);
  if (!is_first || !imported.origins.contains(row.ours) || imported.different.size() > num_different) return;
  if (config::value_text(field_named(row.ours, fields)) == before) imported.origins.erase(row.ours);
}

}  // namespace

void apply(const Table& table, const Settings& settings, bool whole, config::Fields& fields, Import& imported) {
  std::map<std::string, Applied> applied;
  std::set<std::string> named;
  for (const auto& row : table.rows) {
    if (!is_rest(row)) named.insert(row.theirs);
  }
  for (const auto& row : table.rows) {
    bool found = false;
    for (const auto& [name, value] : settings.all()) {
      if (!names(row, name) || (is_rest(row) && named.contains(name))) continue;
      found = true;
      if (row.convert) apply_row(row, name, value, settings, fields, imported, applied[name]);
      else if (asks_for_something(value)) imported.needless.insert(name);
      else applied[name];
    }
    if (!found && whole && !row.absent.is_null() && row.convert) apply_absent(row, settings, fields, imported);
  }
  for (const auto& [name, value] : settings.all()) {
    if (imported.needless.contains(name)) continue;
    auto row = applied.find(name);
    if (row == applied.end()) imported.not_carried.push_back(shown(name, value) + ": not known here");
    else if (!row->second.why_not.empty()) imported.not_carried.push_back(shown(name, value) + ": " + row->second.why_not);
  }
}

}  // namespace burnish::foreign
