// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Regime is a provider's way of choosing cached prefixes.
type Regime uint8

// The regimes.
const (
	// KV is prefix reuse in the memory of a local engine: the only price is the time to process the rest.
	KV Regime = iota
	// Markers is Anthropic's: entries are written where the client sets
	// cache_control, and found again by a bounded look-back.
	Markers
	// Automatic is that of OpenAI up to GPT-5.5 and of Gemini: the longest known
	// prefix is found, writing is free.
	Automatic
	// Breakpoints is that of OpenAI from GPT-5.6 on: writing has a price and
	// happens at breakpoints, one of which the provider sets by itself.
	Breakpoints
)

var regimeNames = [...]string{"kv", "markers", "automatic", "breakpoints"}

// String returns the regime's name: kv, markers, automatic or breakpoints.
func (r Regime) String() string { return regimeNames[r] }

// MarshalText returns the regime's name.
func (r Regime) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a regime's name.
func (r *Regime) UnmarshalText(text []byte) error {
	for i, name := range regimeNames {
		if name == string(text) {
			*r = Regime(i)
			return nil
		}
	}
	return fmt.Errorf("cache regime must be one of kv, markers, automatic, breakpoints, got %q", text)
}

// Rules are the behaviour and the prices of one model's prompt cache at one time. The zero value is an unknown
// engine that caches nothing.
type Rules struct {
	// Provider is the provider's name, such as "anthropic".
	Provider string `json:"provider"`
	// Model is the model as the table names it, or as it was asked for where
	// the table does not know it.
	Model string `json:"model"`
	// Regime is the provider's way of choosing cached prefixes.
	Regime Regime `json:"regime"`

	// Input and Output are prices in US dollars for a million tokens, 0 where
	// they are not known or where there are none.
	Input float64 `json:"input"`
	// Output: see Input.
	Output float64 `json:"output"`
	// Write, Write1h and Read are the prices of a token written to the cache
	// (for the short and the long lifetime, which is 12 hours at OpenAI) or read from it, as multiples of the
	// price of an uncached input token.
	Write float64 `json:"write"`
	// Write1h: see Write.
	Write1h float64 `json:"write_1h"`
	// Read: see Write.
	Read float64 `json:"read"`
	// TierAbove is the number of prompt tokens above which the whole request,
	// its answer included, is billed at TierInput times Input and TierOutput
	// times Output. 0 means that there is no such tier.
	TierAbove int `json:"tier_above,omitempty"`
	// TierInput and TierOutput: see TierAbove.
	TierInput float64 `json:"tier_input,omitempty"`
	// TierOutput: see TierAbove.
	TierOutput float64 `json:"tier_output,omitempty"`

	// TTL is how long an entry lives without use, counted from the start of the
	// request that wrote or read it. 0 means until other prompts displace it.
	TTL time.Duration `json:"ttl"`
	// LongTTL is the lifetime that clients may ask for instead, 0 if none.
	LongTTL time.Duration `json:"long_ttl,omitempty"`
	// MinTokens is the shortest prefix that is cached.
	MinTokens int `json:"min_tokens"`
	// Markers is the number of breakpoints that a request may set, 0 if it may
	// set none.
	Markers int `json:"markers"`
	// LookBack is the number of positions that are searched for an entry from
	// each breakpoint back, itself included. 0 means all.
	LookBack int `json:"look_back,omitempty"`
	// CollapseRuns reports that a run of tool calls, and a run of tool results,
	// counts as one position of the look-back.
	CollapseRuns bool `json:"collapse_runs,omitempty"`
	// Units reports that an automatic cache finds whole requests, and the common prefix of two
	// requests from the third on, but no other prefix (DeepSeek, "Context Caching").
	Units bool `json:"units,omitempty"`
	// Slots is the number of prompts that an engine keeps in the KV regime.
	Slots int `json:"slots,omitempty"`

	// BindsThinking reports that a thinking block is refused when anything before it differs from the model's own
	// view at the time of writing. Some of these models spare accounts opened before 2026-08-31; the age of an
	// account cannot be told from outside, so all count as bound.
	BindsThinking bool `json:"binds_thinking,omitempty"`
	// BindsReasoning reports that a reasoning item of the Responses API is left out of the prompt, without an
	// error, when anything before it differs from the model's own view at the time of writing [D].
	BindsReasoning bool `json:"binds_reasoning,omitempty"`
	// Explicit reports that a request may carry breakpoints of the client's own,
	// prompt_cache_breakpoint, in content parts. Hosts that do not know the
	// member refuse the request, so it applies only where the provider is known
	// by configuration, not by the model's name [D].
	Explicit bool `json:"explicit,omitempty"`
	// KeepsThinking reports that the thinking of finished turns stays in the
	// prompt. Where it is false the provider itself leaves it out as soon as a
	// person's prompt follows.
	KeepsThinking bool `json:"keeps_thinking,omitempty"`
	// RefusesPrefill reports that the messages may not end with the assistant's.
	RefusesPrefill bool `json:"refuses_prefill,omitempty"`
	// RefusesForcedTools reports that tool_choice may not demand a tool.
	RefusesForcedTools bool `json:"refuses_forced_tools,omitempty"`
	// SignsCalls reports that the calls of the current turn must come back with the
	// signatures that the model gave them (Gemini from version 3 on).
	SignsCalls bool `json:"signs_calls,omitempty"`
	// ContextWindow is the longest prompt in tokens, 0 where it is not known.
	ContextWindow int `json:"context_window,omitempty"`
	// AssumedFrom names the model that lends its rules to a model unknown to the table, "" where the rules are the
	// model's own.
	AssumedFrom string `json:"assumed_from,omitempty"`
	// PricesOf names the model that lends its prices to one without, "" where the prices are the model's own or
	// there are none.
	PricesOf string `json:"prices_of,omitempty"`

	row      *model    // the rules are its, or assumed from it; nil for a local engine
	observed *Observed // corrects assumed rules; nil for others
}

