#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace burnish::config {

/// One option of a verb: its name on the command line (`--name`, dashes work too) and in TOML, and where its value lives.
struct Field {
  using Slot = std::variant<std::string*, int64_t*, double*, bool*, std::vector<std::string>*>;
  std::string group, name;
  Slot slot;
  std::string doc;
  std::vector<std::string> aliases;
};

/// Lists a struct's fields once, for the command line, TOML, --help and the resolved config alike:
///   void fields(Fields& f, Options& o) { f.group("Model"); f("dtype", o.dtype, "fp32 or bf16"); }
class Fields {
 public:
  void group(std::string name) { group_ = std::move(name); }
  void operator()(std::string name, Field::Slot slot, std::string doc, std::vector<std::string> aliases = {}) {
    list_.push_back({group_, std::move(name), slot, std::move(doc), std::move(aliases)});
  }
  template <class T>
  void operator()(std::string name, T& value, std::string doc, std::vector<std::string> aliases = {}) {
    (*this)(std::move(name), Field::Slot(&value), std::move(doc), std::move(aliases));
  }
  const std::vector<Field>& list() const { return list_; }
  std::vector<std::string> names() const;

 private:
  std::string group_;
  std::vector<Field> list_;
};

/// Reads a TOML file into the fields. An unknown key or a value of another kind is a config Error with the nearest name.
void read_toml(const std::string& path, const Fields& fields);

/// The values as TOML, grouped, each with its doc as a comment.
std::string to_toml(const Fields& fields);

/// What parsing a command line came to.
struct Parsed {
  bool help = false;
  std::string help_text;
};

/// Reads `args` (without program and verb) into the fields: first the TOML file named by --config, then the options, which win.
/// An unknown option or a malformed value is a config Error.
Parsed read_command_line(const std::string& verb, const std::string& summary, const std::vector<std::string>& args, const Fields& fields);

}  // namespace burnish::config
