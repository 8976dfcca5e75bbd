#include "app/tag_pictures.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <span>

#include "app/written_caption.h"
#include "captioning/look.h"

namespace burnish::app {

namespace {

/// The captions of a folder, batch by batch.
class TagCaptions {
 public:
  TagCaptions(const CaptionOptions& options, tagging::Tagger& model, FilesWritten& outcome)
      : options_(options), rule_(options.tags), model_(model), outcome_(outcome) {
    if (rule_.general == 0) rule_.general = model.usual_threshold();
  }

  void write_batch(std::span<const data::PlaceBeside> places, Journal* journal) {
    std::vector<at::Tensor> frames;
    std::vector<std::pair<const data::PlaceBeside*, int64_t>> shown;  // and how many frames of it
    for (const auto& place : places) {
      outcome_.tried(place.picture, "caption", [&] {
        std::vector<at::Tensor> of_picture;
        for (const auto& frame : captioning::look(place.picture, options_.frames).frames_FHW3.unbind())
          of_picture.push_back(model_.shown(frame));
        shown.emplace_back(&place, std::ssize(of_picture));
        std::ranges::move(of_picture, std::back_inserter(frames));
      });
    }
    int64_t first = 0;
    const auto likelihoods_FT = frames.empty() ? at::Tensor() : seen(frames);
    for (const auto& [place, count] : shown) {
      const auto likelihoods_T = likelihoods_FT.narrow(0, first, count).mean(0);  // a tag of a clip is true of most of it
      first += count;
      outcome_.tried(place->picture, "caption", [&] { save(*place, likelihoods_T, journal); });
    }
  }

 private:
  /// Runs the network over at most so many pictures at once as the batch has, of clips too.
  at::Tensor seen(const std::vector<at::Tensor>& frames) {
    std::vector<at::Tensor> rows;
    for (size_t first = 0; first < frames.size();) {
      const auto end = std::min(first + static_cast<size_t>(options_.batch_size), frames.size());
      const auto batch = std::span(frames).subspan(first, end - first);
      for (const auto& row : model_.likelihoods(at::stack(std::vector(batch.begin(), batch.end()))).unbind()) rows.push_back(row);
      first = end;
    }
    return at::stack(rows);
  }

  void save(const data::PlaceBeside& place, const at::Tensor& likelihoods_T, Journal* journal) {
    const auto tags = tagging::tags_of(likelihoods_T, model_.tags(), rule_);
    const auto caption = tagging::caption_of(tags, rule_, caption_there(options_, place));
    write_caption(place, caption, journal);
    auto list = nlohmann::json::array();
    for (const auto& tag : tags) list.push_back({{"tag", tag.name}, {"category", name_of(tag.category)}, {"likelihood", tag.likelihood}});
    outcome_.written.push_back({{"file", place.picture.string()}, {"caption", caption}, {"is_cut", false}, {"tags", list}});
  }

  const CaptionOptions& options_;
  tagging::TagRule rule_;
  tagging::Tagger& model_;
  FilesWritten& outcome_;
};

}  // namespace

bool tag_pictures(const CaptionOptions& o, const models::ModelFiles& files, const std::vector<FolderWork>& work, FilesWritten& outcome) {
  const auto model_options = train::model_options(o.seen_by.model);
  tagging::Tagger model(files, model_options);
  check_belongs(o, Captioner::tagger, model.name());
  load_all(model.components(), model.name());
  TagCaptions captions(o, model, outcome);
  return by_batches(work, o.batch_size, "caption", [&](auto places, auto* journal) {
    captions.write_batch(places, journal);
    return true;
  });
}

}  // namespace burnish::app