// Known reports whether the table has the model itself, or it is that of a local server.
func (r Rules) Known() bool { return r.AssumedFrom == "" && r.PricesOf == "" }

// At returns the rules for a prompt of that many tokens: those of the upper
// price tier where the prompt is long enough for it. The multiples are the same
// in both tiers.
func (r Rules) At(promptTokens int) Rules {
	if r.TierAbove == 0 || promptTokens <= r.TierAbove {
		return r
	}
	r.Input *= r.TierInput
	r.Output *= r.TierOutput
	// The prices are the upper tier's now, so a second call must not raise them again.
	r.TierAbove, r.TierInput, r.TierOutput = 0, 0, 0
	return r
}

// Cost returns the cost of the prompt side of a usage, in units of one uncached input token of the lower price
// tier.
func (r Rules) Cost(u wire.Usage) float64 {
	cost := float64(u.Uncached) + float64(u.Write5m)*r.Write + float64(u.Write1h)*r.Write1h + float64(u.Read)*r.Read
	if r.TierAbove > 0 && u.Prompt() > int64(r.TierAbove) {
		// The whole request has the upper tier's price, not only the tokens above the boundary.
		cost *= r.TierInput
	}
	return cost
}

// CostOutput returns the cost of a usage's answer in the unit of Cost. It is 0 where the prices are not known.
func (r Rules) CostOutput(u wire.Usage) float64 {
	if r.Input == 0 {
		return 0
	}
	return float64(u.Output) * r.At(int(u.Prompt())).Output / r.Input
}

// Dollars returns the cost of a usage in US dollars, prompt and answer. It is 0 where the prices are not known.
func (r Rules) Dollars(u wire.Usage) float64 {
	return (r.Cost(u) + r.CostOutput(u)) * r.Input / 1e6
}

// Lifetime returns how long an entry lives that was written with the long or
// the short lifetime. 0 means until it is displaced.
func (r Rules) Lifetime(long bool) time.Duration {
	if long && r.LongTTL > 0 {
		return r.LongTTL
	}
	return r.TTL
}

// Asked returns the rules as a request has them that asks for a lifetime of its own (OpenAI),
// or asks for a model elsewhere than the upstream's name tells (Gemini at Vertex).
func (r Rules) Asked(v *wire.View) Rules {
	c := new(cacheRow)
	if r.row != nil {
		c = r.row.cache
	}
	switch {
	case v.Vertex && c.VertexMinTokens > 0:
		r.MinTokens = max(r.MinTokens, c.VertexMinTokens)
	case v.Caching.Retention == "" || r.LongTTL == 0:
	case r.Regime == Automatic && v.Caching.Retention == "24h", r.Regime == Breakpoints && v.Caching.Retention == "12h":
		r.TTL, r.Write = r.LongTTL, r.Write1h
	// OpenAI's guide and its API reference spell the value differently.
	case c.MemoryTTL > 0 && (v.Caching.Retention == "in_memory" || v.Caching.Retention == "in-memory"):
		r.TTL = time.Duration(c.MemoryTTL)
	}
	return r
}

// maxWindow bounds the prompts of models with an unknown window: no hosted model has a longer one [S].
const maxWindow = 2_000_000

