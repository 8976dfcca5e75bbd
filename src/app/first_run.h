#pragma once
#include "app/seen_pictures.h"
#include "app/start_model.h"
#include "train/options/train_options.h"

namespace burnish::app {

/// The answers from which the settings of a first run are made.
struct FirstRunAnswers {
  SeenPictures pictures = {};
  StartModel model = {};
  std::string tokenizer_path = {}, tokenizer_2_path = {};
  std::string subject = {};         ///< words for what is learned; "" where captions say all
  std::string memory = {};          ///< "16GB" of a card, "cpu", or "": what this machine's GPU has
  std::string output = "run.toml";  ///< the file of settings
};

/// A first run that fits.
struct FirstRun {
  train::TrainOptions options;            ///< as a plan takes them, file names seen from the current folder
  std::vector<std::string> planned = {};  ///< names of options that make it fit
  std::string takes = {};                 ///< what it takes of which memory
};

/// Throws config Errors for words that no caption can hold, and where pictures lack captions for which they are to stand.
void check_subject(const std::string& subject, const SeenPictures& pictures);
/// Returns the memory of a card as options say it: a bare number is one of GB, "16" becomes "16GB". Throws a config Error for what is no
/// size, nor "cpu".
std::string parse_memory(const char* verb, const std::string& text);

/// Returns the options behind a command with which any machine plans for this memory; "" for its own.
std::string flags_for(const std::string& memory);

/// Plans a LoRA by what is known of the answers: of usual rank and rate, with steps by the number of pictures, at the size at which the
/// model is drawn, and with the options that cost least speed to fit (train::advise); where nothing fits, with fewer layers or smaller
/// pictures. Throws an Error with Exit::no_fit where that is not enough either.
FirstRun plan_first_run(const FirstRunAnswers& answers);

}  // namespace burnish::app
