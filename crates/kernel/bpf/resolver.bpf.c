// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// The resolution of dns64d in XDP: answers as the cache does (cache.h), and does the plain case of DNS64 itself, six messages:
//
//   client ──AAAA──> ask ──AAAA──> upstream ──no data──> ask again ──A──> upstream ──A──> compose ──AAAA──> client
//                     └── slot: the query, under an id and a port ──┘                         └──> answers
//
// Answers:   what the cache answers, and AAAA with RD and without CD and DO, from a client that one prefix serves, at a name
//            without a rule of its own, if upstream says plainly that there is no AAAA record and gives one to eight A records
//            at the name itself, all of which are mapped.
// Hands over: every other reply to a query of its own, with the client's query: to the server, in the ring `events`. A query without
//            a reply is left in its slot, where the server finds it.
// Passes up: what the cache passes up, queries for which there is no random number, no place or no way to upstream, and those for a
//            name that is being resolved: one question to upstream at a time for each name, or a client could ask so many equal ones
//            that a forged reply meets one of them (RFC 5452 section 5).
// Bounds:    32,768 names that are resolved at once, replies of at most 300 octets (longer ones are handed over), names of at most 128
//            octets and 16 labels.
//
// Ids, ports and letter cases are drawn by the server from the system's generator: those of BPF can be predicted from what it
// gave before. Each number is used once. A reply must come from the server's address and port to the drawn port, with the id and
// the name in the drawn letter case.
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
//
// Two servers have a place in `upstreams`: the one that is asked, and the one that was asked before it, whose replies are still taken.
//
// Flags of the compiler: -mcpu=v3
#include "cache.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

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

// The same as in src/resolver.rs.
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
	__u32 ttls[MAX_FOUND];
	__u8 addresses[MAX_FOUND][4];
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UPSTREAMS);
	__type(key, __u32);
	__type(value, struct upstream);
} upstreams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BLOCKS);
	__type(key, __u32);
	__type(value, struct embedding);
} embeddings SEC(".maps");

// Which IPv4 addresses a block maps: 1, or 0.
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct mapped_key);
	__type(value, __u32);
} mapped SEC(".maps");

// Hashes of the names at and below which the sockets resolve.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u32);
} apart SEC(".maps");

// Random numbers for each core; how many of them it has used; and how many there were. The server writes and reads these, and
// `deadlines`, through a mapping of their memory.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DRAW_BLOCKS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct draw_block);
} draws SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} used SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} filled SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS / DEADLINES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct deadline_block);
} deadlines SEC(".maps");

// The flag lets the map begin with a page, so that a set is one line of a cache.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << HOLD_BITS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct hold_set);
} holds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

// Slots that were freed, by each core and by all; and how many slots were ever taken.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct free_slots);
} own_freed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, SLOTS);
	__type(value, __u32);
} freed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} opened SEC(".maps");

// Where each core writes its next answer; and how many blocks were begun.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fill);
} fills SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} works SEC(".maps");

// One entry for each core, as in `counters`.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct resolved);
} resolutions SEC(".maps");

static __always_inline __u32 load32(const __u8 *b, __u32 at)
{
	return bpf_ntohl(*(const __u32 *)(b + AT(at)));
}

static __always_inline void store32(__u8 *b, __u32 at, __u32 value)
{
	*(__u32 *)(b + AT(at)) = bpf_htonl(value);
}

// Returns 0x20 in each octet of a word that is a small letter.
static __always_inline __u64 small_letters(__u64 word)
{
	__u64 rest = word & 0x7f7f7f7f7f7f7f7fULL;
	__u64 from_a = rest + 0x1f1f1f1f1f1f1f1fULL, above_z = rest + 0x0505050505050505ULL;

	return (from_a & ~above_z & ~word & 0x8080808080808080ULL) >> 2;
}

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
static __always_inline struct upstream *asked(struct config *c)
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

