/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// What one query to upstream takes: a random number, a place by its id and port, a slot for the client's query, and a word for its name.
//
// A query to upstream has a place by its id and port, with a word in `deadlines`: 0 if the place is free, BUSY while a core works on
// it, otherwise the time until when a reply is accepted, in 48 bits, and in the other 16 the number of the slot. Afterwards the
// server has some time to take over, before the place is used again. Its place is one of the first ones, which are in the caches of the
// core, and only if that is not free one of all. A slot belongs to one place at a time. The one that this core freed last is taken
// first, so that few slots are in use, for the same reason.
//
// A question has a word in `holds`, in the set of the hash of its name: the time until when no other question with this name is asked,
// in 48 bits, and in the other 16 what tells the names of the set apart. It ends with the answer, or a second
// after the question was handed over.
#pragma once

#include "resolver_maps.h"

// Returns the place that is used first, or the other one.
static __always_inline __u32 place_of(__u16 port, __u16 id, int other)
{
	return ((__u32)port << 16 | id) * 2654435761u >> (other ? 16 : 32 - FIRST_BITS);
}

// Returns the word of a place.
static __always_inline __u64 *deadline_of(__u32 place)
{
	__u32 number = place / DEADLINES;
	struct deadline_block *block = bpf_map_lookup_elem(&deadlines, &number);

	return block ? &block->at[place & (DEADLINES - 1)] : 0;
}

// Takes a free slot. There are as many as places, so that one is left for a place that was claimed, unless other cores keep it for
// themselves: then this returns SLOTS.
static __always_inline __u32 take_slot(void)
{
	__u32 zero = 0, slot = 0;
	struct free_slots *own = bpf_map_lookup_elem(&own_freed, &zero);
	__u64 *first, next;

	if (own && own->count) {
		own->count--;
		return own->slots[own->count & (KEPT_SLOTS - 1)] & (SLOTS - 1);
	}
	if (!bpf_map_pop_elem(&freed, &slot))
		return slot & (SLOTS - 1);
	first = bpf_map_lookup_elem(&opened, &zero);
	next = first ? __sync_fetch_and_add(first, 1) : SLOTS;
	return next < SLOTS ? next : SLOTS;
}

static __always_inline void free_slot(__u32 slot)
{
	__u32 zero = 0;
	struct free_slots *own = bpf_map_lookup_elem(&own_freed, &zero);

	if (own && own->count < KEPT_SLOTS) {
		own->slots[own->count & (KEPT_SLOTS - 1)] = slot;
		own->count++;
		return;
	}
	bpf_map_push_elem(&freed, &slot, BPF_ANY);
}

// Frees a place on which this core works, and its slot; that comes first, so that there are no fewer than places.
static __always_inline void free_place(__u64 *at, __u32 slot)
{
	free_slot(slot);
	*(volatile __u64 *)at = 0;
}

// Frees a place on which this core works, and that has no slot.
static __always_inline void free_word(__u32 place)
{
	__u64 *at = deadline_of(place);

	if (at)
		*(volatile __u64 *)at = 0;
}

// Returns the set of the questions for a name.
static __always_inline struct hold_set *holds_of(__u64 hash)
{
	__u32 number = hash >> (64 - HOLD_BITS);

	return bpf_map_lookup_elem(&holds, &number);
}

// Keeps other questions for the name with a hash out until a time; returns 0 if this one has to stay out.
__noinline __u32 hold(struct work *work, __u64 hash, __u64 until)
{
	struct hold_set *set = holds_of(hash);
	__u64 own = (until & UNTIL) | (hash & ~UNTIL), was = 0;
	__u32 way = HOLD_WAYS;

	if (!work || !set)
		return 0;
	for (__u32 i = 0; i < HOLD_WAYS; i++) {
		__u64 word = *(volatile __u64 *)&set->words[i];

		if (work->now >= (word & UNTIL)) {
			way = i;
			was = word;
		} else if (!((word ^ own) & ~UNTIL)) {
			return 0;
		}
	}
	if (way >= HOLD_WAYS || __sync_val_compare_and_swap(&set->words[way], was, own) != was)
		return 0;
	// Another core may have taken another word for the same name meanwhile; it sees this one then.
	for (__u32 i = 0; i < HOLD_WAYS; i++) {
		__u64 word = *(volatile __u64 *)&set->words[i];

		if (i != way && work->now < (word & UNTIL) && !((word ^ own) & ~UNTIL)) {
			*(volatile __u64 *)&set->words[way & (HOLD_WAYS - 1)] = 0;
			return 0;
		}
	}
	work->held = own;
	work->hold_way = way;
	return 1;
}

// Keeps other questions out until another time than that of the word; 0: no longer.
static __always_inline void hold_until(__u64 hash, __u64 held, __u32 way, __u64 until)
{
	struct hold_set *set = holds_of(hash);
	__u64 *at;

	if (!set)
		return;
	at = &set->words[way & (HOLD_WAYS - 1)];
	// Before its end no other question takes the word.
	if (*(volatile __u64 *)at == held)
		*(volatile __u64 *)at = until ? (until & UNTIL) | (hash & ~UNTIL) : 0;
}

