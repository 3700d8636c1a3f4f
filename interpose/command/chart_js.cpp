#include "interpose/command/chart_js.h"

// The assembler includes the file of Debian's libjs-chart.js.
asm(".section .rodata\n"
    ".global swapadvisor_chart_js\n"
    ".global swapadvisor_chart_js_end\n"
    "swapadvisor_chart_js:\n"
    ".incbin \"/usr/share/javascript/chart.js/chart.min.js\"\n"
    "swapadvisor_chart_js_end:\n"
    ".byte 0\n"
    ".text\n");
