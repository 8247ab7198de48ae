// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// ErrPartial reports that the upstream retains a part of the prompt, so that its prefix is unknown.
var ErrPartial = errors.New("overlay: the request is a part of its prompt")

// ErrLarge reports a prefix above the limit.
var ErrLarge = errors.New("overlay: tools and system prompt of more than 4 MiB")

// maxPrefix bounds tools and system prompt, in bytes: no context has room for as much.
const maxPrefix = 4 << 20

// Conversation identifies a request's conversation.
type Conversation struct {
	// Session names all traffic of one client conversation and its tenant.
	Session string
	// Group names a group of tenants with common prefixes.
	Group string
	// Tenant names the owner of the memory.
	Tenant string
}

// Request is a request about to go upstream.
type Request struct {
	// Format is the upstream's format.
	Format wire.Format
	// Body is not changed.
	Body []byte
	// View is the parsed Body, nil if it is not parsed yet.
	View *wire.View
	// Rules are the rules in force.
	Rules Switches
	// Markers reports that cache_control goes upstream.
	Markers bool
	// At is the current time.
	At time.Time
}

// Transaction is a request with its overlay. Before its commit it changes nothing, so that an equal request gives
// equal bytes.
type Transaction struct {
	// Body is the body to send: that of the request, or a new one that may be recycled.
	Body []byte
	// Edited reports that it is a new one.
	Edited bool
	// View is the parsed Body.
	View *wire.View
	// Common is the share, in bytes, of the prompt that the upstream has received or answered in the same place
	// before: 0 to 1.
	Common float64
	// Divergence is the point at which the prompt leaves the previous one, nil if it continues that one or there is
	// none.
	Divergence *Divergence

	store        *Store
	conversation Conversation
	base         string // name of a new base, "" for a known one
	before, next *conversation
	replaces     *conversation
	at           time.Time
}

// Begin applies the overlay to a request. A request with an error is forwarded unmodified.
func (s *Store) Begin(c Conversation, q Request) (*Transaction, error) {
	all := s.conversationsOf(c.Session)
	v, known, err := parse(all, q)
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
	next := &conversation{
		format: q.Format, tooled: v.OffersTools(), rules: q.Rules, markers: q.Markers, leading: d.leading, chain: links,
		known: known, messages: d.messages,
	}
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
	// A frozen conversation was refused with an overlay, and gets none any more.
	if len(d.cuts) > 0 && !next.frozen {
		body, err := wire.Replace(q.Body, d.cuts)
		if err != nil {
			return nil, err
		}
		if out, err = wire.Parse(q.Format, body, func(first wire.Hash) *wire.Known {
			if k := begun(all, func(l *conversation) *wire.Known { return l.shown }, first); k != nil {
				return k
			}
			return v.Known() // most of it is unchanged
		}); err != nil {
			return nil, err
		}
		x.Body, x.Edited = body, true
		next.shown = out.Known()
	}
	next.sent = piecesOf(out, q.Markers)
	x.View = out
	x.compare()
	return x, nil
}

// parse returns the view of a request, and the Known for parsing the next one. The Known is nil if the request comes
// with a view, as the next request will, too.
func parse(all []*conversation, q Request) (*wire.View, *wire.Known, error) {
	if q.View != nil {
		v := *q.View // the draft may replace the list of blocks
		return &v, nil, nil
	}
	// Nearly all messages were parsed for the previous request.
	v, err := wire.Parse(q.Format, q.Body, recall(all, func(l *conversation) *wire.Known { return l.known }))
	if err != nil {
		return nil, nil, err
	}
	return v, v.Known(), nil
}

// Accept records that the upstream has accepted the request, which makes its base available to others.
func (x *Transaction) Accept() {
	if x.base != "" {
		x.store.accept(x.base, x.conversation.Tenant, x.next.base)
	}
}

// Commit makes the request and its complete answer part of the conversation. With reports, the upstream's cached
// tokens reveal an eviction, which counts as a divergence.
func (x *Transaction) Commit(t *wire.Turn, reports bool) {
	x.Accept()
	if a := answerOf(t, len(x.next.chain)); a != nil {
		x.next.answers = append(slices.Clip(x.next.answers), *a)
	}
	x.next.estimated = !reports
	x.next.prompt = t.Usage.Prompt() + t.Usage.Output
	// Small gaps are normal; an eviction loses most of the prompt.
	if x.Divergence == nil && reports && t.Usage.Reported && x.before != nil && 2*t.Usage.Read < x.before.prompt {
		x.Divergence = &Divergence{At: x.at, Cause: CauseEvicted, Of: len(x.before.sent)}
	}
	if x.Divergence != nil {
		all := append(slices.Clip(x.next.divergences), *x.Divergence)
		x.next.divergences = all[max(0, len(all)-maxDivergences):]
	}
	x.store.put(x.conversation, x.replaces, x.next)
}

// Freeze stops overlays of the conversation, after the upstream refused one.
func (x *Transaction) Freeze() {
	frozen := *x.next
	frozen.frozen = true
	// The refused request is no part of the conversation.
	if x.before != nil {
		frozen = *x.before
		frozen.frozen = true
	}
	if frozen.base == nil {
		frozen.base = &base{}
	}
	x.store.put(x.conversation, x.before, &frozen)
}

// matched is the conversation that a request continues.
type matched struct {
	conversation *conversation // nil for a new one
	// common is the number of leading messages in both.
	common int
	// continues reports that the request takes its place; otherwise it branches off.
	continues bool
}

// recall finds the parsed form of an earlier request with the same beginning, or else of the latest one.
func recall(all []*conversation, of func(*conversation) *wire.Known) func(wire.Hash) *wire.Known {
	if len(all) == 0 {
		return nil
	}
	return func(first wire.Hash) *wire.Known {
		if k := begun(all, of, first); k != nil {
			return k
		}
		// Messages are recognized one by one, so another branch still helps.
		return of(all[0])
	}
}

func begun(all []*conversation, of func(*conversation) *wire.Known, first wire.Hash) *wire.Known {
	for _, l := range all {
		if k := of(l); k != nil && k.First() == first {
			return k
		}
	}
	return nil
}

// match finds the conversation with the most leading messages in common.
func match(all []*conversation, format wire.Format, tools bool, links []link) matched {
	var best, branch matched
	for _, l := range all {
		if l.format != format || l.tooled != tools {
			continue
		}
		n := common(l.chain, links)
		// A request without that conversation's later answers branches off.
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

// common returns the number of leading messages of two conversations.
func common(a, b []link) int {
	same, shape, answered := 0, 0, false
	for shape < min(len(a), len(b)) && a[shape].shape == b[shape].shape && a[shape].role == b[shape].role {
		if same == shape && a[shape].hash == b[shape].hash {
			same++
		}
		answered = answered || a[shape].role == wire.RoleAssistant
		shape++
	}
	// Messages with equal shapes are equal if the model answered both alike. Until then, a task with another path
	// is another task.
	if answered {
		return shape
	}
	return same
}

// links are the messages after the system text, without surroundings in the opening user messages.
func (d *draft) links() []link {
	links := append(make([]link, 0, len(d.v.Messages)-d.leading), d.same.chain[:max(d.unchanged-d.leading, 0)]...)
	opening, openTo := d.first, d.openTo()
	for i := d.leading + len(links); i < len(d.v.Messages); i++ {
		m := &d.v.Messages[i]
		// Most messages have one block, and need no further hash.
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
		hash := hashOf(texts)
		shape := hash
		if i < openTo {
			shape = hashOf(shapes)
		}
		links = append(links, link{hash, shape, m.Role})
	}
	return links
}
