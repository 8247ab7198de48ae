// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// maxConversations bounds the conversations in one session. Beyond it the least recently used one is
// dropped.
const maxConversations = 16

// Session is all traffic of one client conversation. Its conversations are read and changed only while
// the session is locked. Idle sessions are packed.
type Session struct {
	mu sync.Mutex // see [Session.Lock]

	digest   Digest
	upstream string
	tenant   Tenant
	runs     *Runs       // of the store
	outlives atomic.Bool // snapshots of it are taken
	claimed  atomic.Bool // there is a snapshot from before its first commit
	deleted  atomic.Bool // no further snapshot may be written
	warmed   atomic.Bool // it was pinged since the process began
	project  atomic.Pointer[string]
	pending  []*Conversation      // claims without an outcome
	merges   uint64               // number of merges with other processes' copies
	saved    uint64               // a hash of the snapshot that was published last
	length   int                  // of the last snapshot
	packed   atomic.Pointer[pack] // nil while the session is in use
	// turn serialises exchanges with a shared backend; take it before the session's own lock. It
	// guards told, and writes of version.
	turn           turn
	version        atomic.Uint64 // the backend's Version at the last exchange
	health         RecordHealth  // of the session's record at the backend
	savedResponses []Digest      // the responses in the last saved record
	created        time.Time
	conversations  []*Conversation // most recently used first
	next           int

	// Lifetime is the cache lifetime to request where the client leaves it open, see
	// [Session.SetLifetime].
	Lifetime Lifetime
	// Calibration turns bytes into tokens for this conversation.
	Calibration Calibration
	// Counterfactual models the upstream's cache had it received the client's own bytes.
	Counterfactual CounterfactualCache
	// Hypothetical models the upstream's cache had it received the edits that are only computed;
	// nil where there are none.
	Hypothetical *CounterfactualCache
	// Unseen is the time for which the store, when the session was made, had forgotten nothing. A
	// conversation that begins here with a long history has been idle at least that long, or came
	// from elsewhere.
	Unseen time.Duration

	// Owned by the store, under its lock.
	node
}

// Lock locks the session, and unpacks it.
func (s *Session) Lock() {
	s.mu.Lock()
	if s.packed.Load() != nil {
		s.unpack()
	}
}

// Unlock unlocks the session.
func (s *Session) Unlock() { s.mu.Unlock() }

// turn is a lock with a context.
type turn chan struct{}

func (t turn) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) tryLock() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turn) unlock() { <-t }

// Lifetime is a choice between the two lifetimes of an upstream's cache.
type Lifetime uint8

const (
	// LifetimeAsked leaves the client's markers as they are.
	LifetimeAsked Lifetime = iota
	// LifetimeKept keeps the long lifetime in conversations that already have it.
	LifetimeKept
	// LifetimeLong gives the long lifetime to conversations without cache entries.
	LifetimeLong
)

// ID is the session's public id: a one-way hash.
func (s *Session) ID() string { return s.digest.public().String() }

// Digest identifies the session. It hides the session's key, which contains the client's own id.
func (s *Session) Digest() Digest { return s.digest }

// Sample returns a number in [0, 1) that belongs to the session: a keyed hash, the same after a restart
// and in all processes that share the tenants' key.
func (s *Session) Sample() float64 {
	// The digest hashes the tenant, itself a keyed hash. Its first bytes choose shards.
	const last, bits = 8, 53
	return float64(binary.LittleEndian.Uint64(s.digest[last:])>>(64-bits)) / (1 << bits)
}

// Tenant returns the session's tenant.
func (s *Session) Tenant() Tenant { return s.tenant }

// IsNamed reports whether id is the client's own id of the session, see [Key.ID].
func (s *Session) IsNamed(id string) bool {
	return Key{Tenant: s.tenant, Upstream: s.upstream, ID: id}.Digest() == s.digest
}

// Project returns the name of the project that the session works on, "" while it is not known.
// Snapshots leave it out: the next request tells it again.
func (s *Session) Project() string {
	if p := s.project.Load(); p != nil {
		return *p
	}
	return ""
}

// SetProject names the project that the session works on.
func (s *Session) SetProject(name string) { s.project.Store(&name) }

// Number orders sessions by the commit of their first request. A store assigns it once; 0 before.
func (s *Session) Number() uint64 { return s.number.Load() }

// Gone reports whether the session was dropped and must not be stored any more.
func (s *Session) Gone() bool { return s.gone.Load() }

