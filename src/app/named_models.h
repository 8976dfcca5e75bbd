#pragma once
#include <string>
#include <vector>

namespace burnish::app {

/// Refuses, with what to name in its place, what people name as a model and is none: the name of a published one, which is for plans alone,
/// and a LoRA. `verb` is who asks; `for_lora` says what a LoRA is named with there: "draw with it by --model MODEL --lora {0}".
void check_models(const char* verb, const std::vector<std::string>& models, const std::string& for_lora);

}  // namespace burnish::app
