#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/chroma/keys.h"
#include "models/families/chroma/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::chroma {

namespace {

const auto kTextPrefixes = text_prefixes({"t5xxl"});
/// What makes all modulation: of its kin, Chroma alone has it.
constexpr const char* kMark = "distilled_guidance_layer.in_proj.weight";

Source find_dit(const ModelFiles& files) {
  auto found = find_transformer(files, {kMark}, "ChromaTransformer2DModel");
  found.is_original = found.tensors && found.tensors->contains("img_in.weight");
  if (found.is_original) found.keys = original_keys();
  return found;
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, vae] = find_sources(one);
  if (!dit.tensors) return "";
  auto config = read_named(dit, detect);
  auto transformer = fmt::format("Chroma transformer ({} double and {} single blocks, width {}, {} names)", config.num_double_blocks,
                                 config.num_single_blocks, config.width(), dit.names());
  return words_of({{dit, transformer}, {text, "T5 encoder"}, {vae, "KL autoencoder"}});
}

std::vector<ModelEntry> published() {
  return {sizes_of<Transformer, Config>("chroma"), sizes_of<text::T5Encoder, text::T5Config>("chroma"),
          sizes_of<vae::AutoencoderKL, vae::KlConfig>("chroma")};
}

}  // namespace

Sources find_sources(const ModelFiles& files) { return {find_dit(files), find_t5(files, kTextPrefixes), find_autoencoder(files)}; }

extern const Family kFamily{
    .name = "chroma",
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry != nullptr; },
    .open = open_as<ChromaModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option()},
    .variants = {{"chroma", published, "Chroma", "lodestones/Chroma1-HD", {.cfg_scale = 5}}},
};

}  // namespace burnish::models::chroma
