// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
// Flags of the compiler: -mcpu=v3
//
// The Tester in the kernel: a generator of queries, and a checker of their replies.
//
// generate:  is run over and over (BPF_PROG_RUN with live frames), pinned to the core of a worker. Nothing due: the frame is dropped,
//            which costs some 50 ns. Else the frame becomes the next query, of a namespace or of a list, and leaves through the device.
//            In a closed loop a query is due when the window has a free place.
// check:     sits in XDP on that device. It takes UDP messages from the server's address and port to the Tester's ports, finds
//            their query, and counts those that say what is expected in the plainest layout. Every other reply in time goes to
//            user space, which judges it as it judges those of its sockets. All other packets are passed up.
// Bounds:    frames of at most 511 octets, messages of at most 4,000, names of four numbers with leading zeros (15 characters) or
//            listed questions of at most 259 octets; replies of at most 16 records; the slots, ports and seconds of the maps. Expiry
//            takes at most two slots a run, so that it keeps up with any rate. Late departures are told as spans, not each. Spans
//            and stalls for which the ring has no room are told later, joined: none is missed, and the schedule ends after them.
//
// A slot of the flight table is written by its generator and may be read on another core: its first word (due time, state) changes
// by compare-and-exchange only. Counters and times belong to cores, and are summed up by user space.
#include "dns.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define LABEL 16		// the label of a name with its length
#define CHUNK 64		// octets of a listed question that are together
#define CHUNKS 5		// of the longest question
#define RECORDS 16		// of a reply that is judged here
#define FRAME 512
#define PADDING 8		// octets of the frame that is given, beyond the query
#define BUFFER 4096
#define MAX_MESSAGE 4000
#define INSTANTS 128
#define AT(i) ((i) & (BUFFER - 1))
#define BARRIER() asm volatile("" ::: "memory")

// Times of the histograms.
#define SCHEDULE_ERROR 0
#define LATENCY 1
#define LATENCY_FROM_SEND 2
#define HISTOGRAMS 3
#define ROWS 28
#define ROW 1024
#define LONGEST 100000000000ULL

// State of a slot, in the low bits of its first word, as in crates/load/src/flight.rs.
#define FREE 0
#define OUTSTANDING 1
#define ANSWERED 2
#define EXPIRED 3
#define STATE 3
// The query gave its place in the window up, and may still be answered.
#define NO_PLACE 4
#define AFTER_LOST 8
#define DUE 4

// Events.
#define REPLY 1
#define LOST 2
#define DEPARTURE 3
#define STALL 4
#define MIN_STALL 1000000ULL
// User space looks for events by itself: no interrupt announces them.
#define QUIETLY BPF_RB_NO_WAKEUP

#define SPREAD 0x9e37
#define SPREAD_INVERSE 0x7787
#define SALT_STEP 0x5851

#define EXPECT_A 1
#define EXPECT_AAAA 2
#define EXPECT_RCODE 3		// any records, with a return code of `rcodes`
#define NXDOMAIN 3
#define TAIL_BINS 4096

// Places with which a window opens, and the number of 99th percentiles for which a query keeps its own at least; as in
// crates/load/src/window.rs and patience.rs.
#define FIRST_PLACES 64
#define P99S 4

// What all workers have in common; the same as `config` in src/tester/config.rs.
struct config {
	__u64 start, timeout;
	__u64 until;		// replies after it came when sending was over
	__u64 names, mask, keys[3];
	__u32 shift;		// of the permutation of the names
	__u32 first;		// address of name 0
	__u32 sequential;
	__u32 list;		// whether the names are numbers of listed questions
	__u32 workers, ifindex;
	__u32 slot_bits;	// binary logarithm of the slots of a worker
	__u32 port_bits;	// binary logarithm of its source ports
	__u32 ports;		// of all workers
	__u32 port;		// the first of them
	__u32 salt;
	__u32 many_sources;	// each port has its own address
	__u32 frame_len;	// of a listed question: up to it
	__u32 question_len;	// not for listed ones
	__u32 tail_len;		// octets of the frame behind a listed question
	__u32 blank_len;	// of the frame that is given
	__u32 sum, ip_sum;	// checksums of UDP and IPv4, without what differs among queries
	__u32 tail_sum;
	__u32 step;		// binary logarithm of the time between two instants
	__u32 instants, seconds;
	__u32 v6, expect, target_port;
	__u32 rcodes;		// a bit for each expected return code
	__u32 closed;		// whether the loop is closed
	__u32 keeps_places;	// whether each query has its place in it until its timeout
	__u8 target[16];
	__u8 address[16];	// expected address, without the octets of the IPv4 address
	__u8 octet_at[4];	// where those stand
	__u32 stopped;		// whether no more is sent
	__u8 frame[FRAME + 8];
};

