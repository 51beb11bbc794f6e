// What these tests share: files in a folder of their own, and errors as values.
#pragma once

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/spec.h"
#include "system/temp_folder.h"

namespace kiln::tools {

// A folder that holds the files of one test.
class Files {
  public:
    std::string path(const std::string &name) const { return folder_.path() + "/" + name; }
    const std::string &folder() const { return folder_.path(); }

    std::string write(const std::string &name, const std::string &content) const {
        std::ofstream(path(name), std::ios::binary) << content;
        return path(name);
    }

  private:
    TempFolder folder_;
};

// The message of the Error that `act` throws; "" if it throws none.
inline std::string error_of(const std::function<void()> &act) {
    try {
        act();
    } catch (const Error &error) {
        return error.what();
    }
    return "";
}

}  // namespace kiln::tools
