#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace burnish::hub {

/// A hub that models come from.
enum class Source { huggingface, modelscope };

/// Settings of hubs in the environment, by the variables of huggingface_hub, modelscope and DiffSynth-Studio.
struct Settings {
  std::optional<Source> source;  ///< DIFFSYNTH_DOWNLOAD_SOURCE
  std::string offline;  ///< the variable that forbids to ask (HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE, DIFFSYNTH_SKIP_DOWNLOAD), or ""
  std::filesystem::path model_base;         ///< DIFFSYNTH_MODEL_BASE_PATH, ./models without it
  std::string huggingface_endpoint;         ///< HF_ENDPOINT
  std::string huggingface_token;            ///< HF_TOKEN, or what `hf auth login` left below HF_HOME
  std::filesystem::path huggingface_cache;  ///< HF_HUB_CACHE, or `hub` below HF_HOME
  std::string modelscope_endpoint;          ///< MODELSCOPE_ENDPOINT, or MODELSCOPE_DOMAIN
  std::string modelscope_token;             ///< MODELSCOPE_API_TOKEN
  std::filesystem::path modelscope_cache;   ///< MODELSCOPE_CACHE
  double timeout = 30;                      ///< seconds without a byte that end a connection: HF_HUB_DOWNLOAD_TIMEOUT
};

/// Reads them; a config Error for a value that none of those programs knows.
Settings settings_from_environment();

}  // namespace burnish::hub