// A worker, on its core; the same as `generator` in src/tester/config.rs.
struct generator {
	__u64 active;
	__u64 worker;
	__u64 planned;		// number of queries
	__u64 end;		// due times are before it
	__u64 due, fraction;	// of the next query; the fraction in 2^-scale ns
	__u64 gap;		// between two queries, in 2^-scale ns; the mean of random gaps in 2^-(scale - 24) ns
	__u64 scale;
	__u64 random;		// state of random gaps; 0 for even ones
	__u64 position;		// of the next name
	__u64 left;		// names that may still be used
	__u64 taken;		// queries that were taken off the schedule
	__u64 next, oldest;	// sequence number of the next query, and of the first one that may be outstanding
	__u64 last, cursor;	// time of the last run, and that of the schedule
	__u64 late_from, late_until, late_worst, late_queries;	// a span of late departures that has not been told yet
	__u64 stall_from, stall_until;	// a stall that has not been told yet; 0: none
	__u64 window;		// places of a closed loop; 0 in an open one
	__u64 holder, freed;	// sequence number of the first query that may have its place, and places that queries gave up
};

// The replies of a worker's closed loop, counted by the cores that get them.
struct closed_loop {
	__u64 answered;		// places that replies freed
	__u64 smoothed, variation;	// of the latency, in ns (RFC 6298)
	__u64 p99;		// about the 99th percentile of the latency
	__u64 apart[4];		// a cache line
};

struct counts {
	__u64 sent, valid, late, lost, duplicates, unexpected, blocked, unread, exhausted, finished, last_sent, octets;
	__u64 nxdomain;		// of the valid replies
	__u64 query_octets;
	__u64 while_sending;	// valid replies until the end of the sending
	__u64 rise[INSTANTS], fall[INSTANTS];
};

struct slot {
	__u64 due_state;
	__u32 key, lag;
};

struct row {
	__u64 count[ROW];
};

struct second {
	__u64 sent, valid;
};

struct source {
	__u8 address[16];
};

// A listed question; the same as in src/tester/list.rs.
struct question {
	__u32 chunk;		// the first of its chunks
	__u16 len;
	__u16 sum;		// for the checksum
};

struct chunk {
	__u8 octets[CHUNK];
};

// The same as in src/tester/events.rs.
struct event {
	__u64 kind, due, sent, at;
	__u32 key;
	__u16 port, id;
	__u32 len, after_lost;
};

struct scratch {
	__u8 expected[16];
	__u64 sum;
	struct event event;	// the message follows it
	__u8 b[BUFFER + 8];
};

#define MAP(name, kind, entries, value_type)            \
	struct {                                        \
		__uint(type, kind);                     \
		__uint(max_entries, entries);           \
		__type(key, __u32);                     \
		__type(value, value_type);              \
	} name SEC(".maps")

MAP(config, BPF_MAP_TYPE_ARRAY, 1, struct config);
MAP(generators, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct generator);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct counts);
MAP(buffers, BPF_MAP_TYPE_PERCPU_ARRAY, 1, struct scratch);
MAP(quantiles, BPF_MAP_TYPE_ARRAY, TAIL_BINS + 1, __u64);
// Their sizes are set when they are made.
MAP(flight, BPF_MAP_TYPE_ARRAY, 1, struct slot);
MAP(times, BPF_MAP_TYPE_ARRAY, 1, struct row);
MAP(series, BPF_MAP_TYPE_ARRAY, 1, struct second);
MAP(loops, BPF_MAP_TYPE_ARRAY, 1, struct closed_loop);
MAP(sources, BPF_MAP_TYPE_ARRAY, 1, struct source);
MAP(questions, BPF_MAP_TYPE_ARRAY, 1, struct question);
MAP(chunks, BPF_MAP_TYPE_ARRAY, 1, struct chunk);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

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

