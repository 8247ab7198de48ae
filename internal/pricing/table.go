// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"cmp"
	_ "embed"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

//go:embed models.json
var modelsJSON []byte

// Table has the cache rules and prices of models.
type Table struct {
	file    *file
	vendors map[string]*vendor
	all     bool // models of unknown vendors have a price, too

	observed *Observed // of models that the table does not have

	fresh *atomic.Pointer[Table] // takes the place of this one once it is set, nil for none
}

// vendor is a provider with its own models and those of the vendors that it is like.
type vendor struct {
	*vendorRow
	models map[string]*model
}

type model struct {
	*modelRow
	name     string
	version  name
	cache    *cacheRow
	before   *cacheRow // in force until cache.From, nil for none
	services multiples
	peak     *peakRow
	evidence evidence
}

// builtIn is the table of this module.
var builtIn = sync.OnceValue(func() *Table {
	t, err := ReadTable("models.json", modelsJSON)
	if err != nil {
		panic("pricing: " + err.Error()) // part of the program; a test reads every row
	}
	return t
})

// BuiltIn returns the table of this module.
func BuiltIn() *Table { return builtIn() }

// Collected returns the day on which the figures of the built-in table were collected.
// Profiles take their rules of this day, so that a replay gives the same result on any
// other.
func Collected() time.Time { return builtIn().Collected() }

// Collected returns the day on which the figures of the table were collected.
func (t *Table) Collected() time.Time { return t.now().file.Collected.Time }

// CollectedOf returns the day on which the figures of a models file were collected, the
// zero time where it does not say so.
func CollectedOf(text []byte) time.Time {
	f, err := parseFile("", text)
	if err != nil {
		return time.Time{}
	}
	return f.Collected.Time
}