// Writes the query of a slot to upstream into the buffer, and its name as it is sent into the slot; returns its length.
__noinline __u32 put_query(struct buffer *buffer, struct work *work, struct slot *s, struct upstream *u)
{
	__u32 len, at;
	__u8 *b;

	if (!buffer || !work || !s || !u)
		return 0;
	b = buffer->b;
	len = s->name_len;
	*(__u16 *)b = work->draw.id;
	store16(b, 2, FLAG_RD | FLAG_AD);
	store16(b, 4, 1);
	store32(b, 6, 0);
	store16(b, 10, !!u->udp_size);
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word;

		if (WORD * i >= len)
			break;
		word = *(__u64 *)(s->query + HEADER + WORD * i);
		if (len - WORD * i < WORD)
			word &= (1ULL << 8 * (len & 7)) - 1;
		word = lower_word(word);
		if (u->mixed_case)
			word ^= small_letters(word) & mix(work->draw.seed, i);
		((__u64 *)s->name)[i] = word;
		*(__u64 *)(b + HEADER + WORD * i) = word;
	}
	at = HEADER + len;
	store16(b, at, s->stage == STAGE_A ? TYPE_A : TYPE_AAAA);
	store16(b, at + 2, 1);
	at += 4;
	if (u->udp_size) {
		put_opt(b, at, u->udp_size, 0, 0);
		at += OPT_FIXED;
	}
	return at;
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

// Returns whether an OPT record without options, flags that count, and an extended return code ends the message.
static __always_inline int ends_with_opt(const __u8 *b, __u32 at, __u32 len)
{
	return at + OPT_FIXED == len && plain_opt(b, at) && b[AT(at + 5)] == 0;
}

// Returns where the name at a place ends; 0 if it has too many labels.
__noinline __u32 owner_end(struct buffer *buffer, __u32 at)
{
	if (!buffer)
		return 0;
	for (int i = 0; i < MAX_DEPTH; i++) {
		__u32 label = buffer->b[AT(at)];

		if (label >= 0xc0)
			return at + 2;
		if (label > 63 || at >= BUFFER)
			return 0;
		at += label + 1;
		if (label == 0)
			return at;
	}
	return 0;
}

// Returns whether the name from `at` to `end`, which `owner_end` has read, is that of the question, of `len` octets, or one above it: written
// out, or a pointer into the question. 2 if it is a name with a pointer behind labels, or one to elsewhere.
__noinline __u32 is_above(struct buffer *buffer, __u32 at, __u32 end, __u32 len)
{
	__u32 own, start, place = HEADER, is_label = 0;
	__u64 different = 0;
	__u8 *b;

	if (!buffer || len < MIN_NAME || len > MAX_NAME)
		return 0;
	b = buffer->b;
	if (b[AT(at)] >= 0xc0) {
		own = 0;
		start = (b[AT(at)] & 0x3f) << 8 | b[AT(at + 1)];
		if (start < HEADER || start >= HEADER + len)
			return 2;
	} else {
		// A pointer cannot look like the end of a name of the question.
		if (b[AT(end - 1)])
			return 2;
		own = end - 1 - at;
		if (own >= len)
			return 0;
		start = HEADER + len - 1 - own;
	}
	for (int i = 0; i <= MAX_DEPTH; i++) {
		is_label |= place == start;
		place += b[AT(place)] + 1;
	}
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word, other;

		if (WORD * i >= own)
			break;
		word = *(__u64 *)(b + AT(at + WORD * i));
		other = *(__u64 *)(b + AT(start + WORD * i));
		if (own - WORD * i < WORD) {
			word &= (1ULL << 8 * (own & 7)) - 1;
			other &= (1ULL << 8 * (own & 7)) - 1;
		}
		different |= lower_word(word) ^ lower_word(other);
	}
	return is_label && !different;
}

// Reads what stands behind the question of a reply without answers: nothing or an SOA record, and nothing or an OPT record.
__noinline __u32 reads_no_data(struct buffer *buffer, struct slot *s, __u32 at, __u32 len)
{
	__u16 soa, opt;
	__u8 *b;

	if (!buffer || !s)
		return 0;
	b = buffer->b;
	soa = load16(b, 8);
	opt = load16(b, 10);
	s->negative_ttl = UNKNOWN_TTL;
	if (soa > 1 || opt > 1)
		return 0;
	if (soa) {
		__u32 fixed = owner_end(buffer, at), above, data, ttl, minimum;

		if (!fixed || fixed + 10 > len || load16(b, fixed) != TYPE_SOA || load16(b, fixed + 2) != 1)
			return 0;
		above = is_above(buffer, at, fixed, s->name_len);
		if (above > 1)
			return 0;
		data = load16(b, fixed + 8);
		at = fixed + 10 + data;
		if (data < 22 || at > len)
			return 0;
		ttl = load32(b, fixed + 4);
		minimum = load32(b, at - 4);
		if ((ttl | minimum) >> 31)
			return 0;
		// That of another zone does not count.
		if (above)
			s->negative_ttl = ttl < minimum ? ttl : minimum;
	}
	return opt ? ends_with_opt(b, at, len) : at == len;
}

