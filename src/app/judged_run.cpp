#include "app/judged_run.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "app/file_per_picture.h"
#include "app/run_options.h"
#include "base/evenly.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/threads.h"
#include "captioning/look.h"
#include "data/caption_places.h"
#include "data/row.h"
#include "io/files.h"
#include "judging/eyes.h"
#include "models/registry.h"
#include "records/previews.h"
#include "records/visits.h"
#include "report/preview_text.h"
#include "train/samples/dataset_choice.h"

namespace burnish::app {

namespace fs = std::filesystem;

namespace {

/// A preview as it is looked at: its first frame, and its prompt.
struct PreviewFile {
  records::Preview preview;
  fs::path picture;
  std::string prompt;
};

/// Finds the previews that were drawn with the whole of what is trained, each of a step.
std::map<int64_t, std::vector<PreviewFile>> previews_of(const fs::path& run) {
  std::map<int64_t, std::vector<PreviewFile>> by_step;
  for (const auto& preview : records::find_previews(run)) {
    auto path = records::preview_path(run, preview.step, preview.number, preview.kind);
    if (preview.kind == records::PreviewKind::frames) {
      const auto frames = records::preview_frames(path);
      if (frames.empty()) continue;
      path = frames.front();
    }
    auto text = report::preview_text(preview.kind, path);
    if (!text.contains("strength")) by_step[preview.step].push_back({preview, path, text["prompt"]});
  }
  return by_step;
}

/// Lists the training pictures: those of a folder, or those that the run visited.
std::vector<fs::path> training_pictures(const BestOptions& o, const fs::path& run) {
  std::vector<fs::path> all;
  if (!o.pictures.empty()) {
    for (const auto& place : data::caption_places(o.pictures, ".txt")) all.push_back(place.picture);
  } else if (io::is_there(records::visits_path(run))) {
    std::set<std::string> files;
    for (const auto& sample : records::read_visits(run).samples) {
      if (!sample.file.empty() && io::is_there(sample.file)) files.insert(sample.file);
    }
    all.assign(files.begin(), files.end());
  }
  return evenly(all, o.num_pictures);
}

/// Lists the pictures that the run did not see; none where it has no such set, or the set is not there.
std::vector<fs::path> held_out_pictures(const BestOptions& o, const train::TrainOptions& run) {
  const auto path = o.held_out.empty() ? run.data.validation_metadata_path : o.held_out;
  if (path.empty() || !io::is_there(path)) {
    if (!o.held_out.empty()) data_error("best", "there is nothing called '{}' to take held-out pictures from", path);
    return {};
  }
  train::DatasetChoice choice;
  choice.subset.metadata_path = path;
  choice.subset.visits.trigger_word = "-";  // captions may be missing
  std::vector<fs::path> all;
  for (const auto& row : data::read_rows({.subsets = train::subsets_of(choice, 1), .data_file_keys = run.data.file_keys}).rows) {
    if (!row.file.empty() && io::is_there(row.file)) all.emplace_back(row.file);
  }
  return evenly(all, o.num_pictures);
}

/// Loads all that look.
void load_eyes(judging::Eyes& eyes) {
  for (auto* eye : eyes.all()) load_all(eye->components(), eye->name());
}

/// Pictures as vectors: by how they are alike, and by how they answer prompts, where somebody looks at that.
struct Seen {
  at::Tensor alike_ND, answers_ND;
};

/// Looks at pictures batch by batch.
class Looking {
 public:
  Looking(judging::Eyes& eyes, int64_t batch_size, int64_t total) : eyes_(eyes), batch_size_(batch_size), bar_("look", total) {}

  Seen at(const std::vector<fs::path>& pictures, bool with_answers) {
    std::vector<at::Tensor> alike, answers;
    for (size_t first = 0; first < pictures.size();) {
      const auto end = std::min(first + static_cast<size_t>(batch_size_), pictures.size());
      std::vector<at::Tensor> decoded;
      for (; first < end; ++first) {
        if (interrupted()) throw Error(Exit::interrupted, "best", "interrupted; nothing was written, and the same command begins anew");
        decoded.push_back(captioning::look(pictures[first], {.most = 1}).frames_FHW3[0]);
        bar_.update(++done_);
      }
      if (!eyes_.are_one()) alike.push_back(judging::seen_by(eyes_.of_likeness(), decoded));
      if (eyes_.of_prompts() && (with_answers || eyes_.are_one())) answers.push_back(judging::seen_by(*eyes_.of_prompts(), decoded));
    }
    const auto of_clip = answers.empty() ? at::Tensor() : at::cat(answers);
    return {alike.empty() ? of_clip : at::cat(alike), of_clip};
  }

