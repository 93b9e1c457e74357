/*
 * settle_impl.h: the steps by which settle.c comes to a layout that can be believed. Nobody else
 * includes this.
 */
#ifndef GOPROF_GO_SETTLE_IMPL_H
#define GOPROF_GO_SETTLE_IMPL_H

#include "go/check_impl.h"

/* check.c: do rt->layout and rt->globals fit the process? Repeats a look that fails. */
enum verdict check_runtime(struct go_runtime *rt, struct look *k);
/* What a look that fits allows. */
uint32_t check_caps(const struct look *k);

/*
 * calibrate.c: members by what the running process holds, with the addresses in rt->globals. `ret`
 * comes with the module's members filled in, which stay; all others are found or unknown. Sets the
 * form of labels in rt->layout in passing: the caller puts that right. NOT_UP: ask again.
 */
enum verdict go_calibrate(struct go_runtime *rt, struct go_layout *ret, char *why, size_t why_len);
/* calibrate_md.c: makes all members unknown but those of moduledata. */
void go_layout_forget(struct go_layout *l);
/* The funcID of wrappers, by functions that are wrappers in every version; UINT8_MAX: unknown. */
uint8_t go_wrapper_id_shown(struct go_runtime *rt);

/*
 * globals_data.c: allgs, allm and the texts of wait reasons, by search in the process's writable
 * data. Each gives whether an address was found that differs from the known one; it is set then.
 */
bool go_allgs_in_data(struct go_runtime *rt);
/* The list of ms, once gs are known (GO_G_SCHED_G and GO_G_GOID in `l`). */
bool go_allm_in_data(struct go_runtime *rt, const struct go_layout *l);
bool go_wait_reasons_in_data(struct go_runtime *rt);

/* layout_dwarf.c: all members from the program's debug information; &err_notfound: it has none. */
struct error *go_layout_dwarf(struct image *img, struct go_layout *ret);

#endif
