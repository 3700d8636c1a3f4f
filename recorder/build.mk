# The recorder: ops and buffers -> trace, iterations, reports. Linked into the preload object, the command and the tests.
RECORDER_SRCS := $(wildcard recorder/*.cpp)
RECORDER_OBJS := $(call obj,$(RECORDER_SRCS))
RECORDER_LIBS := -lzstd -lxxhash

$(BUILD)/libswapadvisor_recorder.a: $(RECORDER_OBJS)
	rm -f $@; ar rcs $@ $^

$(BUILD)/tests/recorder_tests: $(call obj,$(wildcard tests/unit/recorder/*.cpp)) $(CATCH_MAIN) $(BUILD)/libswapadvisor_recorder.a
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(RECORDER_LIBS) -ldl -lpthread

TEST_SUITES += $(BUILD)/tests/recorder_tests
