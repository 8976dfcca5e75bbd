#pragma once
#include <string>
#include <utility>
#include <vector>

namespace burnish::optim {

/// An optimizer's own numbers as users write them: a comma list of key=value, as sd-scripts' --optimizer_args has them ("beta1=0.9",
/// "betas=0.9,0.99", "relative_step=True"). Each rule takes the keys it knows; what nobody took is refused.
class Arguments {
 public:
  /// Reads `text`. A config Error for an entry without a key, a value or with a key that was there before. `optimizer` is for messages.
  Arguments(std::string optimizer, const std::string& text);

  /// Puts the value of a key where it belongs, when it was given. A config Error for one of another kind or outside [least, below).
  void take(const std::string& key, double& value, double least, double below);
  void take(const std::string& key, int64_t& value, int64_t least);
  void take(const std::string& key, bool& value);
  void take(const std::string& key, std::string& value, const std::vector<std::string>& choices);
  /// Takes beta1 and beta2, or "betas" with both, all in [0, 1).
  void take_betas(double& beta1, double& beta2);

  /// Throws a config Error for a key that nobody took; it names the nearest that is known and lists them.
  void finish() const;

 private:
  struct Entry {
    std::string key, value;
    bool taken = false;
  };
  /// The text given for a key, or null.
  const std::string* find(const std::string& key);
  double number(const std::string& key, const std::string& text) const;

  std::string optimizer_;
  std::vector<Entry> entries_;
  std::vector<std::string> known_;
};

}  // namespace burnish::optim
