#include "train/run/previews.h"

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "data/drawn_file.h"
#include "io/files.h"
#include "loras/merged.h"
#include "models/model/columns.h"
#include "models/model/drawn_sound.h"

namespace burnish::train {

namespace {

[[noreturn]] void stop() {
  throw Error(Exit::interrupted, "train", "interrupted while encoding the preview prompts; nothing was trained yet");
}

/// Throws a data Error for a part that drawing takes and no file has, before anything is encoded to train on.
void check_parts(models::Model& model) {
  const auto groups = model.units();
  for (const auto* units : {&groups.encode_prompt, &groups.encode_references, &groups.decode}) {
    for (const auto& component : pipeline::models_of(*units)) model.components().check(component);
  }
}

/// Has `fn` draw or encode with what previews show.
void with_or_without(bool with_presets, models::Model& model, const std::function<void()>& fn) {
  if (with_presets) fn();
  else loras::without_merged(model, fn);
}

}  // namespace

std::string preview_format(const PreviewSettings& settings, models::Model& model) {
  return models::writes_sound(model.units().decode) ? data::format_with_sound(settings.format) : settings.format;
}

std::optional<Previews> read_previews(const PreviewSettings& settings, models::Model& model, const Extent& extent, c10::Device device) {
  if (settings.prompts.empty()) return std::nullopt;
  drawing::Picture defaults{.extent = extent, .frame_rate = settings.frame_rate, .num_inference_steps = settings.num_steps};
  auto pictures = drawing::parse_prompts(io::read_text(settings.prompts), settings.prompts, defaults);
  if (!settings.by.times.empty()) {
    for (auto& picture : pictures) picture.num_inference_steps = std::ssize(settings.by.times) - 1;
  }
  if (pictures.empty()) data_error("train", "{} holds no prompts; write one a line, or take preview_prompts out", settings.prompts);
  data::check_format(
      {.asker = "train", .name = "preview_format", .format = preview_format(settings, model), .frames_hint = "give its prompt --f FRAMES"},
      drawing::extents_of(pictures), std::filesystem::path("samples") / "00");
  data::check_holds(models::target_of(model.latent_space()),
                    {.asker = "train", .name = "preview_format", .format = settings.format, .frames_hint = ""});
  Previews previews{drawing::numbered(pictures, 1, static_cast<int64_t>(settings.seed)),
                    {},
                    {.sampler = settings.by.sampler, .times = settings.by.times, .device = device},
                    settings.with_presets};
  drawing::check(model, previews.pictures, previews.options);
  check_parts(model);
  return previews;
}

std::optional<Previews> prepare_previews(const PreviewSettings& settings, models::Model& model, const Extent& extent, c10::Device device,
                                         const std::set<std::string>& by_block) {
  auto previews = read_previews(settings, model, extent, device);
  if (!previews) return std::nullopt;
  loras::Loader loader(model);
  loader.read_by_block(by_block);
  std::optional<drawing::Encoded> encoded;
  with_or_without(previews->with_presets, model,
                  [&] { encoded = drawing::encode(loader, previews->pictures, [] { return !interrupted(); }); });
  if (!encoded) stop();
  previews->encoded = std::move(*encoded);
  info("{} previews of {}", previews->pictures.size(), settings.prompts);
  return previews;
}

void draw_previews(const Previews& previews, models::Model& model, const std::vector<std::string>& held, const TakePreview& take) {
  loras::Loader loader(model, held);
  drawing::Noise noise(previews.pictures);
  with_or_without(previews.with_presets, model, [&] {
    auto latents = drawing::draw(loader, previews.encoded, previews.pictures, noise, previews.options);
    if (!take) return;
    drawing::decode(loader, latents, [&](int64_t number, const drawing::Decoded& drawn) {
      take(number, previews.pictures[static_cast<size_t>(number)], drawn);
    });
  });
}

}  // namespace burnish::train
