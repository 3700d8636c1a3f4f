/* What forwarder_front.c forwards to. */
__attribute__((visibility("default"))) int cudnnCreate(int depth) {
    return 1000 + depth;
}
