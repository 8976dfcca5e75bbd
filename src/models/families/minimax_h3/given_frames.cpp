#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <fmt/core.h>

#include "base/input_error.h"
#include "models/families/minimax_h3/model.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"
#include "models/text/resample.h"

// MiniMax-H3 reads a text, and before it the frames of a clip that are given.
namespace burnish::models::minimax_h3 {

namespace {

/// The text that stands for none: the model knows no sequence without one.
const std::string kNoText = " ";
/// What the noise of given frames is drawn by, as torch draws it, so that it is DiffSynth-Studio's.
constexpr uint64_t kGivenSeed = 42;

}  // namespace

/// Frames that are given stand in the text, where they are shown to a vision tower, and in the sequence, as latents.
void MiniMaxH3Model::add_frames(const Source& vision) {
  if (options_.latents != "mean")
    config_error("models", "extra_inputs {} gives frames by their latents' mean; choose latents mean", kFirstFrameColumn);
  vision_config_ = read_named(vision, text::qwen3_vl_vision_config);
  pixels_ = find_pixel_rule(files_, "", text::qwen3_vl_pixels());
  add(vision_recipe(kTower, vision, vision_config_, pixels_), qwen3_vl_vision_names(kTower, "lora_vis_"));
}

/// The text's tokens; given frames come before a prompt, each behind its number.
PictureText MiniMaxH3Model::text_of(pipeline::Scope& scope) {
  const auto& tokenizer = components_.tokenizer(kEncoder);
  const auto limit = token_limit(components_, kEncoder);
  // A model that is only named has no text that is known; it may be as long as any.
  const bool is_named = components_.source(kEncoder).entry->is_sizes;
  const auto seen = options_.references ? scope.lists(kSeenFrames).at(0) : std::vector<at::Tensor>{};
  if (is_named) return longest_picture_text(seen, limit);
  const auto& prompt = scope.text("prompt").empty() ? kNoText : scope.text("prompt");
  if (!seen.empty()) {
    std::string told;
    for (size_t i = 1; i <= seen.size(); ++i) told += fmt::format("<Picture {}>: {}", i, kPictureInText);
    return picture_text(static_cast<const tokenizers::ChatTokenizer&>(tokenizer), {}, told, prompt, seen, limit);
  }
  PictureText text{.ids = tokenizer.encode(prompt)};
  if (std::ssize(text.ids) > limit) text.ids.resize(static_cast<size_t>(limit));
  return text;
}

/// The tokens that stand for given frames, with those around each, are apart from the others: they are modulated as frames.
void MiniMaxH3Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto text = text_of(scope);
  const text::QwenReading reading{.after = {kTextLayers}, .pictures = text.pictures, .norms_last = false};
  const auto states = loaded<text::QwenEncoder>(kEncoder).forward(as_batch(text.ids, options_.device), reading).front();
  if (text.pictures.empty()) return write_text(scope, states);
  const auto places = at::arange(states.size(1), states.options().dtype(at::kFloat)).unsqueeze(0);
  nn::Tensors of_text, text_places, seen, seen_places;
  int64_t next = 0;
  auto take = [&](nn::Tensors& into, nn::Tensors& places_of, int64_t end) {
    into.push_back(states.narrow(1, next, end - next));
    places_of.push_back(places.narrow(1, next, end - next));
    next = end;
  };
  const bool is_named = components_.source(kEncoder).entry->is_sizes;
  const int64_t num_around = is_named ? 0 : 1;  // a token begins a picture, and one ends it
  for (const auto& picture : text.pictures) {
    take(of_text, text_places, picture.first - num_around);
    take(seen, seen_places, picture.first + picture.num_tokens() + num_around);
  }
  take(of_text, text_places, states.size(1));
  write_text(scope, at::cat(of_text, 1));
  scope.write(kTextPlaces, at::cat(text_places, 1));
  scope.write(kSeenEmbedding, at::cat(seen, 1).contiguous());
  scope.write(kSeenPlaces, at::cat(seen_places, 1));
}

