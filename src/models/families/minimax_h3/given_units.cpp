#include "models/families/minimax_h3/given_units.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/input_error.h"
#include "models/families/minimax_h3/references.h"
#include "models/parts/find_components.h"
#include "models/text/resample.h"

namespace burnish::models::minimax_h3 {

namespace {

/// The seed of the noise of given frames.
constexpr uint64_t kGivenSeed = 42;

/// Adds the little noise that given frames have to their latents.
at::Tensor noised(const at::Tensor& latents) {
  const auto noise = at::randn(latents.sizes(), at::detail::createCPUGenerator(kGivenSeed)).to(latents.options());
  return latents * (1 - kGivenSigma) + noise * kGivenSigma;
}

/// The frame of that number of clips [B, 3, F, H, W], in [-1, 1].
at::Tensor frame_of(const at::Tensor& clips, int64_t number) {
  const auto pixels = clips.select(2, number);
  return pixels.scalar_type() == at::kByte ? pixels.to(at::kFloat).div_(127.5).sub_(1) : pixels;
}

/// What stands in the column of last frames of a sample, or else its clip's own.
at::Tensor last_frame(const std::vector<at::Tensor>& pictures, const at::Tensor& own_3HW) {
  if (pictures.size() > 1) data_error("models", "the column '{}' has {} pictures, and one was expected", kLastFrame.name, pictures.size());
  return pictures.empty() ? own_3HW : pictures[0].to(own_3HW.options());
}

/// Tells whether what is given are references, by the column that a run names; drawings name none.
bool takes_references(const ModelOptions& options, bool named_of_references) {
  if (!options.references) return false;
  if (const auto& column = options.references.column; !column.empty()) return column == kReferencesColumn;
  const auto& use = options.get<std::string>(kUseOption);
  return use == "auto" ? named_of_references : use == "references";
}

bool is_sound(const at::Tensor& given) { return given.dim() == 2; }
bool is_clip(const at::Tensor& given) { return given.dim() == 4; }

}  // namespace

std::vector<Option> given_options() {
  return {{.name = kUseOption,
           .help = "what --reference names when MiniMax-H3 draws: the first_frame of the clip, references (pictures, clips and sounds), or "
                   "auto, which goes by whether the transformer's name has Ref2VA",
           .otherwise = std::string("auto"),
           .elsewhere = "it is of MiniMax-H3, leave it out",
           .choices = {"auto", "first_frame", "references"}},
          reference_pixels_option(),
          processor_option()};
}

GivenUnits::GivenUnits(const ModelFiles& files, const ModelOptions& options, Components& components, bool named_of_references)
    : files_(files), options_(options), components_(components), are_references_(takes_references(options, named_of_references)) {
  if (gives_last() && (!is_any() || are_references_))
    config_error("models", "{} is a clip's last frame and goes with its first; name {} in extra_inputs too, when drawing --reference",
                 kLastFrame.name, kFirstFrameColumn);
  if (is_any() && options_.latents != "mean")
    config_error("models", "extra_inputs {} gives frames by their latents' mean; choose latents mean",
                 are_references_ ? kReferencesColumn : kFirstFrameColumn);
}

NamedRecipe GivenUnits::tower(const Source& vision) {
  config_ = read_named(vision, text::qwen3_vl_vision_config);
  // The folder may be one of a model on a hub, as a tokenizer's.
  const auto& chosen = options_.get<std::string>("processor_path");
  const auto processor = chosen.empty() ? chosen : find_tokenizer(files_, chosen, "processor").value_or(chosen).string();
  of_pictures_ = find_pixel_rule(files_, processor, text::qwen3_vl_pixels());
  of_clips_ = find_clip_rule(files_, processor);
  return {vision_recipe(kTower, vision, config_, of_pictures_), qwen3_vl_vision_names(kTower, "lora_vis_")};
}

void GivenUnits::add_names(Names& names, int64_t caption_width, int64_t sound_rate) const {
  if (!is_any()) return;
  names.references.column = are_references_ ? kReferencesColumn : kFirstFrameColumn;
  if (are_references_) names.references.sound_rate = sound_rate;
  if (gives_last()) names.extra_inputs.push_back(kLastFrame);
  names.values[kTextPlaces] = {.shape = {-1, -1}, .of_prompt = true, .padded = true};
  names.values[kSeenPlaces] = {.shape = {-1, -1}, .of_prompt = true};
  names.values[kSeenEmbedding] = {.shape = {-1, -1, caption_width}, .of_prompt = true};
}

Extent GivenUnits::seen(const Extent& given) const { return are_references_ ? shown_extent(given, reference_area(options_, 0)) : given; }

std::vector<std::string> GivenUnits::columns() const {
  if (are_references_) return {kReferences};
  std::vector<std::string> columns{kTarget};
  if (gives_last()) columns.push_back(kLastFrame.name);
  return columns;
}

/// Returns of each sample what is given: the first frame of its clip, [3, H, W] in [-1, 1], and, where that is asked for, its last one or
/// the picture that a row names in its place; or references, pictures and clips [3, F, H, W] as they are shown, and sounds [2, N].
std::vector<nn::Tensors> GivenUnits::pixels(const pipeline::Scope& scope) const {
  std::vector<nn::Tensors> given;
  if (are_references_) {
    for (const auto& list : scope.lists(kReferences)) {
      auto& of_sample = given.emplace_back();
      for (const auto& one : list) of_sample.push_back(is_sound(one) ? one : shown(one, reference_area(options_, 0)));
    }
    return given;
  }
  const auto& clips = scope.tensor(kTarget);
  if (clips.dim() == 4 || clips.size(2) == 1)
    config_error(
        "models",
        "extra_inputs {} gives a clip's first frame, and this one has no other that could be predicted; take it out, or give clips "
        "of more frames",
        kFirstFrameColumn);
  const auto first = frame_of(clips, 0), last = frame_of(clips, clips.size(2) - 1);
  for (int64_t b = 0; b < clips.size(0); ++b) {
    auto& of_sample = given.emplace_back(nn::Tensors{first[b]});
    if (gives_last()) of_sample.push_back(last_frame(scope.lists(kLastFrame.name).at(static_cast<size_t>(b)), last[b]));
  }
  return given;
}

/// What the tower makes of a picture, or of every two frames of a clip that are shown.
nn::Tensors GivenUnits::see(const at::Tensor& pixels) const {
  auto& tower = static_cast<text::Qwen3VlVision&>(components_.module(kTower));
  auto levels_of = [&](const at::Tensor& frame_3HW) { return text::to_levels(frame_3HW.to(options_.device)); };
  if (!is_clip(pixels)) return {tower.forward(text::patches_of(levels_of(pixels), config_, of_pictures_))};
  const auto numbers = frames_in_text(pixels.size(1));
  const auto [height, width] = shown_sides(std::ssize(numbers), pixels.size(2), pixels.size(3), config_, of_clips_);
  nn::Tensors frames, seen;
  for (auto number : numbers) frames.push_back(text::resampled(levels_of(pixels.select(1, number)), height, width, text::Filter::bicubic));
  for (size_t i = 0; i < frames.size(); i += 2) {
    const auto both = at::stack({frames[i], frames[std::min(i + 1, frames.size() - 1)]});
    seen.push_back(tower.forward(text::patches_of_frames(both, config_, of_clips_)));
  }
  return seen;
}

/// A unit of what is given, with what decides its results beside that.
pipeline::Unit GivenUnits::unit(const char* name, const std::string& writes, const std::string& model) const {
  pipeline::Unit unit{name, columns(), {writes}, {model}};
  if (are_references_) unit.settings = fmt::format("reference_pixels {}, {}", reference_area(options_, 0), settings_of(of_clips_));
  return unit;
}

pipeline::Unit GivenUnits::seeing_unit() const {
  auto sees = unit("see_given", kSeenGiven, kTower);
  sees.run = [this](pipeline::Scope& s) {
    s.uses(kTower);
    pipeline::TensorLists seen;
    for (const auto& given : pixels(s)) {
      auto& of_sample = seen.emplace_back();
      for (size_t i = 0; i < given.size(); ++i) {
        const auto& one = given[i];
        const auto num_shown = is_sound(one) ? 0 : is_clip(one) ? std::ssize(frames_in_text(one.size(1))) : 1;
        auto of_one = is_sound(one) ? nn::Tensors{} : see(one);
        // Behind a clip stands its own sound.
        const bool sounds = is_sound(one) || (is_clip(one) && given.at(++i).size(1) > 0);
        of_one = seen_reference(sounds, num_shown, std::move(of_one));
        of_sample.insert(of_sample.end(), of_one.begin(), of_one.end());
      }
    }
    s.write(kSeenGiven, std::move(seen));
  };
  return sees;
}

/// Given frames are the mean of their latents, with noise that is drawn of one seed for each of them and for all visits.
pipeline::Units GivenUnits::latent_units(const AutoencoderPart& autoencoder, const SoundUnits& sound) const {
  const std::string frames = are_references_ ? "given_frames" : kGiven;
  auto encodes = unit("encode_given_frames", frames, kVae);
  encodes.run = [this, &autoencoder, frames](pipeline::Scope& s) {
    s.uses(kVae);
    pipeline::TensorLists latents;
    for (const auto& given : pixels(s)) {
      auto& of_sample = latents.emplace_back();
      for (const auto& one : given) {
        if (is_sound(one)) {
          of_sample.push_back(one);
          continue;
        }
        const auto mean = autoencoder.encode(components_.module(kVae), one.to(options_.device).unsqueeze(0)).mean_BCHW.squeeze(0);
        of_sample.push_back(noised(is_clip(one) ? mean : mean.squeeze(1)));
      }
    }
    s.write(frames, std::move(latents));
  };
  pipeline::Units units{encodes};
  if (are_references_) units.push_back(sound.encode_list_unit(frames, kGiven));
  return units;
}

}  // namespace burnish::models::minimax_h3
