// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
)

// View is the page's content at one moment: counters, sizes and times, names of users, programs and
// models; never content, keys or credentials.
type View struct {
	// Now is the moment, by the server's clock.
	Now time.Time `json:"now"`
	// Today has the turns of today, and the trend of the last 24 hours.
	Today audit.Period `json:"today"`
	// Stored reports whether an audit store has the turns of past days.
	Stored bool `json:"stored"`
	// Sessions are the sessions in memory.
	Sessions Sessions `json:"sessions"`
	// Budgets are the budgets in use, the closest to its limit first.
	Budgets []Budget `json:"budgets"`
	// Windows are the usage windows of subscriptions, the fullest first.
	Windows []subscription.State `json:"windows"`
	// Queues are the queues of local servers that have had a request.
	Queues []Queue `json:"queues"`
	// KeepAlive sums up the pings since the process began.
	KeepAlive KeepAlive `json:"keepalive"`
	// Health is the state of upstreams and stores.
	Health []Health `json:"health"`
}

// Sessions are the sessions in memory.
type Sessions struct {
	// Total is the number of all sessions, Warm the number of sessions with a prefix that is
	// expected to be cached upstream.
	Total int `json:"total"`
	Warm  int `json:"warm"`
	// List has the sessions used last, the latest first.
	List []Session `json:"list"`
}

// Session describes a session by its last used conversation.
type Session struct {
	// ID is the public id.
	ID string `json:"id"`
	audit.Identity
	// Model is the model of the last request.
	Model string `json:"model"`
	// Requests counts the requests of all conversations, Conversations the conversations.
	Requests      int `json:"requests"`
	Conversations int `json:"conversations"`
	// Used is the start of the last request.
	Used time.Time `json:"used"`
	// Until is the expected expiry of the cached prefix, absent if it does not expire or the expiry
	// is unknown. Lifetime is the lifetime of the prefix in seconds.
	Until    *time.Time `json:"until,omitempty"`
	Lifetime float64    `json:"lifetime,omitempty"`
	// Warm reports whether the prefix is expected to be cached.
	Warm bool `json:"warm"`
	// Sent is the last prompt in tokens, as the upstream counted it. Written is the same prompt as
	// the client wrote it, in part estimated.
	Sent    int64 `json:"sent"`
	Written int64 `json:"written"`
	// Read is the share of all prompts that was read from the cache.
	Read float64 `json:"read"`
	// Saved is the net saving, pings included, Would the possible one under observe: in dollars if
	// Priced, in uncached input tokens otherwise.
	Saved  float64 `json:"saved"`
	Would  float64 `json:"would"`
	Priced bool    `json:"priced"`
	// Observed reports whether edits are only computed.
	Observed bool `json:"observed"`
	// Misses counts the requests that found less cached than expected, and Miss is the cause of the
	// last one.
	Misses int    `json:"misses"`
	Miss   string `json:"miss,omitempty"`
	// Edits counts the edits in force, Folded the blocks that can be restored, and FoldMisses the
	// misses of folded text.
	Edits      int `json:"edits"`
	Folded     int `json:"folded"`
	FoldMisses int `json:"fold_misses"`
	// Breaks counts the misses by cause, and Stages the edits in force by stage.
	Breaks map[string]int `json:"breaks,omitempty"`
	Stages map[string]int `json:"stages,omitempty"`
	// Decision is the reason why the last request was edited or left alone.
	Decision string `json:"decision,omitempty"`
}

// Budget is the state of a budget.
type Budget struct {
	// Kind is user, group, project or site.
	Kind string `json:"kind"`
	// Name is the name of the user, group or project, "" for the site.
	Name string `json:"name"`
	// Spent is the spent part of the limit in words: "$3.10 of $20.00 a day".
	Spent string `json:"spent"`
	// Share is the spent share, above 1 if the limit was exceeded.
	Share float64 `json:"share"`
	// Ends is the end of the budget's period.
	Ends time.Time `json:"ends"`
	// RunsOut is the time at which the budget is used up if spending goes on at its present rate,
	// absent if that is after the period.
	RunsOut *time.Time `json:"runs_out,omitempty"`
	// Soft reports that the budget refuses nothing. Refused reports that it refuses the next request.
	Soft    bool `json:"soft"`
	Refused bool `json:"refused"`
}

// Queue is the queue of a local server.
type Queue struct {
	// Name is the name by which sites share the queue.
	Name string `json:"name"`
	// Slots is the number of concurrent requests, Running and Waiting the numbers of running and of
	// waiting requests.
	Slots   int `json:"slots"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Expected is the wait of a request that came now, in seconds.
	Expected float64 `json:"expected"`
	// Users are the users with requests in the queue.
	Users []Turns `json:"people"`
}

// Turns are a user's requests in a queue.
type Turns struct {
	// Name is the user's name.
	Name string `json:"name"`
	// Running and Waiting count the requests.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// KeepAlive sums up the pings. Their cost is a part of all sums and savings.
type KeepAlive struct {
	// Targets is the number of idle conversations that may be pinged.
	Targets int `json:"targets"`
	// Pings is the number of pings, Cost their cost, and Saved the cost that later requests
	// avoided, in units of one uncached input token.
	Pings int     `json:"pings"`
	Cost  float64 `json:"cost"`
	Saved float64 `json:"saved"`
}

// States of components that the process relies on.
const (
	// OK says that the component works.
	OK = "ok"
	// Slow says that it works late, or not for all requests.
	Slow = "slow"
	// Failing says that it does not work.
	Failing = "failing"
	// Off says that it is not configured.
	Off = "off"
)

// Upstream is the name of the upstreams' health.
const Upstream = "Upstream"

// Edits is the name of the health of our edits at upstreams.
const Edits = "Edits"

// Health is the state of a component that the process relies on.
type Health struct {
	// Name is the kind of component, and Of the name of one, if there may be several.
	Name string `json:"name"`
	Of   string `json:"of,omitempty"`
	// State is one of OK, Slow, Failing and Off. Note explains it in words.
	State string `json:"state"`
	Note  string `json:"note"`
}