// Reads the A records at the name of the question, and nothing or an OPT record behind them.
__noinline __u32 reads_addresses(struct buffer *buffer, struct work *work, __u32 at, __u32 len)
{
	__u16 count, opt;
	__u8 *b;

	if (!buffer || !work)
		return 0;
	b = buffer->b;
	count = load16(b, 6);
	opt = load16(b, 10);
	if (count == 0 || count > MAX_FOUND || load16(b, 8) || opt > 1)
		return 0;
	for (__u32 i = 0; i < MAX_FOUND; i++) {
		if (i >= count)
			break;
		if (at + ADDRESS_RECORD > len || load16(b, at) != (0xc000 | HEADER) || load32(b, at + 2) != (TYPE_A << 16 | 1)
		    || b[AT(at + 6)] >> 7 || load16(b, at + 10) != 4)
			return 0;
		work->ttls[i] = load32(b, at + 6);
		for (int k = 0; k < 4; k++)
			work->addresses[i][k] = b[AT(at + 12 + k)];
		at += ADDRESS_RECORD;
	}
	work->found = count;
	return opt ? ends_with_opt(b, at, len) : at == len;
}

// Returns whether the buffer has the reply that the plain case needs, to the query of the slot.
__noinline __u32 is_plain(struct buffer *buffer, struct work *work, struct slot *s, __u32 len)
{
	__u64 different = 0;
	__u32 at, name;
	__u8 *b;

	if (!buffer || !work || !s)
		return 0;
	b = buffer->b;
	name = s->name_len;
	at = HEADER + name;
	// A reply, not truncated, without an error.
	if ((load16(b, 2) & (FLAG_QR | OPCODE | FLAG_TC | 15)) != FLAG_QR || load16(b, 4) != 1 || at + 4 > len)
		return 0;
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word;

		if (WORD * i >= name)
			break;
		word = *(__u64 *)(b + HEADER + WORD * i);
		if (name - WORD * i < WORD)
			word &= (1ULL << 8 * (name & 7)) - 1;
		different |= word ^ ((__u64 *)s->name)[i];
	}
	if (different || load16(b, at + 2) != 1)
		return 0;
	if (s->stage == STAGE_A)
		return load16(b, at) == TYPE_A && reads_addresses(buffer, work, at + 4, len);
	return load16(b, at) == TYPE_AAAA && !load16(b, 6) && reads_no_data(buffer, s, at + 4, len);
}

// Writes the records of the reply to the client behind its question; returns their end, or 0 if the server must make them.
__noinline __u32 put_addresses(struct buffer *buffer, struct work *work, struct slot *s, struct upstream *u, __u32 at)
{
	__u32 block, longest, least = ~0U;
	struct embedding *e;
	__u8 *b;

	if (!buffer || !work || !s || !u)
		return 0;
	b = buffer->b;
	block = s->block;
	e = bpf_map_lookup_elem(&embeddings, &block);
	if (!e)
		return 0;
	longest = s->negative_ttl == UNKNOWN_TTL ? u->ttl_without_soa : s->negative_ttl;
	if (longest > e->max_ttl)
		longest = e->max_ttl;
	for (__u32 i = 0; i < MAX_FOUND; i++) {
		struct mapped_key key = { .bits = 64, .block = block };
		__u32 ttl, *is_mapped;

		if (i >= work->found)
			break;
		__builtin_memcpy(key.address, work->addresses[i], 4);
		is_mapped = bpf_map_lookup_elem(&mapped, &key);
		if (!is_mapped || !*is_mapped)
			return 0;
		ttl = work->ttls[i] < longest ? work->ttls[i] : longest;
		if (ttl < least)
			least = ttl;
		if (ttl < u->min_ttl)
			ttl = u->min_ttl;
		if (ttl > u->max_ttl)
			ttl = u->max_ttl;
		store16(b, at, 0xc000 | HEADER);
		store32(b, at + 2, TYPE_AAAA << 16 | 1);
		store32(b, at + 6, ttl);
		store16(b, at + 10, 16);
		for (int k = 0; k < 16; k++)
			b[AT(at + 12 + k)] = e->base[k];
		for (int k = 0; k < 4; k++)
			b[AT(at + 12 + (e->places[k] & 15))] = key.address[k];
		at += OUR_RECORD;
	}
	if (least < u->min_ttl)
		least = u->min_ttl;
	work->life = least < u->max_ttl ? least : u->max_ttl;
	return at;
}

