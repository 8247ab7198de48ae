// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package page

import "time"

// View is what the page shows at a moment: counters, sizes and times, names of people,
// programs and models; never content, keys or credentials.
type View struct {
	// Now is the moment, by the server's clock.
	Now time.Time `json:"now"`
	// Today is what was counted today.
	Today Today `json:"today"`
	// Sessions are those that are held.
	Sessions Sessions `json:"sessions"`
	// Budgets are those of which something is spent, the closest to their end first.
	Budgets []Budget `json:"budgets"`
	// Queues are those before boxes that have had a request.
	Queues []Queue `json:"queues"`
	// KeepAlive is what pings have come to since the process began.
	KeepAlive KeepAlive `json:"keepalive"`
	// Health says how upstreams and stores are.
	Health []Health `json:"health"`
}

// Sessions are the sessions that are held.
type Sessions struct {
	// Total is the number of all, Warm that of those whose prefix is expected to be
	// cached upstream.
	Total int `json:"total"`
	Warm  int `json:"warm"`
	// List are those that were used last, the latest first.
	List []Session `json:"list"`
}

// Session is one of them, by its conversation that was used last.
type Session struct {
	// ID is the public id.
	ID string `json:"id"`
	Whose
	// Model is the model of the last request.
	Model string `json:"model"`
	// Requests counts the requests of all its conversations, which Lineages counts.
	Requests int `json:"requests"`
	Lineages int `json:"lineages"`
	// Used is when the last request began.
	Used time.Time `json:"used"`
	// Until is when the cached prefix is expected to expire, absent where it does
	// not, or where that is not known; Lifetime is how long it lives, in seconds.
	Until    *time.Time `json:"until,omitempty"`
	Lifetime float64    `json:"lifetime,omitempty"`
	// Warm reports whether the prefix is expected to be cached.
	Warm bool `json:"warm"`
	// Sent is the last prompt in tokens, as the upstream counted it, Written what it
	// was as the client wrote it, in part estimated.
	Sent    int64 `json:"sent"`
	Written int64 `json:"written"`
	// Read is the share of all prompts that was read from the cache.
	Read float64 `json:"read"`
	// Saved is what was saved, and Would what would have been, net: in dollars if
	// Priced, in uncached input tokens otherwise.
	Saved  float64 `json:"saved"`
	Would  float64 `json:"would"`
	Priced bool    `json:"priced"`
	// Observed reports whether edits are only computed.
	Observed bool `json:"observed"`
	// Misses counts the requests for which less was cached than expected, and Miss is
	// the cause of the last.
	Misses int    `json:"misses"`
	Miss   string `json:"miss,omitempty"`
	// Edits counts the edits in force, Folded those that can be asked for again, and
	// Regret the signs that the model has missed one.
	Edits  int `json:"edits"`
	Folded int `json:"folded"`
	Regret int `json:"regret"`
	// Decision says why the last request was edited or left alone.
	Decision string `json:"decision,omitempty"`
}

// Budget is how a person stands with one.
type Budget struct {
	// Name is the person's.
	Name string `json:"name"`
	// Spent says how much is spent of what: "$3.10 of $20.00 a day".
	Spent string `json:"spent"`
	// Share is the part that is spent, above 1 where it was exceeded.
	Share float64 `json:"share"`
	// Ends is when it begins anew.
	Ends time.Time `json:"ends"`
	// Soft reports that it refuses nothing, Refused that the next request is refused.
	Soft    bool `json:"soft"`
	Refused bool `json:"refused"`
}

// Queue is the queue before a box.
type Queue struct {
	// Name is what sites share it by.
	Name string `json:"name"`
	// Slots is how many requests run at a time, Running how many do, and Waiting how
	// many wait.
	Slots   int `json:"slots"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Expected is how long a request that came now would wait, in seconds.
	Expected float64 `json:"expected"`
	// People are those who have requests there.
	People []Turns `json:"people"`
}

// Turns are the requests of a person in a queue.
type Turns struct {
	// Name is the person's.
	Name string `json:"name"`
	// Running and Waiting count the requests.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// KeepAlive is what pings have come to.
type KeepAlive struct {
	// Targets is the number of idle conversations that may be pinged.
	Targets int `json:"targets"`
	// Pings is how many were sent, Cost what they have cost and Saved what requests
	// after them did not pay, in units of one uncached input token.
	Pings int     `json:"pings"`
	Cost  float64 `json:"cost"`
	Saved float64 `json:"saved"`
}

// States of what the process relies on.
const (
	// OK: it works.
	OK = "ok"
	// Slow: it works, late or not for all.
	Slow = "slow"
	// Failing: it does not work.
	Failing = "failing"
	// Off: it is not configured.
	Off = "off"
)

// Upstream is the name under which the health of servers of models stands.
const Upstream = "Upstream"

// Edits is the name under which stands what upstreams refuse of our edits.
const Edits = "Edits"

// Health is the state of something that the process relies on.
type Health struct {
	// Name is what it is, and Of which of them, where there may be several.
	Name string `json:"name"`
	Of   string `json:"of,omitempty"`
	// State is how it is, see OK. Note says it in words.
	State string `json:"state"`
	Note  string `json:"note"`
}
