// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

// pending has calls in a format with results that may omit the id of their call. It has indexes,
// since a history may contain very many calls.
type pending struct {
	calls []pendingCall
	open  int              // number of calls without a result
	ids   map[string][]int // possibly open calls by id, and by name
	names map[string][]int
}

type pendingCall struct {
	id       string
	answered bool
}

func (p *pending) add(id, name string) {
	if p.ids == nil {
		p.ids, p.names = map[string][]int{}, map[string][]int{}
	}
	n := len(p.calls)
	p.calls = append(p.calls, pendingCall{id: id})
	p.ids[id] = append(p.ids[id], n)
	p.names[name] = append(p.names[name], n)
	p.open++
}

// answer marks a call as answered and returns its id.
func (p *pending) answer(id, name string) (of string, ok bool) {
	at := -1
	if id != "" {
		at = p.first(p.ids, id)
	}
	if at < 0 {
		// Clients of the API may omit ids, and then answer in the order of the calls.
		at = p.first(p.names, name)
	}
	if at < 0 {
		return "", false
	}
	p.calls[at].answered = true
	p.open--
	return p.calls[at].id, true
}

// first returns the first open call under a key, -1 if there is none.
func (p *pending) first(by map[string][]int, key string) int {
	all := by[key]
	for len(all) > 0 && p.calls[all[0]].answered {
		all = all[1:]
	}
	if len(all) == 0 {
		delete(by, key)
		return -1
	}
	by[key] = all
	return all[0]
}
