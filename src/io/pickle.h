#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::io {

/// A value of a pickle. A class or function is never looked up and never called: it stays a name, and what the pickle would have called it
/// with stays a list of arguments.
struct PickleValue {
  enum class Kind { none, boolean, integer, real, text, bytes, list, tuple, dict, set, global, object, persistent, mark };
  Kind kind = Kind::none;
  int64_t integer = 0;  ///< the value of a boolean or integer
  double real = 0;
  std::string text;  ///< the value of a text or bytes; "module name" of a global
  /// list, tuple, set: the items; dict: key, value, key, value, ...; object: the class or function, then its arguments;
  /// persistent: the id, as one item.
  std::vector<const PickleValue*> items;
  const PickleValue* state = nullptr;  ///< the value that an object was to be set to after it was made

  /// Finds the value under a text key of a dict, or of an object that is an OrderedDict; null when there is none.
  const PickleValue* get(std::string_view key) const;
  bool is_text(std::string_view expected) const { return kind == Kind::text && text == expected; }
  /// Tells whether an object is made by "module name".
  bool is_made_by(std::string_view global) const;
};

/// A parsed pickle, which owns its values: they may be shared among each other, and may even contain themselves.
class Pickle {
 public:
  /// Parses protocols 0 to 5. Names of classes and functions are allowed only where `allows` says so ("module name"). A data Error
  /// names `file` and what is wrong: an unknown or unsupported instruction, a name that is not allowed, bytes that end early.
  static Pickle parse(std::string_view bytes, std::string_view file, const std::function<bool(const std::string& global)>& allows);
  const PickleValue& root() const { return *root_; }
  /// The number of bytes that belong to the pickle.
  size_t num_bytes() const { return num_bytes_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace burnish::io
