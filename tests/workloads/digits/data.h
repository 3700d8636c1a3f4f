// The digits data set on the host.
#pragma once

#include <string>
#include <vector>

struct Images {
    std::vector<float> pixels;  // count x 64, scaled to about [-1, 1]
    std::vector<int> labels;
    int count() const { return static_cast<int>(labels.size()); }
};

struct Digits {
    Images train, test;
};

// Reads digits.csv.gz; exits with status 2 and one line when it is missing or broken. An empty path searches
// beside the program and in the source tree.
Digits load_digits(const std::string& path);
