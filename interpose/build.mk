# The preload object, the command, and the tests of both. The wrappers are generated from the toolkit's headers.
INTERPOSE_GENERATED := $(BUILD)/generated/interpose/generated
INTERPOSE_MADE := $(addprefix $(INTERPOSE_GENERATED)/,hooks.h wrappers.cpp entries.inc exports.map fake_driver.inc)
CXXFLAGS += -I$(BUILD)/generated

# The runtime proper is interpose/runtime*.cpp; without it no_runtime.cpp, whose methods are never reached.
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
PRELOAD_LDFLAGS = -shared -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,-z,nodelete \
	-Wl,--version-script=$(INTERPOSE_GENERATED)/exports.map -Wl,-soname,libswapadvisor.so

ifneq ($(INTERPOSE_RUNTIME_SRCS),)
PRELOAD_OBJS := $(INTERPOSE_ROUTE_OBJS) $(INTERPOSE_RUNTIME_OBJS)
PRELOAD_LDFLAGS += -Wl,-z,defs
PRELOAD_ARCHIVES := $(BUILD)/libswapadvisor_replayer.a $(BUILD)/libswapadvisor_recorder.a
PRELOAD_LIBS := -l:libzstd.a -l:libxxhash.a
else
PRELOAD_OBJS := $(INTERPOSE_ROUTE_OBJS) $(BUILD)/obj/interpose/no_runtime.o
endif
$(BUILD)/libswapadvisor.so: $(PRELOAD_OBJS) $(PRELOAD_ARCHIVES) $(INTERPOSE_GENERATED)/exports.map
	$(CXX) $(PRELOAD_LDFLAGS) $(LDFLAGS) -o $@ $(PRELOAD_OBJS) $(PRELOAD_ARCHIVES) $(PRELOAD_LIBS)

# The command. It links the planner and the recorder, and never the driver.
COMMAND_SRCS := $(wildcard interpose/command/*.cpp)
ifeq ($(wildcard planner/bound.cpp),)
COMMAND_SRCS := $(filter-out %/cmd_plan.cpp %/cmd_sweep.cpp %/cmd_simulate.cpp %/cmd_bound.cpp %/planner_input.cpp,$(COMMAND_SRCS))
endif
COMMAND_OBJS := $(call obj,$(COMMAND_SRCS)) $(BUILD)/obj/interpose/config.o $(BUILD)/obj/interpose/log.o
$(BUILD)/obj/interpose/command/main.o: EXTRA_CXXFLAGS := -DSWAPADVISOR_VERSION='"1.0.0"'
$(BUILD)/swapadvisor: $(COMMAND_OBJS) $(BUILD)/libswapadvisor_recorder.a $(BUILD)/libswapadvisor_planner.a
	$(CXX) $(LDFLAGS) -o $@ $^ -lfmt -ldl -lpthread $(RECORDER_LIBS) $(PLANNER_LIBS)

ALL += $(BUILD)/libswapadvisor.so $(BUILD)/swapadvisor
