#include "train/options/idle_options.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
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
  std::vector<std::string> names;
  for (size_t i = 0; i < of_o.list().size(); ++i) {
    if (config::value_text(of_o.list()[i]) != config::value_text(of_untouched.list()[i])) names.push_back(of_o.list()[i].name);
  }
  return names;
}

/// What DiffSynth-Studio's commands of both halves of a split run name, and a cache has settled.
constexpr const char* kRepeated[] = {"data_file_keys", "height", "width", "max_pixels", "num_frames"};

bool is_repeated(const std::string& name) { return std::ranges::find(kRepeated, name) != std::end(kRepeated); }

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
      if (condition.may_be_repeated && is_repeated(field.name)) continue;  // which is said: repeated_options
      bool is_asked_for = is_changed || (is_typed && !condition.may_be_repeated);
      if (is_asked_for && !condition.counts()) idle.push_back({field.name, condition.belongs_to});
    }
  }
  return idle;
}

std::vector<IdleOption> repeated_options(const TrainOptions& o) {
  if (encodes(o) || !o.validation_metadata_path.empty()) return {};
  auto asked = changed(o);
  asked.insert(asked.end(), o.given.begin(), o.given.end());
  std::vector<IdleOption> repeated;
  for (const char* name : kRepeated) {
    if (contains(asked, name)) repeated.push_back({name, "the command that makes the cache"});
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
