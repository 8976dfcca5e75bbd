#pragma once
#include "adapters/attach.h"

namespace burnish::train {

/// A LoRA file that training starts from decides type, rank and alpha. Throws a config Error where options contradict the file: options
/// with another value than their default, and options whose names are among `given`.
void check_agreement(const adapters::AdapterOptions& options, const std::vector<std::string>& given,
                     const std::vector<adapters::AdapterWeights>& weights, const std::string& file);

/// Throws a config Error where `lora_target_modules` names other layers than the LoRA file has.
void check_same_layers(const std::vector<std::string>& named, const std::vector<std::string>& in_file, const std::string& component,
                       const std::string& file);

}  // namespace burnish::train
