#pragma once

namespace burnish {

/// Keeps log lines back while it lives, but for errors, where work is done for its outcome alone.
class QuietLog {
 public:
  QuietLog();
  ~QuietLog();
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  int level_;
};

}  // namespace burnish
