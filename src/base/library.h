#pragma once
#include <filesystem>
#include <string>

namespace burnish {

/// A shared library that is opened while the program runs, since few runs need it and every start would wait for it
/// (docs/decisions/0042).
class Library {
 public:
  /// `file`: a path, or a name that the system looks for.
  explicit Library(const std::string& file);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool is_open() const { return handle_ != nullptr; }
  /// Says why the library is not open, in the system's words; "" when it is.
  const std::string& problem() const { return problem_; }

  /// An address that becomes a pointer to whatever function it is put into.
  struct Found {
    void* address;
    template <typename Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address);
    }
  };
  /// A function of the library or of those that it is linked to: null where it is not open, std::logic_error where it has none of that
  /// name.
  Found find(const char* function) const;

 private:
  void* handle_;
  std::string problem_;
};

/// The path of our own libburnish_<name>.so, which lies beside the program.
std::filesystem::path companion(const std::string& name);

}  // namespace burnish
