/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
//
// The records and maps of the resolution, which this program and the server share (src/records.rs), and numbers in them.
#pragma once

#include "cache.h"

#define SLOTS 65536
#define DEADLINES 512
// The places that are used first.
#define FIRST_BITS 11
#define DRAWS 256
#define DRAW_BLOCKS 512
#define BUSY (~0ULL)
// What a word of `deadlines` and `holds` has of the time.
#define UNTIL (~(__u64)(SLOTS - 1))
// Time for which an expired slot is left to the server, in nanoseconds.
#define GRACE 2000000000ULL
#define TRIES 3
#define STORED_QUERY 160
#define MIN_NAME 4
#define MAX_FOUND 8
#define HANDED 1024
#define MAX_DEPTH 16
#define BLOCKS 32
#define ADDRESS_RECORD 16
#define OUR_RECORD 28
#define UNKNOWN_TTL (~0U)
#define UPSTREAMS 2
#define HOLD_BITS 12
#define HOLD_WAYS 8
// Free slots that a core keeps for itself.
#define KEPT_SLOTS 256
#define STAGE_AAAA 1
#define STAGE_A 2

// Where a frame goes: addresses as in struct place, ports as on the wire.
struct way {
	__u8 from[16], to[16];
	__u8 from_mac[6], to_mac[6];
	__u16 from_port, to_port;
	__u32 device;
	__u8 v6, tos;
	__u8 spare[2];
};

struct upstream {
	__u64 generation;	// of the rules with which it may be asked; 0: never, but its replies are taken
	__u64 timeout;		// in nanoseconds
	__u64 lengths[2];	// lengths of the names in `apart`, as bits; the first is that of length 1
	struct way way;		// without our port
	__u32 ttl_without_soa, min_ttl, max_ttl;
	__u16 udp_size;		// UDP payload size in queries; 0: they have no OPT record
	__u8 mixed_case, options_len;
	__u8 options[16];	// of replies to clients with EDNS
	__u32 place;		// in `upstreams`
	__u32 spare;
};

// How a block makes addresses: those of `base`, with the octets of the IPv4 address at these places.
struct embedding {
	__u8 base[16];
	__u8 places[4];
	__u32 max_ttl;
};

struct mapped_key {
	__u32 bits;
	__u32 block;
	__u8 address[4];
};

struct draw {
	__u16 id, port;	// as on the wire
	__u32 spare;
	__u64 seed;	// of the letter case
};

struct draw_block {
	struct draw draws[DRAWS];
};

struct deadline_block {
	__u64 at[DEADLINES];
};

// Questions for names with equal bits of their hashes.
struct hold_set {
	__u64 words[HOLD_WAYS];
};

struct free_slots {
	__u32 count;
	__u32 slots[KEPT_SLOTS];
};

// A query of a client that is being resolved.
struct slot {
	__u64 generation;
	__u64 hash;		// of its name
	__u64 held;		// its word in `holds`
	struct way way;		// to the client
	__u16 port, id;		// as on the wire, of the query to upstream
	__u32 view, block, negative_ttl;
	__u16 len;		// of the client's query
	__u16 limit;
	__u8 name_len, stage, opt;
	__u8 place;		// of the server that was asked
	__u8 hold_way;		// of the word in its set of `holds`
	__u8 spare[7];
	__u8 query[STORED_QUERY];	// of the client
	__u8 name[STORED_NAME];		// as it was sent upstream; its last word is filled up with zeros
};

// A transaction that the server continues.
struct event {
	struct slot slot;
	__u32 reply_len;	// 0: the reply is not here
	__u16 port, spare;	// of the server that sent it, as on the wire
	__u8 server[16];
	__u8 reply[HANDED];
};

// What a core works on.
struct work {
	__u64 now;
	struct way way;	// to the client of a query
	struct draw draw;
	__u64 held;	// the word of a question in `holds`, and its place in its set
	__u32 hold_way;
	__u32 place;	// of the query to upstream
	__u32 found;
	__u32 life;
	__u32 records_at;	// where those of the reply begin
	__u32 ttl;	// the lowest of all records
	__u8 addresses[MAX_FOUND][4];
	struct event handed[0];	// takes no octets: puts the structure into the type information, for a test
};

struct resolved {
	__u64 answers;		// to clients, after resolution
	__u64 queries, replies;	// to and from upstream
	__u64 handed;		// to the server
	__u64 strays;		// messages from upstream for which no slot waits
	__u64 no_draw, no_slot;	// queries left to the sockets for want of a random number or of a slot
	__u64 equal;		// queries left to the sockets since their name is being resolved
	__u64 blocks[BLOCKS];	// answers by block
};

MAP(upstreams, BPF_MAP_TYPE_ARRAY, UPSTREAMS, struct upstream);
MAP(embeddings, BPF_MAP_TYPE_ARRAY, BLOCKS, struct embedding);

// Which IPv4 addresses a block maps: 1, or 0.
KEYED_MAP(mapped, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, 65536, struct mapped_key, __u32);

// Hashes of the names at and below which the sockets resolve.
KEYED_MAP(apart, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 65536, __u64, __u32);

// Random numbers for each core; how many of them it has used; and how many there were. The server writes and reads these, and
// `deadlines`, through a mapping of their memory.
KEYED_MAP(draws, BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, DRAW_BLOCKS, __u32, struct draw_block);
KEYED_MAP(used, BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, 1, __u32, __u64);
KEYED_MAP(filled, BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, 1, __u32, __u64);
KEYED_MAP(deadlines, BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, SLOTS / DEADLINES, __u32, struct deadline_block);

// The flag lets the map begin with a page, so that a set is one line of a cache.
KEYED_MAP(holds, BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, 1 << HOLD_BITS, __u32, struct hold_set);

MAP(slots, BPF_MAP_TYPE_ARRAY, SLOTS, struct slot);

// Slots that were freed, by each core and by all; and how many slots were ever taken.
MAP(own_freed, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct free_slots);

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, SLOTS);
	__type(value, __u32);
} freed SEC(".maps");

MAP(opened, BPF_MAP_TYPE_ARRAY, 1, __u64);

// Where each core writes its next answer; and how many blocks were begun.
MAP(fills, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct fill);
MAP(begun, BPF_MAP_TYPE_ARRAY, 1, __u64);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

MAP(works, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct work);

// One entry for each core, as in `counters`.
MAP(resolutions, BPF_MAP_TYPE_ARRAY, 1, struct resolved);
