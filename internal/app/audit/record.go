// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// What kind of request a record is of.
const (
	KindTurn      = "turn"      // a request of a client
	KindSide      = "side"      // a request of a client beside its conversation: without tools, such as a title
	KindExpand    = "expand"    // a continuation that fetched a block back
	KindKeepAlive = "keepalive" // a request that only kept a cache warm
	KindWarmUp    = "warmup"    // a request that only had a box read how prompts begin
	KindIdleFold  = "idle_fold" // a request that only had a box read a folded conversation
)

// How a turn ended.
const (
	Completed   = "completed"   // the answer came to its proper end
	Failed      = "failed"      // the upstream answered with an error, or not at all: what it cannot do is refused in its place
	Refused     = "refused"     // a spent budget: it went nowhere, and is no turn
	Interrupted = "interrupted" // the answer was cut, or could not be read, or the process ended
)

// ID names a record. IDs sort by the time at which they were made.
type ID [16]byte

// NewID makes an id in the form of a UUID of version 7.
func NewID(at time.Time) (id ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	_, _ = rand.Read(id[6:]) // never fails
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// String returns the id as a UUID is written.
func (id ID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// MarshalText writes the id as a UUID.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads a UUID.
func (id *ID) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(strings.ReplaceAll(string(text), "-", ""))
	if err != nil || len(raw) != len(id) {
		return fmt.Errorf("audit: id %q is no UUID", text)
	}
	copy(id[:], raw)
	return nil
}

// Tokens are tokens of a prompt and its answer in exclusive buckets.
type Tokens struct {
	// Uncached is the part of the prompt neither read from nor written to a cache.
	Uncached int64 `json:"uncached"`
	// Write5m and Write1h are the parts written to the cache, by lifetime.
	Write5m int64 `json:"write_5m"`
	// Write1h: see Write5m.
	Write1h int64 `json:"write_1h"`
	// Read is the part read from the cache.
	Read int64 `json:"read"`
	// Output is the length of the answer.
	Output int64 `json:"output"`
}

// Prompt returns the length of the whole prompt.
func (t *Tokens) Prompt() int64 { return t.Uncached + t.Write5m + t.Write1h + t.Read }

func (t *Tokens) add(o *Tokens) {
	t.Uncached += o.Uncached
	t.Write5m += o.Write5m
	t.Write1h += o.Write1h
	t.Read += o.Read
	t.Output += o.Output
}

// Edits counts what one stage did in a request.
type Edits struct {
	// Stage is the stage's name, as in the configuration.
	Stage string `json:"stage"`
	// Count is the number of its edits, those repeated from earlier requests included.
	Count int `json:"count"`
	// Tokens is what they shorten the prompt by, as estimated.
	Tokens int `json:"tokens,omitempty"`
	// Millis is how long it took, behind earlier answers, to find out about those made
	// for the first time: of the stage compress alone.
	Millis int64 `json:"ms,omitempty"`
}

// Record is one turn, or the sum of several that were counted together.
type Record struct {
	// ID names the record.
	ID ID `json:"id"`
	// At is when the request arrived.
	At time.Time `json:"at"`
	// Turns is the number of turns that the record stands for: 1, or more where
	// details were dropped for want of room. Tokens and costs are then sums, and
	// what cannot be summed up is empty.
	Turns int64 `json:"turns"`
	// Kind is what kind of request it was, see KindTurn.
	Kind string `json:"kind"`

	// Tenant is a keyed hash of the credential, in hexadecimal.
	Tenant string `json:"tenant"`
	// User is the id of the authenticated user ({http.auth.user.id}), or the
	// tenant where there is none.
	User string `json:"user"`
	// Session is the public id of the session, as on the admin API.
	Session string `json:"session"`
	// Lineage numbers the conversations of a session.
	Lineage int `json:"lineage"`
	// Client is the program that asked: claude-code, codex, opencode, gemini-cli,
	// anthropic-sdk, openai-sdk, google-sdk, or the first word of its User-Agent.
	Client string `json:"client"`
	// Model is the model asked for, and BilledModel the one that answers and is billed,
	// by the upstream's name: empty where it is the same.
	Model string `json:"model"`
	// BilledModel: see Model.
	BilledModel string `json:"billed_model,omitempty"`
	// Service is how the provider served the request, where that has a price of its own:
	// flex, batch, priority, ultrafast, fast, regional, or several of them.
	Service string `json:"service,omitempty"`
	// ClientFormat and UpstreamFormat are the wire formats on both sides.
	ClientFormat string `json:"client_format"`
	// UpstreamFormat: see ClientFormat.
	UpstreamFormat string `json:"upstream_format"`
	// Policy is the policy in force.
	Policy string `json:"policy"`
	// Stream reports whether the answer was streamed.
	Stream bool `json:"stream,omitempty"`

	// OriginalTokens and SentTokens are estimates of the prompt as the client
	// wrote it and as it went upstream.
	OriginalTokens int64 `json:"original_tokens"`
	// SentTokens: see OriginalTokens.
	SentTokens int64 `json:"sent_tokens"`
	// Billed is what the upstream reported, see Estimated.
	Billed Tokens `json:"billed"`
	// ReadEstimated is the part of Billed.Read that the upstream did not report:
	// the share of the prompt that it had been sent before is taken for it. 0
	// where the upstream reports what it read from its cache.
	ReadEstimated int64 `json:"read_estimated,omitempty"`
	// Estimated is the number of turns whose tokens are estimates, in whole or in part:
	// the upstream reported no usage, or the answer was cut before it was told.
	Estimated int64 `json:"estimated,omitempty"`
	// Bounded reports that the upstream reported more tokens than the model's window or
	// the request's bound on the answer allows: Billed holds as many as they allow.
	Bounded bool `json:"bounded,omitempty"`
	// Client's own bytes would have been billed this, by the cache rules.
	ClientBilled Tokens `json:"client_billed"`
	// Cost and ClientCost are what Billed and ClientBilled cost, answer
	// included, in units of one uncached input token of the model.
	Cost float64 `json:"cost"`
	// ClientCost: see Cost.
	ClientCost float64 `json:"client_cost"`
	// USD and ClientUSD are the same in US dollars, 0 where the model's prices
	// are not known.
	USD float64 `json:"usd"`
	// ClientUSD: see USD.
	ClientUSD float64 `json:"client_usd"`
	// AssumedFrom is the model whose cache rules stood in for those of the model, its
	// nearest sibling, where they are not known. Empty otherwise.
	AssumedFrom string `json:"assumed_from,omitempty"`
	// PricesOf is the model whose prices USD and ClientUSD were worked out with, the
	// dearest of the family or vendor, where those of the model are not known. Empty
	// otherwise.
	PricesOf string `json:"prices_of,omitempty"`
	// WouldSave and WouldSaveUSD are what edits that the policy observe only
	// computes would have saved, net, in units and in US dollars: below zero where
	// they would have cost more. 0 under other policies.
	WouldSave float64 `json:"would_save,omitempty"`
	// WouldSaveUSD: see WouldSave.
	WouldSaveUSD float64 `json:"would_save_usd,omitempty"`

	// Translation and TranslationUSD are what the cache marker saved that a translation to
	// the Messages API adds, in units and in US dollars: below zero where a prefix was
	// written and not read yet. ClientBilled is of the same translation, so that this is
	// in neither side and in no other saving.
	Translation float64 `json:"translation,omitempty"`
	// TranslationUSD: see Translation.
	TranslationUSD float64 `json:"translation_usd,omitempty"`

	// Edits are what the stages did, those that did something.
	Edits []Edits `json:"edits,omitempty"`
	// Epoch is the moment at which history was edited, "none" where it was left
	// alone; Reason says why it was.
	Epoch string `json:"epoch,omitempty"`
	// Reason: see Epoch.
	Reason string `json:"reason,omitempty"`
	// Folded is the number of blocks folded in this request, Removed the tokens
	// they took and Rewritten the tokens that had to be written to the cache
	// again for it, both estimated.
	Folded int64 `json:"folded,omitempty"`
	// Removed: see Folded.
	Removed int64 `json:"removed,omitempty"`
	// Rewritten: see Folded.
	Rewritten int64 `json:"rewritten,omitempty"`
	// Break says why the upstream's cache did not hold what it was expected to,
	// empty where it did.
	Break string `json:"break,omitempty"`
	// Regret is the number of signs in this turn that the model has missed folded text:
	// it asked for it again, read its file again, or an edit did not find its place.
	Regret int64 `json:"regret,omitempty"`

	// Queue is the time from when the whole request was there to when it was
	// handed on. In JSON this and the other latencies are nanoseconds.
	Queue time.Duration `json:"queue"`
	// FirstByte, FirstToken and LastToken are counted from the hand-over: to the
	// first byte of the answer's body, to the first text, thinking or call, and
	// to the end of the answer; 0 where the moment never came.
	FirstByte time.Duration `json:"first_byte"`
	// FirstToken: see FirstByte.
	FirstToken time.Duration `json:"first_token"`
	// LastToken: see FirstByte.
	LastToken time.Duration `json:"last_token"`
	// Total is the time from the arrival of the request to the end of the turn.
	Total time.Duration `json:"total"`

	// Status is the HTTP status of the answer, 0 where none came.
	Status int `json:"status"`
	// Outcome is how the turn ended, see Completed.
	Outcome string `json:"outcome"`
	// StopReason is the format's own word for why the answer ended.
	StopReason string `json:"stop_reason,omitempty"`
	// Resent reports that the request was sent once more after an edit met a 400.
	Resent bool `json:"resent,omitempty"`

	// Content is what was asked and answered, nil unless the operator asked for
	// it to be kept.
	Content *Content `json:"content,omitempty"`
}

// Spent reports whether the upstream has said that it took any tokens. Whoever makes up keys
// and names of models spends none.
func (r *Record) Spent() bool { return r.Cost > 0 || r.Billed.Prompt()+r.Billed.Output > 0 }

// ModelName is the model asked for, with the one that was billed in its place.
func (r *Record) ModelName() string {
	if r.BilledModel == "" {
		return r.Model
	}
	return r.Model + " → " + r.BilledModel
}

// IsTurn reports whether a client asked for it: a continuation, a ping and other requests
// of ours cost tokens, and are no turns.
func (r *Record) IsTurn() bool {
	switch r.Kind {
	case KindExpand, KindKeepAlive, KindWarmUp, KindIdleFold:
		return false
	}
	return true
}

// Assumptions says which models stood in for the model of the record, "" for none: those
// whose cache rules and whose prices were taken.
func (r *Record) Assumptions() string {
	text := r.Model
	if r.AssumedFrom != "" {
		text += " assumed from " + r.AssumedFrom
	}
	if r.PricesOf != "" {
		text += " charged as " + r.PricesOf
	}
	if text == r.Model {
		return ""
	}
	return text
}

// Unpriced reports whether the model has no known price.
func (r *Record) Unpriced() bool { return r.Cost > 0 && r.USD == 0 }
