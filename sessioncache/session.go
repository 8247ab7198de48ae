// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// maxLineages bounds the conversations in one session. Beyond it the one not
// used for longest is forgotten.
const maxLineages = 16

// Session is all traffic of one client conversation. Its lineages are read and
// changed only while it is locked, and packed while nobody uses it.
type Session struct {
	mu sync.Mutex // see [Session.Lock]

	digest   string
	id       string
	upstream string
	tenant   Tenant
	runs     *Runs                // of the store
	outlives atomic.Bool          // snapshots are taken of it
	claimed  atomic.Bool          // there is a snapshot from before its first commit
	deleted  atomic.Bool          // none is to be written any more
	warmed   atomic.Bool          // it was pinged since the process began
	pending  []*Lineage           // what was claimed, and nothing has come of yet
	merges   uint64               // how often it was merged with another process's
	saved    uint64               // a hash of the snapshot that was published last
	length   int                  // of the last snapshot
	packed   atomic.Pointer[pack] // nil while somebody uses it
	// turn is held by who exchanges the session with a shared backend, before the
	// session's own lock. It guards told, and who writes version has it.
	turn     turn
	version  atomic.Uint64 // what the backend held at the last exchange, a Version
	health   RecordHealth  // how the backend takes it
	told     []Digest      // the answers that it was last given
	created  time.Time
	lineages []*Lineage // most recently used first
	next     int

	// Lifetime is the cache lifetime to ask for where the client leaves it open,
	// see [Session.SetLifetime].
	Lifetime Lifetime
	// Calibration turns bytes into tokens for this conversation.
	Calibration Calibration
	// Counterfactual is what the upstream would hold of the client's own bytes.
	Counterfactual CounterfactualCache
	// Hypothetical is what it would hold of what edits that are only computed
	// would have made of them; nil where none are.
	Hypothetical *CounterfactualCache
	// Unseen is how long, when the session was made, the store had been
	// remembering everything. A conversation that begins here with a long
	// history has been idle at least that long, or came from elsewhere.
	Unseen time.Duration

	// Owned by the store, under its lock.
	node
}

// turn is a lock that is waited for as long as a context lasts.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

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
	// LifetimeKept keeps the long lifetime in conversations that were given it.
	LifetimeKept
	// LifetimeLong gives it to conversations of which nothing is cached.
	LifetimeLong
)

// ID is the session's public id: a one-way hash.
func (s *Session) ID() string { return s.id }

// Digest stands for the session's key, which holds the client's own id.
func (s *Session) Digest() string { return s.digest }

// Tenant is whose session it is.
func (s *Session) Tenant() Tenant { return s.tenant }

// IsNamed reports whether the session is what a client calls by an id of its own, see
// [Key.ID].
func (s *Session) IsNamed(id string) bool {
	return Key{Tenant: s.tenant, Upstream: s.upstream, ID: id}.digest() == s.digest
}

// Number orders sessions by when their first request was committed. It is given
// once, by whichever store; 0 before.
func (s *Session) Number() uint64 { return s.number.Load() }

// Gone reports whether the session was forgotten: nothing more is to be kept of it.
func (s *Session) Gone() bool { return s.gone.Load() }

// SetLifetime says which cache lifetime to ask for from now on, where the client leaves
// it open.
func (s *Session) SetLifetime(l Lifetime) {
	s.Lock()
	defer s.Unlock()
	s.Lifetime = l
}

// MAC returns a keyed hash of some values. The key is the session's own and
// never leaves the process: nobody else can make one.
func (s *Session) MAC(values ...[]byte) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, []byte(s.digest))
	for _, v := range values {
		mac.Write(v)
	}
	mac.Sum(out[:0])
	return out
}

// Match is the lineage that a request continues.
type Match struct {
	// Lineage is nil for a conversation that begins with this request.
	Lineage *Lineage
	// Common is the number of the request's message blocks that stand in the
	// lineage too, from the first on.
	Common int

	// place is the lineage whose place the request takes, nil if it begins one of its own:
	// another than Lineage where a rewind takes that of a side request.
	place  *Lineage
	merges uint64      // how often the session had been merged with another's
	last   *wire.Known // the lineage's last request then
}

