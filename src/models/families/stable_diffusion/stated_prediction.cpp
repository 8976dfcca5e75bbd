#include "models/families/stable_diffusion/stated_prediction.h"

#include "base/input_error.h"

namespace burnish::models::stable_diffusion {

namespace {

constexpr const char *kType = "modelspec.prediction_type", *kZeroTerminal = "zero_terminal_snr";

std::string said(const ModelEntry& entry, const char* key) {
  for (const auto& file : entry.tensors->files()) {
    if (auto it = file->metadata().find(key); it != file->metadata().end()) return it->second;
  }
  return "";
}

[[noreturn]] void refuse(const ModelEntry& entry, const std::string& what) {
  data_error("models", "{} says that it predicts {}, which is not trained here; epsilon and v_prediction are", entry.label, what);
}

/// Reads a prediction in the words of ModelSpec, "epsilon" and "v", or of diffusers.
std::string prediction_called(const std::string& word, const ModelEntry& entry) {
  if (word.empty() || word == "epsilon" || word == "eps") return word.empty() ? "" : "epsilon";
  if (word == "v" || word == "v_prediction" || word == "v-prediction" || word == "v_pred") return "v_prediction";
  refuse(entry, "'" + word + "' (modelspec.prediction_type)");
}

}  // namespace

// Facts: ComfyUI's supported_models.py (v_pred, ztsnr, edm_mean, edm_vpred.sigma_max), ModelSpec 1.0.1.
StatedPrediction stated_prediction(const ModelEntry& entry) {
  auto has = [&](const char* mark) { return entry.tensors->contains(mark); };
  for (const char* mark : {"edm_mean", "edm_vpred.sigma_max"}) {
    if (has(mark)) refuse(entry, std::string("at the noise levels of EDM ('") + mark + "')");
  }
  const bool is_marked = has("v_pred");
  return {.type = is_marked ? "v_prediction" : prediction_called(said(entry, kType), entry),
          .zero_terminal_snr = has("ztsnr") || said(entry, kZeroTerminal) == "True"};
}

std::map<std::string, std::string> words_of_prediction(bool is_velocity, bool zero_terminal_snr) {
  std::map<std::string, std::string> words;
  if (is_velocity) words[kType] = "v";
  if (zero_terminal_snr) words[kZeroTerminal] = "True";
  return words;
}

}  // namespace burnish::models::stable_diffusion
