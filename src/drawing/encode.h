#pragma once
#include <functional>
#include <map>
#include <optional>

#include "drawing/picture.h"
#include "loras/loader.h"
#include "models/family.h"

namespace burnish::drawing {

/// What a model's units make of prompts: by prompt, the values that the denoiser reads of it.
using Encoded = std::map<std::string, pipeline::Values>;

/// Encodes every prompt that drawing the pictures takes, negative ones of guided pictures included: each distinct one once, and unit by
/// unit, so that one unit's models are loaded at a time. `goes_on` is asked before each prompt; nothing when it says no.
std::optional<Encoded> encode(loras::Loader& loader, const std::vector<Picture>& pictures, const std::function<bool()>& goes_on = {});

/// The values of several prompts as a batch, joined along the first dimension in their order.
pipeline::Values stack_prompts(const models::Model& model, const Encoded& encoded, const std::vector<std::string>& prompts);

/// `positive` with the prompt values of a negative prompt in place of its own.
pipeline::Values negative_of(const models::Model& model, const Encoded& encoded, const std::string& prompt,
                             const pipeline::Values& positive);

/// What the model's units make of a picture's size, for a batch of `count`: that of a picture which was not cut. None where the denoiser
/// reads nothing of it.
pipeline::Values encode_size(const pipeline::Units& units, const Picture& picture, int64_t count, c10::Device device);

}  // namespace burnish::drawing
