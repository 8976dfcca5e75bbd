#pragma once
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace burnish::models {

/// The value of an option, of the type that the option has.
using OptionValue = std::variant<bool, int64_t, double, std::string>;
/// An option that some families have and others have not, of which every verb that runs a model makes a flag; or one of a training
/// objective.
struct Option {
  std::string name, help;
  OptionValue otherwise;  ///< its value when it is not given, and with that its type
  std::string elsewhere;  ///< what to do instead when a model without this option is given it; "" where such a model leaves it unread
  /// A sentence about a value that no model can take, and of which choices and range say nothing; "" for the others.
  std::string (*why_wrong)(const std::string& name, const OptionValue& value) = nullptr;
  std::vector<std::string> choices = {};        ///< the words that a text may be; none: any
  std::optional<double> least = {}, most = {};  ///< that a number may be
  /// What of a model it is about, which decides when it counts in a run and what may set it.
  enum class About { model, references, prompts, tile_size, guidance } about = About::model;
  std::optional<OptionValue> when_drawing = {};  ///< its value when it is not given and pictures are drawn to be looked at; none: otherwise
};

/// What options are set to, by their names.
class OptionValues {
 public:
  OptionValues() = default;
  /// Values that are asked for.
  OptionValues(std::initializer_list<std::pair<const std::string, OptionValue>> values);
  /// Of these options, the values that they have when none is given.
  explicit OptionValues(const std::vector<Option>& options);

  /// Adds an option that is not there at the value that it has when none is given.
  void add(const Option& option);
  void set(const std::string& name, OptionValue value) { entries_[name].value = std::move(value); }
  /// Has every option begin with its value for drawing: it is what nobody asked for, and pictures are drawn with no other.
  void begin_with_drawing();

  /// The value of an option that is there.
  const OptionValue& at(const std::string& name) const { return entries_.at(name).value; }
  OptionValue& at(const std::string& name) { return entries_.at(name).value; }
  template <class T>
  const T& get(const std::string& name) const {
    return std::get<T>(at(name));
  }
  /// That with which pictures are drawn to be looked at.
  template <class T>
  const T& get_for_drawing(const std::string& name) const {
    const auto& entry = entries_.at(name);
    return std::get<T>(entry.when_drawing ? *entry.when_drawing : entry.value);
  }
  /// Whether it is there, and another than it has when none is given.
  bool is_given(const Option& option) const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    OptionValue value = {};
    std::optional<OptionValue> otherwise = {};     ///< when none is given; nothing while the option itself is not known
    std::optional<OptionValue> when_drawing = {};  ///< nothing: the value
  };
  std::map<std::string, Entry> entries_;
};

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

  template <class T>
  const T& get(const std::string& name) const {
    return own.get<T>(name);
  }
  /// Of units that draw pictures to be looked at (UnitGroups::draw).
  template <class T>
  const T& get_for_drawing(const std::string& name) const {
    return own.get_for_drawing<T>(name);
  }
};

}  // namespace burnish::models
