#include "tests/softgpu/ptx/lexer.h"

#include <bit>
#include <charconv>
#include <cstdlib>

#include "tests/softgpu/ptx/ast.h"

namespace softgpu::ptx {
namespace {

bool word_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' || c == '.';
}
bool digit(char c) {
    return c >= '0' && c <= '9';
}
bool word_char(char c) {
    return word_start(c) || digit(c);
}
bool hex_digit(char c) {
    return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Lexer {
  public:
    explicit Lexer(const std::string& text) : p_(text.data()), end_(text.data() + text.size()) {}

    std::vector<Token> run() {
        for (;;) {
            skip();
            if (p_ >= end_ || *p_ == 0) break;
            next();
        }
        Token last;
        last.line = line_;
        tokens_.push_back(last);
        return std::move(tokens_);
    }

  private:
    char at(int n) const { return p_ + n < end_ ? p_[n] : 0; }

    void skip() {
        while (p_ < end_) {
            if (*p_ == '\n') {
                ++line_, ++p_;
            } else if (*p_ == ' ' || *p_ == '\t' || *p_ == '\r') {
                ++p_;
            } else if (*p_ == '/' && at(1) == '/') {
                while (p_ < end_ && *p_ != '\n') ++p_;
            } else if (*p_ == '/' && at(1) == '*') {
                p_ += 2;
                while (p_ < end_ && !(*p_ == '*' && at(1) == '/')) {
                    if (*p_ == '\n') ++line_;
                    ++p_;
                }
                p_ += p_ < end_ ? 2 : 0;
            } else {
                return;
            }
        }
    }

    Token& push(Token::Kind kind, const char* from) {
        Token token;
        token.kind = kind;
        token.line = line_;
        token.text = std::string_view(from, static_cast<std::size_t>(p_ - from));
        tokens_.push_back(token);
        return tokens_.back();
    }

    void next() {
        const char* from = p_;
        if (digit(*p_)) return number();
        if (*p_ == '"') {
            for (++p_; p_ < end_ && *p_ != '"'; ++p_) {
                if (*p_ == '\\') ++p_;
                if (p_ < end_ && *p_ == '\n') ++line_;
            }
            if (p_ >= end_) fail(line_, "unterminated string");
            ++p_;
            Token& token = push(Token::string, from);
            token.text = token.text.substr(1, token.text.size() - 2);
            return;
        }
        if (word_start(*p_)) {
            // Directives end at the next dot: ".reg.b16" is two words.
            bool directive = *p_ == '.';
            ++p_;
            while (p_ < end_ && !(directive && *p_ == '.') &&
                   (word_char(*p_) || (*p_ == ':' && at(1) == ':' && word_char(at(2))))) {
                p_ += *p_ == ':' ? 2 : 1;
            }
            push(Token::word, from);
            return;
        }
        ++p_;
        push(Token::punct, from).symbol = *from;
    }

    void number() {
        const char* from = p_;
        char kind = at(1);
        if (*p_ == '0' && (kind == 'f' || kind == 'F' || kind == 'd' || kind == 'D') && hex_digit(at(2))) {
            p_ += 2;
            std::uint64_t value = hex(16);
            bool single = kind == 'f' || kind == 'F';
            push(single ? Token::float32 : Token::float64, from).value = value;
            return;
        }
        if (*p_ == '0' && (kind == 'x' || kind == 'X')) {
            p_ += 2;
            integer(from, hex(16));
            return;
        }
        if (*p_ == '0' && (kind == 'b' || kind == 'B')) {
            p_ += 2;
            std::uint64_t value = 0;
            for (; at(0) == '0' || at(0) == '1'; ++p_)
                value = value * 2 + static_cast<std::uint64_t>(*p_ - '0');
            integer(from, value);
            return;
        }
        const char* q = p_;
        while (q < end_ && digit(*q)) ++q;
        if (q < end_ && (*q == 'e' || *q == 'E' || (*q == '.' && q + 1 < end_ && digit(q[1])))) {
            char* stop = nullptr;
            double value = std::strtod(p_, &stop);  // the text is NUL-terminated: it lies in a std::string
            p_ = stop;
            push(Token::float64, from).value = std::bit_cast<std::uint64_t>(value);
            return;
        }
        std::uint64_t value = 0;
        bool octal = *p_ == '0' && q - p_ > 1;
        auto [stop, error] = std::from_chars(p_, q, value, octal ? 8 : 10);
        if (error != std::errc() || stop != q) fail(line_, "bad number '" + std::string(p_, q) + "'");
        p_ = q;
        integer(from, value);
    }

    void integer(const char* from, std::uint64_t value) {
        if (at(0) == 'U' || at(0) == 'u') ++p_;
        push(Token::integer, from).value = value;
    }

    std::uint64_t hex(int most) {
        std::uint64_t value = 0;
        int n = 0;
        for (; hex_digit(at(0)); ++p_, ++n) {
            char c = *p_;
            int d = digit(c) ? c - '0' : (c | 32) - 'a' + 10;
            value = value * 16 + static_cast<std::uint64_t>(d);
        }
        if (n == 0 || n > most) fail(line_, "bad hexadecimal number");
        return value;
    }

    const char* p_;
    const char* end_;
    int line_ = 1;
    std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const std::string& text) {
    return Lexer(text).run();
}

}  // namespace softgpu::ptx
