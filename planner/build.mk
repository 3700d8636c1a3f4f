# The planner: a pure library (no CUDA), opened by the preload object when first needed, and linked into the command.
PLANNER_SRCS := $(wildcard planner/*.cpp planner/*/*.cpp)
PLANNER_OBJS := $(call obj,$(PLANNER_SRCS))
PLANNER_LIBS := -ltbb -lClp -lCoinUtils

$(BUILD)/libswapadvisor_planner.a: $(PLANNER_OBJS)
	rm -f $@; ar rcs $@ $^

$(BUILD)/libswapadvisor_planner.so: $(PLANNER_OBJS)
	$(CXX) -shared $(LDFLAGS) -o $@ $^ $(PLANNER_LIBS)

$(BUILD)/tests/planner_tests: $(call obj,$(wildcard tests/unit/planner/*.cpp)) $(CATCH_MAIN) $(BUILD)/libswapadvisor_planner.a
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(PLANNER_LIBS)

ALL += $(BUILD)/libswapadvisor_planner.so
TEST_SUITES += $(BUILD)/tests/planner_tests

# make build/fuzz/planner && build/fuzz/planner -dict=tests/fuzz/planner.dict -max_total_time=60 CORPUS tests/fuzz/seeds/planner
$(BUILD)/fuzz/planner: $(patsubst %.cpp,$(BUILD)/fuzz/obj/%.o,tests/fuzz/plan_fuzz.cpp $(PLANNER_SRCS))
	clang++ -fsanitize=fuzzer,address,undefined -o $@ $^ $(PLANNER_LIBS)
$(BUILD)/fuzz/obj/%.o: %.cpp
	@mkdir -p $(@D)
	clang++ -std=c++20 -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -I. -MMD -MP -c -o $@ $<
