#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/table.h"

namespace burnish::foreign {

/// Reads a file that settings name, one of .txt as a text; null when it is not there.
using Open = std::function<Value(const std::string& path)>;

/// One of a program's datasets.
struct Dataset {
  std::string name;              ///< as messages have it: "datasets[1].folder_path"
  Value settings;                ///< the program's, as its table has them
  Value ours = Value::object();  ///< keys that only a dataset_config has: loss_weight, is_reg
};

/// What a program has a dataset for, and the folder that it names.
struct DatasetUse {
  std::string folder;  ///< "": none
  bool of_clips = false;
};

/// Has datasets that name one folder, some for its pictures and some for its clips, take these alone. `use_of` says it of each.
void part_by_media(std::vector<Dataset>& datasets, const std::function<DatasetUse(const Dataset&)>& use_of);

/// A file that one of our options names, of tables that are written into it.
struct OptionFile {
  std::string option;  ///< "concept_config"
  std::string list;    ///< what its tables are called, and the file: "concepts"
  std::string tables;  ///< as TOML, behind a comment
  std::string from;    ///< name of theirs that they come from

  void add_table() { tables += "\n[[" + list + "]]\n"; }
  /// Sets a key of the table that was added last.
  void set(const std::string& key, const Value& value) { tables += key + " = " + value.dump() + "\n"; }
};

/// Settings in the form that a program's table is written for.
struct Arranged {
  Value tree;
  bool whole = true;                          ///< settings of a run, not of its data alone
  std::vector<std::string> not_carried = {};  ///< "name = value: why"
  std::string prompts = "";                   ///< of previews, a line each, with their flags
  std::string prompts_from = "";              ///< name of theirs that the prompts come from
  std::vector<OptionFile> option_files = {};  ///< what is written into files beside the settings
  std::vector<Dataset> datasets = {};         ///< all of them, where one table cannot hold them; the first is in the tree
  Value without_datasets = Value::object();   ///< the tree as it is without the first
  std::string dataset_key = "";               ///< name in the tree that a dataset lies under; "" for the tree itself
};

/// A program, other than this one, whose settings can be read.
struct Program {
  std::string word;                       ///< word for --from
  std::string title;                      ///< title by which people call it
  bool (*recognises)(const Value& tree);  ///< tells its settings by a name that it alone has
  Arranged (*arrange)(Value tree, const Open& open);
  Table (*table)();
  bool (*may_be)(const Value& tree) = nullptr;  ///< tells settings that may be its own by names that others have as well; null: none
  /// Tells whether settings say in so many words that all weights train; null for a program that says it by naming no network.
  bool (*says_whole)(const Settings& all) = nullptr;
};

// Each in a file of its own.
Program kohya();
Program musubi();
Program onetrainer();
Program ai_toolkit();
Program diffusion_pipe();
Program diffusers();
Program leco();
Program accelerate();
Program simpletuner();

/// Lists all programs, in the order in which they are asked.
std::vector<Program> programs();

/// Tells which of our optimizers the settings ask for; "" for one that is not there.
using OptimizerOf = std::function<std::string(const Settings&)>;

/// The optimizers of sd-scripts and of what grew from it.
OptimizerOf kohya_optimizer();

/// The options that sd-scripts and what grew from it share: training, optimizer, schedule, saving. `flows` says of which kind the model is.
Table kohya_training(bool (*flows)(const Settings&));

/// Reads fp32, bf16 or fp16 as a run's dtype; models that flow, and weights that train, are not held in fp16 (`too_narrow`).
Outcome dtype_of_run(const std::string& bits, bool too_narrow);

/// Names in a program's tree: of a class set and of the caption of its pictures; and those of a dataset's folder and caption.
struct ClassSetKey {
  const char* key = nullptr;  ///< null for a program whose datasets are never one
  const char* folder = nullptr;
  const char* caption_key = nullptr;
  const char* caption = nullptr;
};

/// Keeps all datasets in `arranged` where one is not enough, and returns the settings of the first that is learned. One class set (`is_reg`
/// in `ours`) is also in the tree, beside it.
Value first_of(std::vector<Dataset> datasets, Arranged& arranged, const ClassSetKey& of_class = {});

/// Returns the settings of a --config_file of sd-scripts or musubi-tuner, whose sections are headings only.
Value without_sections(const Value& tree);

/// Tells whether they name a script of these without a network in its name, which trains a model itself.
bool script_trains_whole(const Settings& all);

/// Reads "a=1" entries of an argument list as an object.
Value named_arguments(const Value& list);

/// Computes 1 - share, without the last digits that a difference of fractions leaves.
double rest_of(double share);

/// A list of whole numbers, or a text like "1024,768", as numbers; one number stands for both sides.
std::vector<int64_t> sides_of(const Value& resolution);

/// Rows that turn an area or a size of pictures into max_pixels, or height and width where `fixed` says so.
std::vector<SettingRow> size_rows(const std::string& theirs, std::function<bool(const Settings&)> fixed);

/// A sentence: why a model, or training, of another kind than burnish has is not carried.
extern const char* const kAnotherKind;

/// Tells it of what `theirs` names, but for `known` kinds (in small letters; "zimage_*" is all that begin so).
SettingRow kind_row(const std::string& theirs, std::vector<std::string> known);

/// A sentence: why reference pictures of a folder of their own are not carried.
extern const char* const kNameReferences;

/// The ending of caption files, whose point may be left out.
SettingRow caption_ending_row(const std::string& theirs);

/// Carries the name of a dataset on Hugging Face as its address, and that of a folder which is there as it is.
Outcome dataset_of_hub(const Value& value, const Settings& all);

/// One caption for samples that have none, where the program is given one.
Outcome given_caption(const Value& value, const Settings& all);

/// A sentence: an optimizer that is not there.
extern const char* const kNoOptimizer;
/// A note on Automagic of another version than the one that is here.
extern const char* const kThirdAutomagic;

/// A rate, decay or other number, unless its optimizer is not carried, for it would say something else to another.
Convert of_optimizer(OptimizerOf optimizer, Convert convert);

/// Rows of an optimizer's weight decay: the given, or what the program's optimizer takes, which is often 0.
SettingRow weight_decay_row(const std::string& theirs, OptimizerOf optimizer);

/// Rows of the numbers of all optimizers, which are called `prefix` and their own name: looked at where the optimizer has them.
std::vector<SettingRow> optimizer_number_rows(const std::string& prefix, OptimizerOf optimizer);

/// The numbers among them that are given, and `others` where they are not, as optimizer_args has them.
Outcome optimizer_numbers(const std::string& optimizer, const std::string& prefix, const Settings& all,
                          const std::map<std::string, std::string>& others = {});

/// Notes what is different of a warm-up of theirs, whose first step has the rate 0: nothing for none.
std::string note_on_warmup(double num_steps);

/// Carries a number of batches that are accumulated, with a note on what is different: theirs begin anew in every epoch.
Outcome accumulated(const Value& value, const Settings& all);

/// Tells the kind of model that a file or folder holds, as far as it is there and can be told: sd15, sdxl, flux or "".
std::string kind_of_model(const std::string& path);

}  // namespace burnish::foreign
