# SPDX-License-Identifier: Apache-2.0
# gpumem_write_exports(<api.def> <version script>): the version script that exports the table's symbols, the loader's two
# lookups, the C library's ends of a process, NCCL's communicators, PyTorch's reports and autograd, and nothing else. Unversioned on purpose: such a definition also answers versioned references.
function(gpumem_write_exports table script)
  file(STRINGS ${table} rows REGEX "^GPUMEM_(RUNTIME|DRIVER)_SYMBOL\\(")
  set(names dlsym dlvsym _exit _Exit __cxa_at_quick_exit gpumemshim_get_api_v1 gpumemshim_attach_v1 gpumemshim_loader_lock_v1 __asan_default_options
    InitializeInjection InitializeInjectionNvtx2 InitializeInjectionNvtx2_fnptr
    nvtxMarkA nvtxMarkW nvtxMarkEx nvtxRangePushA nvtxRangePushW nvtxRangePushEx nvtxRangePop
    nvtxRangeStartA nvtxRangeStartW nvtxRangeStartEx nvtxRangeEnd
    ncclCommInitRank ncclCommInitRankConfig ncclCommInitRankScalable ncclCommInitAll ncclCommSplit
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE
    _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE
    _ZN3c1016CachingAllocator26AcceleratorAllocatorConfig24roundup_power2_divisionsEm
    _ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig24roundup_power2_divisionsEm
    _ZN3c104cuda17getStreamFromPoolEia _ZN3c104cuda17getStreamFromPoolEba
    _ZN2at4_ops13record_stream4callERNS_6TensorEN3c106StreamE
    _ZN2at4cuda7MemPoolC1ESt10shared_ptrIN3c104cuda20CUDACachingAllocator13CUDAAllocatorEEbbb
    _ZNK2at10TensorBase8set_dataERKS0_
    _ZN2at15sequence_number17get_and_incrementEv _ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb
    _ZN5torch8autograd4impl16grad_accumulatorERKN2at6TensorE
    _ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE)
  foreach(row IN LISTS rows)
    string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+)\\).*$" "\\1" name "${row}")
    list(APPEND names ${name})
  endforeach()
  list(JOIN names ";\n    " lines)
  file(CONFIGURE OUTPUT ${script} CONTENT "{\n  global:\n    ${lines};\n  local:\n    *;\n};\n" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
endfunction()
