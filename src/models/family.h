#pragma once
#include <string_view>

#include "models/extra_input.h"
#include "models/model.h"
#include "models/open_files.h"

namespace burnish::models {

/// A published model by its name alone: for what reads no weights.
struct Variant {
  std::string_view name;                 ///< "flux-dev"
  std::vector<ModelEntry> (*entries)();  ///< its components, each by sizes_of
};

/// What the files of a module (on the meta device) would say of themselves.
ModelEntry sizes_of(std::string_view variant, nn::Module& module);
/// What those of a `Module` of this configuration would say.
template <class Module, class Config>
ModelEntry sizes_of(std::string_view variant, const Config& config = {}) {
  Module module(config, at::TensorOptions().device(at::kMeta));
  return sizes_of(variant, module);
}

/// A Family::open of a class of models.
template <class OfFamily>
std::unique_ptr<Model> open_as(const ModelFiles& files, const ModelOptions& options) {
  return std::make_unique<OfFamily>(files, options);
}

/// Everything the rest of the program may know about a model family.
struct Family {
  std::string_view name;  ///< folder name
  bool (*recognises)(const ModelFiles&);
  std::unique_ptr<Model> (*open)(const ModelFiles&, const ModelOptions&);
  /// What a single weight set is, in a few words ("FLUX.1-dev transformer, BFL names"), or "".
  std::string (*describe)(const ModelEntry&);
  std::vector<Option> options = {};  ///< that it has beside those of every model
  /// Of metadata, that name the reference pictures it can be told to read: each is another model's of the family. None where it reads none.
  std::vector<std::string_view> reference_columns = {};
  std::vector<ExtraInput> extra_inputs = {};  ///< further columns that it can be told to read
  bool takes_fp16 = false;                    ///< whether its numbers stay within fp16
  std::vector<Variant> variants = {};
};

/// The families of this program, those that were added first.
std::vector<const Family*> all_families();
/// Makes a family known that is not in registry.cpp, as a program beside burnish may; before any model is opened.
void add_family(const Family& family);

/// Opens the files of a run (open_files); a name may be that of a published model of any family.
ModelFiles open_model_files(const ModelNames& names);

/// The options that families declare, those of one name once.
std::vector<Option> family_options();
/// The names of those that are about the same.
std::vector<std::string> options_about(Option::About about);
/// Their values when none is given.
OptionValues default_options();

/// The columns in which families find reference pictures, each once.
std::vector<std::string> reference_columns();
/// The further columns that families read, those of one name once.
std::vector<ExtraInput> extra_inputs();
/// That of this column; null where no family reads it.
const ExtraInput* find_extra_input(const std::vector<ExtraInput>& inputs, const std::string& column);

/// The names of the published models, and one of them without files: names and sizes alone. Null for another name.
std::vector<std::string> published_models();
std::unique_ptr<Model> open_published_model(const std::string& name);

/// Opens the model behind `files` with the family that recognises it; a data Error lists the families when none does. A config Error for
/// an option that the family does not have.
std::unique_ptr<Model> open_model(const ModelFiles& files, ModelOptions options);

}  // namespace burnish::models