// SetLifetime sets the cache lifetime to request from now on, where the client leaves it open.
func (s *Session) SetLifetime(l Lifetime) {
	s.Lock()
	defer s.Unlock()
	s.Lifetime = l
}

// MAC returns a keyed hash of some values. The key belongs to the session and never leaves the
// process, so no other party can make such a hash.
func (s *Session) MAC(values ...[]byte) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, s.digest[:])
	for _, v := range values {
		mac.Write(v)
	}
	mac.Sum(out[:0])
	return out
}

// Match is the conversation that a request continues.
type Match struct {
	// Conversation is nil for a conversation that begins with this request.
	Conversation *Conversation
	// Common is the number of blocks in the common prefix of the request and the conversation.
	Common int

	// place is the conversation that the request replaces, nil if it begins a new one. It differs from
	// Conversation where a rewind replaces a side request.
	place  *Conversation
	merges uint64      // Session.merges at the time of the match
	last   *wire.Known // the conversation's last request at that time
}

// Match finds the conversation that a request continues: the one with the longest common chain of
// blocks. The session must be locked.
func (s *Session) Match(v *wire.View) Match {
	var best Match
	blocks := v.MessageBlocks()
	// The provider retains the history, so that there may be no common block.
	if v.Conversation.Partial {
		best = s.continued(v)
		best.merges = s.merges
		return best
	}
	// The longest common chain is in the upstream's cache. A request that cannot replace that
	// conversation branches off, and replaces the superseded conversation with the most common
	// blocks.
	taken := 0 // blocks in common with best.place
	for _, l := range s.conversations {
		if l.Partial {
			continue
		}
		n := l.common(v)
		if n > taken && l.supersededBy(v, n) {
			best.place, taken = l, n
		}
		if n > best.Common {
			best.Conversation, best.Common = l, n
		}
	}
	// Two answers that only begin alike are different answers. The model gave this one to the
	// replaced request, and its thinking is bound to the edits of that request.
	if p := best.place; p != nil && p != best.Conversation && !answeredSince(blocks, best.Conversation.chain(), taken,
		best.Common) {
		best.Conversation, best.Common = p, taken
	}
	if l := best.Conversation; l != nil {
		if best.Common = l.spoken(v, best.Common); best.Common == 0 {
			// Nothing is left in common: the request begins a conversation.
			return Match{merges: s.merges}
		}
		if l.restored {
			// The request has the blocks from which the restored edits are made.
			ResolveEdits(v, l.States[:min(best.Common, len(l.States))])
		}
		best.last = l.known
	}
	best.merges = s.merges
	return best
}

// common returns the number of blocks in common with the conversation now. Another request may have
// replaced the conversation's last one since the match.
func (m *Match) common(l *Conversation, v *wire.View) int {
	if l == m.Conversation && l.known == m.last {
		return m.Common
	}
	return l.common(v)
}

// takes returns the conversation that a request replaces now, nil if there is none.
func (s *Session) takes(m *Match, v *wire.View) *Conversation {
	l := m.place
	if l == nil || !s.has(l) || !v.Conversation.Partial && !l.supersededBy(v, m.common(l, v)) {
		return nil
	}
	return l
}

// continued finds the conversation that a request continues by reference: by the id of a response, or
// else the session's partial conversation.
func (s *Session) continued(v *wire.View) Match {
	reply := wire.AnswerID(v.Conversation.Continues)
	for _, l := range s.conversations {
		if !reply.IsZero() && l.Reply == reply || reply.IsZero() && l.Partial {
			return Match{Conversation: l, place: l}
		}
	}
	return Match{}
}

// awaits reports whether a request directly follows, with one answer between, the last request of a
// conversation, and that request came to this process.
func (s *Session) awaits(v *wire.View) bool {
	s.Lock()
	defer s.Unlock()
	if v.Conversation.Partial {
		l := s.continued(v).Conversation
		return l != nil && l.here && !l.Reply.IsZero()
	}
	blocks := v.MessageBlocks()
	for _, l := range s.conversations {
		if l.Partial || !l.here {
			continue
		}
		n := len(l.chain())
		if n > 0 && l.common(v) == n && AnswersIn(blocks[n:]) == 1 {
			return true
		}
	}
	return false
}

