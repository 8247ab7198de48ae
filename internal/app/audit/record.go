// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
)

// Kinds of requests.
const (
	KindTurn      = "turn"      // a request of a client
	KindSide      = "side"      // a client's request beside its conversation: without tools, such as a title
	KindExpand    = "expand"    // a continuation that restored a block
	KindKeepAlive = "keepalive" // a ping: it only kept a cache warm
	KindWarmUp    = "warmup"    // a warm-up: a local server only read the beginning of prompts
	KindIdleFold  = "idle_fold" // a local server only read a folded conversation
)

// Outcomes of turns.
const (
	Completed   = "completed"   // the response ended properly
	Failed      = "failed"      // the upstream returned an error or no response, or we refused on its behalf
	Refused     = "refused"     // refused for a spent budget or an unknown model: not sent, and no turn
	FellBack    = "fell_back"   // the upstream failed before the response began, and the fallback served the request: no turn
	Interrupted = "interrupted" // the response was cut or unreadable, or the process ended
)

// ID identifies a record. IDs sort by time of creation.
type ID [16]byte

// NewID returns a UUID of version 7.
func NewID(at time.Time) (id ID) {
	// The time takes the upper 48 bits. Random bytes overwrite the other 16 below.
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	_, _ = rand.Read(id[6:]) // never fails
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// String returns the id in the notation of a UUID.
func (id ID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// MarshalText writes the id in the notation of a UUID.
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

// Tokens are the tokens of a prompt and its response in exclusive buckets.
type Tokens struct {
	// Uncached is the part of the prompt neither read from nor written to a cache.
	Uncached int64 `json:"uncached"`
	// Write5m and Write1h are the parts written to the cache, by lifetime.
	Write5m int64 `json:"write_5m"`
	// Write1h: see Write5m.
	Write1h int64 `json:"write_1h"`
	// Read is the part read from the cache.
	Read int64 `json:"read"`
	// Output is the length of the response.
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

// Edits counts the edits of one stage in a request.
type Edits struct {
	// Stage is the stage's name, as in the configuration.
	Stage string `json:"stage"`
	// Count is the number of its edits, those repeated from earlier requests included.
	Count int `json:"count"`
	// Tokens is the estimate of the tokens that the edits remove from the prompt.
	Tokens int `json:"tokens,omitempty"`
	// Millis is the time that first-time edits took to find, in the background of earlier
	// responses. Only the stage compress sets it.
	Millis int64 `json:"ms,omitempty"`
}

// Record is one turn, or the sum of several turns that were counted together.
type Record struct {
	// ID identifies the record.
	ID ID `json:"id"`
	// At is the arrival of the request.
	At time.Time `json:"at"`
	// Turns is the number of turns in the record: 1, or more where details were dropped for lack of
	// room. Tokens and costs are then sums, and other members are empty.
	Turns int64 `json:"turns"`
	// Kind is the kind of the request, see KindTurn.
	Kind string `json:"kind"`

	// Tenant is a keyed hash of the credential, in hexadecimal.
	Tenant string `json:"tenant"`
	// User is the id of the authenticated user ({http.auth.user.id}), or else the tenant.
	User string `json:"user"`
	// Groups are the groups of the user at the time of the request.
	Groups []string `json:"groups,omitempty"`
	// Project is the name of the project that the client works on, at most 64 bytes, "" if unknown.
	Project string `json:"project,omitempty"`
	// Session is the public id of the session, as on the admin API.
	Session string `json:"session"`
	// Conversation numbers the conversations of a session.
	Conversation int `json:"conversation"`
	// Client is the client's program: claude-code, codex, opencode, gemini-cli, anthropic-sdk,
	// openai-sdk, google-sdk, or the first word of its User-Agent.
	Client string `json:"client"`
	// Model is the requested model. BilledModel is the upstream's name of the model that responded
	// and is billed: empty if it is the same.
	Model string `json:"model"`
	// BilledModel: see Model.
	BilledModel string `json:"billed_model,omitempty"`
	// Service is the provider's service tier, if that has a price of its own: flex, batch,
	// priority, ultrafast, fast, regional, or several of them.
	Service string `json:"service,omitempty"`
	// ClientFormat and UpstreamFormat are the wire formats on both sides.
	ClientFormat string `json:"client_format"`
	// UpstreamFormat: see ClientFormat.
	UpstreamFormat string `json:"upstream_format"`
	// Policy is the policy in force.
	Policy string `json:"policy"`

	// OriginalTokens and SentTokens are estimates of the client's prompt and of the prompt sent upstream.
	OriginalTokens int64 `json:"original_tokens"`
	// SentTokens: see OriginalTokens.
	SentTokens int64 `json:"sent_tokens"`
	// Billed is the usage that the upstream reported, see Estimated.
	Billed Tokens `json:"billed"`
	// ReadEstimated is the part of Billed.Read that the upstream did not report: the estimate is
	// the share of the prompt that was sent before. 0 if the upstream reports its cache reads.
	ReadEstimated int64 `json:"read_estimated,omitempty"`
	// Estimated is the number of turns with estimated tokens, in whole or in part: the upstream
	// reported no usage, or the response was cut before its usage.
	Estimated int64 `json:"estimated,omitempty"`
	// ClientBilled is the bill that the client's own bytes would have had, by the cache rules.
	ClientBilled Tokens `json:"client_billed"`
	// Cost and ClientCost are the costs of Billed and ClientBilled, the response included, in units
	// of one uncached input token of the model.
	Cost float64 `json:"cost"`
	// ClientCost: see Cost.
	ClientCost float64 `json:"client_cost"`
	// USD and ClientUSD are the same costs in US dollars, 0 if the model's prices are unknown.
	USD float64 `json:"usd"`
	// ClientUSD: see USD.
	ClientUSD float64 `json:"client_usd"`
	// AssumedFrom is the nearest sibling of a billed model without cache rules of its own, which
	// has the sibling's. Empty otherwise.
	AssumedFrom string `json:"assumed_from,omitempty"`
	// PricesOf is the model that gave the prices of USD and ClientUSD because those of the
	// billed model are unknown: the dearest of the family or vendor. Empty otherwise.
	PricesOf string `json:"prices_of,omitempty"`
	// WouldSave and WouldSaveUSD are the net savings of edits that the policy observe only
	// computes, in units and in US dollars. They are negative if the edits would have cost more,
	// and 0 under other policies.
	WouldSave float64 `json:"would_save,omitempty"`
	// WouldSaveUSD: see WouldSave.
	WouldSaveUSD float64 `json:"would_save_usd,omitempty"`
	// SimulatedCost is the cost of the client's own bytes as the policy observe simulates it, for
	// comparison with ClientCost of other turns: under observe, ClientCost is Cost. 0 under other policies.
	SimulatedCost float64 `json:"simulated_cost,omitempty"`

	// Translation and TranslationUSD are the savings of the cache marker that a translation to the Messages API adds,
	// in units and in US dollars. They are negative while a prefix was written and not yet read. ClientBilled assumes
	// the same translation, so no other saving includes these.
	Translation float64 `json:"translation,omitempty"`
	// TranslationUSD: see Translation.
	TranslationUSD float64 `json:"translation_usd,omitempty"`

	// Edits are the edits by stage. Stages without edits are left out.
	Edits []Edits `json:"edits,omitempty"`
	// Epoch is the moment at which history was edited, or "none". Reason explains the decision.
	Epoch string `json:"epoch,omitempty"`
	// Reason: see Epoch.
	Reason string `json:"reason,omitempty"`
	// Folded is the number of blocks folded in this request. Removed is their tokens, and Rewritten
	// the tokens that had to be written to the cache again, both estimated.
	Folded int64 `json:"folded,omitempty"`
	// Removed: see Folded.
	Removed int64 `json:"removed,omitempty"`
	// Rewritten: see Folded.
	Rewritten int64 `json:"rewritten,omitempty"`
	// Break is the reason for a cache miss: the upstream's cache had less than expected. Empty otherwise.
	Break string `json:"break,omitempty"`
	// BreakCost is the cost of the tokens that the cache lacked then, beyond that of reading them, in
	// units of one uncached input token.
	BreakCost float32 `json:"break_cost,omitempty"`
	// FoldMisses is the number of misses of folded text in this turn: the model asked for the text,
	// read its file again, or an edit did not find its place.
	// Under the policy observe, these are signs that need no fold: the model rereads text that would have been folded.
	FoldMisses int32 `json:"fold_misses,omitempty"`
	// Rereads and FailedEdits are the misses of the latter two kinds.
	Rereads int32 `json:"rereads,omitempty"`
	// FailedEdits: see Rereads.
	FailedEdits int32 `json:"failed_edits,omitempty"`

	// Queue is the time from the arrival of the whole request to its hand-over to the next handler.
	// In JSON this and the other latencies are nanoseconds.
	Queue time.Duration `json:"queue"`
	// FirstByte, FirstToken and LastToken are the times from the hand-over to the first byte of the
	// response's body, to the first text, thinking or call, and to the end of the response. A
	// moment that never came is 0.
	FirstByte time.Duration `json:"first_byte"`
	// FirstToken: see FirstByte.
	FirstToken time.Duration `json:"first_token"`
	// LastToken: see FirstByte.
	LastToken time.Duration `json:"last_token"`
	// Total is the time from the request's arrival to the end of the turn.
	Total time.Duration `json:"total"`

	// Status is the HTTP status of the response, 0 without a response.
	Status int `json:"status"`
	// Outcome is the end of the turn, see Completed.
	Outcome string `json:"outcome"`
	// StopReason is the stop reason in the format's own words.
	StopReason string `json:"stop_reason,omitempty"`
	// Fallback is the reason why the fallback served the turn: rate_limit, overloaded, error, unreached, down or
	// stays. Empty if the first upstream did.
	Fallback string `json:"fallback,omitempty"`

	// Small members stand together: each request in flight has a record.

	// Stream reports whether the response was streamed.
	Stream bool `json:"stream,omitempty"`
	// Holdout reports that the session belongs to the control group.
	Holdout bool `json:"holdout,omitempty"`
	// Compaction reports that the client asked for a summary of the conversation.
	Compaction bool `json:"compaction,omitempty"`
	// Resent reports that the request was sent once more after an edit met a 400.
	Resent bool `json:"resent,omitempty"`
	// Bounded reports that the upstream reported more tokens than the model's window or the
	// request's limit on the response allows. Billed then has the maximum.
	Bounded bool `json:"bounded,omitempty"`

	// Windows are the usage windows of the subscription, as the response stated them: before the
	// turn's own cost.
	Windows subscription.Windows `json:"windows,omitempty"`

	// Content is the text of request and response, nil unless the operator enabled it.
	Content *Content `json:"content,omitempty"`
}

// Spent reports whether the upstream has charged any tokens. Requests with invalid keys or invented
// model names spend none.
func (r *Record) Spent() bool { return r.Cost > 0 || r.Billed.Prompt()+r.Billed.Output > 0 }

// ModelName is the requested model, followed by the billed one if they differ.
func (r *Record) ModelName() string {
	if r.BilledModel == "" {
		return r.Model
	}
	return r.Model + " → " + r.BilledModel
}

// None is the name of turns without a project or a group.
const None = "(none)"

// ProjectName is the project's name, None if it is unknown.
func (r *Record) ProjectName() string {
	if r.Project == "" {
		return None
	}
	return r.Project
}

// FallbackName is the reason for the fallback, None if the first upstream served the turn.
func (r *Record) FallbackName() string {
	if r.Fallback == "" {
		return None
	}
	return r.Fallback
}

// GroupNames are the groups of the record's user, None without one.
func (r *Record) GroupNames() []string {
	if len(r.Groups) == 0 {
		return NoGroup
	}
	return r.Groups
}

// NoGroup are the groups of a user without one.
var NoGroup = []string{None}

// IsTurn reports whether a client sent the request. Continuations, pings, other internal requests and
// attempts that a fallback took over cost tokens and are no turns.
func (r *Record) IsTurn() bool {
	if r.Outcome == FellBack {
		return false
	}
	switch r.Kind {
	case KindExpand, KindKeepAlive, KindWarmUp, KindIdleFold:
		return false
	}
	return true
}

// Assumptions names the sources of the record's cache rules and prices if these are not of the
// record's model, "" otherwise.
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

// CountWindows counts the record in the account of its tenant.
func (r *Record) CountWindows(to *subscription.Accounts) {
	client := r.ClientUSD
	if !r.IsTurn() {
		client = 0 // no client has sent this request
	}
	to.Count(subscription.Key{Tenant: r.Tenant, Format: r.UpstreamFormat}, &subscription.Turn{
		User: r.User, At: r.At, Windows: r.Windows, Spent: r.USD, Saved: client - r.USD,
	})
}

// Unpriced reports whether the model's price is unknown.
func (r *Record) Unpriced() bool { return r.Cost > 0 && r.USD == 0 }

// clients maps the beginnings of User-Agents to program names. Programs come before the SDKs that they use.
var clients = []struct{ prefix, name string }{
	{"claude-cli/", "claude-code"},
	{"claude-code/", "claude-code"},
	{"codex", "codex"},
	{"opencode/", "opencode"},
	{"geminicli", "gemini-cli"},
	{"gemini-cli", "gemini-cli"},
	{"anthropic/", "anthropic-sdk"},
	{"asyncanthropic/", "anthropic-sdk"},
	{"openai/", "openai-sdk"},
	{"asyncopenai/", "openai-sdk"},
	{"google-genai-sdk", "google-sdk"},
	{"ai-sdk/", "ai-sdk"},
	{"ai/", "ai-sdk"},
}

// maxClient bounds the names of unknown programs, in bytes.
const maxClient = 32

// ClientName returns the program's name by its User-Agent, "unknown" if the header is missing.
func ClientName(agent string) string {
	if agent == "" {
		return "unknown"
	}
	head := agent
	if len(head) > 24 {
		head = head[:24]
	}
	head = strings.ToLower(head)
	for _, c := range clients {
		if strings.HasPrefix(head, c.prefix) {
			return c.name
		}
	}
	if i := strings.IndexAny(agent, "/ ("); i > 0 {
		agent = agent[:i]
	}
	// The clone releases the header, which may be a megabyte.
	return strings.ToLower(strings.Clone(agent[:min(len(agent), maxClient)]))
}

// TenantKey returns the first 16 bytes of a tenant's key, decoded from its hexadecimal name on record.
func TenantKey(s string) (t [16]byte) {
	if b, err := hex.DecodeString(s); err == nil {
		copy(t[:], b)
	}
	return t
}

// maxText bounds texts of clients and upstreams on record, in bytes.
const maxText = 256

// clean makes texts and numbers from clients and upstreams fit for any store.
func (r *Record) clean() {
	// A record that the store rejects would block all later ones.
	for _, s := range [...]*string{&r.User, &r.Project, &r.Client, &r.Model, &r.StopReason, &r.Reason, &r.Break} {
		*s = Bounded(*s)
	}
	for i := range r.Groups {
		if s := Bounded(r.Groups[i]); s != r.Groups[i] {
			r.Groups = slices.Clone(r.Groups) // others use the list, too
			r.Groups[i] = s
		}
	}
	for _, f := range [...]*float64{&r.Cost, &r.ClientCost, &r.USD, &r.ClientUSD, &r.SimulatedCost} {
		// JSON has no such numbers.
		if math.IsNaN(*f) || math.IsInf(*f, 0) {
			*f = 0
		}
	}
}

// Bounded makes a text from a client or an upstream fit for any store. It cuts long texts.
func Bounded(s string) string {
	// A client can send megabytes as a name.
	if len(s) > maxText {
		s = strings.Clone(s[:maxText])
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
}
