#include "app/florence_captions.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "app/written_caption.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "captioning/florence2.h"
#include "captioning/look.h"

namespace burnish::app {

namespace {

constexpr const char *kSentences = "<MORE_DETAILED_CAPTION>", *kTags = "<GENERATE_TAGS>", *kAllRegions = "<DENSE_REGION_CAPTION>",
                     *kWords = "<OCR_WITH_REGION>", *kPhrases = "<CAPTION_TO_PHRASE_GROUNDING>";
using Texts = std::vector<captioning::FoundText>;

/// Captions of Florence-2, batch by batch.
class FlorenceCaptions {
 public:
  FlorenceCaptions(const CaptionOptions& options, captioning::Florence2& model, FilesWritten& outcome)
      : options_(options), model_(model), outcome_(outcome) {}

  bool write_batch(std::span<const data::PlaceBeside> places, Journal* journal) {
    std::vector<at::Tensor> images;
    std::vector<const data::PlaceBeside*> seen;
    std::vector<data::Size> sides;
    for (const auto& place : places) {
      outcome_.tried(place.picture, "caption", [&] {
        const auto picture = captioning::look(place.picture, {.most = 1}).frames_FHW3[0];
        images.push_back(model_.shown(picture));
        sides.push_back({picture.size(0), picture.size(1)});
        seen.push_back(&place);
      });
    }
    if (images.empty()) return true;
    const auto tokens = model_.see(at::stack(images));
    const auto captions = ask(tokens, asked(), options_.writing.max_new_tokens);
    const auto regions = captions ? ask_where(tokens) : std::nullopt;
    if (!regions) return false;
    for (size_t i = 0; i < seen.size(); ++i) {
      outcome_.tried(seen[i]->picture, "caption", [&] {
        const auto& found = captions->at(i);
        const captioning::Written written{found.ids, trimmed(model_.tokenizer().decode(found.ids)), found.is_cut};
        write_answer(options_, *seen[i], {written, sides[i], [&] { return regions_of(*regions, i); }}, journal, outcome_);
      });
    }
    return true;
  }

 private:
  /// What the model said of all pictures about regions, and about words in them.
  struct Regions {
    Texts things, words;
  };

  static std::string trimmed(const std::string& text) { return std::string(trim(text)); }

  std::string asked() const {
    if (!options_.caption.prompt.empty()) return options_.caption.prompt;
    return options_.caption.is_tags ? kTags : kSentences;
  }

  std::optional<Texts> ask(const at::Tensor& tokens_BNE, const std::string& asked, int64_t max_new_tokens) {
    return model_.answer(tokens_BNE, asked, {.num_beams = options_.writing.num_beams, .max_new_tokens = max_new_tokens},
                         [] { return !interrupted(); });
  }

  std::optional<Regions> ask_where(const at::Tensor& tokens_BNE) {
    const auto& layout = options_.layout;
    if (layout.is_text()) return Regions{};
    const auto around = layout.boxes.empty() ? kAllRegions : layout.boxes.starts_with('<') ? layout.boxes : kPhrases + layout.boxes;
    auto things = ask(tokens_BNE, around, kTokensOfBoxes);
    auto words = things && layout.boxes.empty() ? ask(tokens_BNE, kWords, kTokensOfBoxes) : Texts{};
    if (!things || !words) return std::nullopt;
    return Regions{std::move(*things), std::move(*words)};
  }

  std::vector<captioning::Region> regions_of(const Regions& regions, size_t i) const {
    auto all = captioning::regions_of_marks(model_.tokenizer().decode_marked(regions.things.at(i).ids));
    if (regions.words.empty()) return all;
    const auto words = captioning::words_of_marks(model_.tokenizer().decode_marked(regions.words.at(i).ids));
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  const CaptionOptions& options_;
  captioning::Florence2& model_;
  FilesWritten& outcome_;
};

}  // namespace

bool write_by_florence2(const CaptionOptions& o, const models::ModelFiles& files, const std::vector<FolderWork>& work,
                        FilesWritten& outcome) {
  const auto model_options = train::model_options(o.seen_by.model);
  captioning::Florence2 model(files, model_options, o.seen_by.processor_path);
  check_belongs(o, Captioner::florence2, captioning::Florence2::name());
  load_all(model.components(), captioning::Florence2::name());
  FlorenceCaptions captions(o, model, outcome);
  return by_batches(work, o.batch_size, "caption", [&](auto places, auto* journal) { return captions.write_batch(places, journal); });
}

}  // namespace burnish::app
