#include "models/families/wan/hearing.h"

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"

namespace burnish::models::wan {

namespace {

constexpr const char* kProcessor = "audio_processor_path";

/// Reads what preprocessor_config.json says of sounds; without one they are normalized.
bool normalizes(const ModelFiles& files, const ModelEntry& encoder, const std::string& chosen) {
  const char* name = "preprocessor_config.json";
  const auto path = chosen.empty() ? encoder.folder / name : find_tokenizer(files, chosen, "").value_or(chosen) / name;
  if (!io::is_there(path) && chosen.empty()) return true;
  if (!io::is_there(path)) data_error("models", "the {} {} holds no {}; name the folder that has it", kProcessor, chosen, name);
  return naming(path.string(), [&] {
    const auto json = io::read_json(path);
    int64_t rate = kSoundRate;
    bool does = true;
    io::take(json, "sampling_rate", rate, kProcessor);
    io::take(json, "do_normalize", does, kProcessor);
    if (rate != kSoundRate)
      data_error("models", "sounds are of {} samples a second there, and {} were expected, as wav2vec2 hears them", rate, kSoundRate);
    return does;
  });
}

}  // namespace

Option audio_processor_option() {
  return {.name = kProcessor,
          .help = "folder of the sound encoder's preprocessor_config.json, where it is not beside the encoder",
          .otherwise = std::string(),
          .elsewhere = "it is of Wan-S2V and InfiniteTalk, leave it out"};
}

void refuse_audio_processor(const ModelOptions& options) {
  if (!options.get<std::string>(kProcessor).empty())
    config_error("models", "{} is not supported for this model; it is of Wan-S2V and InfiniteTalk, leave it out", kProcessor);
}

void Hearing::read(const ModelOptions& options, const ModelFiles& files, const Source& source) {
  source_ = source;
  if (!is_there()) return;
  normalizes_ = normalizes(files, *source.entry, options.get<std::string>(kProcessor));
  config_ = read_named(source, wav2vec2_config);
}

NamedRecipe Hearing::component() const {
  auto recipe = wav2vec2_recipe(kAudioEncoder, source_, config_);
  recipe.settings = [does = normalizes_](const std::string&) { return does ? "sounds normalized" : "sounds as they are"; };
  return {recipe, wav2vec2_names(kAudioEncoder)};
}

at::Tensor Hearing::states(Wav2Vec2& encoder, const at::Tensor& sound, c10::ScalarType dtype, int64_t num_steps) const {
  return encoder.states((normalizes_ ? heard(sound) : sound).to(dtype), num_steps);
}

}  // namespace burnish::models::wan
