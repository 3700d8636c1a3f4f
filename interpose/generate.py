#!/usr/bin/env python3
"""Generates, from the toolkit's cudaTypedefs.h and interpose/hooks.list, what interposition needs:

  hooks.h      the prototype that each hook body has
  wrappers.cpp one function of the exact ABI per hooked symbol (and per driver copy), and the tables; the same, only
               jumping on, for the other ABIs of names that have several
  entries.inc  every entry point the header knows: name, variant, first version, exported symbol, slot or -1
  exports.map  the version script of the preload object
  fake_driver.inc  every exported symbol, for the do-nothing driver of the tests
  fake_abis.inc    every ABI of it, likewise

The header gives each ABI of a call as PFN_<name>_v<first version>[_ptds|_ptsz]. The driver exports the same ABIs as
<name>, <name>_v2, <name>_v3..., in the order of their versions; the newest ABI is the highest suffix there is."""

import argparse
import os
import re
import sys
from collections import defaultdict, namedtuple

COPIES = 3  # driver copies served in one process: the default one, and others from dlmopen or a second path

Entry = namedtuple("Entry", "name variant version symbol returns parameters")

TYPEDEF = re.compile(r"typedef\s+(\w+)\s*\(\s*CUDAAPI\s*\*\s*PFN_(\w+?)_v(\d+)(_ptds|_ptsz)?\s*\)\s*\((.*?)\)\s*;", re.S)


def fail(text):
    sys.exit(f"generate.py: {text}")


def read_entries(include):
    try:
        with open(os.path.join(include, "cudaTypedefs.h")) as file:
            typedefs = file.read()
        with open(os.path.join(include, "cudaProfilerTypedefs.h")) as file:
            typedefs += file.read()
        with open(os.path.join(include, "cuda.h")) as file:
            header = file.read()
    except OSError as error:
        fail(f"{error.filename}: {error.strerror} (set CUDA_HOME to a CUDA Toolkit)")
    # What the driver exports, by the header: any name it mentions, and the per-thread twins it builds by macro.
    exported = set(re.findall(r"\bcu[A-Z]\w+", header)) | set(re.findall(r"\bcu[A-Z]\w+", typedefs))
    for kind, base in re.findall(r"__CUDA_API_(PTDS|PTSZ)\(\s*(\w+)\s*\)", header):
        exported.add(f"{base}_{kind.lower()}")

    found = defaultdict(list)
    for returns, name, version, variant, parameters in TYPEDEF.findall(typedefs):
        found[name, variant].append((int(version), returns, " ".join(parameters.split())))
    entries = []
    for (name, variant), versions in found.items():
        versions.sort()
        exported.add(name)
        suffixes = [""] + [f"_v{i}" for i in range(2, 10)]
        symbols = [name + s for s in suffixes if name + s in exported]
        if variant:
            symbols = [s + variant for s in symbols if s + variant in exported]
        if not symbols:
            fail(f"{name}{variant}: no exported symbol found for it")
        # Names that the header builds only as ..._ptds/_ptsz of the newest ABI are fewer than the versions: newest end.
        symbols = symbols[-len(versions):]
        for (version, returns, parameters), symbol in zip(versions[-len(symbols):], symbols):
            entries.append(Entry(name, variant, version, symbol, returns, parameters))
    entries.sort(key=lambda e: (e.name, e.variant, e.version))
    return entries


def read_hooks(path, entries):
    """symbol -> name of the body that serves it. A twin (_ptds, _ptsz) is always served with its plain form."""
    by_symbol = {e.symbol: e for e in entries}
    bodies = {}
    with open(path) as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            for word in words:
                if word not in by_symbol:
                    print(f"generate.py: {path}:{number}: this toolkit has no {word}", file=sys.stderr)
                    continue
                plain = by_symbol[word]
                for symbol in (word, word + "_ptds", word + "_ptsz"):
                    if symbol not in by_symbol:
                        continue
                    other = by_symbol[symbol]
                    if comparable(other) != comparable(by_symbol[words[0]]):
                        fail(f"{path}:{number}: {symbol} and {words[0]} differ: {other.parameters} / {plain.parameters}")
                    bodies[symbol] = words[0]
    return bodies


