#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/ltx2/autoencoder.h"
#include "models/families/ltx2/autoencoder_keys.h"
#include "models/families/ltx2/connectors.h"
#include "models/families/ltx2/keys.h"
#include "models/families/ltx2/model.h"
#include "models/families/ltx2/sound_autoencoder.h"
#include "models/families/ltx2/vocoder.h"
#include "models/parts/find_components.h"
#include "models/parts/held_frame.h"

namespace burnish::models::ltx2 {

namespace {

constexpr const char* kClass = "LTX2VideoTransformer3DModel";

Source find_dit(const ModelFiles& files) { return find_transformer(files, kMark, kClass, {kOriginalMark, original_keys, kConnectorNames}); }

std::string words_of_transformer(const Source& dit) {
  if (!dit.tensors) return "";
  const auto config = read_named(dit, detect);
  return fmt::format("{} transformer ({} layers, width {}, {} names)", version_of(config), config.num_layers, config.frames.width(),
                     dit.names());
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto found = find_sources(one);
  const auto sound = find_sound(one), vocoder = find_vocoder(one);
  return words_of({{found.dit, words_of_transformer(found.dit)},
                   {found.text_encoder, "Gemma text encoder"},
                   {found.connectors, "LTX-2 connectors of texts"},
                   {found.vae, "LTX-2 autoencoder of frames"},
                   {sound, "LTX-2 autoencoder of sound"},
                   {vocoder, "LTX-2 vocoder"}});
}

/// The components of a version; 2.5 has another text encoder and 2.0 another autoencoder of frames, and connectors of its own.
std::vector<ModelEntry> published(const char* name, const Config& config, const text::GemmaConfig& encoder,
                                  const ConnectorsConfig& connectors, const AutoencoderConfig& autoencoder, const VocoderConfig& vocoder) {
  return {sizes_of<Transformer>(name, config),      sizes_of<text::GemmaEncoder>(name, encoder),   sizes_of<Connectors>(name, connectors),
          sizes_of<Autoencoder>(name, autoencoder), sizes_of<SoundAutoencoder, SoundConfig>(name), sizes_of<Vocoder>(name, vocoder)};
}

std::vector<ModelEntry> published_20() {
  return published("ltx-2", config_20(), {}, connectors_20(), autoencoder_config_20(), vocoder_config_20());
}
std::vector<ModelEntry> published_23() { return published("ltx-2.3", {}, {}, {}, {}, {}); }
std::vector<ModelEntry> published_25() { return published("ltx-2.5", config_25(), text::gemma4_12b(), {}, {}, {}); }

/// Drawings of 512 by 768 pixels, as the pipelines of diffusers have it.
constexpr UsualDrawing kUsual{.side = 640, .num_inference_steps = 40, .cfg_scale = 4};

std::vector<Option> own_options() {
  std::vector<Option> options{prompt_length_option(), tile_option()};
  for (const auto& more : {given_frames_options(), sound_loss_options()}) options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

LtxSources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_gemma(files, text_prefixes({"gemma3_12b", "gemma4_12b"})), find_connectors(files),
          ltx2::find_autoencoder(files)};
}

extern const Family kFamily{
    .name = "ltx2",
    // A stage that only encodes may come without the transformer; its autoencoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || ltx2::find_autoencoder(files).entry; },
    .open = open_as<Ltx2Model>,
    .describe = describe_entry,
    .options = own_options(),
    .reference_columns = {kFirstFrameColumn},
    .extra_inputs = {kSoundInput, kLastFrame, kKeyframes, kReferenceClip, kReferenceScale, kRowRate},
    .variants = {{"ltx-2", published_20, "LTX-2", "Lightricks/LTX-2", kUsual},
                 {"ltx-2.3", published_23, "LTX-2.3", "Lightricks/LTX-2.3", kUsual},
                 {"ltx-2.5", published_25, "LTX-2.5", "Lightricks/LTX-2.5", kUsual}},
    .license = {.name = "LTX-2 Community License Agreement",
                .link = "https://huggingface.co/Lightricks/LTX-2/blob/main/LICENSE",
                .notice =
                    "LTX-2 is under the LTX-2 Community License Agreement: companies above a yearly revenue that it names need a "
                    "commercial licence of Lightricks', and a LoRA is shared under its terms; its text encoder is under the Gemma Terms "
                    "of Use"},
};

}  // namespace burnish::models::ltx2
