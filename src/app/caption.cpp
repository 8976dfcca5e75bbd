#include <algorithm>
#include <map>
#include <span>

#include "app/caption_options.h"
#include "app/file_per_picture.h"
#include "app/florence_captions.h"
#include "app/json_refusal.h"
#include "app/tag_pictures.h"
#include "app/verbs.h"
#include "app/written_caption.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/say.h"
#include "base/threads.h"
#include "captioning/florence2.h"
#include "captioning/published.h"
#include "config/command_line.h"
#include "data/clip.h"
#include "data/image.h"
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

/// Captions of a language model, batch by batch.
class Captions {
 public:
  Captions(const CaptionOptions& options, captioning::LanguageModel& model, FilesWritten& outcome)
      : options_(options), model_(model), outcome_(outcome) {}

  /// False when Ctrl-C came.
  bool write_batch(std::span<const data::PlaceBeside> places, Journal* journal) {
    std::vector<captioning::Request> requests, for_boxes;
    std::vector<data::PlaceBeside> asked;
    std::vector<data::Size> sides;
    for (const auto& place : places) {
      outcome_.tried(place.picture, "caption", [&] {
        const auto shown = captioning::look(place.picture, model_.sees_all() ? options_.frames : captioning::FrameRule{.most = 1});
        const auto prompt = captioning::prompt_of(options_.caption, !shown.times.empty(), model_.prompts());
        const auto name = mix64(place.picture.filename().string());
        captioning::Request request{model_.ask(shown, prompt, options_.detail), name};
        if (!options_.layout.is_text())
          for_boxes.push_back({model_.ask(first_of(shown), captioning::prompt_for_boxes(options_.layout.boxes), options_.detail), name});
        requests.push_back(std::move(request));
        asked.push_back(place);
        sides.push_back({shown.frames_FHW3.size(1), shown.frames_FHW3.size(2)});
      });
    }
    if (asked.empty()) return true;
    auto goes_on = [] { return !interrupted(); };
    const auto written = captioning::write(model_, requests, options_.writing, goes_on);
    auto of_boxes = options_.writing;
    of_boxes.max_new_tokens = kTokensOfBoxes;
    const auto boxes = written && !for_boxes.empty() ? captioning::write(model_, for_boxes, of_boxes, goes_on)
                                                     : std::optional(std::vector<captioning::Written>(asked.size()));
    if (!written || !boxes) return false;
    for (size_t i = 0; i < asked.size(); ++i) {
      auto regions = [&] { return captioning::regions_of_json(boxes->at(i).text, model_.box_scale(for_boxes.at(i).text)); };
      outcome_.tried(asked[i].picture, "caption", [&] {
        write_answer(options_, asked[i], {written->at(i), sides[i], regions}, journal, outcome_);
      });
    }
    return true;
  }

 private:
  /// Boxes lie in a picture: of a clip in its first frame.
  static captioning::Shown first_of(const captioning::Shown& shown) { return {.frames_FHW3 = shown.frames_FHW3.narrow(0, 0, 1)}; }

  const CaptionOptions& options_;
  captioning::LanguageModel& model_;
  FilesWritten& outcome_;
};

bool write_all(const CaptionOptions& o, const std::vector<FolderWork>& work, FilesWritten& outcome) {
  const auto model_options = train::model_options(o.seen_by.model);
  auto names = o.seen_by.model.model;
  std::ranges::transform(names, names.begin(), [](const auto& name) { return captioning::id_of(tagging::id_of(name)); });
  const auto files = models::open_model_files(
      {.model = names, .model_paths = {}, .model_id_with_origin_paths = {}, .hub = models::HubUse::without_denoiser});
  if (tagging::is_tagger(files)) return tag_pictures(o, files, work, outcome);
  if (captioning::Florence2::is_in(files)) return write_by_florence2(o, files, work, outcome);
  captioning::LanguageModel model(files, model_options, o.seen_by.processor_path);
  check_belongs(o, model.sees_all() ? Captioner::language_model : Captioner::joy_caption, model.name());
  load(model, o);
  Captions captions(o, model, outcome);
  return by_batches(work, o.batch_size, "caption", [&](auto places, auto* journal) { return captions.write_batch(places, journal); });
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
  const bool is_done = num_places == 0 || write_all(o, work, outcome);
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
