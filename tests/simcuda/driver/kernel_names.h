// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Names of kernels as they stand in PyTorch 2.11's libtorch_cuda.so for CUDA 13. kSumOfFloats and those of the older
// CUB, before its functions moved to cub::detail, are made by the same rules from its public sources.
#ifndef TESTS_SIMCUDA_DRIVER_KERNEL_NAMES_H_
#define TESTS_SIMCUDA_DRIVER_KERNEL_NAMES_H_

#include <string>

namespace simcuda::kernels {

// nonzero of a tensor of bool. (condition, int* count, unsigned long long elements, ...)
inline constexpr char kCountBool[] =
    "_ZN14at_cuda_detail3cub6detail6reduce28DeviceReduceSingleTileKernelINS2_10policy_"
    "hubIiyN4cuda3std3__44plusIvEEE10Policy1000EN6thrust45THRUST_300001_SM_750_800_860_900_1000_1200_NS18transform_"
    "iteratorIN2at6native43_GLOBAL__N__e625f313_10_Nonzero_cu_cba1aaa09NonZeroOpIbEEPKbNSD_11use_"
    "defaultESM_EEPiyS9_iiNS7_10__identityEEEvT0_T1_T2_T3_T4_T6_";
// The same of many elements: (condition, int* counts of blocks, unsigned long long elements, ...), and behind it the
// sum: (int* counts of blocks, int* count, int blocks, ...).
inline constexpr char kCountBoolPart[] =
    "_ZN14at_cuda_detail3cub6detail6reduce18DeviceReduceKernelINS2_10policy_"
    "hubIiyN4cuda3std3__44plusIvEEE10Policy1000EN6thrust45THRUST_300001_SM_750_800_860_900_1000_1200_NS18transform_"
    "iteratorIN2at6native43_GLOBAL__N__e625f313_10_Nonzero_cu_cba1aaa09NonZeroOpIbEEPKbNSD_11use_"
    "defaultESM_EEyS9_iNS7_10__identityEEEvT0_PT3_T1_NS0_13GridEvenShareISS_EET2_T4_";
inline constexpr char kSum[] =
    "_ZN14at_cuda_detail3cub6detail6reduce28DeviceReduceSingleTileKernelINS2_10policy_"
    "hubIiyN4cuda3std3__44plusIvEEE10Policy1000EPiSC_iS9_iiNS7_10__identityEEEvT0_T1_T2_T3_T4_T6_";
// unique of a sorted tensor of int: (input, NullType*, output, long* count, state, op, op, int elements, ...).
inline constexpr char kUnique[] =
    "_ZN14at_cuda_detail3cub6detail6select23DeviceSelectSweepKernelINS2_10policy_"
    "hubIiNS0_8NullTypeEiLb0ELNS0_10SelectImplE0EE10Policy1000EPKiPS5_"
    "PiPlNS0_13ScanTileStateIiLb1EEES5_N4cuda3std3__48equal_toIvEEiNS2_19streaming_context_"
    "tIlLb1EEELS6_0EEEvT0_T1_T2_T3_T4_T5_T6_T7_iT8_NS1_7vsmem_tE";
// What nonzero writes its indices by; flags are given, so the count is known already.
inline constexpr char kSelectFlagged[] =
    "_ZN14at_cuda_detail3cub6detail6select23DeviceSelectSweepKernelINS2_10policy_"
    "hubIlbiLb0ELNS0_10SelectImplE0EE10Policy1000EN6thrust45THRUST_300001_SM_750_800_860_900_1000_1200_NS17counting_"
    "iteratorIlNS9_11use_defaultESB_SB_EENS9_18transform_iteratorIN2at6native43_GLOBAL__N__e625f313_10_Nonzero_cu_"
    "cba1aaa09NonZeroOpIbEEPKbSB_SB_EEPlPiNS0_13ScanTileStateIiLb1EEENS0_8NullTypeESQ_iNS2_19streaming_context_"
    "tIlLb1EEELS5_0EEEvT0_T1_T2_T3_T4_T5_T6_T7_iT8_NS1_7vsmem_tE";
// unique with counts: (input, output, ones, long* lengths, long* count, state, int, op, op, int elements).
inline constexpr char kRunLengths[] =
    "_ZN14at_cuda_detail3cub6detail6reduce23DeviceReduceByKeyKernelINS1_3rle6encode10policy_"
    "hubIliE10Policy1000EPKiPiN6thrust45THRUST_300001_SM_750_800_860_900_1000_1200_NS17constant_iteratorIliNSD_11use_"
    "defaultEEEPlSH_NS0_24ReduceByKeyScanTileStateIliLb1EEEN4cuda3std3__48equal_"
    "toIvEENSM_4plusIvEEilEEvT0_T1_T2_T3_T4_T5_iT6_T7_T8_";
// mode of a bool: (elements, tuple<bool, long>* position, unsigned long long elements, ...). Of many floats: (elements,
// positions of blocks, ...), and behind it (positions of blocks, position, int blocks, ...).
inline constexpr char kFind[] =
    "_ZN14at_cuda_detail3cub6detail6reduce28DeviceReduceSingleTileKernelINS2_10policy_hubIN4cuda3std3__45tupleIJb"
    "lEEEyN6thrust45THRUST_300001_SM_750_800_860_900_1000_1200_NS8cuda_cub9__find_if7functorIS9_EEE10Policy1000EN"
    "SB_12zip_iteratorINS8_IJNSD_26transform_input_iterator_tIbPKhN2at6native10EqualsModeEEENSB_17counting_iterat"
    "orIlNSB_11use_defaultESR_SR_EEEEEEEPS9_ySF_S9_S9_NS7_10__identityEEEvT0_T1_T2_T3_T4_T6_";
inline constexpr char kFindPart[] =
    "_ZN14at_cuda_detail3cub6detail6reduce18DeviceReduceKernelINS2_10policy_hubIN4cuda3std3__45tupleIJblEEEyN6thr"
    "ust45THRUST_300001_SM_750_800_860_900_1000_1200_NS8cuda_cub9__find_if7functorIS9_EEE10Policy1000ENSB_12zip_i"
    "teratorINS8_IJNSD_26transform_input_iterator_tIbPfNSB_6detail10functional5actorINSM_9compositeIJNSM_16operat"
    "or_adaptorINS7_8equal_toIvEEEENSN_INSM_8argumentILj0EEEEENSN_INSM_5valueIfEEEEEEEEEEENSB_17counting_iterator"
    "IlNSB_11use_defaultES13_S13_EEEEEEEySF_S9_NS7_10__identityEEEvT0_PT3_T1_NS0_13GridEvenShareIS1B_EET2_T4_";
inline constexpr char kFindFirst[] =
    "_ZN14at_cuda_detail3cub6detail6reduce28DeviceReduceSingleTileKernelINS2_10policy_hubIN4cuda3std3__45tupleIJb"
    "lEEEyN6thrust45THRUST_300001_SM_750_800_860_900_1000_1200_NS8cuda_cub9__find_if7functorIS9_EEE10Policy1000EP"
    "S9_SI_iSF_S9_S9_NS7_10__identityEEEvT0_T1_T2_T3_T4_T6_";
// A sum of numbers, which is not a count.
inline constexpr char kSumOfFloats[] =
    "_ZN14at_cuda_detail3cub6detail6reduce28DeviceReduceSingleTileKernelINS2_10policy_hubIfjN4cuda3std3__44plusIvEEE"
    "10Policy1000EPKfPfiS9_ffNS7_10__identityEEEvT0_T1_T2_T3_T4_T6_";
// Of CUB 2.2: nonzero (condition, int* count, int elements, op, int) and unique.
inline constexpr char kOldCountBool[] =
    "_ZN14at_cuda_detail3cub28DeviceReduceSingleTileKernelINS0_18DeviceReducePolicyIbiiNS0_3SumEE9Policy600ENS0_"
    "22TransformInputIteratorIbN2at6native43_GLOBAL__N__1234abcd_10_Nonzero_cu_cba1aaa09NonZeroOpIbEEPKblEEPiiS3_"
    "iiEEvT0_T1_T2_T3_T4_";
inline constexpr char kOldUnique[] =
    "_ZN14at_cuda_detail3cub23DeviceSelectSweepKernelINS0_17AgentSelectPolicyILi128ELi4EEEPKiPNS0_8NullTypeEPiS8_"
    "NS0_13ScanTileStateIiLb1EEES6_NS0_8EqualityEiLb0EEEvT0_T1_T2_T3_T4_T5_T6_T7_i";

// "all elements are true", and what is alike by name alone: element by element.
inline constexpr char kAll[] =
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIbNS0_14func_wrapper_tIbZZZNS0_15and_kernel_cudaERNS_"
    "14TensorIteratorEENKUlvE_clEvENKUlvE10_clEvEUlbbE_EEjbLi4ELi4EEEEEvT1_";
inline constexpr char kLogicalAnd[] =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIN3c108BFloat16ES4_bZZZNS0_23logical_and_"
    "kernel_cudaERNS_14TensorIteratorEENKUlvE0_clEvENKUlvE8_clEvEUlS4_S4_E_EESt5arrayIPcLm2EEEEviT0_T1_";

// `tensor >= number` and its like: (int elements, functor, {output, input}). `type` as mangled: "f", "N3c104HalfE".
inline std::string CompareScalar(const std::string& type) {
  const std::string again = type.size() > 1 ? "S4_" : type;
  return "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_21compare_scalar_kernelI" + type +
         "EEvRNS_18TensorIteratorBaseENS0_50_GLOBAL__N__e50ef81d_17_CompareKernels_cu_8f1b29aa6OpTypeET_EUl" + again +
         "E_St5arrayIPcLm2EEEEviT0_T1_";
}

// `tensor == number`, `tensor != number`.
inline std::string CompareEqual(const std::string& type) {
  const bool is_class = type.size() > 1;
  return "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorI" + type + (is_class ? "S4_" : type) +
         "bNS0_51_GLOBAL__N__28ce311f_18_CompareEQKernel_cu_d8008c9616CompareEqFunctorI" + (is_class ? "S4_" : type) +
         "EEEESt5arrayIPcLm2EEEEviT0_T1_";
}

// `tensor >= other` and its like: (int elements, functor, {output, input, other}); `tensor == other`.
inline constexpr char kCompareTwo[] =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_50_GLOBAL__N__e50ef81d_17_CompareKernels_cu_8f1b29aa"
    "14CompareFunctorIlEESt5arrayIPcLm3EEEEviT0_T1_";
inline constexpr char kCompareTwoUnaligned[] =
    "_ZN2at6native27unrolled_elementwise_kernelINS0_50_GLOBAL__N__e50ef81d_17_CompareKernels_cu_8f1b29aa"
    "14CompareFunctorIlEESt5arrayIPcLm3EELi4E23TrivialOffsetCalculatorILi2EjES8_ILi1EjENS0_"
    "6memory15LoadWithoutCastENSB_"
    "16StoreWithoutCastEEEviT_T0_T2_T3_T4_T5_";
inline constexpr char kEqualTwo[] =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BinaryFunctorIllbNS0_51_GLOBAL__N__28ce311f_18_"
    "CompareEQKernel_cu_d8008c9616CompareEqFunctorIlEEEESt5arrayIPcLm3EEEEviT0_T1_";

// The same where the tensor's type is another than the number's: each element is converted.
inline constexpr char kCompareWithCast[] =
    "_ZN2at6native27unrolled_elementwise_kernelIZNS0_21compare_scalar_kernelIfEEvRNS_18TensorIteratorBaseENS0_50_"
    "GLOBAL__N__e50ef81d_17_CompareKernels_cu_8f1b29aa6OpTypeET_EUlfE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1"
    "EjESD_NS0_6memory12LoadWithCastILi1EEENSE_13StoreWithCastILi1EEEEEviS7_T0_T2_T3_T4_T5_";

}  // namespace simcuda::kernels

#endif  // TESTS_SIMCUDA_DRIVER_KERNEL_NAMES_H_
