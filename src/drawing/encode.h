#pragma once
#include <functional>
#include <map>
#include <optional>

#include "drawing/picture.h"
#include "loras/loader.h"
#include "models/registry.h"

namespace burnish::drawing {

/// The inputs that a picture is drawn from beside its prompt.
struct Given {
  std::vector<std::string> references;  ///< files
  /// The area in pixels down to which larger reference pictures are scaled, as when training (data::target_size); 0 where the model scales
  /// them.
  int64_t max_pixels = 0;
  std::map<std::string, std::vector<std::string>> inputs = {};  ///< see Picture
  Extent extent = {};                                           ///< extent of the picture, where there are inputs
  double frame_rate = 0;                                        ///< frames a second of a clip beside which inputs are seen and heard
  std::vector<double> strengths = {};                           ///< of LoRAs, where they change what reads these inputs
  auto operator<=>(const Given&) const = default;
};

/// A prompt, with what else is given where the model reads the prompt beside it.
struct Told {
  std::string prompt;
  Given given = {};
  std::vector<double> strengths = {};  ///< of LoRAs, where they change what reads prompts
  auto operator<=>(const Told&) const = default;
};
/// Puts a prompt of a picture together with what else is given where the model reads the prompt beside it.
Told told(models::Model& model, const Picture& picture, const std::string& prompt);

/// Values that a model's units make of what pictures are drawn from, which the denoiser reads.
struct Encoded {
  std::map<Told, pipeline::Values> prompts;
  std::map<Given, pipeline::Values> given;  ///< none where the model reads nothing beside prompts
};

/// Encodes every prompt that drawing the pictures takes, negative ones of guided pictures included, and what else they are drawn from: each
/// distinct one once, and unit by unit, so that one unit's models are loaded at a time. `goes_on` is asked before each prompt; nothing when
/// it says no. A data Error for a picture that cannot be read, before a model is loaded.
std::optional<Encoded> encode(loras::Loader& loader, const std::vector<Picture>& pictures, const std::function<bool()>& goes_on = {});

/// The values of several prompts as a batch, joined along the first dimension in their order.
pipeline::Values stack_prompts(const models::Model& model, const Encoded& encoded, const std::vector<Told>& prompts);

/// Tells whether guidance leads away from negative prompts; models are that predict what it leads away from without one.
bool guides_by_prompts(models::Model& model);

/// Returns `positive` with the prompt values of a negative prompt in place of its own.
pipeline::Values negative_of(const models::Model& model, const Encoded& encoded, const Told& prompt, const pipeline::Values& positive);

/// Stacks what units made of a picture's inputs beside its prompt, for a batch of `count`. None where the model reads no such thing.
pipeline::Values stack_given(models::Model& model, const Encoded& encoded, const Picture& picture, int64_t count);

/// Returns the frames a second of a picture.
double rate_of(const models::Model& model, const Picture& picture);

/// Runs the model's units on a picture's size, for a batch of `count`, as that of a picture which was not cut. None where the denoiser
/// reads nothing of it.
pipeline::Values encode_size(const pipeline::Units& units, const Picture& picture, int64_t count, c10::Device device);

}  // namespace burnish::drawing
