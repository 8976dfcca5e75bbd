#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace burnish {

/// Splits a list of numbers by name into its entries: at commas outside brackets, without empty parts.
std::vector<std::string> split_numbers(std::string_view text);

/// Numbers for parts of something named by dotted paths, as users write them: a comma list of NAME=NUMBER. NAME is a path or the start of
/// one up to a dot ("text_encoder"), or else a regular expression for a whole path (".*attn.*"); commas within brackets belong to it. Of
/// several entries that fit the last one counts.
class NumbersByName {
 public:
  /// Reads `text`. A config Error of `room` about `option` for what is no such list, a malformed expression, or a number out of its range.
  NumbersByName(const char* room, std::string option, std::string_view text, double least = 0,
                double most = std::numeric_limits<double>::infinity());

  bool empty() const { return entries_.empty(); }
  std::optional<double> find(const std::string& path) { return find(std::vector{path}); }
  /// Finds the number of something that goes by several paths.
  std::optional<double> find(const std::vector<std::string>& paths);
  /// Throws a config Error for an entry that nothing asked for so far fitted; `among` says what could have been: "that trains".
  void check_all_fitted(std::string_view among = "that trains") const;

 private:
  struct Entry {
    std::string name;
    std::function<bool(const std::string&)> fits;
    double number = 0;
    bool fitted = false;
  };
  const char* room_;
  std::string option_;
  std::vector<Entry> entries_;
};

}  // namespace burnish
