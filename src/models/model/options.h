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
/// An option that some families have and others have not, of which every verb that runs a model makes a flag; or an option of a training
/// objective.
struct Option {
  std::string name, help;
  OptionValue otherwise;  ///< its value when it is not given, and with that its type
  std::string elsewhere;  ///< what to do instead when a model without this option is given it; "" where such a model leaves it unread
  /// Returns a sentence about a value that no model can take and choices and range do not exclude; "" for other values.
  std::string (*why_wrong)(const std::string& name, const OptionValue& value) = nullptr;
  std::vector<std::string> choices = {};        ///< the words that a text may be; none: any
  std::optional<double> least = {}, most = {};  ///< range of a number
  /// The part of a model that the option is about, which decides when it counts in a run and what may set it.
  enum class About { model, references, prompts, tile_size, guidance } about = About::model;
  std::optional<OptionValue> when_drawing = {};  ///< its value when it is not given and pictures are drawn to be looked at; none: otherwise
};

/// The values of options, by their names.
class OptionValues {
 public:
  OptionValues() = default;
  /// Takes values that are asked for.
  OptionValues(std::initializer_list<std::pair<const std::string, OptionValue>> values);
  /// Takes the values that these options have when none is given.
  explicit OptionValues(const std::vector<Option>& options);

  /// Adds an option that is not there at the value that it has when none is given. Of one that is there, families may draw with values of
  /// their own: it has `option`'s, unless it was asked for.
  void add(const Option& option);
  void set(const std::string& name, OptionValue value);
  /// Says that somebody asked for the value that an option has; for names that are no option's nothing happens.
  void ask(const std::string& name);
  /// Has every option begin with its value for drawing: nobody asked for it, and pictures are drawn with no other.
  void begin_with_drawing();

  /// Returns the value of an option that is there.
  const OptionValue& at(const std::string& name) const { return entries_.at(name).value; }
  OptionValue& at(const std::string& name) { return entries_.at(name).value; }
  template <class T>
  const T& get(const std::string& name) const {
    return std::get<T>(at(name));
  }
  /// Returns the value with which pictures are drawn to be looked at.
  template <class T>
  const T& get_for_drawing(const std::string& name) const {
    const auto& entry = entries_.at(name);
    return std::get<T>(entry.when_drawing ? *entry.when_drawing : entry.value);
  }
  /// Tells whether it is there, and another than it has when none is given.
  bool is_given(const Option& option) const;
  size_t size() const { return entries_.size(); }

 private:
  struct OptionState {
    OptionValue value = {};
    std::optional<OptionValue> otherwise = {};     ///< value when none is given; nothing while the option itself is not known
    std::optional<OptionValue> when_drawing = {};  ///< value for drawing; nothing: `value`
    bool is_asked = false;
  };
  std::map<std::string, OptionState> entries_;
};

/// Says whether units read reference pictures (Family::reference_columns).
struct ReferencesRead {
  ReferencesRead(bool any = false) : are_read(any) {}
  /// Takes the column that a run names for them, "" for none.
  explicit ReferencesRead(std::string named) : are_read(!named.empty()), column(std::move(named)) {}
  operator bool() const { return are_read; }

  bool are_read;
  std::string column = {};  ///< "" also where they are read and no column is named, as when drawing
};

/// The options that a run has for a model beyond its files.
struct ModelOptions {
  c10::ScalarType dtype = c10::ScalarType::BFloat16;  ///< dtype of the denoiser and the text encoders; autoencoders stay fp32
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::string tokenizer_path = {}, tokenizer_2_path = {};  ///< folders; "" takes those beside the model
  std::string latents = "mean";                            ///< mean of the autoencoder's distribution, or "sample": drawn at every visit
  std::string init = "pretrained";                         ///< "random" builds the denoiser from its config.json and a seed
  uint64_t seed = 0;
  ReferencesRead references = {};
  std::set<std::string> extra_inputs = {};  ///< further columns that its units read (Family::extra_inputs)
  OptionValues own = {};  ///< values of options that families declare; open_model fills in missing ones of the model's family

  template <class T>
  const T& get(const std::string& name) const {
    return own.get<T>(name);
  }
  /// Returns the value for units that draw pictures to be looked at (UnitGroups::draw).
  template <class T>
  const T& get_for_drawing(const std::string& name) const {
    return own.get_for_drawing<T>(name);
  }
};

}  // namespace burnish::models
