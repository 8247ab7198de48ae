// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// file is a models file: vendor, family, model. docs/reference/models.md describes its members.
type file struct {
	Collected date
	Vendors   map[string]*vendorRow
	Engines   map[string]*engineRow
}

type vendorRow struct {
	Like     []string `json:"like"`
	Names    []string `json:"names"`
	Prefixes []string `json:"prefixes"`
	evidence
	Caches   map[string]*cacheRow `json:"caches"`
	Services multiples            `json:"services"`
	Peak     *peakRow             `json:"peak"`
	Families map[string]map[string]*modelRow
}

// evidence is the source of a group of facts and the day on which they were compared with it.
type evidence struct {
	Source  string `json:"source"`
	Checked date   `json:"checked"`
}

func (e evidence) or(o evidence) evidence {
	return evidence{cmp.Or(e.Source, o.Source), cmp.Or(e.Checked, o.Checked)}
}

type cacheRow struct {
	Kind      *Regime  `json:"kind"`
	From      date     `json:"from"`
	Before    string   `json:"before"`
	TTL       duration `json:"ttl"`
	LongTTL   duration `json:"long_ttl"`
	MemoryTTL duration `json:"memory_ttl"`

	Markers         int      `json:"markers"`
	LookBack        int      `json:"look_back"`
	CollapseRuns    bool     `json:"collapse_runs"`
	Units           bool     `json:"units"`
	Explicit        bool     `json:"explicit"`
	MinTokens       int      `json:"min_tokens"`
	VertexMinTokens int      `json:"vertex_min_tokens"`
	Traits          []string `json:"traits"`
	multipliers
	evidence
}

// multipliers are prices of cached tokens as multiples of the input price.
type multipliers struct {
	Write     *float64 `json:"write"`
	WriteLong *float64 `json:"write_long"`
	Read      *float64 `json:"read"`
}

type modelRow struct {
	Cache         string   `json:"cache"`
	MinTokens     *int     `json:"min_tokens"`
	ContextWindow *int     `json:"context_window"`
	Traits        []string `json:"traits"`
	multipliers
	Services multiples  `json:"services"`
	Prices   []priceRow `json:"prices"`
	Grade    string     `json:"grade"`
	evidence
}

// priceRow has prices in US dollars for a million tokens from one day on.
type priceRow struct {
	From      date     `json:"from"`
	Input     float64  `json:"input"`
	Output    float64  `json:"output"`
	Write     *float64 `json:"write"`
	WriteLong *float64 `json:"write_long"`
	Read      *float64 `json:"read"`
	Tier      *tierRow `json:"tier"`
}

type tierRow struct {
	Above  int     `json:"above"`
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// multiples are the prices of services as multiples of the standard one, 0 where a service
// has no price of its own.
type multiples struct {
	Batch     float64 `json:"batch"`
	Flex      float64 `json:"flex"`
	Fast      float64 `json:"fast"`
	Priority  float64 `json:"priority"`
	Ultrafast float64 `json:"ultrafast"`
	// Regional is the price in one region, against that of the global service.
	Regional float64 `json:"regional"`
}

func (m multiples) with(o multiples) multiples {
	return multiples{
		cmp.Or(o.Batch, m.Batch), cmp.Or(o.Flex, m.Flex), cmp.Or(o.Fast, m.Fast),
		cmp.Or(o.Priority, m.Priority), cmp.Or(o.Ultrafast, m.Ultrafast), cmp.Or(o.Regional, m.Regional),
	}
}

func (m multiples) validate() error {
	for _, f := range [...]float64{m.Batch, m.Flex, m.Fast, m.Priority, m.Ultrafast, m.Regional} {
		if !(f >= 0 && f <= 100) {
			return fmt.Errorf("services: multiples must be between 0 and 100, got %g", f)
		}
	}
	return nil
}

// peakRow has the hours of the day, in UTC, at which all prices of a vendor are higher.
type peakRow struct {
	Times    float64  `json:"times"`
	Hours    []string `json:"hours"`
	Weekdays bool     `json:"weekdays"`

	hours [24]bool
}

type engineRow struct {
	Slots int `json:"slots"`
}

// date is a day such as 2026-11-27.
type date struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler, in place of that of the time.
func (d *date) UnmarshalJSON(text []byte) (err error) {
	if d.Time, err = time.Parse(`"`+time.DateOnly+`"`, string(text)); err != nil {
		return fmt.Errorf("%s is not a day such as 2026-11-27", text)
	}
	return nil
}

// duration is a time such as 5m.
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a duration such as 5m or 24h", text)
	}
	*d = duration(v)
	return nil
}