// misses reports whether a request contains one answer more than the session should know of. That
// answer was given by another process, or never in full.
func (s *Session) misses(v *wire.View) bool {
	if v == nil {
		return false
	}
	s.Lock()
	defer s.Unlock()
	if v.Conversation.Partial {
		l := s.continued(v).Conversation
		return v.Conversation.Continues != "" && (l == nil || l.claimed)
	}
	blocks := v.MessageBlocks()
	n, next := 0, 0 // for an unknown conversation
	for _, l := range s.conversations {
		if c := l.common(v); !l.Partial && c > n {
			n, next = c, 1
			// The answer to a claimed request is unknown here.
			if l.claimed && c == len(l.chain()) {
				next = 0
			}
		}
	}
	return AnswersIn(blocks[n:]) == next+1
}

// Commit makes a request part of the session. It grows the conversation that the request continues, or
// branches off into a new or a replaced conversation. The session must be locked. Commit keeps states
// without copying them.
func (s *Session) Commit(m Match, v *wire.View, states []BlockState) *Conversation {
	l := s.takes(&m, v)
	if l != nil && l != m.Conversation {
		l.inherit(m.Conversation)
	}
	for _, o := range s.conversations {
		// Another process has claimed the same request, without a known answer.
		if m.Conversation == nil && o.claimed && !v.Conversation.Partial && SameBlocks(o.chain(), v.MessageBlocks()) {
			l = o
			break
		}
	}
	if l == nil {
		l = &Conversation{id: s.conversationID(v)}
		s.next = max(s.next, l.id+1)
		if m.Conversation != nil {
			l.inherit(m.Conversation)
		}
		if len(s.conversations) == maxConversations {
			// The last one is the least recently used.
			s.conversations = s.conversations[:maxConversations-1]
		}
		s.conversations = append(s.conversations, l)
	}
	// The conversation moves to the front.
	i := slices.Index(s.conversations, l)
	copy(s.conversations[1:i+1], s.conversations[:i])
	s.conversations[0] = l
	l.here = true
	// The provider retains the history. The states of the last whole request stay.
	if l.Beyond = v.Conversation.Partial && !l.Partial && l.known != nil; l.Beyond {
		return l
	}
	if l.left {
		RecycleStates(l.States)
		l.known.Recycle()
	}
	l.known, l.left, l.restored, l.claimed, l.Order = v.Known(), false, false, false, nil
	l.Partial = v.Conversation.Partial
	l.States, l.entries = states, nil
	// Recipes need the bytes of the blocks, which are gone after the request.
	if s.outlives.Load() {
		DescribeBlocks(v, states)
	} else {
		describeLong(v, states)
	}
	// The request has an outcome: the conversation's claims end.
	s.pending = slices.DeleteFunc(s.pending, func(o *Conversation) bool { return o.id == l.id })
	return l
}

// Leave releases the request's view and states on behalf of its committer. They may be recycled
// once another request has replaced the conversation's last one. The session must be locked.
func (s *Session) Leave(l *Conversation, v *wire.View) { l.left = l.left || l.known == v.Known() }

// Conversation returns the conversation with a number, nil if there is none. The session must be locked.
func (s *Session) Conversation(id int) *Conversation {
	for _, l := range s.conversations {
		if l.id == id {
			return l
		}
	}
	return nil
}

// KeepWarm records that a ping, begun at a time, found a conversation's prefix cached, so that the
// lifetime restarted. It locks the session.
func (s *Session) KeepWarm(id int, at time.Time) {
	s.Lock()
	defer s.Unlock()
	l := s.Conversation(id)
	// A later request has restarted the lifetime already.
	if l == nil || l.Started.After(at) {
		return
	}
	l.Warmed = at
	s.warmed.Store(true)
	l.Ends.Mark(l.Len(), at)
}

// SameTools returns the numbers of the session's other conversations with the same tools. The
// session must be locked.
func (s *Session) SameTools(l *Conversation) (conversations []int) {
	for _, o := range s.conversations {
		if o != l && o.known.Tools() == l.known.Tools() {
			conversations = append(conversations, o.id)
		}
	}
	return conversations
}

// Main reports whether no other conversation of the session has a longer prompt. The session must
// be locked.
func (s *Session) Main(l *Conversation) bool {
	for _, o := range s.conversations {
		if o != l && o.Last.Prompt() > l.Last.Prompt() {
			return false
		}
	}
	return true
}

func (s *Session) has(l *Conversation) bool {
	return slices.Contains(s.conversations, l)
}

// recall returns the parsed request of the most recent conversation with this first turn, pinned by
// [wire.Known.Pin].
func (s *Session) recall(first wire.Hash) *wire.Known {
	s.Lock()
	defer s.Unlock()
	for _, l := range s.conversations {
		if l.known.First() == first {
			l.known.Pin()
			return l.known
		}
	}
	return nil
}

