// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// turn is a message on its way to the upstream, and the results of the calls in
// it: they go right behind it, whoever speaks there.
type turn struct {
	Message
	results []Part
	grown   bool // its parts are in memory of its own
}

// add adds parts to the message. Those of the request stay as they are.
func (t *turn) add(parts []Part) {
	if !t.grown {
		t.Parts, t.grown = slices.Clip(t.Parts), true
	}
	t.Parts = reuse.Append(t.Parts, parts...)
}

// pairs keeps calls and their results together on the way from formats that let
// results come late, split over several messages, or under an id that an earlier
// call has had, to formats that do not. It knows calls by the client's ids.
type pairs struct {
	of map[string]pair
	// twins are results, by the client's ids, of which other calls still wait for one.
	twins []Part
}

// pair is what is known of a client's id.
type pair struct {
	open  []call // the calls that wait for a result, the first to be answered first
	twins int    // calls of the id besides the first
}

type call struct {
	id   string // that it goes by
	turn int    // that it stands in
}

// call notes a call in a turn and returns the id that it goes by: its own, unless
// an earlier call has it.
func (p *pairs) call(id string, at int) string {
	was, taken := p.of[id]
	own := id
	for taken {
		was.twins++
		own = id + "_" + strconv.Itoa(was.twins+1)
		_, taken = p.of[own]
	}
	if own != id {
		p.of[own] = pair{} // nobody else is to have it
	}
	was.open = append(was.open, call{own, at})
	p.of[id] = was
	return own
}

// calls gives the calls among some parts the ids that they go by. The parts
// themselves are not changed.
func (p *pairs) calls(parts []Part, at int) []Part {
	copied := false
	for i := range parts {
		if parts[i].Kind != CallPart {
			continue
		}
		id := p.call(parts[i].ID, at)
		if id == parts[i].ID {
			continue
		}
		if !copied {
			parts, copied = append([]Part(nil), parts...), true
		}
		parts[i].ID = id
	}
	return parts
}

// results puts the results among some parts behind their calls, and returns what
// is said besides. What answers a call a second time is no result any more.
func (p *pairs) results(out []turn, parts []Part) (rest []Part) {
	if !slices.ContainsFunc(parts, isResult) {
		return parts
	}
	for i, part := range parts {
		of, known := p.of[part.ID]
		answers := isResult(part) && known
		if answers && len(of.open) > 0 {
			answered := of.open[0]
			of.open = of.open[1:]
			p.of[part.ID] = of
			if len(of.open) > 0 {
				p.twins = append(p.twins, part)
			}
			part.ID = answered.id
			out[answered.turn].results = reuse.Append(out[answered.turn].results, part)
			continue
		}
		if rest == nil {
			rest = make([]Part, 0, len(parts)-i)
		}
		if !answers { // a result of no call is the upstream's to refuse
			rest = append(rest, part)
			continue
		}
		for _, c := range part.Content {
			if c.Kind != TextPart || !c.Text.Empty() {
				rest = append(rest, c)
			}
		}
	}
	return rest
}

// over ends a round of results: those of a call are also the results of the calls that were
// made under its id and got none of their own, as they are where the format comes from.
func (p *pairs) over(out []turn) {
	for _, part := range p.twins {
		of := p.of[part.ID]
		id := part.ID
		for _, c := range of.open {
			part.ID = c.id
			out[c.turn].results = reuse.Append(out[c.turn].results, part)
		}
		of.open = nil
		p.of[id] = of
	}
	p.twins = p.twins[:0]
}

func isResult(p Part) bool { return p.Kind == ResultPart }

// behind returns the messages with the results behind the calls.
func behind(turns []turn) []Message {
	out := make([]Message, 0, len(turns)+1)
	var results []Part
	for i := range turns {
		m := turns[i].Message
		if results != nil && m.Role == User {
			m.Parts = append(results, m.Parts...)
		} else if results != nil {
			out = append(out, Message{Role: User, Parts: results})
		}
		results = turns[i].results
		out = append(out, m)
	}
	if results != nil {
		out = append(out, Message{Role: User, Parts: results})
	}
	return out
}
