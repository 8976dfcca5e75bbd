#include "models/model/family.h"

#include <fmt/core.h>

#include <filesystem>

#include "models/families/ideogram4/keys.h"
#include "models/families/ideogram4/model.h"
#include "models/families/ideogram4/statistics.h"
#include "models/parts/find_components.h"

namespace burnish::models::ideogram4 {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen3vl_8b"});
/// The table that tells tokens of texts from a picture's, in all files; and a layer by which original files are known.
constexpr const char *kMark = "embed_image_indicator.weight", *kOriginalMark = "layers.0.attention.qkv.weight";
/// The folder of a pipeline, and a word in the names of single files, of the transformer without a text.
constexpr const char *kAwayFolder = "unconditional_transformer", *kAwayWord = "uncond";

/// Makes the source of a transformer with the keys of its names.
Source with_keys(const ModelEntry& entry, const std::optional<io::TensorSource>& tensors) {
  const bool is_original = tensors && tensors->contains(kOriginalMark);
  return {&entry, tensors, is_original ? original_keys() : io::KeyMap(), is_original};
}

Source find_in(const ModelEntry& entry) {
  const auto found = find_transformer({{entry}, {}}, {kMark}, "Ideogram4Transformer2DModel");
  return found.entry ? with_keys(entry, found.tensors) : Source{};
}

bool is_called_away(const ModelEntry& entry) {
  const std::filesystem::path name(entry.label);
  const auto of_file = name.parent_path().filename().string() + "/" + name.filename().string();
  return entry.component == kAwayFolder || of_file.find(kAwayWord) != of_file.npos;
}

/// Finds both transformers. Where no name tells two files apart, the one with a text is first.
void find_transformers(const ModelFiles& files, Sources& sources) {
  auto keep_first = [](Source& slot, const Source& found) {
    if (!slot.entry) slot = found;
  };
  for (const auto& entry : files.entries) {
    if (auto tensors = find_below(entry, {kAwayInSingleFile}, kMark)) keep_first(sources.away, with_keys(entry, tensors));
    auto found = find_in(entry);
    if (!found.entry) continue;
    const bool is_second_file = entry.in_model.empty() && sources.dit.entry;
    keep_first(is_called_away(entry) || is_second_file ? sources.away : sources.dit, found);
  }
}

/// Tells whether these are the files of a stage that only encodes, which may come without the transformers: the text encoder is another
/// family's too, and so is the autoencoder, but for the order of its statistics.
bool only_encode(const ModelFiles& files) {
  const auto vae = find_patch_autoencoder(files);
  return vae.entry && !vae.entry->is_sizes && find_qwen3_vl(files, kTextPrefixes).entry &&
         goes_by_pixel(vae::mean_of_latents(*vae.tensors));
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, away, text, vae] = find_sources(one);
  if (!dit.tensors && !away.tensors) return "";  // the other components are further families'
  auto words = [](const Source& source, const char* what) {
    const auto config = source.tensors ? read_named(source, detect) : Config{};
    return fmt::format("Ideogram 4 {} ({} layers, width {}, {} names)", what, config.num_layers, config.width, source.names());
  };
  return words_of({{dit, words(dit, "transformer")},
                   {away, words(away, "transformer without a text")},
                   {text, "Qwen3-VL text encoder"},
                   {vae, "KL autoencoder of patches"}});
}

std::vector<ModelEntry> published() {
  const char* const name = "ideogram-4";
  auto away = sizes_of<Transformer, Config>(name);
  away.component = kAwayFolder;
  return {sizes_of<Transformer, Config>(name), away, sizes_of<text::QwenEncoder>(name, text::qwen3_vl_8b()),
          sizes_of<vae::PatchAutoencoder, vae::PatchConfig>(name)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  Sources sources;
  find_transformers(files, sources);
  sources.text_encoder = find_qwen(files, kTextPrefixes, kQwen3Mark);
  sources.vae = find_patch_autoencoder(files);
  return sources;
}

extern const Family kFamily{
    .name = "ideogram4",
    .recognises =
        [](const ModelFiles& files) {
          return files.find([](const ModelEntry& entry) { return find_in(entry).entry != nullptr; }) != nullptr || only_encode(files);
        },
    .open = open_as<Ideogram4Model>,
    .describe = describe_entry,
    .options = {prompt_length_option(),
                tile_option(),
                {.name = kLastScale,
                 .help = "guidance of the last steps of Ideogram 4, one in sixteen, where cfg_scale is above it; 0: that of all steps",
                 .otherwise = 3.0,
                 .elsewhere = "it is of Ideogram 4, leave it out",
                 .least = 0}},
    .denoisers = {"dit", "unconditional_transformer"},
    .variants = {{"ideogram-4", published, "Ideogram 4", "ideogram-ai/ideogram-4-fp8", {.num_inference_steps = 48, .cfg_scale = 7}}},
};

}  // namespace burnish::models::ideogram4
