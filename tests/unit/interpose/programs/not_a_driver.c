/* A library that has one of the driver's names and several that only begin like one, but is no driver. */
#define API __attribute__((visibility("default")))
API int cuMemAlloc_v2(void) {
    return 4242;
}
API int cuMemAlloc_v2x(void) {
    return 4243;
}
API int cuMemAllocator(void) {
    return 4244;
}
API int cudnnCreate(void) {
    return 4245;
}
API unsigned long fake_count(const char* name) {
    return name[0] ? 1 : 0;
}
API void fake_reset(void) {}
API const char* fake_choose(void) {
    return 0;
}
