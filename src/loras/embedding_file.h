#pragma once
#include <map>

#include "io/safetensors.h"
#include "models/registry.h"

namespace burnish::loras {

/// The key of a file's metadata that says the word whose vectors it holds.
inline const std::string kEmbeddingKey = "embedding_token";
/// The text before a word and a name in a LoRA file that holds vectors of words too: "bundle_emb.<cat>.clip_l".
inline const std::string kBundled = "bundle_emb.";

/// The ways in which files name the vectors of a word. Those of several encoders have the encoders' names everywhere ("clip_l", "clip_g",
/// "t5").
enum class EmbeddingLayout {
  a1111,       ///< of a single encoder "emb_params", as AUTOMATIC1111's WebUI and ComfyUI have them
  onetrainer,  ///< of a single encoder "emp_params", as OneTrainer spells it
  diffusers,   ///< of a single encoder the word itself
};
EmbeddingLayout parse_embedding_layout(std::string_view name);

/// A file with vectors of words, and what the only word in it is to be called, or which of several words is taken; "": all, as the file
/// says.
struct EmbeddingFile {
  std::string path;
  std::string word = {};
};

/// Reads "file" or "file:word"; what follows the last colon of an existing file's name belongs to the name.
EmbeddingFile parse_embedding_file(const std::string& text);

/// The ending that the name of states has behind the name of vectors.
inline const std::string kStatesEnding = "_out";

/// A tensor of a file with vectors of words.
struct WordTensor {
  std::string tensor;  ///< its name in the file
  std::string word;    ///< the word
  std::string name;    ///< what is left of it: "clip_l", or "" where a file of one encoder says none
  bool are_states = false;
};

/// Lists the tensors of words in a file of any layout, or those that are bundled in a LoRA file; none where it holds none. A word is what
/// metadata say, else names of tensors, else the name of the file without its ending, as WebUI has it.
std::vector<WordTensor> word_tensors(const io::TensorSource& source, const std::string& path);

/// Leaves of a file's tensors those of the word that it names: all of them, called so, where they are of one word, else those of that word.
/// Throws a data Error where it is none of several.
void take_word(std::vector<WordTensor>& tensors, const EmbeddingFile& file);

/// Words by the text encoders that know them.
using WordsByEncoder = std::map<std::string, std::vector<models::Word>>;

/// Reads the words of a file (word_tensors, take_word). Throws a data Error for a file without
/// any, and for vectors of an encoder that the model has not, or of another width.
WordsByEncoder read_words(const models::Model& model, const EmbeddingFile& file);

/// Has the model's text encoders know the words of all files. Throws a config Error where two files have one word.
void give_words(models::Model& model, const std::vector<EmbeddingFile>& files);

/// Returns the name that vectors of a word have in a file of a single encoder.
std::string single_name(const std::string& word, EmbeddingLayout layout);
/// Return the name that a file of this layout, or a LoRA file, has for the vectors of a word.
std::string tensor_name(const models::Model& model, const std::string& encoder, const std::string& word, EmbeddingLayout layout);
std::string bundled_name(const models::Model& model, const std::string& encoder, const std::string& word);

/// Lists the text encoders of a model that learn words and whose files are there.
std::vector<std::string> word_encoders(const models::Model& model);

}  // namespace burnish::loras
