"""The functions that trigger source may call: the one list of the structures library.

`kernels.structures` has each of them compiled, `kernels.plain` as plain Python; both collect by
these names and refuse to load if one is missing. Generated variables never take such a name.
"""

from __future__ import annotations

# These only add to a state, test whether it exceeds the cache, or prefetch from it. A trigger that
# calls nothing else on a state does not need what is in it.
_ADDS = """
    bag_add cofactor_add cofactor_add_total cofactor_add_whole cofactor_has_lost
    cofactor_has_lost_whole exact_add exact_add_number exact_block_add exact_block_add_floats
    exceeds_cache indexed_add indexed_add_wide indexed_fetch indexed_fetch_entry
    indexed_settle indexed_touch keyed_add keyed_add_carried keyed_add_value keyed_add_wide
    keyed_full keyed_touch linked_touch list_add list_add_wide list_fetch list_fetch_end
    list_fetch_entries list_fetch_head list_fetch_linked list_fetch_next list_settle
    list_touch ordered_add ordered_add_null
"""

# Whatever else: it reads a state, or has nothing to do with one.
_READS = """
    add_checked div_decimal div_float div_int fail failed failed_at first_whole int_at
    ints_set is_finite is_nan key_float key_word look_word mod_float mod_int mul_checked
    mul_decimal no_whole only_row out_of_line pair_add scale_down_half_up scale_up scratch
    sort_word sub_checked sum_at text text_less
    bag_plus bag_row bag_times
    cofactor_begin cofactor_gather cofactor_gather_more cofactor_gathered cofactor_join
    cofactor_lift cofactor_needs_low cofactor_none cofactor_pad cofactor_show cofactor_turn
    date_add_months date_day date_day_of_week date_day_of_year date_month date_trunc
    date_year
    emit emit_cancel emit_float emit_full emit_null emit_packed emit_room emit_word
    exact_block_at exact_block_join exact_block_lift exact_block_none exact_block_show
    exact_block_turn
    exact_at exact_clear exact_float exact_is_zero exact_less exact_mul exact_none exact_of
    exact_part exact_scaled exact_times exact_times_wide exact_wide
    float_eq float_key float_lt float_to_int
    floats_at floats_clear floats_clear_low floats_get floats_low floats_put floats_set
    indexed_at indexed_before indexed_commit indexed_count indexed_find indexed_is_zero
    indexed_now indexed_old indexed_touched indexed_word
    keyed_at keyed_before keyed_capacity keyed_now keyed_touched
    linked_find
    list_at list_find list_int list_is_zero list_of list_size list_wide list_word
    moment_add moment_add_powers moment_central moment_cross moment_fourth moment_mean moment_third
    ordered_after ordered_aim ordered_before ordered_end ordered_from ordered_gather_keys
    ordered_group_key ordered_groups ordered_key ordered_moved ordered_negative ordered_next
    ordered_null ordered_pick ordered_pick_all ordered_pick_keys ordered_pick_none
    ordered_pick_run ordered_picked ordered_picked_finite ordered_picked_real ordered_reach
    ordered_regather ordered_regather_keys ordered_regroup ordered_size ordered_strained
    ordered_total ordered_total_real ordered_word
    real_ceil real_exp real_floor real_log real_log10 real_log2 real_pow real_sign real_sqrt
    real_value
    sorted_after sorted_count sorted_end sorted_from sorted_insert sorted_key sorted_next
    sorted_offset sorted_prev sorted_put sorted_remove sorted_same sorted_step sorted_word
    wide_absolute wide_at wide_carry wide_compare wide_fits wide_float wide_from wide_high wide_int
    wide_is_zero wide_less wide_low wide_minus wide_mul wide_narrow wide_negate wide_number
    wide_of wide_plus wide_product wide_ratio wide_ratio_fits
    wide_ratio_of wide_rest_of wide_sum_of wide_times wide_to_real wide_value_fits
    wide_within wide_word
"""

ADDS = frozenset(_ADDS.split())
FUNCTIONS = ADDS.union(_READS.split())
