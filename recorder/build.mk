# The recorder: ops and buffers -> trace, iterations, reports. Linked into the preload object, the command and the tests.
RECORDER_SRCS := $(wildcard recorder/*.cpp)
RECORDER_OBJS := $(call obj,$(RECORDER_SRCS))
# libdw: source lines, in the command only.
RECORDER_LIBS := -lzstd -lxxhash -ldw -lelf

# The HTML report carries its own style, script and charting library.
CHART_JS ?= /usr/share/javascript/chart.js/chart.min.js
PAGE_JS := $(addprefix recorder/page/,base.js tables.js detail.js icicle.js charts.js)
comma := ,
space := $() $()
$(BUILD)/generated/recorder/page.h: recorder/embed_page.py recorder/page/page.css $(PAGE_JS) $(CHART_JS)
	@mkdir -p $(@D)
	python3 recorder/embed_page.py $@ kCss=recorder/page/page.css kScript=$(subst $(space),$(comma),$(PAGE_JS)) kChartJs=$(CHART_JS)
$(BUILD)/obj/recorder/report_html.o: $(BUILD)/generated/recorder/page.h
$(BUILD)/obj/recorder/report_html.o: EXTRA_CXXFLAGS += -I$(BUILD)

# Some toolkits keep CUPTI's headers apart.
$(BUILD)/obj/recorder/cupti_timer.o $(BUILD)/obj/tests/unit/recorder/cupti_timer_test.o: \
	EXTRA_CXXFLAGS += -isystem $(CUDA_HOME)/extras/CUPTI/include

$(BUILD)/libswapadvisor_recorder.a: $(RECORDER_OBJS)
	rm -f $@; ar rcs $@ $^

$(BUILD)/tests/recorder_tests: $(call obj,$(wildcard tests/unit/recorder/*.cpp)) $(CATCH_MAIN) $(BUILD)/libswapadvisor_recorder.a
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(RECORDER_LIBS) -ldl -lpthread

TEST_SUITES += $(BUILD)/tests/recorder_tests

$(BUILD)/bench/recorder_bench: $(call obj,tests/bench/recorder_bench.cpp) $(BUILD)/libswapadvisor_recorder.a
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(RECORDER_LIBS) -ldl -lpthread
BENCHES += $(BUILD)/bench/recorder_bench

# Coverage-guided fuzzing needs clang; not part of `make all`.
CLANGXX ?= clang++
FUZZ_SRCS := $(filter-out recorder/site_lines.cpp,$(RECORDER_SRCS))
$(BUILD)/fuzz/trace_fuzz: tests/fuzz/trace_fuzz.cpp $(FUZZ_SRCS) $(BUILD)/generated/recorder/page.h
	@mkdir -p $(@D)
	$(CLANGXX) -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I. -I$(BUILD) \
		-isystem $(CUDA_HOME)/include -o $@ tests/fuzz/trace_fuzz.cpp $(FUZZ_SRCS) -lzstd -ldl -lpthread

# Loops of every habit, for the iteration finder.
$(BUILD)/workloads/loops: tests/workloads/loops/loops.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O2 -cudart shared $< -o $@
ALL += $(BUILD)/workloads/loops