// Writes the reply to the client of the slot into the buffer; returns its length, or 0 if the server must make it.
__noinline __u32 put_reply(struct buffer *buffer, struct work *work, struct slot *s, struct upstream *u, __u16 opt_size)
{
	__u32 at;
	__u8 *b;

	if (!buffer || !work || !s || !u)
		return 0;
	b = buffer->b;
	for (__u32 i = 0; i < STORED_QUERY / WORD; i++)
		((__u64 *)b)[i] = ((__u64 *)s->query)[i];
	work->records_at = HEADER + s->name_len + 4;
	at = put_addresses(buffer, work, s, u, work->records_at);
	if (!at)
		return 0;
	store16(b, 2, FLAG_QR | FLAG_RA | FLAG_RD);
	store16(b, 6, work->found);
	store16(b, 8, 0);
	store16(b, 10, s->opt);
	if (s->opt) {
		put_opt(b, at, opt_size, 0, u->options_len);
		at += OPT_FIXED;
		for (int i = 0; i < 16; i++) {
			if (i >= u->options_len)
				break;
			b[AT(at + i)] = u->options[i];
		}
		at += u->options_len;
	}
	return at <= s->limit ? at : 0;
}

// Writes the key of the answer to the query of a slot.
static __always_inline void set_key(struct key *key, struct slot *s)
{
	key->hash = s->hash;
	key->view = s->view;
	key->type = TYPE_AAAA;
	key->flags = 1;
	key->name_len = s->name_len;
}

// Returns how many blocks were begun since the answer at a place was written, where `fill` is now.
static __always_inline __u32 age_of(struct config *c, struct fill *fill, __u64 place)
{
	__u32 block = (__u32)place / BLOCK_UNITS;
	__s64 age;

	// One of the server's own: that is not known here.
	if (block >= c->blocks)
		return c->blocks / 2;
	age = (__s64)(__s8)(fill->round - (__u32)(place >> 32)) * c->blocks + fill->block - block;
	// Another core may be ahead.
	return age < 0 ? 0 : age < 0xffffffff ? age : 0xffffffff;
}

// Notes in the set of an answer where it is: in place of one with the same key, or of none, or of the oldest.
static __always_inline int note_place(struct config *c, struct fill *fill, struct key *key, __u32 unit)
{
	__u64 hash = hash_of(key);
	struct set *set = set_of(c, hash);
	__u32 way = 0, oldest = 0;

	if (!set)
		return 0;
	for (__u32 i = 0; i < WAYS; i++) {
		__u64 place = set->places[i];
		__u32 age = age_of(c, fill, place);

		if (!place || !((place ^ hash) >> (64 - TAG_BITS))) {
			way = i;
			break;
		}
		if (age >= oldest) {
			oldest = age;
			way = i;
		}
	}
	// For the verifier.
	way &= WAYS - 1;
	set->places[way] = hash >> (64 - TAG_BITS) << (64 - TAG_BITS) | (__u64)(fill->round & 0xff) << 32 | unit;
	return 1;
}

// Begins the next block. Another core may still fill it, if all were begun meanwhile: that spoils answers of both, whose checks tell it.
static __always_inline int next_block(struct config *c, struct fill *fill)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&begun, &zero), number;

	if (!count || !c->blocks)
		return 0;
	number = __sync_fetch_and_add(count, 1);
	fill->block = number % c->blocks;
	fill->round = number / c->blocks;
	fill->left = BLOCK_UNITS;
	return 1;
}

// Four numbers in a word, the first one in its lowest bits.
#define FOUR(a, b, c, d) ((__u64)(a) | (__u64)(b) << 16 | (__u64)(c) << 32 | (__u64)(d) << 48)
// Where the TTLs of four records of ours are.
#define TTLS_AT(first) FOUR(OUR_RECORD * (first) + 6, OUR_RECORD * ((first) + 1) + 6, OUR_RECORD * ((first) + 2) + 6, OUR_RECORD * ((first) + 3) + 6)

// Writes the name of the reply in the buffer, of `len` octets, in lower case, into a block from a word on; returns the check with it.
__noinline __u64 lay_name(struct block *block, struct buffer *buffer, __u32 len, __u32 at, __u64 check)
{
	if (!block || !buffer)
		return 0;
	for (__u32 i = 0; i < NAME_WORDS; i++) {
		__u64 word;

		if (WORD * i >= len)
			break;
		word = *(__u64 *)(buffer->b + HEADER + WORD * i);
		if (len - WORD * i < WORD)
			word &= (1ULL << 8 * (len & 7)) - 1;
		word = lower_word(word);
		block->words[BLOCK_AT(at + i)] = word;
		check = add(check, word);
	}
	return check;
}