// Match finds the lineage that a request continues: the one with the longest common
// chain of blocks, which the upstream has in its cache as that has sent them. A request that
// does not take its place branches off from it, and takes that of the one with which, among
// those that would give way, it has most in common. The session must be locked. Requests
// whose history the provider holds continue one another without a common block.
func (s *Session) Match(v *wire.View) Match {
	var best Match
	blocks := v.MessageBlocks()
	if v.Conversation.Partial {
		best = s.continued(v)
		best.merges = s.merges
		return best
	}
	taken := 0 // blocks in common with best.place
	for _, l := range s.lineages {
		if l.Partial {
			continue
		}
		n := CommonBlocks(blocks, l.chain())
		if n > taken && l.supersededBy(v, n) {
			best.place, taken = l, n
		}
		if n > best.Common {
			best.Lineage, best.Common = l, n
		}
	}
	// Answers that only begin alike are two: the model has given this one to the request whose
	// place is taken, and what it has thought is bound to the edits of that.
	if p := best.place; p != nil && p != best.Lineage && !answeredSince(blocks, best.Lineage.chain(), taken, best.Common) {
		best.Lineage, best.Common = p, taken
	}
	if l := best.Lineage; l != nil {
		if best.Common = l.spoken(v, best.Common); best.Common == 0 {
			return Match{merges: s.merges}
		}
		if l.restored {
			ResolveEdits(v, l.States[:min(best.Common, len(l.States))])
		}
		best.last = l.known
	}
	best.merges = s.merges
	return best
}

// common is what a request has in common with its lineage by now: another request may have
// taken the place of the last since they were matched.
func (m *Match) common(l *Lineage, v *wire.View) int {
	if l == m.Lineage && l.known == m.last {
		return m.Common
	}
	return CommonBlocks(v.MessageBlocks(), l.chain())
}

// takes is the lineage whose place a request takes by now, nil if there is none.
func (s *Session) takes(m *Match, v *wire.View) *Lineage {
	l := m.place
	if l == nil || !s.has(l) || !v.Conversation.Partial && !l.supersededBy(v, m.common(l, v)) {
		return nil
	}
	return l
}

// continued finds the lineage that a request goes on with by what it refers to: an
// answer, or else whatever the session is about.
func (s *Session) continued(v *wire.View) Match {
	reply := wire.AnswerID(v.Conversation.Continues)
	for _, l := range s.lineages {
		if !reply.IsZero() && l.Reply == reply || reply.IsZero() && l.Partial {
			return Match{Lineage: l, place: l}
		}
	}
	return Match{}
}

// awaits reports whether a request is the one that follows the last request of one of the
// conversations, which came to this process: between the two there is one answer.
func (s *Session) awaits(v *wire.View) bool {
	s.Lock()
	defer s.Unlock()
	if v.Conversation.Partial {
		l := s.continued(v).Lineage
		return l != nil && l.here && !l.Reply.IsZero()
	}
	blocks := v.MessageBlocks()
	for _, l := range s.lineages {
		if l.Partial || !l.here {
			continue
		}
		n := len(l.chain())
		if n > 0 && CommonBlocks(blocks, l.chain()) == n && AnswersIn(blocks[n:]) == 1 {
			return true
		}
	}
	return false
}

// misses reports whether a request holds one answer more than the next to what the session
// knows of the conversation: it was given elsewhere, or never in full.
func (s *Session) misses(v *wire.View) bool {
	if v == nil {
		return false
	}
	s.Lock()
	defer s.Unlock()
	if v.Conversation.Partial {
		l := s.continued(v).Lineage
		return v.Conversation.Continues != "" && (l == nil || l.claimed)
	}
	blocks := v.MessageBlocks()
	n, next := 0, 0 // of a conversation that nobody knows
	for _, l := range s.lineages {
		if c := CommonBlocks(blocks, l.chain()); !l.Partial && c > n {
			n, next = c, 1
			if l.claimed && c == len(l.chain()) {
				next = 0
			}
		}
	}
	return AnswersIn(blocks[n:]) == next+1
}

