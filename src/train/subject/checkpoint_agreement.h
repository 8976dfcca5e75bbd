#pragma once
#include "adapters/attach.h"

namespace burnish::train {

/// A LoRA file that training starts from decides type, rank and alpha. A config Error where options contradict what it has: those with
/// another value than their default, and those whose names are among `given`.
void check_agreement(const adapters::AdapterOptions& options, const std::vector<std::string>& given,
                     const std::vector<adapters::AdapterWeights>& weights, const std::string& file);

/// The same of the layers that `lora_target_modules` names.
void check_same_layers(const std::vector<std::string>& named, const std::vector<std::string>& in_file, const std::string& component,
                       const std::string& file);

}  // namespace burnish::train
