#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "app/caption_options.h"
#include "app/verbs.h"
#include "base/count.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/text.h"
#include "base/threads.h"
#include "config/command_line.h"
#include "config/pages.h"
#include "config/refusal.h"
#include "data/caption_places.h"
#include "data/clip.h"
#include "data/image.h"
#include "io/files.h"
#include "quant/store.h"

namespace burnish::app {

namespace {

/// What came of a run.
struct Outcome {
  nlohmann::json written = nlohmann::json::array(), bad = nlohmann::json::array();
  int64_t num_there = 0;  ///< captions that were there and stay
};

/// The places of all captions that are to be written. Pictures of equal sides stand together, so that they are read together.
std::vector<data::CaptionPlace> places_of(const CaptionOptions& o, Outcome& outcome) {
  std::map<std::pair<int64_t, int64_t>, std::vector<data::CaptionPlace>> by_sides;
  for (const auto& folder : o.folders) {
    for (const auto& place : data::caption_places(folder, o.extension)) {
      if (o.mode == "fill" && place.is_there) {
        ++outcome.num_there;
        continue;
      }
      data::Size size;  // a clip, or a picture that cannot be read, which is said when it is its turn
      try {
        if (!data::may_be_clip(place.picture) && !data::is_clip_alone(place.picture)) size = data::image_size(place.picture);
      } catch (const Error&) {
      }
      by_sides[{size.height, size.width}].push_back(place);
    }
  }
  std::vector<data::CaptionPlace> places;
  for (const auto& [sides, list] : by_sides) places.insert(places.end(), list.begin(), list.end());
  return places;
}

/// Says what the model takes before it is loaded.
void load(captioning::LanguageModel& model, const CaptionOptions& o) {
  auto& components = model.components();
  if (o.weight_format != "none") {
    const quant::StoreOptions options{.format = quant::parse_format(o.weight_format), .high_precision = {}};
    for (const auto& name : captioning::LanguageModel::written_with()) components.set_store(name, std::make_shared<quant::Store>(options));
  }
  int64_t num_bytes = 0;
  for (const auto& component : components.list()) {
    components.check(component.name);
    num_bytes += component.num_bytes;
  }
  info("{}{}: {}", model.name(), o.weight_format == "none" ? "" : " in " + quant::describe(quant::parse_format(o.weight_format)),
       human_bytes(static_cast<double>(num_bytes)));
  for (const auto& component : components.list()) components.load(component.name);
}

/// The captions of a folder, batch by batch.
class Captions {
 public:
  Captions(const CaptionOptions& options, captioning::LanguageModel& model, Outcome& outcome)
      : options_(options), model_(model), outcome_(outcome) {}

  /// False when Ctrl-C came.
  bool write(const std::vector<data::CaptionPlace>& places) {
    Progress bar("caption", std::ssize(places));
    for (size_t done = 0; done < places.size();) {
      const auto count = std::min(static_cast<size_t>(options_.batch_size), places.size() - done);
      if (!write_batch({places.begin() + static_cast<std::ptrdiff_t>(done), places.begin() + static_cast<std::ptrdiff_t>(done + count)}))
        return false;
      done += count;
      bar.update(static_cast<int64_t>(done));
    }
    return true;
  }

 private:
  /// Does something for a picture; a data Error of it is said and kept, and others lose nothing by it.
  template <class Work>
  void tried(const std::filesystem::path& picture, const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != Exit::data) throw;
      warn("{} has no new caption: {}", picture.string(), without_source(error));
      outcome_.bad.push_back({{"file", picture.string()}, {"error", without_source(error)}});
    }
  }

  bool write_batch(const std::vector<data::CaptionPlace>& places) {
    std::vector<captioning::Request> requests;
    std::vector<data::CaptionPlace> asked;
    for (const auto& place : places) {
      tried(place.picture, [&] {
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
      tried(asked[i].picture, [&] { save(asked[i], written->at(i)); });
    }
    return true;
  }

  void save(const data::CaptionPlace& place, const captioning::Written& written) {
    const auto before = options_.caption.is_added && place.is_there ? data::read_caption(place.file) : "";
    const auto caption = captioning::caption_of(options_.caption, written, before);
    io::write_text_atomic(place.file, caption + "\n");
    outcome_.written.push_back({{"file", place.picture.string()}, {"caption", caption}, {"is_cut", written.is_cut}});
  }

  const CaptionOptions& options_;
  captioning::LanguageModel& model_;
  Outcome& outcome_;
};

void tell_outcome(const CaptionOptions& o, const Outcome& outcome) {
  if (o.json)
    return print("{}\n", nlohmann::json({{"written", outcome.written}, {"bad", outcome.bad}, {"num_there", outcome.num_there}}).dump(1));
  print("{} written{}{}\n", count_of(std::ssize(outcome.written), "caption"),
        outcome.num_there > 0 ? fmt::format(", {} there before", outcome.num_there) : "",
        outcome.bad.empty() ? "" : fmt::format(", {} not", count_of(std::ssize(outcome.bad), "picture")));
}

void run(const CaptionOptions& o) {
  set_threads(o.model.num_threads, o.model.local_size);
  Outcome outcome;
  const auto places = places_of(o, outcome);
  bool is_done = true;
  if (!places.empty()) {
    const auto model_options = train::model_options(o.model);
    const auto files = models::open_model_files(
        {.model = o.model.model, .model_paths = {}, .model_id_with_origin_paths = {}, .hub = models::HubUse::without_denoiser});
    captioning::LanguageModel model(files, model_options, o.processor_path);
    load(model, o);
    is_done = Captions(o, model, outcome).write(places);
  }
  tell_outcome(o, outcome);
  if (!is_done)
    throw Error(Exit::interrupted, "caption",
                fmt::format("interrupted; {} of {} captions were written; with caption_mode fill the same command goes on",
                            outcome.written.size(), places.size()));
  if (!places.empty() && outcome.written.empty() && outcome.num_there == 0)
    data_error("caption", "none of {} could be captioned; the warnings say why", count_of(std::ssize(places), "picture"));
}

}  // namespace

void caption(const Arguments& arguments) {
  CaptionOptions options;
  config::Fields listed;
  fields(listed, options);
  try {
    const auto parsed = config::read_command_line("caption", "write captions of pictures and clips, by a model that sees them", arguments,
                                                  listed, [&] { check(options); });
    if (parsed.help) return print("{}", parsed.help_text);
    check(options);
    watch_for_interrupt("interrupted: ends now; captions that are finished are written");
    run(options);
  } catch (const config::Refusal& refusal) {  // said in the language that was asked for
    if (options.json) print("{}", config::to_json(refusal.problems()));
    throw;
  }
}

}  // namespace burnish::app