// Commit makes a request part of the session: it grows the lineage that it
// continues, or branches off where the client went another way, into a new one or the
// place of one that gives way. The session must be locked. States are kept, not copied;
// those of a request whose history the provider holds are dropped where a whole request of
// the lineage is known.
func (s *Session) Commit(m Match, v *wire.View, states []BlockState) *Lineage {
	l := s.takes(&m, v)
	switch {
	case m.Lineage == nil:
		l = s.begunElsewhere(v)
	case l != nil && l != m.Lineage:
		l.inherit(m.Lineage)
	}
	if l == nil {
		l = s.begin(m.Lineage, v)
	}
	l.here = true
	if l.Beyond = v.Conversation.Partial && !l.Partial && l.known != nil; l.Beyond {
		s.touch(l)
		return l
	}
	if l.left {
		RecycleStates(l.States)
		l.known.Recycle()
	}
	l.known, l.left, l.restored, l.claimed = v.Known(), false, false, false
	l.Partial = v.Conversation.Partial
	l.States = states
	if s.outlives.Load() {
		DescribeBlocks(v, states)
	}
	s.touch(l)
	s.fulfil(l)
	return l
}

// Leave notes that whoever committed a request to a lineage uses its view and its
// states no longer: they may be recycled once another request has taken its
// place. The session must be locked.
func (s *Session) Leave(l *Lineage, v *wire.View) { l.left = l.left || l.known == v.Known() }

// Lineage returns the conversation of a number, nil if there is none. The
// session must be locked.
func (s *Session) Lineage(id int) *Lineage {
	for _, l := range s.lineages {
		if l.id == id {
			return l
		}
	}
	return nil
}

// KeepWarm notes that a ping which began at a time has found a conversation's
// prefix cached: its lifetime began anew. Unlike most methods it locks the
// session itself.
func (s *Session) KeepWarm(id int, at time.Time) {
	s.Lock()
	defer s.Unlock()
	l := s.Lineage(id)
	if l == nil || l.Started.After(at) {
		return
	}
	l.Warmed = at
	s.warmed.Store(true)
	l.Ends.Mark(l.Len(), at)
}

// SameTools returns the numbers of the other conversations of the session that
// had the same tools. The session must be locked.
func (s *Session) SameTools(l *Lineage) (lineages []int) {
	for _, o := range s.lineages {
		if o != l && o.known.Tools() == l.known.Tools() {
			lineages = append(lineages, o.id)
		}
	}
	return lineages
}

// Main reports whether no other conversation of the session has a longer prompt:
// sub-agents and side requests are shorter than the conversation that they
// serve. The session must be locked.
func (s *Session) Main(l *Lineage) bool {
	for _, o := range s.lineages {
		if o != l && o.Last.Prompt() > l.Last.Prompt() {
			return false
		}
	}
	return true
}

func (s *Session) has(l *Lineage) bool {
	return slices.Contains(s.lineages, l)
}

func (s *Session) begin(parent *Lineage, v *wire.View) *Lineage {
	l := &Lineage{id: s.lineageID(v)}
	s.next = max(s.next, l.id+1)
	if parent != nil {
		l.inherit(parent)
	}
	if len(s.lineages) == maxLineages {
		s.lineages = s.lineages[:maxLineages-1]
	}
	s.lineages = append(s.lineages, l)
	return l
}

// touch moves a lineage to the front.
func (s *Session) touch(l *Lineage) {
	for i, x := range s.lineages {
		if x == l {
			copy(s.lineages[1:i+1], s.lineages[:i])
			s.lineages[0] = l
			return
		}
	}
}

// recall returns what is known of the most recent lineage that has
// this first turn, held.
func (s *Session) recall(first wire.Hash) *wire.Known {
	s.Lock()
	defer s.Unlock()
	for _, l := range s.lineages {
		if l.known.First() == first {
			l.known.Hold()
			return l.known
		}
	}
	return nil
}

// size is the memory that the session holds, in bytes.
func (s *Session) size() int64 {
	n := int64(unsafe.Sizeof(*s)) + 200 + // the store's own index entries
		s.Counterfactual.Size() + s.Hypothetical.Size() + s.packed.Load().size()
	for _, lineages := range [...][]*Lineage{s.lineages, s.pending} {
		for _, l := range lineages {
			n += l.size()
		}
	}
	return n
}
