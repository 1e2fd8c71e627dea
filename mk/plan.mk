# plan.mk: what the kernels take of a GPU: the budget file, and the planner held against the compiler.

# The planner's occupancy is compared with NVIDIA's calculator where the toolkit is here.
$(BUILD)/obj/tests/unit/test_plan_tiles.o: CPPFLAGS += $(if $(NVCC),-isystem $(dir $(NVCC))../include)