def forwarded_symbols(entries, bodies):
    """Names with several ABIs whose calls need no hook: each ABI gets a function of ours that only jumps on, so that
    what cuGetProcAddress answers is always of the ABI that was asked for, and told from all others by its address."""
    versions = defaultdict(set)
    for e in entries:
        versions[e.name].add(e.version)
    return {e.symbol for e in entries if len(versions[e.name]) > 1 and e.symbol not in bodies}


def split_parameters(text):
    if text in ("", "void"):
        return []
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return parts + [current.strip()]


def types_of(parameters):
    """The parameter types, without names."""
    types = []
    for part in split_parameters(parameters):
        array = part.endswith("]")
        part = re.sub(r"\[\w*\]$", "", part).strip()
        match = re.match(r"^(.*?[\s*])(\w+)$", part)
        kind = match.group(1).strip() if match and match.group(2) not in ("int", "char", "long", "short") else part
        types.append(re.sub(r"\s*\*", "*", kind) + ("*" if array else ""))
    return types


def comparable(entry):
    """Types, with the two spellings of a first version as one. The compiler checks the rest."""
    return [kind.replace("_v1", "") for kind in types_of(entry.parameters)]


HEADER = "// Generated by interpose/generate.py. Do not edit.\n"


def numbered(types):
    return ", ".join(f"{kind} a{i}" for i, kind in enumerate(types))


def write_hooks_header(bodies, hooked):
    out = [HEADER, "#pragma once\n#include <atomic>\n\n", '#include "interpose/entry.h"\n\n', "namespace swapadvisor {\n\n"]
    out.append(f"""constexpr unsigned kHookCount = {len(hooked)};  ///< forwarders included
extern const char* const kHookedSymbols[kHookCount];  ///< sorted
extern void* const kHookFunctions[kDriverCopies][kHookCount];
extern std::atomic<void*> real_functions[kDriverCopies][kHookCount];  ///< null until first needed

""")
    done = set()
    for e in hooked:
        body = bodies.get(e.symbol)
        if not body or body in done:
            continue
        done.add(body)
        types = types_of(e.parameters)
        out.append(f"using Fn_{body} = {e.returns}(CUDAAPI*)({', '.join(types)});\n")
        rest = "".join(f", {t}" for t in types) + (", const void* caller" if wants_caller(body) else "")
        out.append(f"{e.returns} hook_{body}(Entry entry, Fn_{body} real{rest});\n")
    out.append("\n}  // namespace swapadvisor\n")
    return "".join(out)


def wants_caller(body):
    """The look-ups say in the log who asked."""
    return body.startswith("cuGetProcAddress")


