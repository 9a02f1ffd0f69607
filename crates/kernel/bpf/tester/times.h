// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// When queries and replies were: histograms, counts of seconds and instants, and what user space is told.
#pragma once

#include "tables.h"

// Adds one to the bucket of a time: those of HDR with three digits, 1,024 for each power of two.
__noinline int record(__u32 which, __u64 time)
{
	__u32 log = 0, shift, index;
	struct row *row;
	__u64 v;

	if (time > LONGEST)
		time = LONGEST;
	v = time;
	if (v >> 32) {
		v >>= 32;
		log += 32;
	}
	if (v >> 16) {
		v >>= 16;
		log += 16;
	}
	if (v >> 8) {
		v >>= 8;
		log += 8;
	}
	if (v >> 4) {
		v >>= 4;
		log += 4;
	}
	if (v >> 2) {
		v >>= 2;
		log += 2;
	}
	log += v >> 1;
	shift = log > 10 ? log - 10 : 0;
	// From 1,024 on the highest bit of the shifted time counts the row on.
	index = (bpf_get_smp_processor_id() * HISTOGRAMS + which) * ROWS + shift + ((time >> shift) >> 10);
	row = bpf_map_lookup_elem(&times, &index);
	if (!row)
		return 0;
	row->count[(time >> shift) & (ROW - 1)]++;
	return 0;
}

static __always_inline struct second *second_of(struct config *c, __u64 at)
{
	__u64 number = at > c->start ? (at - c->start) / 1000000000 : 0;
	__u32 index;

	if (number >= c->seconds)
		number = c->seconds - 1;
	index = bpf_get_smp_processor_id() * c->seconds + number;
	return bpf_map_lookup_elem(&series, &index);
}

// The step of a time; none after the last one.
static __always_inline struct step *step_at(struct config *c, __u64 at)
{
	__u64 number = c->steps && at > c->start ? (at - c->start) / c->step_ns : 0;
	__u32 index = bpf_get_smp_processor_id() * c->steps + number;

	return number < c->steps ? bpf_map_lookup_elem(&steps, &index) : 0;
}

// Tells user space; returns 0 if there was room.
static __always_inline long tell(struct scratch *s, __u32 kind, __u64 due, __u64 sent, __u64 at)
{
	s->event.kind = kind;
	s->event.due = due;
	s->event.sent = sent;
	s->event.at = at;
	return bpf_ringbuf_output(&events, &s->event, sizeof(s->event), QUIETLY);
}
