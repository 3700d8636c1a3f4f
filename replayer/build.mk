# The replayer: device and host memory, residency, following a plan. Calls the driver only through recorder/driver_api.h.
REPLAYER_SRCS := $(wildcard replayer/*.cpp)
REPLAYER_OBJS := $(call obj,$(REPLAYER_SRCS))

$(BUILD)/libswapadvisor_replayer.a: $(REPLAYER_OBJS)
	rm -f $@; ar rcs $@ $^

$(BUILD)/tests/replayer_tests: $(call obj,$(wildcard tests/unit/replayer/*.cpp)) $(CATCH_MAIN) $(BUILD)/libswapadvisor_replayer.a \
		$(BUILD)/libswapadvisor_recorder.a $(BUILD)/libswapadvisor_planner.a
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(RECORDER_LIBS) $(PLANNER_LIBS) -ldl -lpthread

TEST_SUITES += $(BUILD)/tests/replayer_tests

# Programs for tests/system/replay_*_test.py, waiting_test.py, turns_test.py and answers_test.py; they know nothing of the replayer.
$(BUILD)/tests/replay_probe $(BUILD)/tests/waiting_probe $(BUILD)/tests/turns_probe $(BUILD)/tests/answers_probe: $(BUILD)/tests/%: tests/system/%.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O2 -cudart shared $(NVCC_ARCH) $< -o $@ -L$(CUDA_HOME)/lib64/stubs -lcuda -ldl -lpthread
TEST_DEPS += $(BUILD)/tests/replay_probe $(BUILD)/tests/waiting_probe $(BUILD)/tests/turns_probe $(BUILD)/tests/answers_probe
BENCHES += $(BUILD)/tests/turns_probe
