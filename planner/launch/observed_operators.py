# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Which of PyTorch's operators values.py looks at, and what it does about each: computes the result, draws it, notes that something was written there, or asks first how
much is found.

    for name, overload in operators(torch):
        both = looks(torch, values, name, overload)   # (before, after), or None

Failure: an operator that this PyTorch lacks, or has no CPU kernel for, is not computed.
"""

import functools
import warnings

# Whose results may be integers, booleans, or constants that become such: element by element, reductions, choosing, ordering.
COMPUTED = set(
    """abs add sub rsub mul div floor_divide remainder fmod pow neg sign sgn bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
    logical_and logical_or logical_xor logical_not eq ne lt le gt ge where masked_fill masked_scatter masked_select index index_put _index_put_impl_ index_select index_add
    index_fill index_copy gather scatter scatter_add scatter_reduce take put cat stack cumsum cumprod _cummax_helper _cummin_helper sum nansum prod mean max min amax amin aminmax argmax argmin all
    any sort argsort topk kthvalue mode median nanmedian unique_dim _unique _unique2 unique_consecutive unique_dim_consecutive nonzero nonzero_static searchsorted bucketize bincount histc tril triu eye
    fill zero copy clone roll flip repeat_interleave clamp clamp_min clamp_max minimum maximum fmax fmin floor ceil round trunc frac reciprocal sqrt rsqrt exp exp2 expm1
    log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid erf isnan isinf isneginf isposinf isin count_nonzero trace dot mm bmm addmm baddbmm addcmul addcdiv lerp
    _softmax _log_softmax softmax log_softmax linalg_vector_norm std var var_mean std_mean arange range linspace logspace complex polar hypot nan_to_num square gcd lcm heaviside diff
    signbit copysign xlogy logaddexp logcumsumexp embedding constant_pad_nd _cdist_forward equal im2col""".split()
)
OVERWRITES = {"copy", "fill", "zero"}  # all of their target
IGNORED = {"resize", "resize_as", "set", "record_stream", "_resize_output", "rename", "_local_scalar_dense"}
FILLS = {"uniform", "normal", "random", "bernoulli", "exponential", "geometric", "log_normal", "cauchy", "randperm"}  # with random numbers, whatever was there
DRAWN = {"multinomial", "poisson", "binomial"}
SIZED = {"bincount", "repeat_interleave"}  # they read numbers for the size of their result
COUNTED = {"nonzero", "_unique", "_unique2", "unique_consecutive", "unique_dim", "unique_dim_consecutive"}


def operators(torch):
    """(name, overload) of each that has a kernel for CUDA of its own: what is made of others is computed by these."""
    has, aten = torch._C._dispatch_has_kernel_for_dispatch_key, torch.ops.aten
    for name in torch._C._dispatch_get_all_op_names():
        is_own = has(name, "CUDA") or name == "aten::copy_"
        if not name.startswith("aten::") or not is_own or has(name, "CompositeImplicitAutograd"):
            continue
        base, _, overload = name[6:].partition(".")
        try:
            yield base, getattr(getattr(aten, base), overload or "default")
        except AttributeError:
            continue


def written(schema):
    """(positions, names) of the arguments that it writes."""
    arguments = [(i, each) for i, each in enumerate(schema.arguments) if each.alias_info is not None and each.alias_info.is_write]
    return tuple(i for i, each in arguments if not each.kwarg_only), tuple(each.name for _, each in arguments if each.kwarg_only)


def looks(torch, values, base, overload):
    """(before, after) for an operator; None: it is not observed."""
    schema, bare = overload._schema, base.rstrip("_") if base != "_index_put_impl_" else base
    if any(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns):
        return None
    if str(overload) == "aten.pow.Tensor_Tensor_out":  # PyTorch calls it with a number wrapped on the device, which Python cannot be shown
        return None
    if base == "_local_scalar_dense":
        return None, values.decisions.read
    if bare in IGNORED:
        return None
    computed = bare in COMPUTED and torch.Tag.nondeterministic_seeded not in overload.tags
    places, names = written(schema)
    handle = on_cpu(torch, overload)
    is_drawn = handle is not None and any(each.name == "generator" for each in schema.arguments)
    if is_drawn and bare in FILLS and (places or names):
        return None, values.filling(handle, places, names)
    if is_drawn and base in DRAWN and not (places or names):
        return None, values.functional(handle, base, True)
    if places or names:
        before = values.begins_scaling if base == "_amp_foreach_non_finite_check_and_unscale_" else None
        return before, values.writing(handle, bare, places, names, computed and handle is not None, bare in OVERWRITES)
    if not computed or handle is None:
        return None
    if base in COUNTED:
        return values.counted(handle, base, base.startswith("unique_dim"))
    if values.routing.may_choose(overload):
        return None, values.routing.choosing(handle, base)
    return values.decisions.begins_sizing if base in SIZED else None, values.functional(handle, base)


def on_cpu(torch, overload):
    """PyTorch's own kernel for CPU tensors, past whatever modes the program has on; None: there is none."""
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(overload.name(), "CPU"):
        return None
    kernel = torch._C._dispatch_get_computed_kernel_for_dispatch_key(overload.name(), "CPU")
    return functools.partial(kernel.call_boxed, torch._C.DispatchKeySet(torch._C.DispatchKey.CPU))


def quietly(torch, function):
    """PyTorch warns of kernels that take another's place; where a method of a tensor is running, it does so by Python's warnings, elsewhere on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1, device="cpu").apply_(lambda element: function() or element)