// The same for its records.
__noinline __u64 lay_records(struct block *block, struct buffer *buffer, struct work *work, __u32 at, __u64 check)
{
	__u32 len, from;

	if (!block || !buffer || !work)
		return 0;
	from = work->records_at;
	len = OUR_RECORD * work->found;
	for (__u32 i = 0; i < OUR_RECORD * MAX_FOUND / WORD; i++) {
		__u64 word;

		if (WORD * i >= len)
			break;
		word = *(__u64 *)(buffer->b + AT(from + WORD * i));
		// The last word of an odd number of records.
		if (len - WORD * i < WORD)
			word &= 0xffffffff;
		block->words[BLOCK_AT(at + i)] = word;
		check = add(check, word);
	}
	return check;
}

// Stores the reply in the buffer.
__noinline __u32 remember(struct buffer *buffer, struct work *work, struct slot *s, struct upstream *u, struct config *c)
{
	__u32 zero = 0, at, len, unit, units, words;
	struct fill *fill = bpf_map_lookup_elem(&fills, &zero);
	__u64 head[HEAD_WORDS], check;
	struct block *block;
	struct key key = {};

	if (!buffer || !work || !s || !u || !c || !fill)
		return 0;
	len = OUR_RECORD * work->found;
	words = words_for(2 * work->found) + words_for(s->name_len) + words_for(u->options_len) + words_for(len);
	units = (HEAD_WORDS + words + UNIT_WORDS - 1) / UNIT_WORDS;
	if (units > fill->left && !next_block(c, fill))
		return 0;
	block = bpf_map_lookup_elem(&blocks, &fill->block);
	if (!block)
		return 0;
	unit = BLOCK_UNITS - fill->left;
	fill->left -= units;
	set_key(&key, s);
	check = hash_of(&key);
	head[0] = s->generation;
	head[1] = work->now;
	head[2] = work->now + work->life * 1000000000ULL;
	head[4] = FOUR(work->found, 0, 0, 0);
	head[5] = FOUR(len, u->options_len, work->found, words);
	at = unit * UNIT_WORDS;
	for (__u32 i = 0; i < HEAD_WORDS; i++) {
		if (i == CHECK_WORD)
			continue;
		block->words[BLOCK_AT(at + i)] = head[i];
		check = add(check, head[i]);
	}
	at += HEAD_WORDS;
	for (__u32 i = 0; i < words_for(2 * MAX_FOUND); i++) {
		if (4 * i >= work->found)
			break;
		head[0] = i ? TTLS_AT(4) : TTLS_AT(0);
		block->words[BLOCK_AT(at)] = head[0];
		at++;
		check = add(check, head[0]);
	}
	check = lay_name(block, buffer, s->name_len, at, check);
	at += words_for(s->name_len);
	for (__u32 i = 0; i < sizeof(u->options) / WORD; i++) {
		if (WORD * i >= u->options_len)
			break;
		head[0] = ((__u64 *)u->options)[i];
		block->words[BLOCK_AT(at)] = head[0];
		at++;
		check = add(check, head[0]);
	}
	check = lay_records(block, buffer, work, at, check);
	block->words[BLOCK_AT(unit * UNIT_WORDS + CHECK_WORD)] = check;
	return note_place(c, fill, &key, fill->block * BLOCK_UNITS + unit);
}

// Hands the transaction of a slot to the server, with the message of the frame and its sender if it fits; returns whether there was
// room.
static __always_inline int hand_over(struct xdp_md *ctx, struct slot *s, struct ends *ends, __u16 port, __u64 at, __u64 len)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->slot = *s;
	event->reply_len = 0;
	event->port = port;
	event->spare = 0;
	__builtin_memcpy(event->server, ends->from.address, 16);
	if (len > 0 && len < HANDED) {
		filled(len, 1023);
		if (!bpf_xdp_load_bytes(ctx, at, event->reply, len))
			event->reply_len = len;
	}
	bpf_ringbuf_submit(event, 0);
	return 1;
}

