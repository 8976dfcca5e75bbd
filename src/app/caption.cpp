#include <algorithm>
#include <map>
#include <span>

#include "app/caption_options.h"
#include "app/file_per_picture.h"
#include "app/json_refusal.h"
#include "app/tag_pictures.h"
#include "app/verbs.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/threads.h"
#include "config/command_line.h"
#include "data/clip.h"
#include "data/image.h"
#include "io/files.h"
#include "quant/store.h"

namespace burnish::app {

namespace {

/// Puts pictures of equal sides together, so that they are read together.
void put_by_sides(std::vector<data::PlaceBeside>& places) {
  std::map<std::pair<int64_t, int64_t>, std::vector<data::PlaceBeside>> by_sides;
  for (const auto& place : places) {
    data::Size size;  // a clip, or a picture that cannot be read, which is said when it is its turn
    try {
      if (!data::may_be_clip(place.picture) && !data::is_clip_alone(place.picture)) size = data::image_size(place.picture);
    } catch (const Error&) {
    }
    by_sides[{size.height, size.width}].push_back(place);
  }
  places.clear();
  for (const auto& [sides, list] : by_sides) places.insert(places.end(), list.begin(), list.end());
}

void load(captioning::LanguageModel& model, const CaptionOptions& o) {
  auto& components = model.components();
  auto name = model.name();
  if (o.weight_format != "none") {
    const quant::StoreOptions options{.format = quant::parse_format(o.weight_format), .high_precision = {}};
    for (const auto& part : captioning::LanguageModel::written_with()) components.set_store(part, std::make_shared<quant::Store>(options));
    name += " in " + quant::describe(quant::parse_format(o.weight_format));
  }
  load_all(components, name);
}

/// The captions of a folder, batch by batch.
class Captions {
 public:
  Captions(const CaptionOptions& options, captioning::LanguageModel& model, FilesWritten& outcome)
      : options_(options), model_(model), outcome_(outcome) {}

  /// False when Ctrl-C came.
  bool write(const FolderWork& work, Progress& bar, int64_t done) {
    const auto& places = work.places;
    for (size_t first = 0; first < places.size();) {
      const auto end = std::min(first + static_cast<size_t>(options_.batch_size), places.size());
      if (!write_batch(std::span(places).subspan(first, end - first), work.journal.get())) return false;
      first = end;
      bar.update(done + static_cast<int64_t>(end));
    }
    return true;
  }

 private:
  bool write_batch(std::span<const data::PlaceBeside> places, Journal* journal) {
    std::vector<captioning::Request> requests;
    std::vector<data::PlaceBeside> asked;
    for (const auto& place : places) {
      outcome_.tried(place.picture, "caption", [&] {
        const auto shown = captioning::look(place.picture, options_.frames);
        const auto prompt = captioning::prompt_of(options_.caption, !shown.times.empty());
        requests.push_back({model_.ask(shown, prompt, options_.detail), mix64(place.picture.filename().string())});
        asked.push_back(place);
      });
    }
    if (asked.empty()) return true;
    const auto written = captioning::write(model_, requests, options_.writing, [] { return !interrupted(); });
    if (!written) return false;
    for (size_t i = 0; i < asked.size(); ++i) {
      outcome_.tried(asked[i].picture, "caption", [&] { save(asked[i], written->at(i), journal); });
    }
    return true;
  }

  void save(const data::PlaceBeside& place, const captioning::Written& written, Journal* journal) {
    const auto caption = captioning::caption_of(options_.caption, written, caption_there(options_, place));
    write_caption(place, caption, journal);
    outcome_.written.push_back({{"file", place.picture.string()}, {"caption", caption}, {"is_cut", written.is_cut}});
  }

  const CaptionOptions& options_;
  captioning::LanguageModel& model_;
  FilesWritten& outcome_;
};

bool write_all(const CaptionOptions& o, const std::vector<FolderWork>& work, int64_t num_places, FilesWritten& outcome) {
  const auto model_options = train::model_options(o.seen_by.model);
  auto names = o.seen_by.model.model;
  std::ranges::transform(names, names.begin(), tagging::id_of);
  const auto files = models::open_model_files(
      {.model = names, .model_paths = {}, .model_id_with_origin_paths = {}, .hub = models::HubUse::without_denoiser});
  if (tagging::is_tagger(files)) return tag_pictures(o, files, work, num_places, outcome);
  captioning::LanguageModel model(files, model_options, o.seen_by.processor_path);
  check_belongs(o, /*is_tagger=*/false, model.name());
  load(model, o);
  Captions captions(o, model, outcome);
  Progress bar("caption", num_places);
  int64_t done = 0;
  for (const auto& folder : work) {
    if (!captions.write(folder, bar, done)) return false;
    done += std::ssize(folder.places);
  }
  return true;
}

void write_captions(const CaptionOptions& o) {
  set_threads(o.seen_by.model.num_threads, o.seen_by.model.local_size);
  FilesWritten outcome;
  std::vector<FolderWork> work;
  int64_t num_places = 0;
  for (const auto& folder : o.folders) {
    auto places = data::caption_places(folder, o.extension);
    keep_only(o.seen_by.only, folder, places);
    work.push_back(work_left(std::move(places), folder, "caption", o.mode == "fill", settings_of(o), outcome));
    std::ranges::for_each(work.back().places, data::check_replaces_caption);
    put_by_sides(work.back().places);
    num_places += std::ssize(work.back().places);
  }
  const bool is_done = num_places == 0 || write_all(o, work, num_places, outcome);
  tell_outcome(outcome, o.seen_by.json, "caption");
  if (is_done) end_journals(work);
  check_outcome(outcome, "caption", is_done, num_places);
}

void run(const Arguments& arguments, CaptionOptions& o) {
  config::Fields listed;
  fields(listed, o);
  const auto parsed = config::read_command_line("caption", "write captions of pictures and clips, by a model that sees them", arguments,
                                                listed, [&] { check(o); });
  if (parsed.help) return print("{}", parsed.help_text);
  check(o);
  watch_for_interrupt("interrupted: ends now; captions that are finished are written");
  write_captions(o);
}

}  // namespace

void caption(const Arguments& arguments) {
  CaptionOptions options;
  refusing_in_json([&] { return options.seen_by.json; }, [&] { run(arguments, options); });
}

}  // namespace burnish::app
