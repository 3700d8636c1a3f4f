# The preload object, the command, and the tests of both. The wrappers are generated from the toolkit's headers.
INTERPOSE_GENERATED := $(BUILD)/generated/interpose/generated
INTERPOSE_MADE := $(addprefix $(INTERPOSE_GENERATED)/,hooks.h wrappers.cpp entries.inc exports.map fake_driver.inc fake_abis.inc)
CXXFLAGS += -I$(BUILD)/generated

# The runtime proper is interpose/runtime*.cpp.
INTERPOSE_RUNTIME_SRCS := $(wildcard interpose/runtime*.cpp)
INTERPOSE_ROUTE_SRCS := $(filter-out $(INTERPOSE_RUNTIME_SRCS) interpose/no_runtime.cpp,$(wildcard interpose/*.cpp))
INTERPOSE_ROUTE_OBJS := $(call obj,$(INTERPOSE_ROUTE_SRCS)) $(BUILD)/obj/interpose/dlsym.o $(BUILD)/obj/interpose/wrappers.o
INTERPOSE_RUNTIME_OBJS := $(call obj,$(INTERPOSE_RUNTIME_SRCS))

# One run makes all of them; hooks.h stands for the group.
$(INTERPOSE_GENERATED)/hooks.h: interpose/generate.py interpose/hooks.list $(CUDA_HOME)/include/cudaTypedefs.h
	python3 interpose/generate.py --include $(CUDA_HOME)/include --hooks interpose/hooks.list --out $(@D)
$(filter-out %/hooks.h,$(INTERPOSE_MADE)): $(INTERPOSE_GENERATED)/hooks.h ;

$(INTERPOSE_ROUTE_OBJS) $(INTERPOSE_RUNTIME_OBJS) $(BUILD)/obj/interpose/no_runtime.o: | $(INTERPOSE_GENERATED)/hooks.h
$(BUILD)/obj/interpose/wrappers.o: $(INTERPOSE_GENERATED)/wrappers.cpp $(INTERPOSE_GENERATED)/hooks.h
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/obj/interpose/routes.o: $(INTERPOSE_GENERATED)/entries.inc

# Needs nothing but libc, so that it can be loaded into any process.
PRELOAD_LDFLAGS = -shared -static-libstdc++ -static-libgcc -Wl,-z,nodelete \
	-Wl,--version-script=$(INTERPOSE_GENERATED)/exports.map -Wl,-soname,libswapadvisor.so

PRELOAD_OBJS := $(INTERPOSE_ROUTE_OBJS) $(INTERPOSE_RUNTIME_OBJS)
PRELOAD_ARCHIVES := $(BUILD)/libswapadvisor_replayer.a $(BUILD)/libswapadvisor_recorder.a
PRELOAD_LIBS := -l:libzstd.a -l:libxxhash.a
$(BUILD)/libswapadvisor.so: $(PRELOAD_OBJS) $(PRELOAD_ARCHIVES) $(INTERPOSE_GENERATED)/exports.map
	$(CXX) $(PRELOAD_LDFLAGS) -Wl,-z,defs -Wl,-u,InitializeInjectionNvtx2 $(LDFLAGS) -o $@ $(PRELOAD_OBJS) $(PRELOAD_ARCHIVES) $(PRELOAD_LIBS)

# The routes with a runtime that manages nothing, for tests of the routes alone. Its methods are never reached.
ROUTES_ONLY_OBJS := $(INTERPOSE_ROUTE_OBJS) $(BUILD)/obj/interpose/no_runtime.o
$(BUILD)/tests/interpose/libroutes_only.so: $(ROUTES_ONLY_OBJS) $(INTERPOSE_GENERATED)/exports.map
	@mkdir -p $(@D)
	$(CXX) $(PRELOAD_LDFLAGS) $(LDFLAGS) -o $@ $(ROUTES_ONLY_OBJS)
TEST_DEPS += $(BUILD)/tests/interpose/libroutes_only.so

# The command. It links the planner and the recorder, and never the driver.
COMMAND_OBJS := $(call obj,$(wildcard interpose/command/*.cpp) interpose/config.cpp interpose/log.cpp interpose/run_page.cpp)
$(BUILD)/obj/interpose/command/main.o: EXTRA_CXXFLAGS := -DSWAPADVISOR_VERSION='"1.0.0"'
$(BUILD)/swapadvisor: $(COMMAND_OBJS) $(BUILD)/libswapadvisor_replayer.a $(BUILD)/libswapadvisor_recorder.a $(BUILD)/libswapadvisor_planner.a
	$(CXX) $(LDFLAGS) -o $@ $^ -lfmt -ldl -lpthread $(RECORDER_LIBS) $(PLANNER_LIBS)

ALL += $(BUILD)/libswapadvisor.so $(BUILD)/swapadvisor

# A driver whose calls do nothing, for tests of the routes and for the bench; and one that lacks and adds symbols.
FAKE_DIR := tests/unit/interpose/fake_driver
FAKE_OBJS := $(call obj,$(wildcard $(FAKE_DIR)/*.c))
$(FAKE_OBJS): | $(INTERPOSE_GENERATED)/hooks.h
$(FAKE_OBJS): $(FAKE_DIR)/fake_driver.h
$(BUILD)/obj/$(FAKE_DIR)/%.o: $(FAKE_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) -O2 -fPIC -fvisibility=hidden -Wno-builtin-declaration-mismatch -I. -I$(FAKE_DIR) -I$(BUILD)/generated \
		-isystem $(CUDA_HOME)/include -MMD -MP -c $< -o $@
$(BUILD)/tests/fakedriver/libcuda.so.1: $(FAKE_OBJS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1 -o $@ $^
# Old: no symbol for the newer look-up, nor for anything that came after 12.0.
$(BUILD)/tests/fakedriver/old/libcuda.so.1: $(FAKE_OBJS) $(FAKE_DIR)/old.map
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1 -Wl,--version-script=$(FAKE_DIR)/old.map -o $@ $(FAKE_OBJS)

# Small programs and libraries that the system tests start.
PROBE_DIR := tests/unit/interpose/programs
PROBES := $(BUILD)/tests/interpose
$(PROBES)/%.so: $(PROBE_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) -O2 -fPIC -shared -fvisibility=hidden -o $@ $< -ldl
$(PROBES)/%: $(PROBE_DIR)/%.cpp $(wildcard $(PROBE_DIR)/*.h) $(BUILD)/tests/fakedriver/libcuda.so.1
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $< -ldl -lpthread $(PROBE_LIBS)
$(PROBES)/linked_probe $(PROBES)/call_bench: PROBE_LIBS := $(BUILD)/tests/fakedriver/libcuda.so.1
TEST_DEPS += $(patsubst $(PROBE_DIR)/%.cpp,$(PROBES)/%,$(wildcard $(PROBE_DIR)/*.cpp))
TEST_DEPS += $(patsubst $(PROBE_DIR)/%.c,$(PROBES)/%.so,$(wildcard $(PROBE_DIR)/*.c))
TEST_DEPS += $(BUILD)/tests/fakedriver/libcuda.so.1 $(BUILD)/tests/fakedriver/old/libcuda.so.1
BENCHES += $(PROBES)/call_bench $(BUILD)/tests/fakedriver/libcuda.so.1

# Unit tests: the routes' tables, settings, and what the launcher decides.
INTERPOSE_TEST_OBJS := $(call obj,$(wildcard tests/unit/interpose/*.cpp))
$(INTERPOSE_TEST_OBJS): | $(INTERPOSE_GENERATED)/hooks.h
$(BUILD)/tests/interpose_tests: $(INTERPOSE_TEST_OBJS) $(CATCH_MAIN) $(PRELOAD_OBJS) $(PRELOAD_ARCHIVES) \
		$(call obj,interpose/command/preload.cpp interpose/command/framework_settings.cpp)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $(filter-out $(BUILD)/obj/interpose/dlsym.o,$^) $(RECORDER_LIBS) -ldl -lpthread
TEST_SUITES += $(BUILD)/tests/interpose_tests

# A program for tests/system/hidden_addresses_test.py; it knows nothing of the shim.
$(BUILD)/tests/hidden_addresses_probe: tests/system/hidden_addresses_probe.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O2 -cudart shared $(NVCC_ARCH) $< -o $@ -lcuda -ldl
TEST_DEPS += $(BUILD)/tests/hidden_addresses_probe

# The random programs of scripts/random_programs.py; each checks itself.
$(BUILD)/tests/random_programs_probe: tests/system/random_programs_probe.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O2 -cudart shared $(NVCC_ARCH) $< -o $@ -ldl -lpthread
TEST_DEPS += $(BUILD)/tests/random_programs_probe
