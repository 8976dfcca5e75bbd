#include "models/model/family.h"

#include <fmt/core.h>

#include <filesystem>

#include "models/families/minimax_h3/autoencoder.h"
#include "models/families/minimax_h3/keys.h"
#include "models/families/minimax_h3/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::minimax_h3 {

namespace {

/// Prefixes under which single files keep the text encoder: none, or those of ComfyUI's checkpoints.
const std::vector<std::string> kTextPrefixes{"", "text_encoders.qwen3vl_32b.transformer.", "text_encoders.qwen3vl_32b."};
/// Norms of queries: Qwen3 and Qwen3-VL.
constexpr const char* kTextMark = "self_attn.q_norm.weight";
/// Learned tokens of the decoder, in all files of the autoencoder of frames.
constexpr const char* kVaeMark = "decoder.register_tokens";
/// The folder of the transformer that reads references, which has the other one's tensors.
constexpr const char* kOfReferences = "transformer_ref";
/// How names of ComfyUI's files begin, and the prefix that some have before their tensors.
constexpr const char *kComfyName = "minimax_h3_", *kComfyPrefix = "model.diffusion_model.";
/// The beginning of names of DiffSynth-Studio's files.
constexpr const char* kDiffsynthName = "minimax-h3-";

bool is_original(const io::TensorSource& tensors) { return tensors.contains(kOriginalMark); }

Source find_in(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  auto found = find_transformer(one, {kMark, kOriginalMark}, "MiniMaxH3Transformer3DModel");
  if (!found.entry) return {};
  found.entry = &entry;
  if (!found.tensors || !is_original(*found.tensors)) return found;
  found.keys = original_keys();
  found.tensors = found.tensors->without({"rope."});  // which is computed
  return found;
}

/// Finds the transformer that makes clips of a text, or that of references; the other one where the files have but that.
Source find_dit(const ModelFiles& files, bool of_references = false) {
  Source other;
  for (const auto& entry : files.entries) {
    auto found = find_in(entry);
    if (!found.entry) continue;
    if ((entry.component == kOfReferences) == of_references) return found;
    if (!other.entry) other = found;
  }
  return other;
}

Source find_vae(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    auto tensors = find_below(entry, {"", "vae."}, kVaeMark);
    if (tensors) return {&entry, autoencoder_tensors(*tensors), autoencoder_keys(*tensors)};
  }
  return {};
}

std::string words_of_transformer(const Source& dit) {
  if (!dit.tensors) return "";
  const auto config = read_named(dit, detect);
  return fmt::format("MiniMax-H3 transformer ({} layers, width {}, {} names{})", config.num_layers, config.width,
                     is_original(*dit.tensors) ? "original" : "diffusers", config.time.is_table() ? ", pruned" : "");
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, vision, vae, sound] = find_sources(one);
  if (!dit.tensors && !vae.tensors && !sound.tensors) return "";  // the text encoder is further families'
  return words_of({{dit, words_of_transformer(dit)},
                   {text, "Qwen3-VL text encoder"},
                   {vae, "MiniMax-H3 autoencoder of frames"},
                   {sound, "MiniMax-H3 autoencoder of sound"}});
}

/// Returns the numbers of Qwen3-VL-32B's text part.
text::QwenConfig text_32b() {
  auto c = text::qwen3_vl_8b();
  c.width = 5120;
  c.hidden = 25600;
  c.num_layers = 64;
  c.num_heads = 64;
  return c;
}

std::vector<Option> own_options() {
  std::vector<Option> options{
      prompt_length_option(),
      {.name = kRowsOption,
       .help = "how rows of query, key and value lie in an original file of MiniMax-H3: by_part (ComfyUI's), by_head (MiniMax's "
               "own) or auto, which knows shards and ComfyUI's names, and asks for the others",
       .otherwise = std::string("auto"),
       .elsewhere = "it is of MiniMax-H3, leave it out",
       .choices = {"auto", "by_part", "by_head"}},
      {.name = kTilesOption,
       .help = "how MiniMax-H3's autoencoder takes pictures: released (tiles of 256 pixels that overlap by 64 or more) or whole",
       .otherwise = std::string("released"),
       .elsewhere = "it is of MiniMax-H3, leave it out",
       .choices = {"released", "whole"}}};
  for (auto& option : sound_options()) options.push_back(std::move(option));
  for (auto& option : given_options()) options.push_back(std::move(option));
  return options;
}

std::vector<ModelEntry> published() {
  const char* const name = "minimax-h3";
  auto seeing = text::qwen3_vl_8b_vision();
  seeing.out_width = text_32b().width;
  auto tower = sizes_of<text::Qwen3VlVision>(name, seeing);
  tower.tensors = tower.tensors->renamed([](const std::string& path) { return "visual." + path; });
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text_32b()), tower,
          sizes_of<Autoencoder, AutoencoderConfig>(name), sizes_of<SoundAutoencoder, SoundConfig>(name)};
}

}  // namespace

FusedRows rows_of(const Source& transformer) {
  if (transformer.tensors->files().size() > 1) return FusedRows::by_head;
  // A label is a path, or a repository and a path in it with a colon between.
  const auto& label = transformer.entry->label;
  const auto file = label.substr(label.find_last_of("/:") + 1);
  // DiffSynth-Studio's files in NF4 are made of MiniMax's, and pruned ones of ComfyUI's.
  if (file.starts_with(kDiffsynthName)) return file.find("pruned") == file.npos ? FusedRows::by_head : FusedRows::by_part;
  const bool is_comfy = file.starts_with(kComfyName) || transformer.entry->tensors->contains(std::string(kComfyPrefix) + kOriginalMark);
  return is_comfy ? FusedRows::by_part : FusedRows::unknown;
}

bool is_of_references(const Source& transformer) {
  if (!transformer.entry) return false;
  const auto& entry = *transformer.entry;
  // MiniMax's folder, and ComfyUI's and DiffSynth-Studio's files.
  const auto is_named = [](const std::string& name) { return name.find("Ref2VA") != name.npos || name.find("ref2va") != name.npos; };
  return entry.component == kOfReferences || is_named(entry.label) || is_named(entry.folder.string());
}

Sources find_sources(const ModelFiles& files, bool of_references) {
  return {find_dit(files, of_references), find_qwen(files, kTextPrefixes, kTextMark), find_vision_tower(files, kTextPrefixes),
          find_vae(files), find_sound(files)};
}

extern const Family kFamily{
    .name = "minimax_h3",
    // A stage that only encodes may come without the transformer; its autoencoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || find_vae(files).entry; },
    .open = open_as<MiniMaxH3Model>,
    .describe = describe_entry,
    .options = own_options(),
    .reference_columns = {kFirstFrameColumn, kReferencesColumn},
    .extra_inputs = {kSoundInput, kLastFrame},
    .variants = {{"minimax-h3", published, "MiniMax-H3", "MiniMaxAI/MiniMax-H3", {.num_inference_steps = 49}}},
    .not_supported = {{"MiniMax-H3-Image", "its last layer is six, one for each of its steps, and its autoencoder is another"}},
    .license = {.name = "MiniMax-H3 Community License",
                .link = "https://huggingface.co/MiniMaxAI/MiniMax-H3/blob/main/LICENSE",
                .notice =
                    "MiniMax-H3 is under the MiniMax-H3 Community License: without MiniMax's authorisation neither it nor what it draws "
                    "may be used or shared in the EU, the UK, the Republic of Korea and the USA, what it draws may train no other "
                    "model, and a LoRA is shared with the licence, a note of what was changed and the line of its NOTICE"},
};

}  // namespace burnish::models::minimax_h3
