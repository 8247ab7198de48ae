// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// DefaultMemory is the default size of a store's memory, in bytes.
	DefaultMemory    = 192 << 20
	maxIdle          = 12 * time.Hour
	maxConversations = 16 // in one session
)

// Store has the beginnings of conversations and their notes. A forgotten conversation begins anew. All methods may
// be called from several goroutines.
type Store struct {
	pool     *lru.Pool[string]
	sessions *lru.Cache[string, string, []*conversation] // the most recently used conversation first
	bases    *lru.Cache[string, string, *base]
}

// NewStore returns an empty store in a pool with shares for tenants.
func NewStore(pool *lru.Pool[string], now func() time.Time) *Store {
	return &Store{
		pool:     pool,
		sessions: lru.New(lru.Options[string, string, []*conversation]{Pool: pool, TTL: maxIdle, Now: now}),
		bases:    lru.New(lru.Options[string, string, *base]{Pool: pool}),
	}
}

// Of returns the overlays of a state.
func Of(s *state.State) *Store {
	return state.Part(s, func() *Store { return NewStore(lru.NewPool[string](DefaultMemory), s.Clock.Now) })
}

// Interface guards
var (
	_ state.Holder    = (*Store)(nil)
	_ state.Forgetter = (*Store)(nil)
	_ state.Reporter  = (*Store)(nil)
)

// Budget implements [state.Holder].
func (*Store) Budget() memory.Part { return memory.Overlays }

// Bytes implements [state.Holder].
func (s *Store) Bytes() int64 { return s.pool.Bytes() }

// SetLimit implements [state.Holder].
func (s *Store) SetLimit(n int64) { s.pool.SetLimit(n) }

// conversationsOf returns the immutable conversations of a session.
func (s *Store) conversationsOf(key string) []*conversation {
	s.sessions.Lock()
	defer s.sessions.Unlock()
	e := s.sessions.Get(key)
	if e == nil {
		return nil
	}
	return e.Value
}

// put makes next part of its session, in place of before.
func (s *Store) put(c Conversation, before, next *conversation) {
	conversations, size := []*conversation{next}, len(c.Session)+200+next.Size()
	limit := int(s.pool.Limit())
	s.sessions.Lock()
	defer s.sessions.Unlock()
	if e := s.sessions.Get(c.Session); e != nil {
		for _, l := range e.Value {
			n := l.Size()
			// A session is evicted as a whole: it must not grow so large that its tenant has
			// room for little else.
			if l == before || len(conversations) == maxConversations || size+n > limit/4 {
				continue
			}
			conversations = append(conversations, l)
			size += n
		}
	}
	s.sessions.Put(c.Session, c.Tenant, conversations, int64(size))
}

// ForgetSession implements [state.Forgetter].
func (s *Store) ForgetSession(x *sessioncache.Session) {
	s.sessions.Lock()
	defer s.sessions.Unlock()
	if e := s.sessions.Get(x.ID()); e != nil {
		s.sessions.Drop(e)
	}
}

// known returns the base of a name, b if there is none.
func (s *Store) known(name string, b *base) *base {
	s.bases.Lock()
	defer s.bases.Unlock()
	if e := s.bases.Get(name); e != nil {
		return e.Value
	}
	return b
}

// accept makes b the base of later conversations with the same beginning.
func (s *Store) accept(name, tenant string, b *base) {
	s.bases.Lock()
	defer s.bases.Unlock()
	if e := s.bases.Get(name); e != nil {
		// The first base wins, since its bytes are in the upstream's cache.
		s.bases.Use(e)
		return
	}
	s.bases.Put(name, tenant, b, int64(b.size()))
}

// Report is an operator's view of one conversation.
type Report struct {
	// Messages is the number of messages of the last request behind the prefix.
	Messages int `json:"messages"`
	// Tools is the number of tools in the prefix.
	Tools int `json:"tools"`
	// Notes is the number of notes near the end, Restored of answers that go out in the model's own bytes.
	Notes    int `json:"notes"`
	Restored int `json:"restored"`
	// Estimated reports that the upstream does not report cached tokens, so that the session's usage contains
	// estimates.
	Estimated bool `json:"estimated,omitempty"`
	// Frozen reports that the upstream refused a request with an overlay.
	Frozen bool `json:"frozen"`
	// Divergences are the latest divergences.
	Divergences []Divergence `json:"divergences"`
}

// ReportSession implements [state.Reporter]: an entry for each conversation with an overlay, the most
// recently used first.
func (s *Store) ReportSession(x *sessioncache.Session) (name string, report any) {
	if all := s.Report(x.ID()); len(all) > 0 {
		report = all
	}
	return "overlay", report
}

// Report returns the reports of a session's conversations.
func (s *Store) Report(key string) []Report {
	conversations := s.conversationsOf(key)
	all := make([]Report, 0, len(conversations))
	for _, l := range conversations {
		restored := 0
		for i := range l.answers {
			if l.answers[i].differs {
				restored++
			}
		}
		all = append(all, Report{len(l.chain), len(l.tools), len(l.notes), restored, l.estimated, l.frozen, l.divergences})
	}
	return all
}

// link is a client's message as two hashes: of the whole, and of its shape without dates, times, paths, UUIDs and
// hashes. Only opening user messages have a shape of their own.
type link struct {
	hash, shape wire.Hash
	role        wire.Role
}

// clientMessage is a client's message, by a hash of its bytes.
type clientMessage struct {
	hash  uint64
	plain bool // the rules for forms and token counters change nothing
	empty bool // a system message without a text for the model
}

// conversation is immutable: each request makes a new one.
type conversation struct {
	format  wire.Format
	tooled  bool // its requests have tools
	rules   Switches
	markers bool
	leading int // leading system messages (openai_chat)
	// messages are those of the last request, with the leading ones.
	messages []clientMessage
	// base is the beginning; tools are those of the base, and later ones.
	base  *base
	tools []tool
	// first are the opening user texts, seen those of the last request that differ from first and the base.
	first, seen []pin
	// chain are the messages of the last request after the system text.
	chain []link
	notes []note
	// answers are the model's answers that the client has rewritten or not sent back yet.
	answers []answer
	// sent are the pieces of the last prompt, prompt its length with the answer in tokens.
	sent   []piece
	prompt int64
	// known is the client's last request, parsed, shown its overlaid form. A request that came with a view has no
	// known, one without edits no shown: the memory of a view given is recycled after the request.
	known, shown *wire.Known

	estimated   bool
	frozen      bool
	divergences []Divergence
}

// Size is the approximate memory of the conversation, in bytes.
func (l *conversation) Size() int {
	// The base counts in full, since other conversations that share it may be forgotten first.
	n := 400 + l.base.size() + len(l.chain)*40 + len(l.messages)*16 + len(l.sent)*24 + len(l.divergences)*64
	for _, k := range [...]*wire.Known{l.known, l.shown} {
		if k != nil {
			n += k.Size()
		}
	}
	for _, pins := range [...][]pin{l.first, l.seen} {
		for i := range pins {
			n += pins[i].size()
		}
	}
	for i, t := range l.tools {
		if i >= len(l.base.tools) || l.base.tools[i].hash != t.hash {
			n += len(t.raw) + 80
		}
	}
	for i := range l.notes {
		n += len(l.notes[i].text) + 80
		for _, p := range l.notes[i].surroundings {
			n += len(p) + 16
		}
	}
	for i := range l.answers {
		n += l.answers[i].size()
	}
	return n
}
