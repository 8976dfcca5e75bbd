#pragma once
#include "adapters/attach.h"
#include "adapters/layout.h"
#include "io/checkpoint_files.h"

namespace burnish::adapters {

/// Makes the tensors of a file. Every layer has `.alpha`, with scale = alpha / rank; where diffusers would refuse that, its layout has the
/// scale multiplied into lora_B of LoRA instead. 16-bit dtypes keep magnitudes and alphas in fp32.
io::NamedTensors adapter_tensors(const AdaptedList& adapted, const LayerPrefixes& prefixes, c10::ScalarType dtype,
                                 Layout layout = Layout::automatic);

}  // namespace burnish::adapters
