#pragma once
#include <c10/core/ScalarType.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/pickle.h"

namespace burnish::io {

/// The place of a tensor in a file that torch.save wrote.
struct PthTensor {
  c10::ScalarType dtype;
  std::vector<int64_t> shape, strides;  ///< strides in numbers, not bytes
  uint64_t begin = 0, end = 0;          ///< bytes of the file that it reaches over
};

/// The class of modules that are dictionaries of parameters, as the first files of textual inversion have one.
inline const char* const kParameterDict = "torch.nn.modules.container ParameterDict";

/// The directory and the pickle of a zip archive that torch.save wrote (torch 1.6 and later). The pickle is read by io::Pickle, which runs
/// nothing; names beyond tensors and plain data are refused, but for a few classes that ecosystem files carry along (pictures, numpy
/// scalars, callbacks), which stay closed.
class PthHeader {
 public:
  /// Reads the header. A data Error names `file` and what is wrong: not a zip archive, compressed or encrypted entries, no data.pkl, a
  /// pickle that is damaged or asks for other classes, big-endian numbers.
  static PthHeader parse(std::string_view bytes, std::string_view file);

  const PickleValue& root() const { return pickle_.root(); }
  static bool is_tensor(const PickleValue& value);
  /// Finds a tensor. A data Error when its storage is not in the file or too short.
  PthTensor tensor(const PickleValue& value) const;
  /// Throws a data Error when the bytes of a tensor's storage do not have the checksum (CRC-32) that the archive gives.
  void verify(const PickleValue& tensor, std::string_view bytes) const;

 private:
  struct ArchiveMember {
    uint64_t begin = 0, end = 0;  ///< bytes of the file
    uint32_t crc32 = 0;
  };
  void read_directory(std::string_view bytes);
  void add_entry(std::string_view bytes, std::string_view central, size_t name_length, size_t extra_length);
  const ArchiveMember& storage(const PickleValue& tensor, c10::ScalarType& dtype) const;
  std::string file_, prefix_;
  std::map<std::string, ArchiveMember> entries_;
  Pickle pickle_;
};

}  // namespace burnish::io
