#!/usr/bin/env python3
"""Builds link stubs for the closed libraries that a PyTorch wheel names: make_link_stubs.py TORCH_FOLDER OUTPUT_FOLDER

The names come from the wheel's own import lists. A stub does nothing: each call prints one line that names the function and
returns an error of that library, so what needs the library fails where it is called. Only the loader is satisfied. The driver
and the CUDA runtime are not among them."""
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# File of each library, the prefix of its functions where the import does not say which library it is from, and its status
# code for "not supported" or the nearest to it.
LIBRARIES = [
    ("libcublas.so.13", None, 15),
    ("libcublasLt.so.13", None, 15),
    ("libcudnn.so.9", None, 3000),
    ("libcufft.so.12", None, 16),
    ("libcusolver.so.12", None, 9),
    ("libcusparse.so.12", None, 10),
    ("libcupti.so.13", None, 27),
    ("libnvrtc.so.13", None, 11),
    ("libnvshmem_host.so.3", r"nvshmem", 7),
    ("libcusparseLt.so.0", r"cusparse", 10),
    ("libcufile.so.0", r"cuFile", 5),
    ("libnccl.so.2", r"nccl", 3),
]
# Called while PyTorch starts or to describe an error: no line, as nothing is lost.
QUIET = re.compile(r"cupti|.*Get(LastError|ErrorString|ErrorName|StatusString|StatusName|Version)")
TEXT = re.compile(r".*(ErrorString|ErrorName|StatusString|StatusName|LastError)")

HEAD = """#include <stdio.h>
static long missing(const char* name, long status) {
    fprintf(stderr, "link stub: %s was called, and its library is not installed here\\n", name);
    return status;
}
"""


def imports(library):
    """(name, version node or "") of what a shared object takes from others."""
    out = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        name, _, version = line.split()[-1].partition("@")
        yield name, version


def needed(library):
    out = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", out)


def function(name, status):
    if TEXT.match(name):
        return f'const char* {name}(void) {{ return "library not installed"; }}'
    if QUIET.match(name):
        return f"long {name}(void) {{ return {0 if 'Version' in name else status}; }}"
    return f'long {name}(void) {{ return missing("{name}", {status}); }}'


def main():
    torch, output = Path(sys.argv[1]), Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    names, nodes, wanted = defaultdict(set), {}, set()
    for library in sorted((torch / "lib").glob("*.so")):
        wanted.update(needed(library))
        for name, version in imports(library):
            for file, prefix, _ in LIBRARIES:
                own_node = version == file or version == "NVSHMEM" and file.startswith("libnvshmem")
                if own_node or (not version and prefix and re.match(prefix, name)):
                    names[file].add(name)
                    if version:
                        nodes[file] = version
                    break
    unknown = [name for name in wanted if re.match(r"lib(cu|nv|nccl)", name)
               and name not in {file for file, _, _ in LIBRARIES} | {"libcudart.so.13", "libcuda.so.1"}]
    if unknown:
        sys.exit(f"error: this PyTorch names libraries that are not known here: {', '.join(unknown)}")
    for file, _, status in LIBRARIES:
        if file not in wanted:
            continue
        source = output / f"{file}.c"
        source.write_text(HEAD + "".join(function(name, status) + "\n" for name in sorted(names[file])) +
                          "void* unused_here = (void*)missing;\n")
        command = ["gcc", "-shared", "-fPIC", "-O1", f"-Wl,-soname,{file}", "-o", str(output / file), str(source)]
        if file in nodes:
            script = output / f"{file}.map"
            script.write_text(f"{nodes[file]} {{ global: *; }};\n")
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)
        print(f"{file}: {len(names[file])} names")


main()