// parseFile reads a models file. Errors name the row and the member.
func parseFile(name string, text []byte) (*file, error) {
	f := &file{Vendors: map[string]*vendorRow{}, Engines: map[string]*engineRow{}}
	err := f.parse(text)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte{'\n'})
		return nil, fmt.Errorf("%s:%d: %w", name, line, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func (f *file) parse(text []byte) error {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return err
	}
	return members(text, func(name string, value []byte) error {
		switch name {
		case "collected":
			return strict(value, &f.Collected)
		case "vendors":
			return members(value, func(name string, value []byte) error {
				v, err := parseVendor(value)
				f.Vendors[name] = v
				return err
			})
		case "engines":
			return members(value, func(name string, value []byte) error {
				f.Engines[name] = new(engineRow)
				return strict(value, f.Engines[name])
			})
		}
		return errors.New("unknown member; known are collected, vendors, engines")
	})
}

func parseVendor(text []byte) (*vendorRow, error) {
	v := &vendorRow{Families: map[string]map[string]*modelRow{}}
	var rest []string
	err := members(text, func(name string, value []byte) error {
		if name != "families" {
			key, _ := json.Marshal(name)
			rest = append(rest, string(key)+":"+string(value))
			return nil
		}
		// One model at a time, so that errors name the model.
		return members(value, func(family string, value []byte) error {
			v.Families[family] = map[string]*modelRow{}
			return members(value, func(model string, value []byte) error {
				row := new(modelRow)
				v.Families[family][model] = row
				if err := strict(value, row); err != nil {
					return err
				}
				n := nameOf(model)
				if n.family != family {
					return fmt.Errorf("belongs to family %q", n.family)
				}
				return row.validate()
			})
		})
	})
	if err != nil {
		return nil, err
	}
	if err := strict([]byte("{"+strings.Join(rest, ",")+"}"), v); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(v.Caches)) {
		if err := v.Caches[name].validate(v); err != nil {
			return nil, fmt.Errorf("caches: %s: %w", name, err)
		}
	}
	if err := v.Services.validate(); err != nil {
		return nil, err
	}
	if err := v.Peak.validate(); err != nil {
		return nil, fmt.Errorf("peak: %w", err)
	}
	return v, nil
}

// members calls f with each member of a JSON object, in order. Errors name the member.
func members(text []byte, f func(name string, value []byte) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errors.New("must be an object")
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name := key.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		// encoding/json would take the last one in silence.
		if seen[name] {
			return fmt.Errorf("%s: occurs twice", name)
		}
		seen[name] = true
		if err := f(name, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// strict reads a JSON value and rejects unknown members.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	// A misspelt price would otherwise fall back to the built-in one.
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: %s is not a %s", wrong.Field, wrong.Value, wrong.Type)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func (c *cacheRow) validate(v *vendorRow) error {
	switch {
	case c.Kind == nil || *c.Kind == KV:
		return errors.New("kind must be markers, automatic or breakpoints")
	case c.TTL == 0:
		return errors.New("ttl is required")
	case c.From.IsZero() != (c.Before == ""):
		return errors.New("from and before must be given together")
	case c.Before != "" && v.Caches[c.Before] == nil:
		return fmt.Errorf("before: %q is not a cache of the vendor", c.Before)
	case c.MinTokens < 0 || c.VertexMinTokens < 0 || c.Markers < 0 || c.LookBack < 0:
		return errors.New("min_tokens, vertex_min_tokens, markers and look_back must not be negative")
	}
	if err := c.multipliers.validate(); err != nil {
		return err
	}
	return validateTraits(c.Traits)
}

func (m multipliers) or(o multipliers) multipliers {
	return multipliers{cmp.Or(m.Write, o.Write), cmp.Or(m.WriteLong, o.WriteLong), cmp.Or(m.Read, o.Read)}
}

func (m multipliers) validate() error {
	for _, f := range []struct {
		name  string
		value *float64
		max   float64
	}{{"write", m.Write, 10}, {"write_long", m.WriteLong, 10}, {"read", m.Read, 1}} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= f.max) {
			return fmt.Errorf("%s: must be between 0 and %g times the input price, got %g", f.name, f.max, *f.value)
		}
	}
	return nil
}

func (m *modelRow) validate() error {
	for _, f := range []struct {
		name  string
		value *int
	}{{"min_tokens", m.MinTokens}, {"context_window", m.ContextWindow}} {
		if f.value != nil && (*f.value < 0 || *f.value > 1<<30) {
			return fmt.Errorf("%s: must be between 0 and %d tokens, got %d", f.name, 1<<30, *f.value)
		}
	}
	if err := m.multipliers.validate(); err != nil {
		return err
	}
	if err := validateTraits(m.Traits); err != nil {
		return err
	}
	if err := m.Services.validate(); err != nil {
		return err
	}
	for i := range m.Prices {
		if err := m.Prices[i].validate(); err != nil {
			return fmt.Errorf("prices[%d]: %w", i, err)
		}
		if i > 0 && !m.Prices[i].From.After(m.Prices[i-1].From.Time) {
			return fmt.Errorf("prices[%d]: from: must be later than that of the price before it", i)
		}
	}
	return nil
}

// maxPrice bounds prices in dollars for a million tokens.
const maxPrice = 1e4