 private:
  judging::Eyes& eyes_;
  int64_t batch_size_, done_ = 0;
  Progress bar_;
};

judging::Drawn drawn_of(int64_t step, const std::vector<PreviewFile>& files, judging::Eyes& eyes, Looking& looking) {
  judging::Drawn drawn{.step = step};
  std::vector<fs::path> pictures;
  std::vector<std::string> prompts;
  for (const auto& file : files) {
    drawn.numbers.push_back(file.preview.number);
    pictures.push_back(file.picture);
    prompts.push_back(file.prompt);
  }
  const bool with_answers = eyes.of_prompts() && std::ranges::none_of(prompts, &std::string::empty);
  const auto seen = looking.at(pictures, with_answers);
  drawn.pictures_ND = seen.alike_ND;
  drawn.answers_ND = seen.answers_ND;
  if (with_answers) drawn.prompts_ND = eyes.of_prompts()->of_texts(prompts);
  return drawn;
}

/// Gives each save the scores of the previews that were drawn at it, or last since the save before.
void score(JudgedRun& judged, std::vector<judging::Judged>& saves, const BestOptions& o, const train::TrainOptions& trained) {
  const fs::path run = o.runs.front();
  const auto previews = previews_of(run);
  judged.training = training_pictures(o, run);
  if (previews.upper_bound(0) == previews.end())
    return judged.missing.emplace_back("the run drew no previews at its saves; preview_prompts and preview_steps draw them"), void();
  if (judged.training.empty())
    return judged.missing.emplace_back("the training pictures are not where the run had them; --pictures names their folder"), void();
  const auto files = models::open_model_files({.model = o.seen_by.model.model, .model_paths = {}, .model_id_with_origin_paths = {}});
  const auto options = train::model_options(o.seen_by.model);
  judging::Eyes eyes("best", files, options);
  load_eyes(eyes);
  const auto held_out = held_out_pictures(o, trained);
  judged.num_held_out = std::ssize(held_out);
  auto total = std::ssize(judged.training) + std::ssize(held_out);
  for (const auto& [step, list] : previews) total += std::ssize(list);
  Looking looking(eyes, o.batch_size, total);
  judging::Beside beside{.training_ND = looking.at(judged.training, /*with_answers=*/false).alike_ND};
  judged.copies_from = beside.copies_from = judging::copy_from(beside.training_ND);
  if (held_out.empty())
    judged.missing.emplace_back(
        "there are no pictures that the run did not see; validation_metadata_path or --held_out names some, by which memory shows");
  else beside.held_out_ND = looking.at(held_out, /*with_answers=*/false).alike_ND;
  std::map<int64_t, judging::Drawn> drawn;
  for (const auto& [step, list] : previews) drawn.emplace(step, drawn_of(step, list, eyes, looking));
  const auto* before = drawn.contains(0) ? &drawn.at(0) : nullptr;
  if (before == nullptr) judged.missing.emplace_back("there are no previews from before training, from which drift is measured");
  int64_t last = 0;
  for (auto& save : saves) {
    const auto behind = drawn.upper_bound(save.step);
    if (behind != drawn.begin() && std::prev(behind)->first > last) {
      save.drawn_at = std::prev(behind)->first;
      save.scores = judging::scores_of(drawn.at(*save.drawn_at), beside, before);
    }
    last = save.step;
  }
  judged.seen_by = eyes.names();
}

}  // namespace

JudgedRun judge(const BestOptions& o) {
  const fs::path run = o.runs.front();
  const auto trained = run_options("best", run);
  set_threads(o.seen_by.model.num_threads, o.seen_by.model.local_size);
  JudgedRun judged;
  judged.saves = records::find_saves(run, trained.output.name);
  const auto losses = records::read_validation_losses(run);
  std::vector<judging::Judged> saves;
  for (const auto& save : judged.saves) saves.push_back({.step = save.step, .validation_loss = records::loss_at(losses, save.step)});
  if (losses.empty()) judged.missing.emplace_back("the run measured no validation loss; validation_metadata_path and validation_steps do");
  if (o.seen_by.model.model.empty())
    judged.missing.emplace_back(
        "nothing looked at the previews; --model openai/clip-vit-large-patch14 compares them with the training pictures, with their "
        "prompts "
        "and with each other");
  else score(judged, saves, o, trained);
  const bool is_measured = std::ranges::any_of(saves, [](const auto& save) { return save.validation_loss || save.scores; });
  if (!is_measured) data_error("best", "nothing tells the saves of {} apart: {}", run.string(), join(judged.missing, "; "));
  judged.overfitting = judging::find_overfitting(saves, losses);
  judging::rank(saves, judged.overfitting);
  judged.ranked = std::move(saves);
  return judged;
}

}  // namespace burnish::app
