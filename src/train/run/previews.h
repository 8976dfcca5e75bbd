#pragma once
#include "drawing/draw.h"
#include "train/options/settings.h"

namespace burnish::train {

/// Pictures that are drawn over and over while a run trains, from equal prompts and noise.
struct Previews {
  std::vector<drawing::Picture> pictures;
  drawing::Encoded encoded;
  drawing::DrawOptions options;
  bool with_presets = false;
};

/// Returns the format of previews, which of clips that sound is one that holds sound where no other is asked for.
std::string preview_format(const PreviewSettings& settings, models::Model& model);

/// Reads the prompts and checks that the model can draw them, without weights and before anything is computed; nothing when none are asked
/// for. `extent` is the one that pictures are trained at: a picture whose line says no size has it. Throws a config or data Error for what
/// cannot be drawn.
std::optional<Previews> read_previews(const PreviewSettings& settings, models::Model& model, const Extent& extent, c10::Device device);

/// Reads previews and encodes their prompts, one encoder in memory at a time, those of `by_block` read block by block, before what trains
/// is loaded.
std::optional<Previews> prepare_previews(const PreviewSettings& settings, models::Model& model, const Extent& extent, c10::Device device,
                                         const std::set<std::string>& by_block = {});

/// Draws all pictures with the denoiser as it is loaded (`held` names what is), with preset LoRAs or without, and hands each, as
/// drawing::decode does but on the CPU, to `take`. Without `take` no latents are decoded: a process without which the others cannot draw
/// gives none.
using TakePreview = std::function<void(int64_t number, const drawing::Picture& picture, const drawing::Decoded& drawn)>;
void draw_previews(const Previews& previews, models::Model& model, const std::vector<std::string>& held, const TakePreview& take);

}  // namespace burnish::train
