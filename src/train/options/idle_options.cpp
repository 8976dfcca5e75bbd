#include "train/options/idle_options.h"

#include "base/text.h"
#include "config/changed.h"
#include "train/options/fields.h"
#include "train/options/meaning.h"

namespace burnish::train {

namespace {

/// The names of options that do not have the value they have by themselves.
std::vector<std::string> changed(TrainOptions o) {
  TrainOptions untouched;
  config::Fields of_o, of_untouched;
  fields(of_o, o);
  fields(of_untouched, untouched);
  return config::changed(of_o, of_untouched);
}

}  // namespace

std::vector<IdleOption> idle_options(const TrainOptions& o) {
  auto copy = o;
  config::Fields all;
  fields(all, copy);
  const auto moved = changed(o);
  std::vector<IdleOption> idle;
  for (const auto& field : all.list()) {
    bool is_changed = contains(moved, field.name), is_typed = contains(o.given, field.name);
    for (const auto& condition : field.conditions) {
      if (condition.may_be_repeated && field.is_repeated) continue;  // which is said: repeated_options
      bool is_asked_for = is_changed || (is_typed && !condition.may_be_repeated);
      if (is_asked_for && !condition.counts()) idle.push_back({field.name, condition.belongs_to});
    }
  }
  return idle;
}

std::vector<IdleOption> repeated_options(const TrainOptions& o) {
  auto copy = o;
  config::Fields all;
  fields(all, copy);
  auto asked = changed(o);
  asked.insert(asked.end(), o.given.begin(), o.given.end());
  std::vector<IdleOption> repeated;
  for (const auto& field : all.list()) {
    if (!field.is_repeated || !contains(asked, field.name)) continue;
    for (const auto& condition : field.conditions) {
      if (condition.may_be_repeated && !condition.counts()) repeated.push_back({field.name, condition.belongs_to});
    }
  }
  return repeated;
}

void reset(TrainOptions& o, const std::string& option) {
  TrainOptions untouched;
  config::Fields of_o, of_untouched;
  fields(of_o, o);
  fields(of_untouched, untouched);
  for (size_t i = 0; i < of_o.list().size(); ++i) {
    if (of_o.list()[i].name != option) continue;
    std::visit([&](auto* slot) { *slot = *std::get<decltype(slot)>(of_untouched.list()[i].slot); }, of_o.list()[i].slot);
  }
}

}  // namespace burnish::train