// Bound returns the usage of one call of the model with no more tokens than its window and
// the bound on the answer allow, 0 for no such bound. It reports whether there were more:
// one wrong number must not spend a budget.
func (r *Rules) Bound(u wire.Usage, maxOutput int) (wire.Usage, bool) {
	before, window := u, int64(r.ContextWindow)
	if window == 0 {
		window = maxWindow
	}
	// The longest part of the prompt is the one to doubt.
	for over := u.Prompt() - window; over > 0; over = u.Prompt() - window {
		largest := &u.Uncached
		for _, part := range [...]*int64{&u.Write5m, &u.Write1h, &u.Read} {
			if *part > *largest {
				largest = part
			}
		}
		*largest -= min(over, *largest)
	}
	limit := window
	if maxOutput > 0 {
		// Translations raise lower bounds to minOutput.
		limit = min(limit, max(int64(maxOutput), minOutput))
	}
	u.Output = min(u.Output, limit)
	return u, u != before
}

// minOutput is the smallest bound on an answer that OpenAI takes.
const minOutput = 16

// Served returns the rules with the prices of a service. The multiples of the cache are
// the same in all of them.
func (r Rules) Served(s wire.Service) Rules {
	if r.row == nil {
		return r
	}
	m := &r.row.services
	tier, speed, region := 0.0, 0.0, 0.0
	// Tiers exclude one another; speed and region stack on them.
	switch {
	case s&wire.Batch != 0:
		tier = m.Batch
	case s&wire.Flex != 0:
		tier = m.Flex
	case s&wire.Ultrafast != 0:
		tier = m.Ultrafast
	case s&wire.Priority != 0:
		tier = m.Priority
	}
	if s&wire.Fast != 0 {
		speed = m.Fast
	}
	if s&wire.Regional != 0 {
		region = m.Regional
	}
	f := cmp.Or(tier, 1) * cmp.Or(speed, 1) * cmp.Or(region, 1)
	r.Input *= f
	r.Output *= f
	return r
}

// Observed has the observations of models with assumed rules, taken from the usage of their
// responses. The zero value is ready to use, and safe for concurrent use.
type Observed struct {
	mu     sync.Mutex
	models map[[2]string]*observation
}

type observation struct {
	found   time.Duration // the longest pause after which the prefix was found
	lost    time.Duration // the shortest pause, longer than found, after which it was missing
	cached  int64         // the shortest prefix that the cache had, 0 for none
	refused int64         // the longest prefix that was missing at once
}

// Sighting is the evidence about the provider's cache in one response.
type Sighting struct {
	// Left are the tokens of the prefix that the cache should have since the last request, 0 if
	// there was none or something else explains a miss. Found are those that it had.
	Left, Found int64
	// Pause is the time since the last request.
	Pause time.Duration
	// Cached are the cached tokens of the prompt, read or written.
	Cached int64
}

const (
	maxObserved = 64
	// Corrections stay within the lifetimes and lengths of known providers.
	minObservedTTL, maxObservedTTL       = time.Minute, 24 * time.Hour
	minObservedTokens, maxObservedTokens = 256, 8192
)

// Observe learns from a response of a model with assumed rules.
func (r *Rules) Observe(s Sighting) {
	o := r.observed
	if o == nil || r.TTL == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := [2]string{r.Provider, r.Model}
	m := o.models[key]
	if m == nil {
		// Clients choose the names, so the number is bounded; evidence comes back with a few requests.
		if o.models == nil || len(o.models) >= maxObserved {
			o.models = map[[2]string]*observation{}
		}
		m = new(observation)
		o.models[key] = m
	}
	if s.Cached > 0 && (m.cached == 0 || s.Cached < m.cached) {
		m.cached = s.Cached
	}
	switch {
	case s.Left == 0:
	case s.Found >= s.Left/2:
		// A miss after a shorter pause had another reason.
		if m.found = max(m.found, s.Pause); m.lost <= m.found {
			m.lost = 0
		}
	case s.Found == 0 && s.Pause < minObservedTTL:
		// A prefix lost at once was never cached: it was too short, or went to another server.
		m.refused = max(m.refused, s.Left)
	case s.Found == 0 && s.Pause > m.found && (m.lost == 0 || s.Pause < m.lost):
		m.lost = s.Pause
	}
}

