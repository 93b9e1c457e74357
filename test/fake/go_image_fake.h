/*
 * go_image_fake.h: a Go program's file made by hand, byte by byte, from the published formats: for
 * the readers of lib/image and lib/go, which get it as they would get any file. Nothing here is
 * computed by the code under test. Unlike go_fake.h, tests may look at and damage every part.
 *
 * Four segments: headers, code, read-only data (function table and all), writable data (moduledata,
 * build record). File offsets are the addresses minus `base`. Out of memory ends the test.
 */
#ifndef GOPROF_TEST_GO_IMAGE_FAKE_H
#define GOPROF_TEST_GO_IMAGE_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_FUNCS = 6, FAKE_FUNC_SIZE = 0x40, FAKE_SIZE = 0x8000, FAKE_LOADS = 4 };

/*
 * 0 main.main: stack depth 0 up to +4, then 24, from +0x3c 0 again; /src/main.go, line 10, from +8 12.
 *   [+0x10,+0x18) is main.leaf (leaf.go:55) inlined into main.mid (mid.go:33) inlined here at line 12.
 * 1 main.main.gowrap1: wrapper, WrapInfo names main.main (from 18 on)
 * 2 main.dup
 * 3 main.dup: the same name once more
 * 4 runtime.goexit: top frame, assembly (its record says so from 17 on)
 * 5 runtime.systemstack: sp written, assembly, no stack table
 */

struct go_image_options {
	int minor;		/* 15; 16, 17; 18, 19; 20 to 27: four formats */
	uint64_t base;		/* address of file offset 0 */
	bool dyn;		/* ET_DYN with relative relocations for all pointers of the data */
	bool in_place;		/* dyn: the pointers stand in the data, too */
	bool buildinfo;
};

struct go_image_fake {
	struct go_image_options o;
	uint8_t *bytes;		/* FAKE_SIZE of them */
	uint64_t text, etext;
	/* Where parts begin. In the format of 15 their offsets count from the start of pclntab. */
	uint64_t pclntab, funcnametab, cutab, filetab, pctab, functab, gofunc, moduledata, buildinfo;
	uint64_t ftab;			/* the sorted table; 16 bytes an entry up to 17, then 8 */
	uint64_t record[FAKE_FUNCS];	/* addresses of the function records */
	uint64_t inl_tree;		/* address of main.main's */
	uint64_t table_inl;		/* address of main.main's pc table of inlining */
	uint64_t table_sp;
	uint64_t rela, n_rela;
	uint64_t version_header;	/* string header of runtime.buildVersion */
};

struct go_image_fake *go_image_fake_create(const struct go_image_options *o);
void go_image_fake_destroy(struct go_image_fake *f);
/* A file with the first `len` bytes; closed by the caller. */
int go_image_fake_file(const struct go_image_fake *f, size_t len);
/* The bytes at a link-time address. */
uint8_t *go_image_fake_at(struct go_image_fake *f, uint64_t addr);
void go_image_fake_put(struct go_image_fake *f, uint64_t addr, uint64_t value, unsigned int size);

#endif
