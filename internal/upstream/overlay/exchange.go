// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// ErrPartial says that the upstream holds a part of the prompt itself, so that
// nothing is known of its prefix.
var ErrPartial = errors.New("overlay: the request is a part of its prompt")

// ErrLarge says that a prompt begins with more than is kept of one.
var ErrLarge = errors.New("overlay: tools and system prompt of more than 4 MiB")

// maxPrefix bounds tools and system prompt, in bytes: no context has room for as much.
const maxPrefix = 4 << 20

// Conversation says whose request it is.
type Conversation struct {
	// Session names all traffic of one client conversation and its tenant.
	Session string
	// Group names those who share prefixes.
	Group string
	// Tenant names those whose share of the memory it takes.
	Tenant string
}

// Request is a request as it is about to go upstream.
type Request struct {
	// Format is the upstream's format.
	Format wire.Format
	// Body is not changed.
	Body []byte
	// Rules are those to follow.
	Rules Switches
	// Markers reports that cache_control goes upstream.
	Markers bool
	// At is now.
	At time.Time
}

// Transaction is a request with its overlay. Until it is committed it changes
// nothing, so that the same request gives the same bytes again.
type Transaction struct {
	// Body is the body to send: that of the request, or a new one that may be recycled.
	Body []byte
	// Edited reports that it is a new one.
	Edited bool
	// View is what was read of Body.
	View *wire.View
	// Common is the share, in bytes, of what goes upstream that has gone
	// upstream in the same place before, or was answered there: 0 to 1.
	Common float64
	// Divergence tells where the prompt does not go on from the one before it,
	// nil where it does or there is none before it.
	Divergence *Divergence

	store        *Store
	conversation Conversation
	base         string // name of the one that it began with, "" if that is known
	before, next *conversation
	replaces     *conversation
	at           time.Time
}

// Begin lays the overlay over a request. It returns an error for what it does
// not understand; that goes out as it is.
func (s *Store) Begin(c Conversation, q Request) (*Transaction, error) {
	all := s.conversationsOf(c.Session)
	v, err := wire.Parse(q.Format, q.Body, recall(all, func(l *conversation) *wire.Known { return l.known }))
	if err != nil {
		return nil, err
	}
	if v.Conversation.Partial || len(v.Messages) == 0 {
		return nil, ErrPartial
	}
	d := newDraft(v, q, all)
	if d.sizeOfPrefix() > maxPrefix {
		return nil, ErrLarge
	}
	links := d.links()
	m := match(all, q.Format, v.OffersTools(), links)
	next := &conversation{format: q.Format, tooled: v.OffersTools(), chain: links, known: v.Known()}
	x := &Transaction{Body: q.Body, store: s, conversation: c, before: m.conversation, next: next, at: q.At}
	if m.continues {
		x.replaces = m.conversation
	}
	if m.conversation != nil {
		next.frozen, next.divergences = m.conversation.frozen, m.conversation.divergences
	}
	if err := d.plan(func(b *base) *base {
		x.base = c.Group + "\x00" + b.key()
		return s.known(x.base, b)
	}, m, next); err != nil {
		return nil, err
	}
	out := v
	if len(d.cuts) > 0 && !next.frozen {
		body, err := wire.Replace(q.Body, d.cuts)
		if err != nil {
			return nil, err
		}
		if out, err = wire.Parse(q.Format, body, func(first wire.Hash) *wire.Known {
			if k := begun(all, func(l *conversation) *wire.Known { return l.shown }, first); k != nil {
				return k
			}
			return v.Known() // most of it was not touched
		}); err != nil {
			return nil, err
		}
		x.Body, x.Edited = body, true
	}
	next.sent, next.shown = piecesOf(out, q.Markers), out.Known()
	x.View = out
	x.compare()
	return x, nil
}

// Accept reports that the upstream has accepted the request: others may begin as it
// does.
func (x *Transaction) Accept() {
	if x.base != "" {
		x.store.accept(x.base, x.conversation.Tenant, x.next.base)
	}
}