static __always_inline struct second *second_of(struct config *c, __u64 due)
{
	__u64 number = due > c->start ? (due - c->start) / 1000000000 : 0;
	__u32 index;

	if (number >= c->seconds)
		number = c->seconds - 1;
	index = bpf_get_smp_processor_id() * c->seconds + number;
	return bpf_map_lookup_elem(&series, &index);
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

// "ddd-", the first character lowest.
static __always_inline __u32 digits(__u32 octet)
{
	__u32 hundreds = octet * 41 >> 12, rest = octet - hundreds * 100, tens = rest * 103 >> 10;

	return ('0' + hundreds) | ('0' + tens) << 8 | ('0' + rest - tens * 10) << 16 | (__u32)'-' << 24;
}

// The label of an address with its length, as two words.
static __always_inline void label_of(__u32 address, __u64 *low, __u64 *high)
{
	__u64 b = digits(address >> 16 & 255);

	*low = 15 | (__u64)digits(address >> 24) << 8 | b << 40;
	*high = b >> 24 | (__u64)digits(address >> 8 & 255) << 8 | (__u64)digits(address & 255) << 40;
}

// The name at a position, as in crates/load/src/permutation.rs.
__noinline __u64 permute(struct config *c, __u64 x)
{
	if (!c)
		return 0;
	for (int i = 0; i < 64; i++) {
		for (int k = 0; k < 3; k++) {
			x = (x + (c->keys[k] >> 7)) * c->keys[k] & c->mask;
			x ^= x >> (c->shift & 63);
		}
		if (x < c->names)
			return x;
	}
	return 0;
}

// An exponential time of mean 1, in units of 2^-24: the quantile of a random number. The last bin is what is left when as
// much as up to it has passed: the same distribution again.
__noinline __u64 exponential(struct generator *g)
{
	__u64 total = 0;

	if (!g)
		return 0;
	for (int i = 0; i < 8; i++) {
		__u64 z, *from, *to;
		__u32 bin, above;

		z = g->random += 0x9e3779b97f4a7c15ULL;
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		z ^= z >> 31;
		bin = z >> 52;
		above = bin + 1;
		from = bpf_map_lookup_elem(&quantiles, &bin);
		to = bpf_map_lookup_elem(&quantiles, &above);
		if (!from || !to)
			break;
		total += *from;
		if (bin < TAIL_BINS - 1)
			return total + ((*to - *from) * (z >> 20 & 0xffffffff) >> 32);
	}
	return total;
}

static __always_inline void advance(struct generator *g)
{
	__u64 add = g->gap, scale = g->scale & 63;

	if (g->random)
		add *= exponential(g);
	g->fraction += add;
	g->due += g->fraction >> scale;
	g->fraction &= (1ULL << scale) - 1;
	g->taken++;
}

static __always_inline struct slot *slot_at(struct config *c, __u64 worker, __u64 sequence)
{
	__u32 index = worker << (c->slot_bits & 31) | (sequence & ((1ULL << (c->slot_bits & 31)) - 1));

	return bpf_map_lookup_elem(&flight, &index);
}

// The port of a slot, among those of all workers, and its id.
static __always_inline __u32 port_of(struct config *c, __u64 worker, __u64 sequence)
{
	return worker << (c->port_bits & 31) | (sequence & ((1ULL << (c->port_bits & 31)) - 1));
}

static __always_inline __u16 id_of(struct config *c, __u32 port, __u64 sequence)
{
	__u64 slot = sequence & ((1ULL << (c->slot_bits & 31)) - 1);

	return (__u16)((slot >> (c->port_bits & 31)) * SPREAD) ^ (__u16)(c->salt + port * SALT_STEP);
}

// Expires the oldest query if its time is over; returns whether there may be more.
static __always_inline int expire(struct config *c, struct generator *g, struct counts *n, struct scratch *s, __u64 now)
{
	struct slot *slot;
	__u64 word, sent;

	if (g->oldest >= g->next)
		return 0;
	slot = slot_at(c, g->worker, g->oldest);
	if (!slot)
		return 0;
	word = *(volatile __u64 *)&slot->due_state;
	if ((word & STATE) == OUTSTANDING) {
		sent = (word >> DUE) + slot->lag;
		if (sent + c->timeout > now)
			return 0;
		if (__sync_val_compare_and_swap(&slot->due_state, word, (word & ~(__u64)STATE) | EXPIRED) == word) {
			n->lost++;
			record(LATENCY, c->timeout);
			s->event.key = slot->key;
			s->event.port = port_of(c, g->worker, g->oldest);
			s->event.id = id_of(c, s->event.port, g->oldest);
			s->event.len = 0;
			tell(s, LOST, word >> DUE, sent, now);
			g->freed += !(word & NO_PLACE);
		}
	}
	g->oldest++;
	return 1;
}

// Takes its place from the first query that has one, if a reply is not worth waiting for any longer: after the retransmission timeout
// of RFC 6298 without its floor and backoff, but after some 99th percentiles at least. Returns whether there may be more.
static __always_inline int give_up(struct config *c, struct generator *g, struct closed_loop *l, __u64 now)
{
	__u64 keeps = l->smoothed + 4 * l->variation, word;
	struct slot *slot;

	if (g->holder < g->oldest)
		g->holder = g->oldest;
	if (g->holder >= g->next || !l->smoothed)
		return 0;
	slot = slot_at(c, g->worker, g->holder);
	if (!slot)
		return 0;
	word = *(volatile __u64 *)&slot->due_state;
	if ((word & STATE) == OUTSTANDING) {
		if (keeps < P99S * l->p99)
			keeps = P99S * l->p99;
		if ((word >> DUE) + keeps > now)
			return 0;
		if (__sync_val_compare_and_swap(&slot->due_state, word, word | NO_PLACE) == word)
			g->freed++;
	}
	g->holder++;
	return 1;
}

// Returns whether the window has a free place. It opens by half with each round trip: sent at once it would overflow the server's queue.
static __always_inline int has_place(struct config *c, struct generator *g, __u64 now)
{
	__u32 worker = g->worker;
	struct closed_loop *l = bpf_map_lookup_elem(&loops, &worker);
	__u64 answered, open;

	g->last = now;
	if (!l)
		return 0;
	if (!c->keeps_places && give_up(c, g, l, now))
		give_up(c, g, l, now);
	answered = *(volatile __u64 *)&l->answered;
	open = FIRST_PLACES + answered / 2;
	if (open > g->window)
		open = g->window;
	return g->next - g->freed - answered < open;
}

// Counts a reply that took so long. Cores that write at the same time lose a sample of the estimates, and no place.
static __always_inline void note_answer(struct closed_loop *l, __u64 took, __u64 place)
{
	__u64 smoothed = l->smoothed, apart = smoothed > took ? smoothed - took : took - smoothed;

	if (place)
		__sync_fetch_and_add(&l->answered, 1);
	if (!smoothed) {
		l->variation = took / 2;
		l->smoothed = took;
		l->p99 = took;
		return;
	}
	l->variation = l->variation - l->variation / 4 + apart / 4;
	l->smoothed = smoothed - smoothed / 8 + took / 8;
	// One step up makes up for 128 down.
	l->p99 += took > l->p99 ? (l->p99 >> 6) + 1 : -(l->p99 >> 13);
}

// The time of the schedule up to which queries may leave: the clock, and after a stall less, as in crates/load/src/pace.rs.
static __always_inline __u64 cursor(struct generator *g, __u64 now)
{
	__u64 ran = g->last + 1000000, to;

	if (ran > now)
		ran = now;
	to = g->cursor + 2 * (ran - g->last);
	if (to > ran)
		to = ran;
	if (to > g->cursor)
		g->cursor = to;
	g->last = now;
	return g->cursor;
}

// Makes the frame a query of the namespace, but for what is its own; returns 0 if it is done.
static __always_inline int copy_frame(struct xdp_md *ctx, struct config *c)
{
	__u32 len = c->frame_len;
	__u64 sum = 0;

	// Whatever became of the frame since it left the last time.
	if (bpf_xdp_adjust_tail(ctx, -PADDING))
		return 1;
	len &= FRAME - 1;
	return !store_words(ctx, 0, c->frame, len, &sum);
}

// Makes the frame the query of a listed question, but for what is its own, and adds what it has to the checksum of UDP; returns the
// length of its datagram, 0 if there is none.
__noinline int copy_question(struct xdp_md *ctx, struct config *c, __u32 number, __u64 *sum)
{
	struct question *q = bpf_map_lookup_elem(&questions, &number);
	__u32 head, at, len;
	__u64 tail;

	if (!q || !c || !sum)
		return 0;
	head = c->frame_len & 127;
	if (head < 32 || bpf_xdp_store_bytes(ctx, 0, c->frame, head))
		return 0;
	head = c->frame_len & 127;
	for (__u32 i = 0; i < CHUNKS; i++) {
		__u32 index = q->chunk + i;
		struct chunk *chunk;

		if (i * CHUNK >= q->len)
			break;
		chunk = bpf_map_lookup_elem(&chunks, &index);
		// The tail covers what a chunk has too much.
		if (!chunk || bpf_xdp_store_bytes(ctx, head + i * CHUNK, chunk->octets, CHUNK))
			return 0;
	}
	at = head + q->len;
	len = at + (c->tail_len & 255);
	*sum += q->sum;
	if (c->tail_len) {
		// Behind an odd number of octets each octet is the other one of its word.
		__u32 low = c->tail_sum & 255, high = c->tail_sum >> 8 & 255;

		*sum += q->len & 1 ? low << 8 | high : c->tail_sum;
		tail = c->tail_len;
		filled(tail, 255);
		if (bpf_xdp_store_bytes(ctx, at, c->frame + head, tail))
			return 0;
	}
	if (len >= c->blank_len || bpf_xdp_adjust_tail(ctx, (int)(len - c->blank_len)))
		return 0;
	return len - ETH_HLEN - (c->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
}

// Makes the frame the query of a name, which is an address or the number of a question; returns the length of its message, 0
// if there is none.
static __always_inline __u32 compose(struct xdp_md *ctx, struct config *c, struct scratch *s, __u32 port, __u16 id, __u32 name)
{
	__u64 low, high, sum = c->sum;
	void *data, *end;
	struct udphdr *udp;
	struct source *own = 0;
	__u32 len = 0;
	__u64 *at;
	__u16 check;

	if (c->list) {
		s->sum = 0;
		len = copy_question(ctx, c, name, &s->sum);
		if (!len)
			return 0;
		// In the header and in the pseudo-header.
		sum += s->sum + 2 * bpf_htons(len);
	} else if (copy_frame(ctx, c)) {
		return 0;
	}
	if (c->many_sources) {
		own = bpf_map_lookup_elem(&sources, &port);
		if (!own)
			return 0;
	}
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (c->v6) {
		struct ipv6hdr *ip = data + ETH_HLEN;

		udp = (void *)(ip + 1);
		at = (void *)(udp + 1) + HEADER;
		if ((void *)at > end)
			return 0;
		if (own) {
			__builtin_memcpy(&ip->saddr, own->address, 16);
			for (int i = 0; i < 4; i++)
				sum += ((__u32 *)own->address)[i];
		}
		if (len)
			ip->payload_len = bpf_htons(len);
	} else {
		struct iphdr *ip = data + ETH_HLEN;
		__u64 ip_sum = c->ip_sum;

		udp = (void *)(ip + 1);
		at = (void *)(udp + 1) + HEADER;
		if ((void *)at > end)
			return 0;
		if (own) {
			ip->saddr = *(__u32 *)own->address;
			sum += ip->saddr;
			ip_sum += ip->saddr;
		}
		if (len) {
			ip->tot_len = bpf_htons(len + sizeof(*ip));
			ip_sum += ip->tot_len;
		}
		if (own || len)
			ip->check = fold(ip_sum);
	}
	if (len) {
		udp->len = bpf_htons(len);
	} else {
		if ((void *)(at + 2) > end)
			return 0;
		label_of(name, &low, &high);
		sum += (low & 0xffffffff) + (low >> 32) + (high & 0xffffffff) + (high >> 32);
		at[0] = low;
		at[1] = high;
	}
	udp->source = bpf_htons(c->port + port);
	*(__u16 *)(udp + 1) = bpf_htons(id);
	check = fold(sum + udp->source + bpf_htons(id));
	udp->check = check ? check : 0xffff;
	if (!len)
		len = c->frame_len - ETH_HLEN - (c->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	return len - sizeof(*udp);
}

// Tells the span of late departures that is kept, if there is one; returns whether none is kept any more. Without room it is kept,
// and later departures are added to it.
static __always_inline int tell_late(struct generator *g, struct scratch *s)
{
	if (!g->late_queries)
		return 1;
	s->event.key = g->late_queries > 0xffffffff ? 0xffffffff : g->late_queries;
	if (tell(s, DEPARTURE, g->late_from, g->late_until, g->late_worst))
		return 0;
	g->late_queries = 0;
	return 1;
}

// Tells that the generator did not run for a while, if it did not. Without room the stall is kept, and a later one is added to it.
static __always_inline void tell_stall(struct generator *g, struct scratch *s, __u64 now)
{
	if (now - g->last >= MIN_STALL) {
		if (!g->stall_from)
			g->stall_from = g->last;
		g->stall_until = now;
	}
	if (g->stall_from && !tell(s, STALL, 0, g->stall_from, g->stall_until))
		g->stall_from = 0;
}

// Notes a late departure: an event for each would make a generator that is late later still.
static __always_inline void note_late(struct generator *g, struct scratch *s, __u64 due, __u64 now)
{
	if (g->late_queries && due > g->late_until + MIN_STALL)
		tell_late(g, s);
	if (!g->late_queries) {
		g->late_from = due;
		g->late_worst = 0;
	}
	g->late_until = now;
	if (now - due > g->late_worst)
		g->late_worst = now - due;
	g->late_queries++;
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	__u32 zero = 0, port, key, octets;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct generator *g = bpf_map_lookup_elem(&generators, &zero);
	struct counts *n = bpf_map_lookup_elem(&counters, &zero);
	struct scratch *s = bpf_map_lookup_elem(&buffers, &zero);
	struct second *second;
	struct slot *slot;
	__u64 now, position, after_lost, state, late;
	__u16 id;

	if (!c || !g || !n || !s || !g->active)
		return XDP_DROP;
	now = bpf_ktime_get_ns();
	if (now < c->start)
		return XDP_DROP;
	tell_stall(g, s, now);
	if (expire(c, g, n, s, now))
		expire(c, g, n, s, now);
	if (g->window)
		g->due = now;
	if (g->taken >= g->planned || g->due >= g->end || *(volatile __u32 *)&c->stopped) {
		if (tell_late(g, s) && !g->stall_from)
			n->finished = 1;
		g->last = now;
		return XDP_DROP;
	}
	if (g->window ? !has_place(c, g, now) : cursor(g, now) < g->due)
		return XDP_DROP;
	slot = slot_at(c, g->worker, g->next);
	if (!slot)
		return XDP_DROP;
	state = slot->due_state & STATE;
	if (state == OUTSTANDING) {
		// The table has gone round: the query is waited for.
		n->blocked++;
		return XDP_DROP;
	}
	position = g->position;
	if (!g->left || !c->names) {
		n->exhausted = 1;
		g->planned = 0;
		return XDP_DROP;
	}
	if (position >= c->names)
		position %= c->names;
	key = c->first + (c->sequential ? position : permute(c, position));
	port = port_of(c, g->worker, g->next);
	id = id_of(c, port, g->next);
	octets = compose(ctx, c, s, port, id, key);
	if (!octets)
		return XDP_DROP;
	late = now - g->due;
	slot->key = key;
	slot->lag = late > 0xffffffff ? 0xffffffff : late;
	after_lost = state == EXPIRED ? AFTER_LOST : 0;
	BARRIER();
	__sync_lock_test_and_set(&slot->due_state, g->due << DUE | after_lost | OUTSTANDING);
	g->next++;
	g->position = position + c->workers;
	g->left--;
	n->sent++;
	n->query_octets += octets;
	n->last_sent = now;
	second = second_of(c, g->due);
	if (second)
		second->sent++;
	record(SCHEDULE_ERROR, late);
	if (late >= MIN_STALL)
		note_late(g, s, g->due, now);
	advance(g);
	return bpf_redirect(c->ifindex, 0);
}

// Returns whether the question in the buffer is a listed one, its name in letters of any case.
__noinline int is_listed(struct scratch *s, __u32 number, __u32 len)
{
	struct question *q = bpf_map_lookup_elem(&questions, &number);
	__u64 different = 0;

	if (!s || !q || q->len < 5 || len < HEADER + q->len)
		return 0;
	for (__u32 i = 0; i < CHUNKS; i++) {
		__u32 index = q->chunk + i;
		struct chunk *chunk;

		if (i * CHUNK >= q->len)
			break;
		chunk = bpf_map_lookup_elem(&chunks, &index);
		if (!chunk)
			return 0;
		for (__u32 k = 0; k < CHUNK; k += 8) {
			__u32 at = i * CHUNK + k, name = q->len - 4;
			__u64 ours = *(__u64 *)(chunk->octets + k), theirs = *(__u64 *)(s->b + AT(HEADER + at));
			__u64 all = first_octets(~0ULL, at < q->len ? q->len - at : 0), folded = first_octets(~0ULL, at < name ? name - at : 0);

			// Type and class are numbers.
			different |= (lower_word(ours) ^ lower_word(theirs)) & folded;
			different |= (ours ^ theirs) & all & ~folded;
		}
	}
	return !different;
}

// Returns whether the question in the buffer is that of an address, in letters of any case.
__noinline int is_of_namespace(struct scratch *s, struct config *c, __u32 address, __u32 len)
{
	__u32 rest, front;
	__u64 low, high, different = 0;

	if (!s || !c)
		return 0;
	rest = c->question_len - LABEL;
	front = ETH_HLEN + (c->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) + sizeof(struct udphdr) + HEADER + LABEL;
	if (len < HEADER + c->question_len || c->question_len < LABEL)
		return 0;
	label_of(address, &low, &high);
	if (*(__u64 *)(s->b + HEADER) != low || *(__u64 *)(s->b + HEADER + 8) != high)
		return 0;
	for (__u32 i = 0; i < 272; i += 8) {
		__u64 ours, theirs;

		if (i >= rest)
			break;
		ours = *(__u64 *)(c->frame + ((front + i) & (FRAME - 1)));
		theirs = *(__u64 *)(s->b + AT(HEADER + LABEL + i));
		if (ours != theirs)
			different |= first_octets(lower_word(ours) ^ lower_word(theirs), rest - i);
	}
	return !different;
}

// Returns whether the question in the buffer is that of a name.
static __always_inline int is_question(struct scratch *s, struct config *c, __u32 name, __u32 len)
{
	return c->list ? is_listed(s, name, len) : is_of_namespace(s, c, name, len);
}

// The length of the question of a name.
static __always_inline __u32 question_len(struct config *c, __u32 name)
{
	struct question *q;

	if (!c->list)
		return c->question_len;
	q = bpf_map_lookup_elem(&questions, &name);
	return q ? q->len : BUFFER;
}

static __always_inline __u32 number_at(const __u8 *b)
{
	return b[0] << 8 | b[1];
}

// Returns whether the records behind a question are whole: their owners the root or compressed at once, at most one OPT record,
// without options and an extended code.
__noinline int has_whole_records(struct scratch *s, __u32 at, __u32 len)
{
	__u32 additional, records, opts = 0;

	if (!s)
		return 0;
	additional = number_at(s->b + 6) + number_at(s->b + 8);
	records = additional + number_at(s->b + 10);
	if (records > RECORDS)
		return 0;
	for (__u32 i = 0; i < RECORDS; i++) {
		__u32 owner, size;

		if (i >= records)
			break;
		owner = s->b[AT(at)];
		if (owner && owner < 0xc0)
			return 0;
		at += owner ? 2 : 1;
		if (at + 10 > len)
			return 0;
		size = number_at(s->b + AT(at + 8));
		if (number_at(s->b + AT(at)) == TYPE_OPT &&
		    (owner || opts++ || i < additional || size || *(__u16 *)(s->b + AT(at + 4))))
			return 0;
		at += 10 + size;
		if (at > len)
			return 0;
	}
	return at == len;
}

// Returns whether a reply has an expected return code and our question's length, and whole records of a plain layout.
static __always_inline int has_rcode(struct scratch *s, struct config *c, __u32 question, __u32 len)
{
	__u8 *b = s->b;

	if (len < HEADER + question || (b[2] & 0xfa) != 0x80 || !(c->rcodes >> (b[3] & 0x0f) & 1))
		return 0;
	return b[4] == 0 && b[5] == 1 && has_whole_records(s, HEADER + question, len);
}

// Returns whether a reply is NOERROR and has our question, one record that answers it with the expected address, and at most an
// OPT record: the plainest layout of crates/wire/src/reply.rs, of which that of the question is the query's own.
__noinline int is_plain(struct scratch *s, struct config *c, __u32 address, __u32 len)
{
	__u32 at, end, size, type;
	__u8 *b;

	if (!s || !c || (c->expect != EXPECT_A && c->expect != EXPECT_AAAA))
		return 0;
	b = s->b;
	size = c->expect == EXPECT_A ? 4 : 16;
	type = c->expect == EXPECT_A ? TYPE_A : TYPE_AAAA;
	at = HEADER + c->question_len;
	end = at + 12 + size;
	if (len < end || (b[2] & 0xfa) != 0x80 || (b[3] & 0x0f))
		return 0;
	if (*(__u32 *)(b + 4) != bpf_htonl(0x00010001) || b[8] || b[9] || b[10] || b[11] > 1)
		return 0;
	// Pointer to the name, type, class; length of the data.
	if (*(__u32 *)(b + AT(at)) != bpf_htonl(0xc00c0000 | type) || *(__u16 *)(b + AT(at + 4)) != bpf_htons(1) ||
	    *(__u16 *)(b + AT(at + 10)) != bpf_htons(size))
		return 0;
	at += 12;
	if (c->expect == EXPECT_A) {
		if (*(__u32 *)(b + AT(at)) != bpf_htonl(address))
			return 0;
	} else {
		__u64 *expected = (void *)s->expected;

		__builtin_memcpy(s->expected, c->address, 16);
		for (int i = 0; i < 4; i++)
			s->expected[c->octet_at[i] & 15] = address >> (24 - 8 * i);
		if (*(__u64 *)(b + AT(at)) != expected[0] || *(__u64 *)(b + AT(at + 8)) != expected[1])
			return 0;
	}
	if (b[11]) {
		// Root, type; no extended code, version 0; no options.
		if (len != end + OPT_FIXED || b[AT(end)] || *(__u16 *)(b + AT(end + 1)) != bpf_htons(TYPE_OPT) ||
		    *(__u16 *)(b + AT(end + 5)) || *(__u16 *)(b + AT(end + 9)))
			return 0;
	} else if (len != end) {
		return 0;
	}
	return 1;
}

// Counts a query that was answered in time at the instants while it was outstanding.
static __always_inline void count_outstanding(struct config *c, struct counts *n, __u64 sent, __u64 at)
{
	__u64 first = (sent - c->start) >> (c->step & 63), last = (at - c->start) >> (c->step & 63);

	if (first == last || sent < c->start || first + 1 >= c->instants)
		return;
	if (last >= c->instants)
		last = c->instants - 1;
	n->rise[(first + 1) & (INSTANTS - 1)]++;
	n->fall[(last + 1) & (INSTANTS - 1)]++;
}

static __always_inline int is_from_target(struct xdp_md *ctx, struct config *c, struct udphdr **udp_at, __u32 *size)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if (c->v6) {
		struct ipv6hdr *ip = data + ETH_HLEN;
		__u64 *from = (void *)&ip->saddr, *target = (void *)c->target;

		if ((void *)(ip + 1) + sizeof(struct udphdr) > end || eth->h_proto != bpf_htons(ETH_P_IPV6) || ip->nexthdr != IPPROTO_UDP)
			return 0;
		if (from[0] != target[0] || from[1] != target[1] || ip->version != 6)
			return 0;
		*udp_at = (void *)(ip + 1);
		*size = bpf_ntohs(ip->payload_len);
	} else {
		struct iphdr *ip = data + ETH_HLEN;

		if ((void *)(ip + 1) + sizeof(struct udphdr) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP)
			return 0;
		if (ip->ihl != 5 || ip->version != 4 || ip->frag_off & bpf_htons(0x3fff) || ip->saddr != *(__u32 *)c->target)
			return 0;
		*udp_at = (void *)(ip + 1);
		*size = bpf_ntohs(ip->tot_len) - sizeof(*ip);
	}
	return 1;
}

// Copies a reply of `len` octets from the frame into the buffer; returns whether it has them, and they are not too many.
static __always_inline int read_reply(struct xdp_md *ctx, struct scratch *s, __u64 at, __u64 len)
{
	if (len >= 8 && len <= BY_WORDS)
		return load_words(ctx, at, s->b, len);
	if (len < 2 || len > MAX_MESSAGE)
		return 0;
	filled(len, BUFFER - 1);
	return !bpf_xdp_load_bytes(ctx, at, s->b, len);
}

// Counts a reply in time, or hands it to user space; 1 if there was no room for it.
static __always_inline int judge(struct config *c, struct counts *n, struct scratch *s, __u64 due, __u64 sent, __u32 key, __u32 len)
{
	__u64 at = s->event.at;
	struct second *second;
	__u64 size;
	int plain;

	if (c->expect == EXPECT_RCODE)
		plain = has_rcode(s, c, question_len(c, key), len);
	else
		plain = is_plain(s, c, key, len);
	if (!plain || !is_question(s, c, key, len)) {
		s->event.kind = REPLY;
		s->event.due = due;
		s->event.sent = sent;
		s->event.key = key;
		s->event.len = len;
		size = sizeof(s->event) + len;
		filled(size, BUFFER - 1);
		return bpf_ringbuf_output(&events, &s->event, size, QUIETLY) != 0;
	}
	n->valid++;
	if ((s->b[3] & 0x0f) == NXDOMAIN)
		n->nxdomain++;
	n->octets += len;
	n->while_sending += at <= c->until;
	record(LATENCY, at > due ? at - due : 0);
	record(LATENCY_FROM_SEND, at > sent ? at - sent : 0);
	count_outstanding(c, n, sent, at);
	second = second_of(c, due);
	if (second)
		second->valid++;
	return 0;
}

SEC("xdp")
int check(struct xdp_md *ctx)
{
	__u32 zero = 0, port, len, at, key, size;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct counts *n = bpf_map_lookup_elem(&counters, &zero);
	struct scratch *s = bpf_map_lookup_elem(&buffers, &zero);
	struct udphdr *udp;
	struct slot *slot;
	struct closed_loop *loop;
	__u64 word, seen, sent, now, number;
	int unread = 0;
	__u16 id;

	if (!c || !n || !s || !is_from_target(ctx, c, &udp, &size))
		return XDP_PASS;
	if (udp->source != c->target_port)
		return XDP_PASS;
	port = bpf_ntohs(udp->dest) - c->port;
	if (port >= c->ports)
		return XDP_PASS;
	now = bpf_ktime_get_ns();
	// In a packet that a socket gets the lengths of UDP and IP agree, and over IPv6 it has a checksum (RFC 8200 section 8.1).
	if (bpf_ntohs(udp->len) != size || (c->v6 && !udp->check)) {
		n->unexpected++;
		return XDP_DROP;
	}
	len = bpf_ntohs(udp->len) - sizeof(*udp);
	at = ETH_HLEN + (c->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) + sizeof(*udp);
	if (!read_reply(ctx, s, at, len)) {
		n->unexpected++;
		return XDP_DROP;
	}
	id = (__u16)s->b[0] << 8 | s->b[1];
	number = (__u16)((__u16)(id ^ (__u16)(c->salt + port * SALT_STEP)) * SPREAD_INVERSE);
	number = number << (c->port_bits & 31) | (port & ((1U << (c->port_bits & 31)) - 1));
	slot = number >> (c->slot_bits & 31) ? 0 : slot_at(c, port >> (c->port_bits & 31), number);
	if (!slot) {
		n->unexpected++;
		return XDP_DROP;
	}
	word = *(volatile __u64 *)&slot->due_state;
	BARRIER();
	key = slot->key;
	sent = (word >> DUE) + slot->lag;
	if ((word & STATE) == FREE) {
		n->unexpected++;
		return XDP_DROP;
	}
	s->event.at = now;
	s->event.port = port;
	s->event.id = id;
	s->event.after_lost = (word & AFTER_LOST) != 0;
	if ((word & (STATE | AFTER_LOST)) == (OUTSTANDING | AFTER_LOST) && len >= HEADER + question_len(c, key) &&
	    (s->b[2] & 0x80) && !s->b[4] && s->b[5] == 1 && !is_question(s, c, key, len)) {
		// With another question it answers the lost query that used the slot before. Without one nobody knows: user space judges it.
		__sync_val_compare_and_swap(&slot->due_state, word, word & ~(__u64)AFTER_LOST);
		n->late++;
		return XDP_DROP;
	}
	seen = word;
	if ((word & STATE) != ANSWERED)
		seen = __sync_val_compare_and_swap(&slot->due_state, word, (word & ~(__u64)STATE) | ANSWERED);
	if (seen == (word | NO_PLACE) && seen != word) {
		// It gave its place up just now.
		word = seen;
		seen = __sync_val_compare_and_swap(&slot->due_state, word, (word & ~(__u64)STATE) | ANSWERED);
	}
	if ((word & STATE) == ANSWERED || seen != word) {
		n->duplicates++;
		return XDP_DROP;
	}
	port >>= c->port_bits & 31;
	loop = c->closed && (word & STATE) == OUTSTANDING ? bpf_map_lookup_elem(&loops, &port) : 0;
	if (loop)
		note_answer(loop, now > sent ? now - sent : 0, !(word & NO_PLACE));
	if ((word & STATE) == EXPIRED) {
		n->late++;
	} else if (now > sent + c->timeout) {
		n->late++;
		n->lost++;
		record(LATENCY, c->timeout);
		s->event.key = key;
		s->event.len = 0;
		tell(s, LOST, word >> DUE, sent, now);
	} else {
		n->late += (word & NO_PLACE) != 0;
		unread = judge(c, n, s, word >> DUE, sent, key, len);
	}
	if (unread) {
		// There is no room for it: lost at once, since the generator may have gone past the slot.
		n->unread++;
		n->lost++;
		record(LATENCY, c->timeout);
	}
	return XDP_DROP;
}