// ReadTable reads a whole table: the text of a models file of that name.
func ReadTable(name string, text []byte) (*Table, error) {
	f, err := parseFile(name, text)
	if err != nil {
		return nil, err
	}
	t, err := compile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// With returns the table with the members of a models file in place of its own.
func (t *Table) With(name string, text []byte) (*Table, error) {
	f, err := parseFile(name, text)
	if err != nil {
		return nil, err
	}
	merged, err := compile(t.file.with(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	merged.all = t.all
	return merged, nil
}

// ReadPrices returns the built-in table with the members of a file in place of its own, or
// the table alone for "".
func ReadPrices(file string) (*Table, error) {
	if file == "" {
		return BuiltIn(), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return BuiltIn().With(file, text)
}

// PricingAll returns the table with a price for models of unknown vendors, too: that of
// the dearest model of all.
func (t *Table) PricingAll() *Table {
	all := *t
	all.all = true
	return &all
}

// Refreshable returns the table as one that [Table.Replace] may replace.
func (t *Table) Refreshable() *Table {
	refreshable := *t
	refreshable.fresh, refreshable.observed = new(atomic.Pointer[Table]), new(Observed)
	return &refreshable
}

// Replace has lookups answered by another table from now on.
func (t *Table) Replace(by *Table) { t.fresh.Store(by) }

func (t *Table) now() *Table {
	if t.fresh != nil {
		if by := t.fresh.Load(); by != nil {
			return by
		}
	}
	return t
}

// compile completes rows from their vendors, and vendors from those that they are like.
func compile(f *file) (*Table, error) {
	t := &Table{file: f, vendors: map[string]*vendor{}, observed: new(Observed)}
	for _, name := range slices.Sorted(maps.Keys(f.Vendors)) {
		v := &vendor{vendorRow: f.Vendors[name], models: map[string]*model{}}
		// Its own rows come last and win.
		for _, like := range append(slices.Clone(v.Like), name) {
			owner := f.Vendors[like]
			if owner == nil {
				return nil, fmt.Errorf("vendors: %s: like: no vendor %q", name, like)
			}
			if err := v.serve(owner); err != nil {
				return nil, fmt.Errorf("vendors: %s: families: %w", like, err)
			}
		}
		t.vendors[name] = v
	}
	return t, nil
}

// serve adds the models of an owner, the vendor itself or one that it is like.
func (v *vendor) serve(owner *vendorRow) error {
	for _, family := range slices.Sorted(maps.Keys(owner.Families)) {
		for _, written := range slices.Sorted(maps.Keys(owner.Families[family])) {
			n := nameOf(written)
			m := &model{modelRow: owner.Families[family][written], name: n.model, version: n}
			m.services, m.peak, m.evidence = owner.Services.with(v.Services).with(m.Services), cmp.Or(v.Peak, owner.Peak),
				m.modelRow.evidence.or(owner.evidence)
			// A reseller's row may state only its differences from the maker's.
			if before := v.models[n.model]; before != nil {
				m.modelRow = before.with(m.modelRow)
				m.services = before.services.with(m.modelRow.Services)
			}
			group := m.Cache
			if group == "" && len(owner.Caches) == 1 {
				group = slices.Collect(maps.Keys(owner.Caches))[0]
			}
			caches := v.Caches
			if caches[group] == nil {
				caches = owner.Caches
			}
			if m.cache = caches[group]; m.cache == nil {
				return fmt.Errorf("%s: %s: cache must be one of %s, got %q", family, written,
					strings.Join(slices.Sorted(maps.Keys(owner.Caches)), ", "), m.Cache)
			}
			m.before = caches[m.cache.Before]
			v.models[n.model] = m
		}
	}
	return nil
}

// engine returns the rules of a local inference server.
func (t *Table) engine(provider, model string) Rules {
	r := Rules{Provider: provider, Model: model, Write: 1, Write1h: 1, Slots: 1, KeepsThinking: true}
	if e := t.file.Engines[provider]; e != nil {
		r.Slots = e.Slots
	}
	return r
}

// Lookup returns the rules of a model at a provider at a time by the built-in table.
func Lookup(provider, model string, at time.Time) Rules {
	return builtIn().Lookup(provider, model, at)
}

// Lookup returns the rules of a model at a provider at a time.
//
// The provider is the name of a preset: anthropic, bedrock, vertex, openai, gemini, or a local engine (mlx_lm,
// lm_studio, ollama, llama_cpp …) with the same rules for all models. Empty, it is inferred from the model's name.
// Names with a vendor before them, with a date, a Bedrock revision or [1m] behind them are understood. A time
// before the first known price takes that price.
//
// A model that the table does not have gets the rules of its nearest sibling, which [Rules.AssumedFrom] names. A
// model without a price gets that of the dearest model of its family, or else of its vendor, which [Rules.PricesOf]
// names. The models of an unknown vendor have the rules of a local engine with one slot and no prices.
func (t *Table) Lookup(provider, model string, at time.Time) Rules {
	t = t.now()
	n, named := nameOf(model), provider != ""
	if !named {
		if provider = n.vendor; provider == "" {
			provider = t.vendorOf(n)
		}
	}
	v := t.vendors[provider]
	if v == nil || provider == "other" && v.models[n.model] == nil {
		r := t.engine(provider, n.model)
		if t.all && (provider == "" || provider == "other") {
			// A budget must not be evaded by an unknown name.
			r.charge(t.dearest(at), at)
		}
		return r
	}
	m, assumed := v.models[n.model], ""
	if m == nil {
		m = v.models[n.short()] // a host's name for the model of a vendor, such as deepseek/deepseek-v4-pro
	}
	if m == nil {
		if m = v.sibling(n, at); m == nil {
			return t.engine(provider, n.model)
		}
		assumed = m.name
	}
	r := m.rules(at)
	if r.Provider, r.AssumedFrom = provider, assumed; assumed != "" {
		// A window that is too small would cut the bill, so it is not assumed.
		r.Model, r.ContextWindow, r.Input, r.Output = n.model, 0, 0, 0
		r.observed = t.observed
	}
	if r.Input == 0 {
		// The dearest of the nearest relatives: an estimate errs on the safe side for budgets.
		r.charge(cmp.Or(dearestOf(v.family(n.family), at), dearestOf(v.kin(n), at), dearestOf(maps.Values(v.models), at)), at)
	}
	r.Explicit = r.Explicit && named // hosts that do not know the member refuse it
	if provider == "vertex" {
		r.MinTokens = max(r.MinTokens, m.cache.VertexMinTokens)
	}
	if n.long {
		r.ContextWindow = 1000000
	}
	if n.region {
		r = r.Served(wire.Regional)
	}
	return r
}

// vendorOf infers the vendor from a model's name, "" for none.
func (t *Table) vendorOf(n name) string {
	prefix, short, slash := strings.Cut(n.model, "/")
	if !slash {
		prefix, short = "", n.model
	}
	for _, name := range slices.Sorted(maps.Keys(t.vendors)) {
		v := t.vendors[name]
		if v.models[n.model] != nil && name == "other" {
			return name
		}
		// Names of files and tags of local servers look alike but belong to no vendor.
		if prefix != "" && !slices.Contains(v.Prefixes, prefix) || strings.Contains(short, "/") || isFile(short) {
			continue
		}
		for _, pattern := range v.Names {
			if start, open := strings.CutSuffix(pattern, "*"); short == start || open && strings.HasPrefix(short, start) {
				return name
			}
		}
	}
	return ""
}

// isFile reports whether a name belongs to a file of weights.
func isFile(s string) bool {
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		// A quantisation, a size or a file format: hosted models have no use for them.
		switch part {
		case "mlx", "gguf", "awq", "gptq", "fp8", "bf16", "fp16", "int4", "int8", "4bit", "6bit", "8bit", "distill":
			return true
		}
		if size := strings.TrimSuffix(part, "b"); size != part && digits(size) || len(part) == 2 && part[0] == 'q' &&
			digits(part[1:]) {
			return true
		}
	}
	return false
}

func (v *vendor) family(name string) iter.Seq[*model] {
	return func(yield func(*model) bool) {
		for _, m := range v.models {
			if m.version.family == name && !yield(m) {
				return
			}
		}
	}
}

// kin yields the models of a vendor with the same first word in their names, or all if there are none.
func (v *vendor) kin(n name) iter.Seq[*model] {
	// Vertex AI serves both Claude and Gemini, and neither tells anything of the other.
	word := firstWord(n.family)
	return func(yield func(*model) bool) {
		some := false
		for _, m := range v.models {
			some = some || firstWord(m.version.family) == word
		}
		for _, m := range v.models {
			if (!some || firstWord(m.version.family) == word) && !yield(m) {
				return
			}
		}
	}
}

func firstWord(family string) string {
	word, _, _ := strings.Cut(family, "-")
	return word
}

// sibling returns the model that lends its rules to an unknown one: the nearest of its family or else of its
// vendor.
func (v *vendor) sibling(n name, at time.Time) *model {
	related, newest := nearest(v.family(n.family), n, at), nearest(v.kin(n), n, at)
	// A vendor that has changed the kind of its caches since then will not go back for a newer model.
	if related == nil || n.major >= 0 && related.cache != newest.cache && related.version.before(newest.version) &&
		!n.before(newest.version) {
		return newest
	}
	return related
}

// nearest returns the newest model not above the version of a name, or else the oldest.
func nearest(models iter.Seq[*model], n name, at time.Time) (found *model) {
	above := func(m *model) bool { return n.major >= 0 && n.before(m.version) }
	for m := range models {
		switch {
		case found == nil:
			found = m
		case above(m) != above(found):
			if above(found) {
				found = m
			}
		case m.version.before(found.version) == found.version.before(m.version): // the same version
			// Of several with one version the dearest, so that no map order shows.
			if dearer(m, found, at) {
				found = m
			}
		case above(m) == m.version.before(found.version):
			found = m
		}
	}
	return found
}

// dearer compares models by their prices.
func dearer(a, b *model, at time.Time) bool {
	x, y := a.rules(at), b.rules(at)
	// The names make the order certain.
	return cmp.Or(cmp.Compare(x.Input, y.Input), cmp.Compare(x.Output, y.Output), cmp.Compare(b.name, a.name)) > 0
}

func dearestOf(models iter.Seq[*model], at time.Time) (found *model) {
	for m := range models {
		if len(m.Prices) > 0 && (found == nil || dearer(m, found, at)) {
			found = m
		}
	}
	return found
}

func (t *Table) dearest(at time.Time) (found *model) {
	for _, v := range t.vendors {
		if m := dearestOf(maps.Values(v.models), at); m != nil && (found == nil || dearer(m, found, at)) {
			found = m
		}
	}
	return found
}

func (r *Rules) charge(as *model, at time.Time) {
	if as == nil {
		return
	}
	o := as.rules(at)
	r.Input, r.Output, r.PricesOf = o.Input, o.Output, o.Model
	r.TierAbove, r.TierInput, r.TierOutput = o.TierAbove, o.TierInput, o.TierOutput
}

// rules returns the rules of a row at a time.
func (m *model) rules(at time.Time) Rules {
	c := m.cache
	if at.Before(c.From.Time) {
		c = m.before
	}
	r := Rules{
		Model: m.name, Regime: *c.Kind, TTL: time.Duration(c.TTL), LongTTL: time.Duration(c.LongTTL),
		Markers: c.Markers, LookBack: c.LookBack, CollapseRuns: c.CollapseRuns, Units: c.Units, Explicit: c.Explicit,
		MinTokens: c.MinTokens, row: m,
	}
	set(&r.MinTokens, m.MinTokens)
	set(&r.ContextWindow, m.ContextWindow)
	for _, trait := range c.Traits {
		traits[trait](&r)
	}
	for _, trait := range m.Traits {
		traits[trait](&r)
	}
	// Writing is free by default: a token that is not found costs its input price.
	r.Write, r.Read = 1, 1
	multiples := m.multipliers.or(c.multipliers)
	set(&r.Write, multiples.Write)
	r.Write1h = r.Write
	set(&r.Write1h, multiples.WriteLong)
	set(&r.Read, multiples.Read)
	var p *priceRow // in force at the time, or else the first one
	for i := range m.Prices {
		if row := &m.Prices[i]; p == nil || !at.Before(row.From.Time) {
			p = row
		}
	}
	if p == nil {
		return r
	}
	r.Input, r.Output = p.Input, p.Output
	if p.Write != nil {
		r.Write = multiple(*p.Write, p.Input)
		r.Write1h = r.Write
	}
	if p.WriteLong != nil {
		r.Write1h = multiple(*p.WriteLong, p.Input)
	}
	if p.Read != nil {
		r.Read = multiple(*p.Read, p.Input)
	}
	if t := p.Tier; t != nil {
		r.TierAbove, r.TierInput, r.TierOutput = t.Above, t.Input, t.Output
	}
	if m.peak != nil && m.peak.includes(at) {
		r.Input, r.Output = r.Input*m.peak.Times, r.Output*m.peak.Times
	}
	return r
}

// multiple divides two prices.
func multiple(part, whole float64) float64 {
	// Nine digits remove the errors of division from figures with a few decimals.
	m, _ := strconv.ParseFloat(strconv.FormatFloat(part/whole, 'g', 9, 64), 64)
	return m
}
