// Recursive-descent PTX parser; module level in parser.cpp, function bodies in parser_body.cpp.
#pragma once

#include "tests/softgpu/ptx/ast.h"
#include "tests/softgpu/ptx/lexer.h"

namespace softgpu::ptx {

class Parser {
  public:
    explicit Parser(const std::string& text) : tokens_(tokenize(text)) {}
    std::unique_ptr<ModuleAst> run();

  private:
    struct Linkage {
        bool visible = false, external = false, weak = false, common = false;
    };
    /// Names of one `{ }` scope. "%r<5>" makes a family: the prefix and how many.
    struct Scope {
        std::unordered_map<std::string, int> registers;
        std::unordered_map<std::string, std::pair<int, int>> families;  // prefix -> first id, count
        std::unordered_map<std::string, int> variables;
        std::unordered_map<std::string, std::string> labels;  // label -> unique label
    };

    const Token& peek(std::size_t ahead = 0) const {
        return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
    }
    const Token& take() { return tokens_[next_ < tokens_.size() - 1 ? next_++ : next_]; }
    bool accept(char c) {
        if (peek().kind != Token::punct || peek().symbol != c) return false;
        take();
        return true;
    }
    void expect(char c) {
        if (!accept(c)) {
            fail(peek().line, std::string("expected '") + c + "', found '" + std::string(peek().text) + "'");
        }
    }
    std::string word() {
        if (peek().kind != Token::word)
            fail(peek().line, "expected a name, found '" + std::string(peek().text) + "'");
        return std::string(take().text);
    }
    std::uint64_t integer() {
        bool negative = accept('-');
        if (peek().kind != Token::integer) {
            fail(peek().line, "expected a number, found '" + std::string(peek().text) + "'");
        }
        std::uint64_t v = take().value;
        return negative ? 0 - v : v;
    }
    void skip_statement() {
        while (!accept(';')) {
            if (take().kind == Token::end) fail(peek().line, "unfinished directive");
        }
    }
    void skip_parens() {
        expect('(');
        int depth = 1;
        while (depth > 0) {
            const Token& t = take();
            if (t.kind == Token::end) fail(t.line, "unfinished list");
            if (t.kind == Token::punct && t.symbol == '(') ++depth;
            if (t.kind == Token::punct && t.symbol == ')') --depth;
        }
    }

    // Module level.
    void module_item();
    void version();
    void target();
    void section();
    void loc();
    void declaration();
    void variables(const Linkage& linkage, std::vector<VariableAst>& out);
    VariableAst variable(const VariableAst& base);
    void initialiser(VariableAst& v, bool array, std::uint64_t element);
    void init_list(VariableAst& v, std::uint64_t element, std::uint64_t& at);
    void init_value(VariableAst& v, std::uint64_t element, std::uint64_t& at);
    void symbol_value(VariableAst::Relocation& r);
    static std::uint64_t float_bits(const Token& t, const Type& type);
    void function(const Linkage& linkage);
    std::array<std::uint32_t, 3> triple(std::uint32_t fill);
    void param_list(std::vector<VariableAst>& out);

    // Bodies.
    void body();
    void statement();
    void registers();
    void body_directive(std::string_view w);
    void label_statement();
    void instruction();
    void prescan_labels(std::size_t from);
    Operand operand();
    Operand primary();
    Operand address();
    Operand named(const std::string& name);
    int find_register(const std::string& name) const;
    int find_variable(const std::string& name) const;
    std::string find_label(const std::string& name) const;
    PrototypeAst prototype();

    std::vector<Token> tokens_;
    std::size_t next_ = 0;
    std::unique_ptr<ModuleAst> module_;
    FunctionAst* function_ = nullptr;
    std::vector<Scope> scopes_;
    int scope_serial_ = 0;
};

}  // namespace softgpu::ptx
