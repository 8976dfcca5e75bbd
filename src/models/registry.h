#pragma once
#include "models/model/family.h"

// The families of this program, and what they know together.
namespace burnish::models {

/// Returns the families of this program; families from add_family come first.
std::vector<const Family*> all_families();
/// Makes a family known that is not in families.txt, as a program beside burnish may; to be called before any model is opened.
void add_family(const Family& family);

/// Opens the files of a run (open_files); a name may be that of a published model of any family.
ModelFiles open_model_files(const ModelNames& names);

/// Tells whether a component, as an option names it, predicts in a model of some family; others run beside the denoiser.
bool is_denoiser(const std::string& component);

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
Columns extra_inputs();
/// Says what reads a further column of that name, in all families: "Wan-S2V or MiniMax-H3's sound".
std::string readers_of(const std::string& column);

/// The first returns the names of published models, the second opens one without files: names and sizes alone. Null for another name.
std::vector<std::string> published_models();
std::unique_ptr<Model> open_published_model(const std::string& name);
/// Finds a published model by its name or its id on Hugging Face; null for another name.
const Variant* find_published(const std::string& name_or_id);
/// Returns the first published model of the kind of an open one; null where none is.
const Variant* published_of_kind(const Model& model);

/// Makes what programs read beside an open model's weights (Family::companion_files).
CompanionFiles companion_files(const Model& model);
/// Returns the vocabulary of a component for a file of its own (Family::vocabulary_beside).
std::optional<std::filesystem::path> vocabulary_beside(const Model& model, const std::string& component);

/// Opens the model behind `files` with the family that recognises it; a data Error lists the families when none does. Throws a config Error
/// for an option that the family does not have.
std::unique_ptr<Model> open_model(const ModelFiles& files, ModelOptions options);

}  // namespace burnish::models