// Commit makes the request and its answer, which must be whole, part of the
// conversation. With reports, the upstream says what it found in its cache; where
// it found much less than it should have, that is a divergence, too.
func (x *Transaction) Commit(t *wire.Turn, reports bool) {
	x.Accept()
	if a := answerOf(t, len(x.next.chain)); a != nil {
		x.next.answers = append(slices.Clip(x.next.answers), *a)
	}
	x.next.estimated = !reports
	x.next.prompt = t.Usage.Prompt() + t.Usage.Output
	if x.Divergence == nil && reports && t.Usage.Reported && x.before != nil && 2*t.Usage.Read < x.before.prompt {
		x.Divergence = &Divergence{At: x.at, Cause: CauseEvicted, Of: len(x.before.sent)}
	}
	if x.Divergence != nil {
		all := append(slices.Clip(x.next.divergences), *x.Divergence)
		x.next.divergences = all[max(0, len(all)-maxDivergences):]
	}
	x.store.put(x.conversation, x.replaces, x.next)
}

// Freeze notes that the upstream refused the request for its overlay: the
// conversation is left alone from here on.
func (x *Transaction) Freeze() {
	frozen := *x.next
	frozen.frozen = true
	if x.before != nil {
		frozen = *x.before
		frozen.frozen = true
	}
	if frozen.base == nil {
		frozen.base = &base{}
	}
	x.store.put(x.conversation, x.before, &frozen)
}

// matched is the conversation that a request goes on with.
type matched struct {
	conversation *conversation // nil for a new one
	// common is the number of the request's messages that stand there, too.
	common int
	// continues tells that the request takes its place; otherwise it branches off.
	continues bool
}

// recall finds what was parsed of an earlier request that began alike, or else of
// the one used last: each message of it is recognised by itself.
func recall(all []*conversation, of func(*conversation) *wire.Known) func(wire.Hash) *wire.Known {
	if len(all) == 0 {
		return nil
	}
	return func(first wire.Hash) *wire.Known {
		if k := begun(all, of, first); k != nil {
			return k
		}
		return of(all[0])
	}
}

// begun is what was parsed of an earlier request that began so, nil for nothing.
func begun(all []*conversation, of func(*conversation) *wire.Known, first wire.Hash) *wire.Known {
	for _, l := range all {
		if k := of(l); k != nil && k.First() == first {
			return k
		}
	}
	return nil
}

// match finds the conversation that shares most messages from the first on. One
// whose answers the request leaves out goes on beside it.
func match(all []*conversation, format wire.Format, tools bool, links []link) matched {
	var best, branch matched
	for _, l := range all {
		if l.format != format || l.tooled != tools {
			continue
		}
		n := common(l.chain, links)
		answered := slices.ContainsFunc(l.chain[n:], func(k link) bool { return k.role == wire.RoleAssistant })
		if n > best.common && !answered {
			best = matched{l, n, true}
		}
		if n > branch.common {
			branch = matched{l, n, false}
		}
	}
	if best.conversation != nil {
		return best
	}
	return branch
}

// common returns the number of messages that two conversations begin with. Those of the same
// shape are the same where the model has given the same answer to both: a task that differs from
// another in a path only is another task until then.
func common(a, b []link) int {
	same, shape, answered := 0, 0, false
	for shape < min(len(a), len(b)) && a[shape].shape == b[shape].shape && a[shape].role == b[shape].role {
		if same == shape && a[shape].hash == b[shape].hash {
			same++
		}
		answered = answered || a[shape].role == wire.RoleAssistant
		shape++
	}
	if answered {
		return shape
	}
	return same
}

// links are the messages behind the system text. Those that a user begins with are told apart
// without their surroundings.
func (d *draft) links() []link {
	links := make([]link, 0, len(d.v.Messages)-d.leading)
	opening, openTo := d.first, d.openTo()
	for i := d.leading; i < len(d.v.Messages); i++ {
		m := &d.v.Messages[i]
		if i >= openTo && m.End == m.First+1 {
			hash := d.v.Blocks[m.First].Hash
			links = append(links, link{hash, hash, m.Role})
			continue
		}
		var texts, shapes []byte
		for j := m.First; j < m.End; j++ {
			b := &d.v.Blocks[j]
			text, shape := b.Hash, b.Hash
			if i < openTo && b.Kind == wire.KindText {
				if p := opening[0]; d.q.Rules.Pins {
					text, shape = p.survey().rest, p.shape
				}
				opening = opening[1:]
			}
			texts, shapes = append(texts, text[:]...), append(shapes, shape[:]...)
		}
		links = append(links, link{hashOf(texts), hashOf(shapes), m.Role})
	}
	return links
}