// Sends the first `out` octets of the buffer in the frame, on its way, from a port. Returns XDP_PASS if there is no room for them in the frame,
// which is then as it was.
static __always_inline int send_frame(struct xdp_md *ctx, struct config *c, struct buffer *buffer, __u64 out, struct way *w, __u16 port)
{
	// Once: the server may write the way to upstream meanwhile.
	__u32 v6 = *(volatile __u8 *)&w->v6;
	__u64 ip_len = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	__u64 at = sizeof(struct ethhdr) + ip_len + sizeof(struct udphdr), size = ctx->data_end - ctx->data, sum;
	struct ethhdr *eth;
	struct udphdr *udp;
	void *data;
	int action;

	bound(out);
	action = put_message(ctx, buffer, at, out, (int)(at + out) - (int)size, 0, &sum);
	if (action != XDP_TX)
		return action;
	data = (void *)(long)ctx->data;
	eth = data;
	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	__builtin_memcpy(eth->h_dest, w->to_mac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, w->from_mac, ETH_ALEN);
	if (v6) {
		struct ipv6hdr *ip = data + sizeof(*eth);

		if (!has_headers(ctx, data, sizeof(*ip)))
			return XDP_DROP;
		eth->h_proto = bpf_htons(ETH_P_IPV6);
		__builtin_memcpy(&ip->saddr, w->from, 16);
		__builtin_memcpy(&ip->daddr, w->to, 16);
		udp = (void *)(ip + 1);
		udp->source = port;
		udp->dest = w->to_port;
		seal(data, 1, out, sum, w->tos);
	} else {
		struct iphdr *ip = data + sizeof(*eth);

		if (!has_headers(ctx, data, sizeof(*ip)))
			return XDP_DROP;
		eth->h_proto = bpf_htons(ETH_P_IP);
		__builtin_memcpy(&ip->saddr, w->from + 12, 4);
		__builtin_memcpy(&ip->daddr, w->to + 12, 4);
		udp = (void *)(ip + 1);
		udp->source = port;
		udp->dest = w->to_port;
		seal(data, 0, out, sum, w->tos);
	}
	return w->device == ctx->ingress_ifindex ? send_by_own(ctx, c) : bpf_redirect(w->device, 0);
}

// Notes in `work` the way back to who asks.
static __always_inline int note_client(struct xdp_md *ctx, struct packet *p, struct ends *ends, struct work *work, struct config *c)
{
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct udphdr *udp = udp_of(ctx, p);
	struct way *w = &work->way;

	if (!udp || data + sizeof(*eth) > (void *)(long)ctx->data_end)
		return 0;
	__builtin_memcpy(w->from, ends->to.address, 16);
	__builtin_memcpy(w->to, ends->from.address, 16);
	__builtin_memcpy(w->from_mac, eth->h_dest, 6);
	__builtin_memcpy(w->to_mac, eth->h_source, 6);
	w->from_port = udp->dest;
	w->to_port = udp->source;
	w->device = ctx->ingress_ifindex;
	w->v6 = p->v6;
	w->tos = c->tos;
	return 1;
}

// Writes the query of a client, in the buffer, into its slot.
static __always_inline void note_query(struct buffer *buffer, struct work *work, struct config *c, struct client *client, struct query *q,
				       __u32 len, struct slot *s)
{
	s->generation = c->generation;
	s->hash = q->key.hash;
	s->held = work->held;
	s->hold_way = work->hold_way;
	s->way = work->way;
	s->view = q->key.view;
	s->block = client->plain - 1;
	s->negative_ttl = UNKNOWN_TTL;
	s->len = len;
	s->limit = q->limit;
	s->name_len = q->key.name_len;
	s->stage = STAGE_AAAA;
	s->opt = q->opt;
	for (__u32 i = 0; i < STORED_QUERY / WORD; i++)
		((__u64 *)s->query)[i] = ((__u64 *)buffer->b)[i];
}

// Gives back what `ask` has taken for a query whose name has this hash: its place, its slot, if it has one, and the question.
static __always_inline void give_back(struct work *work, __u64 hash, __u32 slot)
{
	__u64 *at = deadline_of(work->place);

	if (slot < SLOTS)
		free_slot(slot);
	if (at)
		*(volatile __u64 *)at = 0;
	hold_until(hash, work->held, work->hold_way, 0);
}

// Makes the query to upstream for a query of a client, in the buffer; returns its length, or 0 if the sockets are to resolve it.
// Its server and the number of its slot are then in `upstream` and `slot`.
static __always_inline __u32 ask(struct buffer *buffer, struct work *work, struct scratch *scratch, struct config *c, struct resolved *r,
				 struct client *client, struct query *q, __u32 len, struct upstream **upstream, __u32 *slot)
{
	struct upstream *u = asked(c);
	struct slot *s;

