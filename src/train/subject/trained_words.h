#pragma once
#include "optim/parameter.h"
#include "train/subject/settings.h"

namespace burnish::train {

/// A word whose vectors train, and the text encoders in which they do.
struct ChosenWord {
  WordSettings settings;  ///< with as many tokens as the word's file has vectors, where it begins with one
  std::vector<std::string> encoders;
};

/// Has the text encoders of the model know the words that train, and returns them in the order of the settings. `components` are those that
/// training runs. Throws a config Error where the model has no encoder that learns words, or another than is named, and where the file of a
/// word has no vectors for it.
std::vector<ChosenWord> choose_words(const WordsSettings& settings, models::Model& model, const std::vector<std::string>& components);

/// The name of the parameter that a word's vectors of an encoder are: "text_encoder.embeddings.token_embedding.added.<cat>", and of states
/// "words.text_encoder.<cat>".
std::string word_parameter(const WordSettings& word, const models::Model& model, const std::string& encoder);

/// The vectors of words in loaded text encoders, which take gradients.
class TrainedWords {
 public:
  /// The encoders know the words (choose_words); those whose own vectors train are loaded. Vectors that come from no file begin as those of
  /// the tokens of the word's `init`, and states as what the encoder makes of it, which is loaded for that.
  TrainedWords(const std::vector<ChosenWord>& words, bool keeps_norm, models::Model& model);

  /// A trained tensor.
  struct Vectors {
    size_t word;  ///< its number among the words
    std::string encoder;
    at::Tensor values_NE;
    double norm = 0;  ///< the median norm of the rows of the encoder's token table, which the rows are to have; 0: any
  };
  const std::vector<Vectors>& vectors() const { return vectors_; }
  /// Brings every vector to the median norm of its encoder's token table, where that is asked for (OneTrainer: preserve_embedding_norm).
  void keep_norms() const;

 private:
  static void begin(const WordSettings& word, models::Model& model, Vectors& vectors);
  std::vector<Vectors> vectors_;
};

}  // namespace burnish::train
