"""The functions that trigger source may call: the one list of the structures library.

A kind of state names those of its own (`program.states`), the rest are here. `kernels.structures`
has each of them compiled, `kernels.plain` as plain Python; both collect by these names and refuse
to load if one is missing. Generated variables never take such a name.
"""

from __future__ import annotations

from typing import get_args

from viewmill.program.states import StateKind

# These only add to a state, test whether it exceeds the cache, or prefetch from it. A trigger that
# calls nothing else on a state does not need what is in it.
_ADDS = """
    bag_add cofactor_add cofactor_add_total cofactor_add_whole cofactor_has_lost
    cofactor_has_lost_whole exact_add exact_add_number exact_block_add exact_block_add_floats
    exceeds_cache
"""

# Whatever else: it reads a state, or has nothing to do with one.
_READS = """
    add_checked div_decimal div_float div_int fail failed failed_at first_whole int_at ints_set
    is_finite is_nan key_float key_word look_word mod_float mod_int mul_checked
    no_whole only_row out_of_line pair_add scale_down_half_up scale_up scratch sort_word
    sub_checked sum_at text text_less bag_plus bag_row bag_times cofactor_begin cofactor_gather
    cofactor_gather_more cofactor_gathered cofactor_join cofactor_lift cofactor_needs_low
    cofactor_none cofactor_pad cofactor_show cofactor_turn date_add_months date_day
    date_day_of_week date_day_of_year date_month date_trunc date_year emit emit_cancel
    emit_float emit_full emit_null emit_packed emit_room emit_word exact_block_at
    exact_block_join exact_block_lift exact_block_none exact_block_show exact_block_turn
    exact_at exact_clear exact_float exact_is_zero exact_less exact_mul exact_none exact_of
    exact_part exact_scaled exact_times exact_times_wide exact_wide float_eq float_key float_lt
    float_to_int floats_at floats_clear floats_clear_low floats_get floats_low floats_put
    floats_set moment_add moment_add_powers moment_central moment_cross moment_fourth
    moment_mean moment_third real_ceil real_exp real_floor real_log real_log10 real_log2
    real_pow real_sign real_sqrt real_value wide_absolute wide_at wide_carry wide_compare
    wide_fits wide_float wide_from wide_high wide_int wide_is_zero wide_less wide_low wide_minus
    wide_mul wide_narrow wide_negate wide_number wide_of wide_plus wide_product wide_ratio
    wide_ratio_fits wide_ratio_of wide_rest_of wide_sum_of wide_times wide_to_real
    wide_value_fits wide_within wide_word
"""

_KINDS = get_args(StateKind)
ADDS = frozenset(_ADDS.split()).union(*(each.adds.split() for each in _KINDS))
FUNCTIONS = ADDS.union(_READS.split(), *(each.reads.split() for each in _KINDS))