// Returns the server that is asked under the current rules, or 0.
static __always_inline struct upstream *current_upstream(struct config *c)
{
	__u32 place = 0;
	struct upstream *u = bpf_map_lookup_elem(&upstreams, &place);

	if (u && u->generation == c->generation)
		return u;
	place = 1;
	u = bpf_map_lookup_elem(&upstreams, &place);
	return u && u->generation == c->generation ? u : 0;
}

// Returns whether the name in lower case is at or below a name with a rule of its own, or has too many labels.
__noinline __u32 is_apart(struct scratch *scratch, struct upstream *u, __u32 len, __u64 seed)
{
	__u8 *name;
	__u32 at = 0;

	if (!scratch || !u)
		return 1;
	name = (__u8 *)scratch->name;
	for (__u32 depth = 0; depth <= MAX_DEPTH; depth++) {
		__u32 left = len - at;
		__u32 label;

		if (left == 0 || left > STORED_NAME)
			return 1;
		label = name[at & (STORED_NAME - 1)];
		if (u->lengths[(left - 1) / 64 & 1] >> ((left - 1) & 63) & 1) {
			__u64 hash = seed;

			for (__u32 i = 0; i < STORED_NAME; i++) {
				if (i >= left)
					break;
				hash = mix(hash, name[(at + i) & (STORED_NAME - 1)]);
			}
			if (bpf_map_lookup_elem(&apart, &hash))
				return 1;
		}
		if (label == 0)
			return 0;
		at += label + 1;
	}
	return 1;
}

// Takes the next random number of this core.
static __always_inline int take_draw(struct draw *out)
{
	__u32 core = bpf_get_smp_processor_id(), number;
	__u64 *taken = bpf_map_lookup_elem(&used, &core), *there = bpf_map_lookup_elem(&filled, &core);
	struct draw_block *block;

	if (!taken || !there || *taken >= *(volatile __u64 *)there)
		return 0;
	number = core * DRAW_BLOCKS + (*taken / DRAWS & (DRAW_BLOCKS - 1));
	block = bpf_map_lookup_elem(&draws, &number);
	if (!block)
		return 0;
	*out = block->draws[*taken & (DRAWS - 1)];
	*(volatile __u64 *)taken = *taken + 1;
	return 1;
}

// Takes a place under a random id and port, which are then in `work`, as its number is; returns 0 if there is none.
__noinline __u32 claim(struct work *work)
{
	__u32 core = bpf_get_smp_processor_id();
	struct resolved *n = bpf_map_lookup_elem(&resolutions, &core);

	if (!work || !n)
		return 0;
	for (int i = 0; i < 2 * TRIES; i++) {
		__u64 *at, was;
		__u32 place;

		if (!(i & 1) && !take_draw(&work->draw)) {
			n->no_draw++;
			return 0;
		}
		place = place_of(work->draw.port, work->draw.id, i & 1);
		at = deadline_of(place);
		if (!at)
			return 0;
		was = *(volatile __u64 *)at;
		if (was && (was == BUSY || work->now < (was & UNTIL) + GRACE))
			continue;
		if (__sync_val_compare_and_swap(at, was, BUSY) != was)
			continue;
		if (was)
			free_slot(was & (SLOTS - 1));
		work->place = place;
		return 1;
	}
	n->no_slot++;
	return 0;
}

// Returns whether a slot has a query to this server, from this port with this id.
static __always_inline int waits(struct slot *s, __u16 port, __u16 id, __u32 server)
{
	return *(volatile __u16 *)&s->port == port && *(volatile __u16 *)&s->id == id && *(volatile __u8 *)&s->place == server;
}

// Takes the place of the query to a server that waits for a reply at this port with this id, which is BUSY then, and its word is in
// `was`; returns its number, or SLOTS if there is none.
static __always_inline __u32 take_up(__u16 port, __u16 id, __u32 server, __u64 now, __u64 *was)
{
	for (int other = 0; other < 2; other++) {
		__u32 place = place_of(port, id, other), slot;
		__u64 *at = deadline_of(place);
		struct slot *s;

		if (!at)
			continue;
		*was = *(volatile __u64 *)at;
		if (!*was || *was == BUSY || now >= (*was & UNTIL))
			continue;
		slot = *was & (SLOTS - 1);
		s = bpf_map_lookup_elem(&slots, &slot);
		if (!s || !waits(s, port, id, server) || __sync_val_compare_and_swap(at, *was, BUSY) != *was)
			continue;
		if (waits(s, port, id, server))
			return place;
		// It had another query by then, with the same word.
		*(volatile __u64 *)at = *was;
	}
	return SLOTS;
}

// Lets the query to upstream of a slot wait for its reply, under the place that was taken for it. The frame is on its way, but leaves
// only after the program has ended.
static __always_inline void wait(struct work *work, struct slot *s, struct upstream *u, __u32 slot)
{
	__u64 *at = deadline_of(work->place);

	s->port = work->draw.port;
	s->id = work->draw.id;
	s->place = u->place;
	// The word comes last: processors that do not keep the order of stores keep it by the locks of the device before they receive a reply.
	asm volatile("" ::: "memory");
	if (at)
		*(volatile __u64 *)at = ((work->now + u->timeout) & UNTIL) | slot;
}
