#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hub/settings.h"
#include "hub/transport.h"

namespace burnish::hub {

/// A file as a hub lists it.
struct RemoteFile {
  std::string path;           ///< below the model's folder, with slashes; never outside it
  int64_t size = -1;          ///< -1 where the hub does not say
  std::string sha256 = {};    ///< SHA-256 of the content; "" where the hub does not say
  std::string git_hash = {};  ///< git's name of the content (SHA-1 of a blob; of the pointer for files in LFS), or ""
  std::string tag = {};       ///< what tells versions of it apart, where there are no hashes: its ETag; or ""
};

/// The files of a model at one commit.
struct Listing {
  std::string commit;
  std::vector<RemoteFile> files;
};

/// A hub: its address and the words in which it answers. One for each hub; nothing is asked before `list`.
class Hub {
 public:
  virtual ~Hub() = default;
  virtual Source source() const = 0;
  virtual std::string name() const = 0;
  virtual std::string endpoint() const = 0;
  virtual const char* endpoint_variable() const = 0;
  virtual const char* token_variable() const = 0;
  virtual bool has_token() const = 0;
  /// Names the revision whose files it lists.
  virtual std::string revision() const = 0;
  /// Asks for the files of a model, by its id ("author/model").
  virtual Listing list(const Transport& transport, const std::string& id) const = 0;
  /// Makes the request for a file.
  virtual Request request(const std::string& id, const std::string& commit, const std::string& path) const = 0;

  /// Throws the data Error for an answer that is not good, to the question for a model ("") or a file; after Ctrl-C, that of an
  /// interruption.
  [[noreturn]] virtual void refuse(const Answer& answer, const std::string& id, const std::string& path) const;
};

std::unique_ptr<Hub> make_huggingface(const Settings& settings, std::string revision = "main");
std::unique_ptr<Hub> make_modelscope(const Settings& settings);
std::unique_ptr<Hub> make_hub(Source source, const Settings& settings);

/// Throws the Error of an interruption after Ctrl-C.
void check_interrupt();

/// Tells whether a text can be the id of a model on a hub: "author/model".
bool is_model_id(const std::string& text);

/// Tells whether a repository is a dataset, whose id here is "datasets/author/name", as Hugging Face's addresses have it.
bool is_dataset_id(const std::string& id);

/// Tells whether a path that a hub lists stays below the model's folder.
bool is_safe_path(const std::string& path);

/// The digits in lower case; "" unless the text is that many hexadecimal digits. Hashes and commits become names of files.
std::string hexadecimal(std::string text, size_t num_digits);

/// Spells a text for an address: all but letters, digits, "-._~" and `kept` as %XX.
std::string url_encoded(const std::string& text, const std::string& kept = "");

}  // namespace burnish::hub