void MiniMaxH3Model::refine(pipeline::Scope& scope) {
  scope.uses(kText);
  auto states = scope.tensor("text_embedding").to(options_.dtype);
  auto mask = scope.tensor("text_mask").to(options_.device);
  const auto num_text = states.size(1);
  if (options_.references) {
    const auto seen = scope.tensor(kSeenEmbedding).to(states.options());
    states = at::cat({states, seen}, 1);
    mask = at::cat({mask, at::ones({seen.size(0), seen.size(1)}, mask.options())}, 1);
  }
  const auto tokens = loaded<Transformer>(kText).refine(states, mask);
  scope.write("text_tokens", tokens.narrow(1, 0, num_text));
  if (options_.references) scope.write(kSeenTokens, tokens.narrow(1, num_text, tokens.size(1) - num_text));
}

std::vector<std::string> MiniMaxH3Model::given_columns() const {
  std::vector<std::string> columns{"image"};
  if (gives_last()) columns.push_back(kLastFrame.name);
  return columns;
}

/// Returns the frames of a clip [B, 3, F, H, W] that are given, each [B, 3, H, W] in [-1, 1]: its first and, where that is asked for, its
/// last one or the picture that a row names in its place.
nn::Tensors MiniMaxH3Model::given_frames(const pipeline::Scope& scope) const {
  const auto& clip = scope.tensor("image");
  if (clip.dim() == 4 || clip.size(2) == 1)
    config_error(
        "models",
        "extra_inputs {} gives a clip's first frame, and this one has no other that could be predicted; take it out, or give clips "
        "of more frames",
        kFirstFrameColumn);
  auto frame = [&](int64_t number) {
    const auto pixels = clip.select(2, number);
    return pixels.scalar_type() == at::kByte ? pixels.to(at::kFloat).div_(127.5).sub_(1) : pixels;
  };
  nn::Tensors frames{frame(0)};
  if (!gives_last()) return frames;
  auto last = frame(clip.size(2) - 1);
  nn::Tensors of_samples;
  for (int64_t b = 0; b < last.size(0); ++b) {
    const auto& pictures = scope.lists(kLastFrame.name).at(static_cast<size_t>(b));
    if (pictures.size() > 1)
      data_error("models", "the column '{}' has {} pictures, and one was expected", kLastFrame.name, pictures.size());
    of_samples.push_back(pictures.empty() ? last[b] : pictures[0].to(last.options()));
  }
  frames.push_back(at::stack(of_samples));
  return frames;
}

/// Makes the units that show given frames to the vision tower, before a prompt is encoded.
pipeline::Unit MiniMaxH3Model::seeing_unit() {
  return {"see_frames", given_columns(), {kSeenFrames}, {kTower}, [this](pipeline::Scope& s) {
            s.uses(kTower);
            auto& tower = loaded<text::Qwen3VlVision>(kTower);
            const auto frames = given_frames(s);
            pipeline::TensorLists seen(static_cast<size_t>(frames[0].size(0)));
            for (const auto& frame : frames) {
              for (size_t b = 0; b < seen.size(); ++b) {
                const auto levels = text::to_levels(frame[static_cast<int64_t>(b)].to(options_.device));
                seen[b].push_back(tower.forward(text::patches_of(levels, vision_config_, pixels_)));
              }
            }
            s.write(kSeenFrames, std::move(seen));
          }};
}

/// The model was made with given frames that have a little noise; it is the same for all of them, as DiffSynth-Studio draws it.
pipeline::Unit MiniMaxH3Model::given_unit() {
  return {"encode_frames", given_columns(), {kGiven}, {kVae}, [this](pipeline::Scope& s) {
            s.uses(kVae);
            nn::Tensors latents;
            for (const auto& frame : given_frames(s))
              latents.push_back(autoencoder_.encode(components_.module(kVae), frame.to(options_.device)).mean_BCHW);
            const auto noise = at::randn(latents[0].sizes().slice(1), at::detail::createCPUGenerator(kGivenSeed)).to(latents[0].options());
            s.write(kGiven, at::cat(latents, 2) * (1 - kGivenSigma) + noise * kGivenSigma);
          }};
}

}  // namespace burnish::models::minimax_h3
