// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// answeredMessage is an outgoing message and the results of its calls. The results directly follow the
// message.
type answeredMessage struct {
	Message
	results []Part
	grown   bool // the parts are a copy
}

// add appends parts to the message.
func (t *answeredMessage) add(parts []Part) {
	// The request's slice must not change: the capacity is clipped, so the first append copies it.
	if !t.grown {
		t.Parts, t.grown = slices.Clip(t.Parts), true
	}
	t.Parts = reuse.Append(t.Parts, parts...)
}

// pairs matches calls and results by the client's ids. Some formats allow late results, results
// split over several messages, and reused call ids; others do not.
type pairs struct {
	of map[string]pair
	// twins are results that are shared by further open calls of the same id.
	twins []Part
	// turn is the index of the latest answer. irregular reports reused ids, results without a call, and results
	// that come after another answer.
	turn      int
	irregular bool
}

// pair is the state of one client id.
type pair struct {
	open  []call // calls without a result, in order
	twins int    // number of further calls with the id
}

type call struct {
	id   string // unique id
	turn int    // index of the call's turn
}

// call records a call in a turn and returns a unique id for it.
func (p *pairs) call(id string, at int) string {
	was, taken := p.of[id]
	unique := id
	// A reused id gets a number. The client may have used that id as well.
	p.irregular = p.irregular || taken
	for taken {
		was.twins++
		unique = id + "_" + strconv.Itoa(was.twins+1)
		_, taken = p.of[unique]
	}
	if unique != id {
		p.of[unique] = pair{} // reserve the id
	}
	was.open = append(was.open, call{unique, at})
	p.of[id] = was
	return unique
}

// calls sets the unique ids of the calls among parts. It copies the parts before a change.
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

// results moves the results among parts to their calls and returns the remaining parts.
func (p *pairs) results(out []answeredMessage, parts []Part) (rest []Part) {
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
			// Further calls of the id may share this result.
			if len(of.open) > 0 {
				p.twins = append(p.twins, part)
			}
			p.irregular = p.irregular || answered.turn != p.turn
			part.ID = answered.id
			out[answered.turn].results = reuse.Append(out[answered.turn].results, part)
			continue
		}
		if rest == nil {
			rest = make([]Part, 0, len(parts)-i)
		}
		if !answers { // the upstream decides about a result without a call
			p.irregular = p.irregular || isResult(part)
			rest = append(rest, part)
			continue
		}
		// A second result of a call becomes plain content.
		for _, c := range part.Content {
			if c.Kind != TextPart || !c.Text.Empty() {
				rest = append(rest, c)
			}
		}
	}
	return rest
}

// over ends a round of results.
func (p *pairs) over(out []answeredMessage) {
	for _, part := range p.twins {
		of := p.of[part.ID]
		id := part.ID
		// In the client's format the result belongs to all calls with its id.
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

// behind returns the messages, with results after their calls.
func behind(turns []answeredMessage) []Message {
	out := make([]Message, 0, len(turns)+1)
	var results []Part
	for i := range turns {
		m := turns[i].Message
		// Results are the first parts of the next user message.
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