	if (!u || q->key.type != TYPE_AAAA || q->key.flags != 1 || !client->plain || q->key.name_len < MIN_NAME)
		return 0;
	if (is_apart(scratch, u, q->key.name_len, c->seed))
		return 0;
	// Two queries, and the time until the server takes over.
	if (!hold(work, q->key.hash, work->now + 2 * u->timeout + GRACE)) {
		r->equal++;
		return 0;
	}
	if (!claim(work)) {
		hold_until(q->key.hash, work->held, work->hold_way, 0);
		return 0;
	}
	*slot = take_slot();
	s = bpf_map_lookup_elem(&slots, slot);
	if (!s) {
		give_back(work, q->key.hash, *slot);
		r->no_slot++;
		return 0;
	}
	note_query(buffer, work, c, client, q, len, s);
	*upstream = u;
	return put_query(buffer, work, s, u);
}

static __always_inline int from_client(struct xdp_md *ctx, struct packet *p, struct ends *ends, struct config *c, struct work *work)
{
	__u32 zero = 0, core = bpf_get_smp_processor_id(), out, slot = 0;
	struct counts *n = bpf_map_lookup_elem(&counters, &core);
	struct resolved *r = bpf_map_lookup_elem(&resolutions, &core);
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &zero);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct upstream *u = 0;
	struct client *client;
	struct slot *s;
	struct query q = {};
	__u32 verdict = SEND;
	int cached, action;

	if (!n || !r || !buffer || !scratch)
		return XDP_PASS;
	n->queries++;
	if (!note_client(ctx, p, ends, work, c) || !read_message(ctx, p, buffer))
		goto pass;
	client = bpf_map_lookup_elem(&clients, &ends->from);
	if (!client || !client->allowed || !read_query(buffer, scratch, c, client, p->len, &q))
		goto pass;
	// It comes while the set of the answer does.
	touch(holds_of(q.key.hash));
	out = give(buffer, scratch, c, &q);
	if (out == FOR_SOCKETS)
		goto pass;
	cached = out != NO_ANSWER;
	if (cached) {
		verdict = limit(c, work->way.to, work->way.v6, q.key.hash ^ (__u64)q.key.type << 48 ^ (scratch->entry.flags & 15));
		if (verdict == LEAVE_OUT) {
			n->limited++;
			return XDP_DROP;
		}
		if (verdict == SLIP)
			out = truncate(buffer->b, q.at & 511, q.opt, c->opt_size, q.key.flags >> 2);
	}
	else
		out = ask(buffer, work, scratch, c, r, client, &q, p->len, &u, &slot);
	if (!out || out >= BUFFER)
		goto pass;
	action = send_frame(ctx, c, buffer, out, u ? &u->way : &work->way, u ? work->draw.port : work->way.from_port);
	if (action == XDP_PASS || action == XDP_DROP) {
		if (u)
			give_back(work, q.key.hash, slot);
		if (action == XDP_PASS)
			goto pass;
		n->dropped++;
		return action;
	}
	n->limited += verdict == SLIP;
	n->slipped += verdict == SLIP;
	if (cached)
		count_answer(n, q.key.type, scratch->entry.flags & 15);
	s = u ? bpf_map_lookup_elem(&slots, &slot) : 0;
	if (s) {
		wait(work, s, u, slot);
		r->queries++;
	}
	return action;
pass:
	n->passed++;
	return XDP_PASS;
}

// Continues the transaction of a slot with the reply in the buffer: returns the length of the next message, or 0 if the server is to
// continue.
static __always_inline __u32 proceed(struct buffer *buffer, struct work *work, struct config *c, struct upstream *u, struct slot *s,
				     __u32 len)
{
	__u32 out;

	if (!is_plain(buffer, work, s, len))
		return 0;
	if (s->stage == STAGE_AAAA) {
		if (!claim(work))
			return 0;
		s->stage = STAGE_A;
		return put_query(buffer, work, s, u);
	}
	out = put_reply(buffer, work, s, u, c->opt_size);
	if (out && work->life)
		remember(buffer, work, s, u, c);
	return out;
}

