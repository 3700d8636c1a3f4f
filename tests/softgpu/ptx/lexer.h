// PTX tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu::ptx {

struct Token {
    enum Kind : std::uint8_t { end, word, integer, float32, float64, string, punct };
    Kind kind = end;
    char symbol = 0;
    int line = 0;
    std::uint64_t value = 0;  ///< integer value or float bits
    std::string_view text;    ///< the source text (words keep their dots: "ld.global.u32", "%tid.x", ".reg")
};

/// The whole text as tokens, ended by Token::end. The views point into `text`. Comments are dropped.
std::vector<Token> tokenize(const std::string& text);

}  // namespace softgpu::ptx
