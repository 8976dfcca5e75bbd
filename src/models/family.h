#pragma once
#include <string_view>

#include "models/extra_input.h"
#include "models/model.h"
#include "models/open_files.h"

namespace burnish::models {

/// Numbers by which models of a kind are usually drawn.
struct UsualDrawing {
  int64_t side = 1024;  ///< pixels: a picture has the area of a square of this side
  int64_t num_inference_steps = 28;
  double cfg_scale = 1;
};

/// A published model that is known by its name alone, for whoever reads no weights.
struct Variant {
  std::string_view name;                 ///< "flux-dev"
  std::vector<ModelEntry> (*entries)();  ///< makes its components, each by sizes_of
  std::string_view title = {};           ///< what models of its kind are called once they are open (Names::variant)
  std::string_view id = {};              ///< its id on Hugging Face
  UsualDrawing drawn = {};
};

/// Makes the entry of files that hold a module (on the meta device): names and shapes alone.
ModelEntry sizes_of(std::string_view variant, nn::Module& module);
/// Makes the entry of files that hold a `Module` of this configuration.
template <class Module, class Config>
ModelEntry sizes_of(std::string_view variant, const Config& config = {}) {
  Module module(config, at::TensorOptions().device(at::kMeta));
  return sizes_of(variant, module);
}

/// Opens a class of models, as Family::open does.
template <class OfFamily>
std::unique_ptr<Model> open_as(const ModelFiles& files, const ModelOptions& options) {
  return std::make_unique<OfFamily>(files, options);
}

/// Everything the rest of the program may know about a model family.
struct Family {
  std::string_view name;  ///< folder name
  bool (*recognises)(const ModelFiles&);
  std::unique_ptr<Model> (*open)(const ModelFiles&, const ModelOptions&);
  /// Says in a few words what a single weight set is ("FLUX.1-dev transformer, BFL names"), or "".
  std::string (*describe)(const ModelEntry&);
  std::vector<Option> options = {};  ///< options that it has beside those of every model
  /// Metadata columns of reference pictures that it can be told to read; each is another model's of the family. None where it reads none.
  std::vector<std::string_view> reference_columns = {};
  std::vector<ExtraInput> extra_inputs = {};  ///< further columns that it can be told to read
  bool takes_fp16 = false;                    ///< whether its numbers stay within fp16
  std::vector<Variant> variants = {};
};

/// Returns the families of this program; families from add_family come first.
std::vector<const Family*> all_families();
/// Makes a family known that is not in registry.cpp, as a program beside burnish may; to be called before any model is opened.
void add_family(const Family& family);

/// Opens the files of a run (open_files); a name may be that of a published model of any family.
ModelFiles open_model_files(const ModelNames& names);

/// Returns the options that families declare, those of one name once.
std::vector<Option> family_options();
/// Returns the names of the options that are about one thing.
std::vector<std::string> options_about(Option::About about);
/// Gives options that nobody asked for the values that they have in a model's family, with which it was opened.
void take_family_values(const Model& model, OptionValues& own);
/// Returns the values of families' options when none is given.
OptionValues default_options();

/// Returns the columns in which families find reference pictures, each once.
std::vector<std::string> reference_columns();
/// Returns the further columns that families read, those of one name once.
std::vector<ExtraInput> extra_inputs();
/// Returns the further input of this column; null where no family reads it.
const ExtraInput* find_extra_input(const std::vector<ExtraInput>& inputs, const std::string& column);

/// The first returns the names of published models, the second opens one without files: names and sizes alone. Null for another name.
std::vector<std::string> published_models();
std::unique_ptr<Model> open_published_model(const std::string& name);
/// Finds a published model by its name or its id on Hugging Face; null for another name.
const Variant* find_published(const std::string& name_or_id);
/// Returns the first published model of the kind of an open one; null where none is.
const Variant* published_of_kind(const Model& model);

/// Opens the model behind `files` with the family that recognises it; a data Error lists the families when none does. Throws a config Error
/// for an option that the family does not have.
std::unique_ptr<Model> open_model(const ModelFiles& files, ModelOptions options);

}  // namespace burnish::models