// size is the memory of the session, in bytes.
func (s *Session) size() int64 {
	const entrySize, endSize, stateSize = int(unsafe.Sizeof(CounterfactualEntry{})), int(unsafe.Sizeof(End{})),
		int(unsafe.Sizeof(BlockState{}))
	n := int(unsafe.Sizeof(*s)) + 200 + cap(s.Counterfactual.Entries)*entrySize // 200 in the store's index
	if s.Hypothetical != nil {
		n += cap(s.Hypothetical.Entries) * entrySize
	}
	// States of several conversations may share an edit, which then counts several times.
	edited := func(e *Edit, in *Inserted) {
		if e != nil {
			n += int(unsafe.Sizeof(*e)) + cap(e.Value) + cap(e.Recipe)
		}
		if in != nil {
			n += in.Size()
		}
	}
	if p := s.packed.Load(); p != nil {
		n += int(unsafe.Sizeof(*p)) + cap(p.bytes) + 8*(cap(p.edits)+cap(p.inserted))
		for _, e := range p.edits {
			edited(e, nil)
		}
		for _, in := range p.inserted {
			edited(nil, in)
		}
	}
	for _, conversations := range [...][]*Conversation{s.conversations, s.pending} {
		for _, l := range conversations {
			n += int(unsafe.Sizeof(*l)) + cap(l.Ends)*endSize + cap(l.States)*stateSize + 4*cap(l.entries) + cap(l.Tools) +
				len(l.Model) + cap(l.Order)*len(wire.Hash{})
			if l.known != nil {
				n += l.known.Size()
			}
			for i := range l.Said {
				n += l.Said[i].Size()
			}
			for i := range l.States {
				edited(l.States[i].Edit, l.States[i].Inserted)
				n += len(l.States[i].Trait)
			}
		}
	}
	return int64(n)
}

// maxPending bounds the claims of a session that are still without an outcome.
const maxPending = maxConversations

// claim returns the conversation that a commit of the request would make. The conversation shares no memory
// with the request. The session must be locked.
func (s *Session) claim(m Match, v *wire.View, states []BlockState, as func(*Conversation)) *Conversation {
	DescribeBlocks(v, states)
	l := &Conversation{id: s.conversationID(v)}
	place := s.takes(&m, v)
	if place != nil {
		*l = *place
	}
	if m.Conversation != nil && m.Conversation != place {
		l.inherit(m.Conversation)
	}
	// Copy the blocks and states, since the request's memory is recycled.
	blocks, tools, system := v.Known().Blocks()
	l.known = wire.RestoreKnown(slices.Clone(blocks), tools, system, v.First())
	l.States, l.restored, l.claimed, l.left, l.Said, l.Unsaid = slices.Clone(states), false, true, false, nil, false
	l.Order = nil
	as(l)
	return l
}

// withClaims returns the session's conversations with pending claims in their place: the earlier claims,
// and one more unless it is nil. The session must be locked.
func (s *Session) withClaims(more *Conversation) []*Conversation {
	out := slices.Clone(s.conversations)
	for _, l := range s.pending {
		out = withClaim(out, l)
	}
	if more != nil {
		out = withClaim(out, more)
	}
	return out[:min(len(out), maxConversations)]
}

func withClaim(conversations []*Conversation, l *Conversation) []*Conversation {
	i := slices.IndexFunc(conversations, func(o *Conversation) bool { return o.id == l.id })
	if i >= 0 {
		conversations = slices.Delete(conversations, i, i+1)
	}
	return slices.Insert(conversations, 0, l)
}

// keepClaim keeps a claim until the conversation goes on. The session must be locked.
func (s *Session) keepClaim(l *Conversation) {
	// The edits of the claim may have been sent, and must stay.
	s.next = max(s.next, l.id+1)
	s.pending = append(slices.DeleteFunc(s.pending, func(o *Conversation) bool { return o.id == l.id }), l)
	if len(s.pending) > maxPending {
		s.pending = slices.Delete(s.pending, 0, 1)
	}
}

// conversationID returns the number of a conversation that begins with a request.
func (s *Session) conversationID(v *wire.View) int {
	for _, l := range s.pending {
		// The committed conversation keeps the number of its claim.
		if s.Conversation(l.id) == nil && SameBlocks(l.chain(), v.MessageBlocks()) {
			return l.id
		}
	}
	return s.next
}

