#include "app/file_per_picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/text.h"

namespace burnish::app {

void keep_only(const std::vector<std::string>& pictures, const std::string& folder, std::vector<data::PlaceBeside>& places) {
  if (pictures.empty()) return;
  const auto root = std::filesystem::weakly_canonical(folder);
  std::vector<data::PlaceBeside> kept;
  for (const auto& picture : pictures) {
    const auto path = (root / picture).lexically_normal();
    const auto found = std::ranges::find_if(places, [&](const auto& place) { return place.picture == path; });
    if (found == places.end())
      config_error("app", "only names '{}', and {} has no such picture; name it from the folder on, as in more/cat.png", picture, folder);
    kept.push_back(*found);
  }
  places = std::move(kept);
}

FolderWork work_left(std::vector<data::PlaceBeside> places, const std::filesystem::path& journal_folder, const char* verb, bool fills,
                     const std::string& settings, FilesWritten& outcome) {
  FolderWork work;
  if (!fills) work.journal = std::make_unique<Journal>(journal_folder, verb, settings);
  const auto is_done = [&](const auto& place) { return fills ? place.is_there : work.journal->has(place.file); };
  const auto num_done = std::ranges::count_if(places, is_done);
  if (!fills && num_done > 0) info("{} of {} were written by this command before it was interrupted; it goes on", num_done, places.size());
  outcome.num_there += num_done;
  std::erase_if(places, is_done);
  work.places = std::move(places);
  return work;
}

bool by_batches(const std::vector<FolderWork>& work, int64_t batch_size, const char* verb,
                const std::function<bool(std::span<const data::PlaceBeside> places, Journal* journal)>& write) {
  int64_t num_places = 0, done = 0;
  for (const auto& folder : work) num_places += std::ssize(folder.places);
  Progress bar(verb, num_places);
  for (const auto& folder : work) {
    for (size_t first = 0; first < folder.places.size();) {
      if (interrupted()) return false;
      const auto end = std::min(first + static_cast<size_t>(batch_size), folder.places.size());
      if (!write(std::span(folder.places).subspan(first, end - first), folder.journal.get())) return false;
      done += static_cast<int64_t>(end - first);
      first = end;
      bar.update(done);
    }
  }
  return true;
}

void end_journals(const std::vector<FolderWork>& work) {
  for (const auto& folder : work) {
    if (folder.journal) folder.journal->end();
  }
}

void load_all(models::Components& components, const std::string& name) {
  int64_t num_bytes = 0;
  for (const auto& component : components.list()) {
    components.check(component.name);
    num_bytes += component.num_bytes;
  }
  info("{}: {}", name, human_bytes(static_cast<double>(num_bytes)));
  for (const auto& component : components.list()) components.load(component.name);
}

void tell_outcome(const FilesWritten& outcome, bool as_json, const char* what) {
  if (as_json)
    return print("{}\n", nlohmann::json({{"written", outcome.written}, {"bad", outcome.bad}, {"num_there", outcome.num_there}}).dump(1));
  print("{} written{}{}\n", count_of(std::ssize(outcome.written), what),
        outcome.num_there > 0 ? fmt::format(", {} there before", outcome.num_there) : "",
        outcome.bad.empty() ? "" : fmt::format(", {} not", count_of(std::ssize(outcome.bad), "picture")));
}

void check_outcome(const FilesWritten& outcome, const char* verb, bool is_done, int64_t num_places) {
  if (!is_done)
    throw Error(
        Exit::interrupted, verb,
        fmt::format("interrupted; {} of {} were written; the same command goes on", outcome.written.size(), count_of(num_places, verb)));
  if (num_places > 0 && outcome.written.empty() && outcome.num_there == 0)
    data_error(verb, "none of {} could be {}; the warnings say why", count_of(num_places, "picture"),
               verb == std::string_view("mask") ? "masked" : "captioned");
}

}  // namespace burnish::app
