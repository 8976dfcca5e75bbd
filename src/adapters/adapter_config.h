#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/pattern.h"

namespace burnish::adapters {

/// The files of an adapter.
struct AdapterPlace {
  std::filesystem::path tensors;
  std::filesystem::path config;  ///< peft's adapter_config.json beside them; empty without one
  /// Lists both files, or the tensors alone.
  std::vector<std::filesystem::path> files() const;
};

/// Finds the files of an adapter in a path: a file, a folder that peft's save_pretrained wrote (adapter_model.safetensors or .bin), or one
/// that diffusers wrote (pytorch_lora_weights.safetensors). A data Error for a folder that holds none of them.
AdapterPlace find_adapter(const std::filesystem::path& path);

/// Settings of one layer's adapter, which are said beside its tensors.
struct LayerConfig {
  int64_t rank = 0;
  double alpha = 0;
  bool use_rslora = false;
  bool use_dora = false;
  /// Computes alpha / rank, or alpha / √rank under rslora.
  double scale() const;
};

/// Settings by which peft turns the numbers of an OFT into a rotation.
struct OftConfig {
  std::optional<int64_t> num_terms = 5;  ///< terms of the series that approximates the rotation; none: exactly
  std::optional<double> eps = {};        ///< largest ‖Q‖ of a block times √blocks; none: no limit
};

/// The settings of peft's adapters that are kept beside their tensors, in `adapter_config.json` or, below the name of each component
/// ("transformer.lora_alpha"), in the `lora_adapter_metadata` of a file's header, where diffusers has them
/// (diffusers/loaders/lora_base.py; peft/utils/other.py for how patterns match).
class AdapterConfigs {
 public:
  /// Reads the settings; none, where neither is there. A data Error for settings that cannot be read, and for weights that are relative to
  /// a base that peft changed when training began (PiSSA, OLoRA, CorDA, LoftQ).
  AdapterConfigs(const AdapterPlace& place, const std::map<std::string, std::string>& metadata);

  /// Finds the settings of a layer by its name in the file; nothing where none of the settings is about it.
  std::optional<LayerConfig> find(const std::string& layer) const;
  /// Finds the OFT settings of a layer; peft's defaults where nothing is said.
  OftConfig oft(const std::string& layer) const;
  /// Ranks in a block of LyCORIS' DyLoRA, whose scale is alpha over the number of blocks; nothing for files that are none. They look like
  /// LoRA but for what sd-scripts writes in the header.
  std::optional<int64_t> dylora_block() const { return dylora_block_; }

 private:
  /// A number that settings give to the layers that a pattern fits.
  struct PatternNumber {
    std::string text;
    Pattern end_of_name;  ///< the text as a regular expression for a whole name, or for its end after a dot
    double number = 0;
  };
  struct Config {
    LayerConfig all;
    OftConfig oft;
    std::vector<PatternNumber> ranks, alphas;
  };
  Config parse(const nlohmann::json& json) const;
  static std::vector<PatternNumber> patterns(const nlohmann::json& json, const char* name);
  static std::optional<double> matched(const std::vector<PatternNumber>& patterns, const std::string& name);

  /// The settings that a layer belongs to, and its name without the component's; null without any.
  std::pair<const Config*, std::string> of(const std::string& layer) const;
  void read_network_args(const std::map<std::string, std::string>& metadata);

  std::string file_;
  std::optional<int64_t> dylora_block_;
  std::map<std::string, Config> by_component_;  ///< "" for whatever has no other
};

}  // namespace burnish::adapters