// Corrected returns assumed rules with the lifetime and the minimum that the answers so far tell.
// Rules that are the model's own, or that the operator has stated, stay as they are.
func (r Rules) Corrected() Rules {
	o := r.observed
	if o == nil || r.TTL == 0 {
		return r
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.models[[2]string{r.Provider, r.Model}]
	if m == nil {
		return r
	}
	if m.found > r.TTL {
		r.TTL = min(m.found, maxObservedTTL)
	} else if m.lost > 0 && m.lost < r.TTL {
		r.TTL = max(m.lost, minObservedTTL)
	}
	if m.refused >= int64(r.MinTokens) {
		r.MinTokens = int(min(m.refused+1, maxObservedTokens))
	}
	if m.cached > 0 && m.cached < int64(r.MinTokens) {
		r.MinTokens = int(max(m.cached, minObservedTokens))
	}
	return r
}

// Override replaces single rules by those of the operator. Absent fields leave the rule as it is.
type Override struct {
	// Regime replaces [Rules.Regime].
	Regime *Regime `json:"regime,omitempty"`
	// Input and Output replace the prices in US dollars for a million tokens.
	// They also take the place of a second price tier.
	Input *float64 `json:"input,omitempty"`
	// Output: see Input.
	Output *float64 `json:"output,omitempty"`
	// Write replaces [Rules.Write], a multiple such as 1.25.
	Write *float64 `json:"write,omitempty"`
	// Write1h replaces [Rules.Write1h], a multiple such as 2.
	Write1h *float64 `json:"write_1h,omitempty"`
	// Read replaces [Rules.Read], a multiple such as 0.1.
	Read *float64 `json:"read,omitempty"`
	// TTL replaces [Rules.TTL].
	TTL *time.Duration `json:"ttl,omitempty"`
	// LongTTL replaces [Rules.LongTTL].
	LongTTL *time.Duration `json:"long_ttl,omitempty"`
	// MinTokens replaces [Rules.MinTokens].
	MinTokens *int `json:"min_tokens,omitempty"`
	// Markers replaces [Rules.Markers].
	Markers *int `json:"markers,omitempty"`
	// LookBack replaces [Rules.LookBack].
	LookBack *int `json:"look_back,omitempty"`
	// CollapseRuns replaces [Rules.CollapseRuns].
	CollapseRuns *bool `json:"collapse_runs,omitempty"`
	// Slots replaces [Rules.Slots].
	Slots *int `json:"slots,omitempty"`
	// BindsThinking replaces [Rules.BindsThinking].
	BindsThinking *bool `json:"binds_thinking,omitempty"`
	// KeepsThinking replaces [Rules.KeepsThinking].
	KeepsThinking *bool `json:"keeps_thinking,omitempty"`
	// ContextWindow replaces [Rules.ContextWindow].
	ContextWindow *int `json:"context_window,omitempty"`
}

func set[T any](rule *T, value *T) {
	if value != nil {
		*rule = *value
	}
}

// With returns the rules with those of o in their places.
func (r Rules) With(o Override) Rules {
	// Observation corrects assumptions, never the operator.
	if o.TTL != nil || o.MinTokens != nil {
		r.observed = nil
	}
	set(&r.Regime, o.Regime)
	set(&r.Write, o.Write)
	set(&r.Write1h, o.Write1h)
	set(&r.Read, o.Read)
	set(&r.TTL, o.TTL)
	set(&r.LongTTL, o.LongTTL)
	set(&r.MinTokens, o.MinTokens)
	set(&r.Markers, o.Markers)
	set(&r.LookBack, o.LookBack)
	set(&r.CollapseRuns, o.CollapseRuns)
	set(&r.Slots, o.Slots)
	set(&r.BindsThinking, o.BindsThinking)
	set(&r.KeepsThinking, o.KeepsThinking)
	set(&r.ContextWindow, o.ContextWindow)
	if o.Input != nil || o.Output != nil {
		set(&r.Input, o.Input)
		set(&r.Output, o.Output)
		// The operator's price has no second tier.
		r.TierAbove, r.TierInput, r.TierOutput, r.PricesOf = 0, 0, 0, ""
	}
	return r
}

// Validate returns an error that names the first rule out of its range.
func (o *Override) Validate() error {
	for _, f := range []struct {
		name  string
		value *float64
		max   float64
	}{
		{"input", o.Input, 1e4},
		{"output", o.Output, 1e4},
		{"write", o.Write, 100},
		{"write_1h", o.Write1h, 100},
		{"read", o.Read, 1},
	} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= f.max) {
			return fmt.Errorf("%s must be between 0 and %g, got %g", f.name, f.max, *f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value *int
		max   int
	}{
		{"min_tokens", o.MinTokens, 1 << 20},
		{"markers", o.Markers, 100},
		{"look_back", o.LookBack, 1 << 20},
		{"slots", o.Slots, 1 << 16},
		{"context_window", o.ContextWindow, 1 << 30},
	} {
		if f.value != nil && (*f.value < 0 || *f.value > f.max) {
			return fmt.Errorf("%s must be between 0 and %d, got %d", f.name, f.max, *f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value *time.Duration
	}{{"ttl", o.TTL}, {"long_ttl", o.LongTTL}} {
		if f.value != nil && *f.value < 0 {
			return fmt.Errorf("%s: %v is negative", f.name, *f.value)
		}
	}
	return nil
}