func (p *priceRow) validate() error {
	if !(p.Input > 0 && p.Input <= maxPrice) {
		return fmt.Errorf("input: must be above 0 and at most $%g for a million tokens, got %g", maxPrice, p.Input)
	}
	if !(p.Output >= 0 && p.Output <= maxPrice) {
		return fmt.Errorf("output: must be between 0 and $%g for a million tokens, got %g", maxPrice, p.Output)
	}
	for _, f := range []struct {
		name  string
		value *float64
		max   float64
	}{{"write", p.Write, 10 * p.Input}, {"write_long", p.WriteLong, 10 * p.Input}, {"read", p.Read, p.Input}} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= f.max) {
			return fmt.Errorf("%s: must be between 0 and $%g with this input price, got %g", f.name, f.max, *f.value)
		}
	}
	if t := p.Tier; t != nil && !(t.Above > 0 && t.Input > 0 && t.Input <= 100 && t.Output > 0 && t.Output <= 100) {
		return errors.New("tier: above must be a number of tokens, input and output multiples above 0 and at most 100")
	}
	return nil
}

func (p *peakRow) validate() error {
	if p == nil {
		return nil
	}
	if !(p.Times > 0 && p.Times <= 100) {
		return fmt.Errorf("times: must be above 0 and at most 100, got %g", p.Times)
	}
	for _, s := range p.Hours {
		from, to, _ := strings.Cut(s, "-")
		first, err1 := strconv.Atoi(from)
		end, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 0 || end > 24 || first >= end {
			return fmt.Errorf("hours: %q is not a range of hours such as 01-04", s)
		}
		for h := first; h < end; h++ {
			p.hours[h] = true
		}
	}
	return nil
}

func (p *peakRow) includes(at time.Time) bool {
	at = at.UTC()
	// The days are those of UTC, like the hours.
	if d := at.Weekday(); p.Weekdays && (d == time.Saturday || d == time.Sunday) {
		return false
	}
	return p.hours[at.Hour()]
}

// traits sets the rules of facts without a figure.
var traits = map[string]func(*Rules){
	"binds_thinking":       func(r *Rules) { r.BindsThinking = true },
	"binds_reasoning":      func(r *Rules) { r.BindsReasoning = true },
	"keeps_thinking":       func(r *Rules) { r.KeepsThinking = true },
	"refuses_prefill":      func(r *Rules) { r.RefusesPrefill = true },
	"refuses_forced_tools": func(r *Rules) { r.RefusesForcedTools = true },
	"signs_calls":          func(r *Rules) { r.SignsCalls = true },
}

func validateTraits(names []string) error {
	for _, name := range names {
		if traits[name] == nil {
			return fmt.Errorf("traits must be one of %s, got %q", strings.Join(slices.Sorted(maps.Keys(traits)), ", "), name)
		}
	}
	return nil
}

// with merges another file into this one: vendor by vendor, cache by cache, model by model.
func (f *file) with(o *file) *file {
	out := &file{Collected: f.Collected, Vendors: maps.Clone(f.Vendors), Engines: maps.Clone(f.Engines)}
	if o.Collected.After(f.Collected.Time) {
		out.Collected = o.Collected
	}
	maps.Copy(out.Engines, o.Engines)
	for name, v := range o.Vendors {
		out.Vendors[name] = out.Vendors[name].with(v)
	}
	return out
}

func (v *vendorRow) with(o *vendorRow) *vendorRow {
	if v == nil {
		return o
	}
	out := *v
	out.evidence = o.evidence.or(v.evidence)
	if o.Like != nil {
		out.Like = o.Like
	}
	if o.Names != nil {
		out.Names = o.Names
	}
	if o.Prefixes != nil {
		out.Prefixes = o.Prefixes
	}
	if o.Peak != nil {
		out.Peak = o.Peak
	}
	out.Services = v.Services.with(o.Services)
	out.Caches = maps.Clone(v.Caches)
	if out.Caches == nil {
		out.Caches = map[string]*cacheRow{}
	}
	// Caches are replaced as a whole.
	maps.Copy(out.Caches, o.Caches)
	out.Families = maps.Clone(v.Families)
	for family, models := range o.Families {
		merged := maps.Clone(out.Families[family])
		if merged == nil {
			merged = map[string]*modelRow{}
		}
		// A model may be written in several ways, such as claude-opus-4.5.
		for model, row := range models {
			model = nameOf(model).model
			merged[model] = merged[model].with(row)
		}
		out.Families[family] = merged
	}
	return &out
}

func (m *modelRow) with(o *modelRow) *modelRow {
	if m == nil {
		return o
	}
	out := *m
	out.evidence = o.evidence.or(m.evidence)
	out.Cache, out.Grade = cmp.Or(o.Cache, m.Cache), cmp.Or(o.Grade, m.Grade)
	out.MinTokens, out.ContextWindow = cmp.Or(o.MinTokens, m.MinTokens), cmp.Or(o.ContextWindow, m.ContextWindow)
	out.multipliers = o.multipliers.or(m.multipliers)
	out.Services = m.Services.with(o.Services)
	if o.Traits != nil {
		out.Traits = o.Traits
	}
	if o.Prices != nil {
		out.Prices = o.Prices
	}
	return &out
}