// Handles a message from the server with this place in `upstreams`.
static __always_inline int from_upstream(struct xdp_md *ctx, struct packet *p, struct ends *ends, struct config *c, __u32 server, struct work *work)
{
	__u32 zero = 0, core = bpf_get_smp_processor_id(), out = 0, place, slot, stage, verdict = SEND;
	struct counts *n = bpf_map_lookup_elem(&counters, &core);
	struct resolved *r = bpf_map_lookup_elem(&resolutions, &core);
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &zero);
	struct udphdr *udp = udp_of(ctx, p);
	struct upstream *u = asked(c);
	__u64 *at, *next, was = 0, now = work->now, message, len;
	struct slot *s;
	__u16 *id, port, from;
	int action;

	if (!n || !r || !buffer || !udp)
		return XDP_PASS;
	port = udp->dest;
	from = udp->source;
	len = bpf_ntohs(udp->len) - sizeof(*udp);
	message = sizeof(struct ethhdr) + p->ip_len + sizeof(*udp);
	id = (void *)(udp + 1);
	// The kernel drops what has no checksum over IPv6 (RFC 8200 section 8.1).
	if (p->len != len + sizeof(*udp) || (p->v6 && !udp->check) || (void *)(id + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	place = take_up(port, *id, server, now, &was);
	// There is none with the number SLOTS.
	at = deadline_of(place);
	slot = was & (SLOTS - 1);
	s = bpf_map_lookup_elem(&slots, &slot);
	if (!at || !s) {
		r->strays++;
		return XDP_PASS;
	}
	r->replies++;
	stage = s->stage;
	if (u && s->generation == c->generation && read_message(ctx, p, buffer))
		out = proceed(buffer, work, c, u, s, p->len);
	if (!out || out >= BUFFER) {
		if (!hand_over(ctx, s, ends, from, message, len)) {
			*(volatile __u64 *)at = (now & UNTIL) | slot;
			return XDP_DROP;
		}
		hold_until(s->hash, s->held, s->hold_way, now + SECOND);
		r->handed++;
		free_place(at, slot);
		return XDP_DROP;
	}
	if (stage == STAGE_AAAA) {
		action = send_frame(ctx, c, buffer, out, &u->way, work->draw.port);
		if (action == XDP_PASS || action == XDP_DROP) {
			// The server finds it, as one without a reply, and only once.
			next = deadline_of(work->place);
			if (next)
				*(volatile __u64 *)next = 0;
			*(volatile __u64 *)at = (now & UNTIL) | slot;
			return XDP_DROP;
		}
		wait(work, s, u, slot);
		*(volatile __u64 *)at = 0;
		r->queries++;
		return action;
	}
	verdict = limit(c, s->way.to, s->way.v6, s->hash ^ (__u64)TYPE_AAAA << 48);
	if (verdict == LEAVE_OUT) {
		n->limited++;
		hold_until(s->hash, s->held, s->hold_way, 0);
		free_place(at, slot);
		return XDP_DROP;
	}
	if (verdict == SLIP)
		out = truncate(buffer->b, HEADER + 4 + s->name_len, s->opt, c->opt_size, 0);
	action = send_frame(ctx, c, buffer, out, &s->way, s->way.from_port);
	if (action == XDP_PASS || action == XDP_DROP) {
		*(volatile __u64 *)at = (now & UNTIL) | slot;
		return XDP_DROP;
	}
	n->limited += verdict == SLIP;
	n->slipped += verdict == SLIP;
	r->answers++;
	r->blocks[s->block & (BLOCKS - 1)]++;
	count_answer(n, TYPE_AAAA, 0);
	hold_until(s->hash, s->held, s->hold_way, 0);
	free_place(at, slot);
	return action;
}

// Returns the place in `upstreams` of the server that sends a message; UPSTREAMS if there is none.
static __always_inline __u32 sender(struct ends *ends, struct udphdr *udp)
{
	for (__u64 number = 0; number < UPSTREAMS; number++) {
		__u32 place = number;
		struct upstream *u = bpf_map_lookup_elem(&upstreams, &place);
		__u32 *from = (void *)ends->from.address, *to = (void *)ends->to.address, *server, *source, different;

		if (!u)
			break;
		server = (void *)u->way.to;
		source = (void *)u->way.from;
		different = udp->source ^ u->way.to_port;
		for (int i = 0; i < 4; i++)
			different |= (from[i] ^ server[i]) | (to[i] ^ source[i]);
		if (!different)
			return place;
	}
	return UPSTREAMS;
}

SEC("xdp")
int dns64d_resolver(struct xdp_md *ctx)
{
	__u32 zero = 0, place;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct work *work = bpf_map_lookup_elem(&works, &zero);
	struct ends ends = {};
	struct packet p;
	struct udphdr *udp;

	if (!c || !work || !c->generation || !read_frame(ctx, &p))
		return XDP_PASS;
	udp = read_ends(ctx, &p, &ends);
	if (!udp)
		return XDP_PASS;
	// Of the last tick, which is enough for timeouts: to read the clock itself takes longer than to find an answer.
	work->now = bpf_ktime_get_coarse_ns();
	place = sender(&ends, udp);
	if (place < UPSTREAMS)
		return from_upstream(ctx, &p, &ends, c, place, work);
	return bpf_map_lookup_elem(&listen, &ends.to) ? from_client(ctx, &p, &ends, c, work) : XDP_PASS;
}
