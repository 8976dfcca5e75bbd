#include "models/families/wan/scail_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/input_error.h"
#include "models/families/wan/camera.h"
#include "models/families/wan/frames.h"

namespace burnish::models::wan {

namespace {

constexpr const char *kCastLatents = "reference_latents", *kCastAreas = "reference_areas", *kActedLatents = "driving_latents",
                     *kActedAreas = "driving_areas", *kStandsIn = "stands_in", *kCastStates = "image_states";

/// The pictures of a column, each a clip [B, 3, 1, H, W] of one frame, the main one last.
nn::Tensors main_last(pipeline::Scope& s, const char* column) {
  auto pictures = stack_lists(s.lists(column));
  if (pictures.empty())
    data_error("models", "the column '{}' names no picture of a sample; SCAIL-2 goes on from one, and reads a mask of each", column);
  std::ranges::rotate(pictures, pictures.begin() + 1);
  for (auto& picture : pictures) picture = as_clip(picture);
  return pictures;
}

void check_masks(pipeline::Scope& s) {
  const auto num_pictures = s.lists(kCastPictures).at(0).size(), num_masks = s.lists(kPictureMasks).at(0).size();
  if (num_pictures != num_masks)
    data_error("models", "the column '{}' names {} pictures of a sample and '{}' {}; name a mask for each picture, in the same order",
               kCastPictures, num_pictures, kPictureMasks, num_masks);
}

pipeline::Unit pictures_unit(const ModelParts& parts) {
  return {"encode_cast", {kCastPictures, kPictureMasks}, {kCastLatents, kCastAreas}, {parts.vae}, [parts](pipeline::Scope& s) {
            s.uses(parts.vae);
            nn::Tensors latents, areas;
            for (const auto& picture : main_last(s, kCastPictures)) latents.push_back(parts.latents_of(picture));
            check_masks(s);
            for (const auto& mask : main_last(s, kPictureMasks)) areas.push_back(coloured_areas(mask));
            s.write(kCastLatents, at::cat(latents, 2));
            s.write(kCastAreas, at::cat(areas, 2));
          }};
}

pipeline::Unit clip_unit(const ModelParts& parts) {
  return {"encode_driving_clip", {kActedClip, kActedMasks}, {kActedLatents, kActedAreas}, {parts.vae}, [parts](pipeline::Scope& s) {
            s.uses(parts.vae);
            s.write(kActedLatents, parts.latents_of(of_half_size(as_clip(s.tensor(kActedClip)))));
            s.write(kActedAreas, coloured_areas(of_half_size(as_clip(s.tensor(kActedMasks)))));
          }};
}

pipeline::Unit sight_unit(const ModelParts& parts) {
  return {"see_picture", {kCastPictures}, {kCastStates}, {parts.image_encoder}, [parts](pipeline::Scope& s) {
            s.uses(parts.image_encoder);
            s.write(kCastStates, parts.see(main_last(s, kCastPictures).back().select(2, 0)));
          }};
}

pipeline::Unit way_unit() {
  return {"tell_way", {kReplaces}, {kStandsIn}, {}, [](pipeline::Scope& s) {
            const auto number = s.tensor(kReplaces).item<double>();
            if (number != 0 && number != 1)
              data_error("models", "the column '{}' says {}; 1 replaces a person of the driving clip, and 0 moves the picture's", kReplaces,
                         number);
            s.write(kStandsIn, at::full({1, 1}, number, at::kFloat));
          }};
}

}  // namespace

bool reads_scail(const ModelOptions& options) {
  auto names = [&](const Column& input) { return options.extra_inputs.contains(input.name); };
  if (std::ranges::none_of(kScailInputs, names)) return false;
  if (!std::ranges::all_of(kScailInputs, [&](const Column& input) { return input.name == kReplaces || names(input); }))
    config_error("models",
                 "SCAIL-2 reads {}, {}, {} and {} together, of which this run has some; name all four, in extra_inputs or when drawing",
                 kCastPictures, kPictureMasks, kActedClip, kActedMasks);
  if (options.references)
    config_error("models", "{} is the picture from which SCAIL-2 goes on, and input_image another; take one of them out", kCastPictures);
  return true;
}

Config scail_config_of(int64_t latent_channels, int64_t caption_width, int64_t image_width) {
  return {.in_channels = latent_channels + kMaskChannels,
          .out_channels = latent_channels,
          .caption_width = caption_width,
          .image_width = image_width,
          .extras = {.area_channels = kColours * kFramesPerLatent}};
}

ScailUnits::ScailUnits(const ModelOptions& options, Components& components, const Config& dit)
    : SideModule(options, components), dit_(dit) {
  if (!is_there()) return;
  constexpr auto kAreas = kColours * kFramesPerLatent;
  if (dit.image_width == 0 || dit.in_channels != dit.out_channels + kMaskChannels || dit.extras.area_channels != kAreas)
    data_error(
        "models",
        "SCAIL-2's transformer reads {} channels, {} of areas and states of pictures {} wide, and predicts {} channels; it was expected "
        "to read {}, {} of areas, and such states",
        dit.in_channels, dit.extras.area_channels, dit.image_width, dit.out_channels, dit.out_channels + kMaskChannels, kAreas);
  reads_ = reads_scail(options);
}

std::string ScailUnits::variant(bool) const { return is_there() ? "Wan2.1-SCAIL-2-14B" : ""; }

void ScailUnits::add_names(Names& names) const {
  if (is_there()) names.references.expected = kActedClip;
  if (!reads_) return;
  for (const auto& input : kScailInputs) {
    if (has(input.name)) names.extra_inputs.push_back(input);
  }
  for (const char* latents : {kCastLatents, kActedLatents}) names.values[latents] = {.shape = {-1, dit_.out_channels, -1, -1, -1}};
  for (const char* areas : {kCastAreas, kActedAreas}) names.values[areas] = {.shape = {-1, dit_.extras.area_channels, -1, -1, -1}};
  names.values[kCastStates] = {.shape = {-1, -1, dit_.image_width}};
  if (has(kReplaces)) names.values[kStandsIn] = {.shape = {-1, 1}};
}

void ScailUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (!is_there()) return;
  if (!reads_)
    config_error("models", "SCAIL-2 moves a picture as a clip does; name {}, {}, {} and {}, in extra_inputs or when drawing", kCastPictures,
                 kPictureMasks, kActedClip, kActedMasks);
  add_encoding(groups, {pictures_unit(parts), clip_unit(parts), sight_unit(parts)});
  if (has(kReplaces)) add_encoding(groups, {way_unit()});
}

void ScailUnits::give(pipeline::Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (!reads_) return;
  const auto& noisy = in.noisy_BCFHW;
  in.image_BNW = scope.tensor(kCastStates).to(options_.device);
  in.cast = {.pictures_BCRHW = here(scope, kCastLatents),
             .picture_areas_BMRHW = here(scope, kCastAreas),
             .driving_BCFHW = here(scope, kActedLatents),
             .driving_areas_BMFHW = here(scope, kActedAreas),
             .replaces_B1 = has(kReplaces) ? scope.tensor(kStandsIn).to(options_.device)
                                           : at::zeros({noisy.size(0), 1}, noisy.options().dtype(at::kFloat))};
}

}  // namespace burnish::models::wan