// claims reports whether a conversation is one of the session's own claims.
func (s *Session) claims(o *Conversation) bool {
	return o.claimed && slices.ContainsFunc(s.pending,
		func(l *Conversation) bool { return l.id == o.id && SameBlocks(l.chain(), o.chain()) })
}

// answeredElsewhere drops the claims of a conversation that another process, aware of the claim, has
// answered or continued.
func (s *Session) answeredElsewhere(o *Conversation) {
	s.pending = slices.DeleteFunc(s.pending, func(l *Conversation) bool {
		mine, theirs := l.chain(), o.chain()
		n := CommonBlocks(mine, theirs)
		// The other conversation has committed the claimed request, or has an answer that the claim does
		// not have.
		return l.id == o.id && (n == len(mine) && !o.claimed || AnswersIn(mine[n:]) == 0 && AnswersIn(theirs[n:]) > 0)
	})
}

// Refused drops the claims of a request that the upstream refused in that form. The session must be
// locked.
func (s *Session) Refused(v *wire.View) {
	s.pending = slices.DeleteFunc(s.pending,
		func(l *Conversation) bool { return SameBlocks(l.chain(), v.MessageBlocks()) })
}

// CommonBlocks returns the length of the common prefix of two chains, in blocks.
func CommonBlocks(a, b []wire.Block) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i].Hash != b[i].Hash {
			return i
		}
	}
	return n
}

// SameBlocks reports whether two chains are equal.
func SameBlocks(a, b []wire.Block) bool { return len(a) == len(b) && CommonBlocks(a, b) == len(a) }

// AnswersIn counts the model's answers in a part of a chain.
func AnswersIn(blocks []wire.Block) (n int) {
	for i, b := range blocks {
		// Consecutive blocks of the model are one answer.
		if b.Role == wire.RoleAssistant && (i == 0 || blocks[i-1].Role != wire.RoleAssistant) {
			n++
		}
	}
	return n
}

// answeredSince reports whether two chains that diverge after n blocks share a complete answer
// after the first blocks.
func answeredSince(a, b []wire.Block, first, n int) bool {
	if says(a, n) || says(b, n) { // the last answer continues differently
		for n > first && says(a, n-1) {
			n--
		}
	}
	return AnswersIn(a[first:n]) > 0
}

// says reports whether block i comes from the model.
func says(blocks []wire.Block, i int) bool {
	return i < len(blocks) && blocks[i].Role == wire.RoleAssistant
}

// RequestKind distinguishes the conversations of one client: the main thread, sub-agents and side
// requests. It combines the number of tools and of blocks before the messages.
func RequestKind(v *wire.View) uint32 { return uint32(v.Tools)<<16 | uint32(v.System)&0xffff }

// Tenant is a keyed hash of a credential. Every key contains one, so that credentials share
// nothing.
type Tenant [16]byte

// Key names a session.
type Key struct {
	// Tenant is the session's tenant.
	Tenant Tenant
	// Upstream distinguishes the same conversation at two upstreams.
	Upstream string
	// ID is the conversation id, from the client or derived from the first messages.
	ID string
	// Answer is a response in the conversation, see [Retained.Reply] and [Retained.First]. A session of the
	// tenant at the upstream with that response takes precedence over ID. Zero for none.
	Answer wire.Hash
	// Request is the request that needs the session. A shared store uses it to tell whether another
	// process can have changed the session. Optional.
	Request *wire.View
}

// Digest names a session in a store and in a backend. It is one-way, and only a holder of the key
// for tenant hashes can compute it.
type Digest [16]byte

// public returns the part of a digest that clients and operators see.
func (d Digest) public() publicID { return publicID(d[:len(publicID{})]) }

// publicID is the beginning of a digest. In hexadecimal digits it names the session in headers, logs and the admin API.
type publicID [8]byte

// String implements [fmt.Stringer].
func (p publicID) String() string {
	var digits [2 * len(p)]byte
	hex.Encode(digits[:], p[:])
	return string(digits[:])
}

// parsePublicID reads a session's name. It reports false for a text that cannot be one.
func parsePublicID(id string) (p publicID, ok bool) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != len(p) {
		return p, false
	}
	return publicID(b), true
}

// Digest returns the name of the key's session.
func (k Key) Digest() Digest {
	var few [256]byte
	all := append(few[:0], k.Tenant[:]...)
	// The NUL separates the upstream from the id.
	all = append(append(all, k.Upstream...), 0)
	all = append(all, k.ID...)
	sum := sha256.Sum256(all)
	return Digest(sum[:len(Digest{})])
}
