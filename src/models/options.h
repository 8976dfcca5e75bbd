#pragma once
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

namespace burnish::models {

/// The value of an option, of the type that the option has.
using OptionValue = std::variant<bool, int64_t, double, std::string>;
/// By the option's name.
using OptionValues = std::map<std::string, OptionValue>;

/// That of the option with this name, which must be there and of this type.
template <class T>
const T& value_of(const OptionValues& values, const std::string& name) {
  return std::get<T>(values.at(name));
}

/// An option that some families have and others have not, of which every verb that runs a model makes a flag; or one of a training
/// objective.
struct Option {
  std::string name, help;
  OptionValue otherwise;  ///< its value when it is not given, and with that its type
  std::string elsewhere;  ///< what to do instead when a model without this option is given it; "" where such a model leaves it unread
  /// A sentence about a value that no model can take; "" for the others.
  std::string (*why_wrong)(const std::string& name, const OptionValue& value) = nullptr;
  /// What of a model it is about, which decides when it counts in a run and what may set it.
  enum class About { model, references, prompts, tile_size, guidance } about = About::model;
  std::optional<OptionValue> when_drawing = {};  ///< its value when it is not given and pictures are drawn to be looked at; none: otherwise
};

/// An Option::why_wrong: whole numbers below 0.
std::string why_negative(const std::string& name, const OptionValue& value);

/// An Option::why_wrong: numbers of tokens below 0, or more than any prompt takes.
std::string why_no_token_count(const std::string& name, const OptionValue& value);

/// What a run asks of a model beyond its files.
struct ModelOptions {
  c10::ScalarType dtype = c10::ScalarType::BFloat16;  ///< of the denoiser and the text encoders; autoencoders stay fp32
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::string tokenizer_path = {}, tokenizer_2_path = {};  ///< folders; "" takes those beside the model
  std::string latents = "mean";                            ///< of the autoencoder's distribution, or "sample": drawn at every visit
  std::string init = "pretrained";                         ///< "random" builds the denoiser from its config.json and a seed
  uint64_t seed = 0;
  bool references = false;                  ///< whether its units read reference pictures (Family::reference_columns)
  std::set<std::string> extra_inputs = {};  ///< further columns that its units read (Family::extra_inputs)
  OptionValues own = {};  ///< of options that the families declare; open_model fills in those of the model's family that are missing
  /// Values of these that count as not given, where they are others than Option::otherwise: those of a verb that draws.
  OptionValues unset = {};
  OptionValues drawing = {};  ///< values of these where pictures are drawn to be looked at (UnitGroups::draw), if they are others there

  template <class T>
  const T& get(const std::string& name) const {
    return value_of<T>(own, name);
  }
  template <class T>
  const T& get_for_drawing(const std::string& name) const {
    auto other = drawing.find(name);
    return other == drawing.end() ? get<T>(name) : std::get<T>(other->second);
  }
};

}  // namespace burnish::models
