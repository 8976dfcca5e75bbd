#pragma once
#include "optim/parameter.h"
#include "train/subject/settings.h"

namespace burnish::train {

/// Has the text encoders of the model know the word that trains, and returns the names of those whose vectors train; none where none does.
/// `components` are those that training runs. Throws a config Error where the model has no encoder that learns words, or another than is
/// named.
std::vector<std::string> give_word(const WordSettings& settings, models::Model& model, const std::vector<std::string>& components);

/// The name of the parameter that the word's vectors of an encoder are: "text_encoder.embeddings.token_embedding.added", and of states
/// "words.text_encoder".
std::string word_parameter(const WordSettings& settings, const models::Model& model, const std::string& encoder);

/// The vectors of a word in loaded text encoders, which take gradients.
class TrainedWord {
 public:
  /// The encoders know the word (give_word); those whose own vectors train are loaded. Vectors that come from no file begin as those of the
  /// tokens of `settings.init`, and states as what the encoder makes of it, which is loaded for that.
  TrainedWord(const WordSettings& settings, const std::vector<std::string>& encoders, models::Model& model);

  /// A trained tensor, and what a file calls it.
  struct Vectors {
    std::string encoder;
    at::Tensor values_NE;
    double norm = 0;  ///< the median norm of the rows of the encoder's token table
  };
  const std::vector<Vectors>& vectors() const { return vectors_; }
  /// Brings every vector to the median norm of its encoder's token table (OneTrainer: preserve_embedding_norm).
  void keep_norms() const;

 private:
  static void begin(const WordSettings& settings, models::Model& model, Vectors& vectors);
  std::vector<Vectors> vectors_;
};

}  // namespace burnish::train
