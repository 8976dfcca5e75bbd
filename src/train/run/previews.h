#pragma once
#include "drawing/draw.h"
#include "train/options/settings.h"

namespace burnish::train {

/// What is drawn over and over while a run trains: the same prompts from the same noise.
struct Previews {
  std::vector<drawing::Picture> pictures;
  drawing::Encoded encoded;
  drawing::DrawOptions options;
  bool with_presets = false;
};

/// Reads the prompts and checks that the model can draw them, without weights and before anything is computed; nothing when none are asked
/// for. `extent` is what pictures are trained at: that of pictures whose line does not say. A config or data Error for what cannot be
/// drawn.
std::optional<Previews> read_previews(const PreviewSettings& settings, models::Model& model, const Extent& extent, c10::Device device);

/// The same with the prompts encoded, one encoder in memory at a time, before what trains is loaded.
std::optional<Previews> prepare_previews(const PreviewSettings& settings, models::Model& model, const Extent& extent, c10::Device device);

/// Draws all pictures with the denoiser as it is loaded (`held`: the names of what is), with preset LoRAs or without, and hands each
/// [3, H, W] in [-1, 1] on the CPU to `take`. Without it no latents are decoded: for a process without which the others cannot draw.
using TakePreview = std::function<void(int64_t number, const drawing::Picture& picture, const at::Tensor& image)>;
void draw_previews(const Previews& previews, models::Model& model, const std::vector<std::string>& held, const TakePreview& take);

}  // namespace burnish::train
