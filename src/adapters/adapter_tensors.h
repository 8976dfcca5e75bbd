#pragma once
#include <functional>

#include "adapters/attach.h"
#include "adapters/layout.h"
#include "io/checkpoint_files.h"

namespace burnish::adapters {

/// A tensor of a file, which is made when it is asked for: a device holds no second adapter then.
struct AdapterValue {
  io::TensorSpec spec;
  std::function<at::Tensor()> get;
};

/// Lists the tensors of a file, which have the numbers that an adapter has when they are asked for. Every layer has `.alpha`, with scale =
/// alpha / rank; where diffusers would refuse that, its layout has the scale multiplied into lora_B of LoRA instead. 16-bit dtypes keep
/// magnitudes and alphas in fp32.
std::vector<AdapterValue> adapter_values(const AdaptedList& adapted, const LayerPrefixes& prefixes, c10::ScalarType dtype,
                                         Layout layout = Layout::automatic);
/// Makes all of them.
io::NamedTensors adapter_tensors(const AdaptedList& adapted, const LayerPrefixes& prefixes, c10::ScalarType dtype,
                                 Layout layout = Layout::automatic);

}  // namespace burnish::adapters