def write_wrappers(bodies, hooked):
    # Types of the first ABIs (32-bit device pointers) are declared only on this request.
    out = [HEADER, "#define __CUDA_API_VERSION_INTERNAL\n", '#include "interpose/generated/hooks.h"\n#include "interpose/driver.h"\n\n', "namespace swapadvisor {\n\n"]
    out.append("using enum DefaultStream;\n\n")
    for copy in range(COPIES):
        for slot, e in enumerate(hooked):
            body = bodies.get(e.symbol)
            types = types_of(e.parameters)
            function = f"Fn_{body}" if body else f"{e.returns}(CUDAAPI*)({', '.join(types)})"
            stream = "per_thread" if e.variant else "legacy"
            if copy == 0:
                out.append(f'extern "C" SWAPADVISOR_EXPORT {e.returns} x0_{e.symbol}({", ".join(types)}) __asm__("{e.symbol}");\n'
                           f"{e.returns} x0_{e.symbol}({numbered(types)}) {{\n")
            else:
                out.append(f"static {e.returns} x{copy}_{e.symbol}({numbered(types)}) {{\n")
            arguments = [f"a{i}" for i in range(len(types))]
            out.append(f"    const auto real = reinterpret_cast<{function}>(real_function({copy}, {slot}));\n"
                       f"    if (!real) [[unlikely]] return missing_function({copy}, {slot});\n")
            if body:
                arguments = [f"{{{copy}, {stream}, {slot}}}", "real"] + arguments
                arguments += ["__builtin_return_address(0)"] * wants_caller(body)
                out.append(f"    return hook_{body}({', '.join(arguments)});\n}}\n")
            else:
                out.append(f"    return real({', '.join(arguments)});\n}}\n")
        out.append("\n")
    out.append("const char* const kHookedSymbols[kHookCount] = {\n")
    out += [f'    "{e.symbol}",\n' for e in hooked]
    out.append("};\n\nvoid* const kHookFunctions[kDriverCopies][kHookCount] = {\n")
    for copy in range(COPIES):
        out.append("    {\n")
        out += [f"        reinterpret_cast<void*>(&x{copy}_{e.symbol}),\n" for e in hooked]
        out.append("    },\n")
    out.append("};\n\n}  // namespace swapadvisor\n")
    return "".join(out)


def write_entries(entries, hooked):
    slots = {e.symbol: i for i, e in enumerate(hooked)}
    variants = {"": "plain", "_ptds": "per_thread", "_ptsz": "per_thread"}
    out = [HEADER]
    for e in entries:
        out.append(f'{{"{e.name}", Variant::{variants[e.variant]}, {e.version}, "{e.symbol}", {slots.get(e.symbol, -1)}}},\n')
    return "".join(out)


def write_exports(hooked):
    out = ["SWAPADVISOR {\n  global:\n"]
    out += [f"    {e.symbol};\n" for e in hooked]
    # A program's mark of its iterations, and the entry that NVTX's header looks for (NVTX_INJECTION64_PATH).
    out.append("    swapadvisor_iteration;\n    InitializeInjectionNvtx2;\n  local: *;\n};\n")
    # Programs ask for the version their glibc had; both are the same function here.
    names = "dlopen; dlsym; dlvsym;"
    out.append(f"GLIBC_2.2.5 {{ global: {names} }};\nGLIBC_2.34 {{ global: {names} }} GLIBC_2.2.5;\n")
    return "".join(out)


def write_fake(entries):
    return HEADER + "".join(f"FAKE_ENTRY({e.symbol})\n" for e in entries)


def write_fake_abis(entries):
    return HEADER + "".join(f'FAKE_ABI("{e.name}", {int(bool(e.variant))}, {e.version}, "{e.symbol}")\n' for e in entries)


def write_if_changed(path, text):
    try:
        with open(path) as file:
            if file.read() == text:
                os.utime(path)
                return
    except OSError:
        pass
    with open(path, "w") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", required=True, help="the toolkit's include folder")
    parser.add_argument("--hooks", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    entries = read_entries(args.include)
    bodies = read_hooks(args.hooks, entries)
    ours = set(bodies) | forwarded_symbols(entries, bodies)
    hooked = sorted((e for e in entries if e.symbol in ours), key=lambda e: e.symbol)
    os.makedirs(args.out, exist_ok=True)
    for name, text in (("hooks.h", write_hooks_header(bodies, hooked)),
                       ("wrappers.cpp", write_wrappers(bodies, hooked)),
                       ("entries.inc", write_entries(entries, hooked)),
                       ("exports.map", write_exports(hooked)),
                       ("fake_driver.inc", write_fake(entries)),
                       ("fake_abis.inc", write_fake_abis(entries))):
        write_if_changed(os.path.join(args.out, name), text)


if __name__ == "__main__":
    main()
