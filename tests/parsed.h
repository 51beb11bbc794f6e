// A problem from its text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kiln/problem.h"

namespace kiln {

inline Problem parsed(const std::string &text) {
    Problem problem;
    const Status status = parse(text, &problem);
    EXPECT_TRUE(status.ok()) << status.message();
    return problem;
}

}  // namespace kiln
