#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/column.h"
#include "models/files/open_files.h"
#include "models/model/companion_files.h"
#include "models/model/model.h"
#include "models/model/not_supported.h"

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

/// A licence that binds who uses a family's weights, where it asks for more than to be named; empty where it does not.
struct License {
  std::string_view name, link = {};
  std::string_view notice = {};  ///< says in a line or two what it asks of those who train, draw and share
};

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
  Columns extra_inputs = {};                          ///< further columns that it can be told to read
  std::vector<std::string_view> denoisers = {"dit"};  ///< components that predict, of any of its models
  bool takes_fp16 = false;                            ///< whether its numbers stay within fp16
  std::vector<Variant> variants = {};
  std::vector<NotSupported> not_supported = {};  ///< published models that look like its own
  /// Makes what programs read beside the weights, of families that can; a data Error where the files leave open which published model they
  /// are, and these differ.
  CompanionFiles (*companion_files)(const Model&) = [](const Model&) { return CompanionFiles{}; };
  /// Returns the vocabulary that programs look for among a component's tensors in one file; nothing where they look for none, or none lies
  /// beside the weights.
  std::optional<std::filesystem::path> (*vocabulary_beside)(const Model&, const std::string& component) =
      [](const Model&, const std::string&) { return std::optional<std::filesystem::path>(); };
  License license = {};  ///< is told when a model is opened, and stands in adapters and their cards
};

}  // namespace burnish::models
